/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: what the commands of `ouro` share: the table of commands, options, messages, progress.
 *
 * One command a file: NAME.c defines `command_NAME`. A command parses its arguments with
 * command_parse, writes results to stdout and diagnostics to stderr, and returns its exit status (the numbers
 * of base_status).
 */
#ifndef OURO_COMMAND_H
#define OURO_COMMAND_H

#include "compiler/compiler.h"
#include "compiler/files/tensor_compare.h"
#include "compiler/onnx/import.h"
#include <stdatomic.h>
#include <pthread.h>
#include <stdio.h>

/* ---- options (compiler/command/options.c) ----------------------------------------------------------------------- */

enum { COMMAND_MOST_THREADS = 1024 };

typedef struct command_list {
    const char **items;
    size_t count;
} command_list;

typedef enum command_option_kind {
    COMMAND_FLAG,    /* bool */
    COMMAND_TEXT,    /* const char * */
    COMMAND_COUNT,   /* int64_t, at least 1 */
    COMMAND_THREADS, /* int64_t, 1 to COMMAND_MOST_THREADS */
    COMMAND_NUMBER,  /* int64_t, at least 0 */
    COMMAND_REAL,    /* double, at least 0, finite */
    COMMAND_LIST     /* command_list: may be given several times */
} command_option_kind;

typedef struct command_option {
    const char *name;    /* "--dim" */
    const char *shorter; /* "-o"; NULL: none */
    command_option_kind kind;
    const char *argument; /* "NAME=N"; NULL for flags */
    const char *help;
    size_t offset; /* of the variable within the command's struct of options */
} command_option;

typedef struct command {
    const char *name;
    const char *usage;             /* "compile MODEL.onnx [options]" */
    const char *summary;           /* one line */
    const char *details;           /* paragraphs for --help; NULL: none */
    const command_option *options; /* ended by one without a name; NULL: none */
    size_t operand_minimum, operand_maximum;
    const char *operand; /* what an operand is: "a model", for messages */
    int (*run)(const struct command *self, int count, char **arguments);
} command;

/* Parses `count` arguments (those after the command's name) into `options` and `operands`; memory for lists
 * comes from `arena`. Returns 0; otherwise the exit status, with the message printed. "--name=value" and "--"
 * are understood. */
int command_parse(const command *self, int count, char **arguments, void *options, command_list *operands,
                  base_arena *arena);
void command_print_help(const command *self, FILE *file);
/* Splits "NAME=VALUE"; false, with the message printed, where there is no '=' or no name. */
bool command_split(const command *self, const char *option, const char *text, base_arena *arena,
                   const char **name, const char **value);
/* The --dim options as the compiler wants them. 0, or the exit status with the message printed. */
int command_dims(const command *self, const command_list *list, base_arena *arena, const ouro_dim **dims);

/* The --shape options (INPUT=AxBxC, "?" for a dimension that stays as it is, INPUT=scalar) likewise. */
int command_shapes(const command *self, const command_list *list, base_arena *arena,
                   const ouro_shape **shapes);

/* The name in the list that is nearest to `text`, for hints; NULL where none is near. */
const char *command_nearest(const char *text, const char *const *names);

/* ---- manuals (compiler/command/manual.c) -------------------------------------------------------------------------- */

/* The man page of a command, and the one that lists them all. */
void command_print_man(const command *self, FILE *file);
void command_print_man_of_all(const command *const *commands, size_t count, FILE *file);
/* The completion of a shell: bash, zsh or fish; false for another. */
bool command_print_completion(const command *const *commands, size_t count, const char *shell, FILE *file);

/* ---- messages (compiler/command/message.c) ---------------------------------------------------------------------- */

