/* command.h: what the commands of `ouro` share: the table of commands, options, messages, progress.
 *
 * One command a file: command_NAME.c defines `command_NAME`. A command parses its arguments with
 * command_parse, writes results to stdout and diagnostics to stderr, and returns its exit status (the numbers
 * of base_status).
 */
#ifndef OURO_COMMAND_H
#define OURO_COMMAND_H

#include "compiler/compiler.h"
#include <stdatomic.h>
#include <pthread.h>
#include <stdio.h>

/* ---- options (command_options.c)
 * ---------------------------------------------------------------------------- */

typedef struct command_list {
    const char **items;
    size_t count;
} command_list;

typedef enum command_option_kind {
    COMMAND_FLAG,   /* bool */
    COMMAND_TEXT,   /* const char * */
    COMMAND_COUNT,  /* int64_t, at least 1 */
    COMMAND_NUMBER, /* int64_t, at least 0 */
    COMMAND_REAL,   /* double, at least 0, finite */
    COMMAND_LIST    /* command_list: may be given several times */
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

/* Parses `count` arguments (those behind the command's name) into `options` and `operands`; memory for lists
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

/* The name in the list that is nearest to `text`, for hints; NULL where none is near. */
const char *command_nearest(const char *text, const char *const *names);

/* ---- messages (command_message.c)
 * ----------------------------------------------------------------------------- */

/* Prints "error: MESSAGE" on one line of stderr (control characters replaced) and returns `status`. */
int command_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Wrong usage: the same, with "(see ouro NAME --help)" behind it; returns 2. */
int command_fail_usage(const command *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first message of a report, and how many more there are; returns its status. */
int command_fail_report(const base_report *report);
int command_fail_error(const ouro_error *error);
int command_fail_memory(void);
/* "note: MESSAGE" on stderr. */
void command_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes what is buffered of stdout; where that fails, or anything before did, prints so and returns 3;
 * otherwise returns `status`. */
int command_finish(int status);

double command_seconds(void); /* a monotonic clock */

/* Work that takes more than a second says so on a terminal: one line on stderr that names what is being done
 * and for how long, erased at the end. Nothing where stderr is no terminal. */
typedef struct command_progress {
    bool active;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;
    double started;
    char text[160]; /* what is being done; under lock */
} command_progress;
void command_progress_begin(command_progress *progress, const char *text);
void command_progress_say(command_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void command_progress_end(command_progress *progress);

/* ---- counted allocations (command_allocations.c)
 * --------------------------------------------------------------- */

/* How many blocks the program has taken from the heap so far (malloc, calloc, realloc, aligned forms), on all
 * threads. -1 in builds that cannot tell (sanitizers replace the heap). */
int64_t command_allocation_count(void);

/* ---- the commands
 * ------------------------------------------------------------------------------------------------ */

extern const command command_compile, command_run, command_test, command_bench, command_inspect,
    command_verify, command_ops, command_alloc;

#endif