/* Prints "error: MESSAGE" on one line of stderr (control characters replaced) and returns `status`. */
int command_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Wrong usage: the same, with "(see ouro NAME --help)" after it; returns 2. */
int command_fail_usage(const command *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first message of a report, and how many more there are; returns its status. */
int command_fail_report(const base_report *report);
int command_fail_error(const ouro_error *error);
int command_fail_memory(void);
/* Prints what a user should know of how the model was read, where there is something. */
void command_warn(const compile_result *result);
/* "note: MESSAGE" on stderr. */
void command_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes what is buffered of stdout; where that fails, or anything before did, prints so and returns 3;
 * otherwise returns `status`. */
int command_finish(int status);

double command_seconds(void); /* a monotonic clock */

/* Work that takes more than a second says so on a terminal: one line on stderr that names what is being done
 * and for how long, no wider than the terminal, erased at the end. Nothing where stderr is no terminal, or `text` is NULL. */
typedef struct command_progress {
    bool active;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, shown;
    double started;
    char text[160];      /* what is being done; under lock */
    const char *subject; /* of command_progress_pass: the model */
} command_progress;
void command_progress_begin(command_progress *progress, const char *text);
void command_progress_say(command_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* As ouro_compile_options.progress, with the progress as its user: says which pass runs. */
void command_progress_pass(void *progress, const char *pass);
/* Takes the line off the terminal, before something is printed to stdout meanwhile. */
void command_progress_clear(command_progress *progress);
void command_progress_end(command_progress *progress);

/* ---- models and their inputs (compiler/command/model.c, compiler/command/inputs.c) --------------------------------------- */

/* A plan that is ready to run, and what its inputs are fed with. */
typedef struct command_model {
    const char *path;
    ouro_plan *handle;
    const plan *plan; /* that the handle stands for */
    base_arena arena; /* of the inputs */
    size_t input_count, state_count;
    import_value *inputs;     /* by index; after them what is given for the states */
    bool *stacked;            /* by index: the file holds one input after another, along a first axis */
    const ouro_shape *shapes; /* of --shape, where it is a plan */
    size_t shape_count;
    bool *made_up;        /* by index: nobody gave the input */
    const char **assumed; /* by index: "x=1x80", where extents were taken to be 1; NULL: none were */
    double load_seconds;  /* of loading the plan, or of compiling the model */
} command_model;

typedef struct command_model_request {
    const command *self;
    const char *path;      /* of a plan or a model: told by its content */
    command_list inputs;   /* NAME=FILE, NAME=NUMBER */
    command_list dims;     /* NAME=N; for models only */
    command_list shapes;   /* INPUT=AxBxC */
    const char *allocator; /* NULL: the default; for models only */
    int threads;
    bool ones;  /* dynamic dimensions of inputs that are not given are 1 */
    bool steps; /* files of inputs may be stacked: FILE:stacked */
} command_model_request;

/* Loads a plan or compiles a model: dynamic dimensions are taken from the inputs given. 0, or the exit status
 * with the message printed; command_model_close in either case. */
int command_model_open(const command_model_request *request, command_model *model,
                       command_progress *progress);
void command_model_close(command_model *model);
/* Looks whether the file begins as plans do. Returns 0, or the exit status with the message printed where it cannot be
 * read. */
int command_is_plan(const char *path, bool *is);
/* Fills the inputs that are not given; dynamic dimensions that --shape leaves open are 1. Returns 0 or the exit status. */
int command_model_fill(command_model *model, uint64_t seed);
/* "x float32[1,3], M int64[]": the inputs that were made up, the first few; "" where none was. Returns text. */
char *command_model_made_up(const command_model *model, char *text, size_t capacity);
/* After a failure: a note, where inputs were made up with extents that nobody gave, how other shapes are asked for. */
void command_model_hint(const command_model *model);
/* Something was given for the input. */
bool command_is_given(const import_value *input);
/* Binds all inputs, as they are in step `step`, and gives the session what its states begin with. Returns 0 or the exit
 * status. */
int command_model_bind(const command_model *model, ouro_session *session);
int command_model_bind_step(const command_model *model, ouro_session *session, size_t step);
/* The arguments of the process, which end with NULL and stay; without them command_waits_shorten does nothing. */
void command_waits_remember(char **arguments);
/* For commands that run models, before they write anything: lets threads, if there are several, sleep when they have found no work for 0.4 ms. Those
 * of GCC's OpenMP look for it for 10 ms: where other programs want the processors they keep each other from running meanwhile, and a run takes up
 * to a hundred times as long. Without other programs a shorter time costs nothing. May start the process anew, with GOMP_SPINCOUNT in its
 * environment, unless that or OMP_WAIT_POLICY is set, or threads are bound to processors; only the first call does. */
void command_waits_shorten(int threads);
/* One more run, for measurements: where states have grown as far as they may, they begin anew. */
ouro_status command_run_on(ouro_session *session, ouro_error *error);
/* The first steps for which there are stacked inputs; SIZE_MAX: no input is stacked. */
size_t command_model_steps(const command_model *model);

/* ---- runs one after another (compiler/command/steps.c) ---------------------------------------------------- */

typedef struct command_steps {
    const command *self;
    size_t count;       /* of runs */
    command_list feeds; /* OUT:argmax=IN, or OUT=IN */
    const char *directory;
    bool check;
} command_steps;

/* Runs the session `count` times, with the inputs of each step, what is fed from the outputs of the one before, and the states
 * as they go on. Writes or prints the outputs. Returns 0 or the exit status. */
int command_run_steps(const command_steps *steps, const command_model *model, ouro_session *session,
                      command_progress *progress);

/* Fills a numeric tensor. The numbers depend on seed and name alone: splitmix64 (Steele, Lea, Flood: "Fast
 * splittable pseudorandom number generators", OOPSLA 2014) started at seed ^ base_hash(name, 0); floats and
 * the parts of complex numbers are uniform in [-1, 1), integers in 0..3, booleans 0 or 1, texts "0".."3". */
base_status command_fill_random(op_tensor *tensor, const char *name, uint64_t seed, base_arena *arena,
                                base_report *report);
/* Numbers on the command line, as the input's type wants them: 7, true, 1,2,3, [[1,2],[3,4]]; a text where that is a
 * text. (literal.c) */
base_status command_read_literal(const char *text, const op_type *expected, base_arena *arena,
                                 op_tensor *tensor, base_report *report);
/* The names of the arrays in an archive (.npz), in `arena`. BASE_USAGE: the file is something else. */
base_status command_list_npz(const char *path, base_arena *arena, const char ***names, size_t *count,
                             base_report *report);
/* Reads a file of a value for the input `name`: .npy, .npz (the array of this name, or the only one) or .pb, told by content. A tensor
 * where an optional is expected is what that holds. */
base_status command_read_value(const char *path, const char *name, const op_type *expected, base_arena *arena,
                               import_value *value, base_report *report);
/* The value as the runtime takes it; arrays from `arena`, tensors' data where they are. False when memory runs out. */
bool command_value_of(const import_value *from, base_arena *arena, ouro_value *value);
/* A value that is a tensor, as one. */
op_tensor command_value_tensor(const ouro_value *value);

/* ---- outputs (compiler/command/compare.c, compiler/command/outputs.c) -------------------------------------- */

/* True where a value is the expected one; otherwise `reason` says what differs first. The errors of its numbers are added. */
bool command_compare(const ouro_value *actual, const import_value *expected, tensor_tolerance tolerance,
                     tensor_errors *errors, char *reason, size_t capacity);
/* Prints these values, or (`directory` not NULL) writes them as DIR/NAME.npy, elements of sequences as DIR/NAME.I.npy. Returns 0
 * or the exit status. */
int command_write_values(const char *directory, const char *const *names, const ouro_value *values,
                         size_t count);
/* Prints the outputs of the last run, or (`directory` not NULL) writes them as DIR/NAME.npy, elements of sequences as
 * DIR/NAME.I.npy. Returns 0 or the exit status. */
int command_write_outputs(const command_model *model, ouro_session *session, const char *directory);
/* Compares them with such files, or with DIR/output_I.pb, and prints a line for each. Returns 0, or the exit status with
 * the message printed: 1 where one differs or is missing. */
int command_expect_outputs(const command_model *model, ouro_session *session, const char *directory,
                           tensor_tolerance tolerance);

/* ---- counted allocations (compiler/command/allocations.c) ------------------------------------------------------- */

/* How many blocks the program has taken from the heap so far (malloc, calloc, realloc, aligned forms), on all
 * threads. -1 in builds that cannot tell (sanitizers replace the heap). */
int64_t command_allocation_count(void);

/* ---- the commands -------------------------------------------------------------------------------------- */

extern const command command_compile, command_run, command_test, command_bench, command_inspect,
    command_verify, command_ops, command_alloc;

#endif
