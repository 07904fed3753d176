/* SPDX-License-Identifier: Apache-2.0 */
/* ouro.h: load a plan and run it. The whole public interface of the runtime library.
 *
 *     #include <ouro/ouro.h>
 *     int main(void) {
 *         ouro_error error;
 *         ouro_plan *plan;
 *         ouro_session *session;
 *         float x[3 * 224 * 224] = {0}, y[1000];
 *         if (ouro_plan_load("model.plan", &plan, &error)) return ouro_error_print(&error);
 *         if (ouro_session_new(plan, NULL, &session, &error)) return ouro_error_print(&error);
 *         ouro_session_bind_input(session, 0, x, sizeof x, NULL, &error);
 *         ouro_session_bind_output(session, 0, y, sizeof y, &error);
 *         if (ouro_session_run(session, &error)) return ouro_error_print(&error);
 *         ouro_session_free(session), ouro_plan_free(plan);
 *     }
 *
 * Threads: a plan may be used from any number of threads at once; a session from one at a time, but for
 * ouro_session_cancel. Calls that find another thread in the session fail with OURO_USAGE.
 * Memory: a plan's constants are in memory once, shared by all its sessions. A session owns one
 * arena of ouro_plan_arena_bytes(plan) bytes (or uses the caller's); after it was made, running it with
 * static shapes allocates nothing (kernels on oneDNN: where the program links ouro::argument_pool too).
 * Errors: every fallible function returns a status and, where `error` is not NULL, fills it with a message.
 */
#ifndef OURO_H
#define OURO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define OURO_VERSION "0.2.0"
enum { OURO_MAX_RANK = 12, OURO_ALIGNMENT = 64 };

typedef enum ouro_status {
    OURO_OK = 0,
    OURO_INVALID = 1,  /* the plan or the data is invalid or not supported */
    OURO_USAGE = 2,    /* the call makes no sense: an index out of range, a buffer too small */
    OURO_MACHINE = 3,  /* memory or disk failed */
    OURO_CANCELLED = 4 /* the run was cancelled, or took longer than it may */
} ouro_status;

typedef struct ouro_error {
    ouro_status status;
    char message[1024]; /* one line, zero-terminated */
} ouro_error;

/* Element types; the numbers are ONNX's. */
typedef enum ouro_dtype {
    OURO_FLOAT = 1,
    OURO_UINT8 = 2,
    OURO_INT8 = 3,
    OURO_UINT16 = 4,
    OURO_INT16 = 5,
    OURO_INT32 = 6,
    OURO_INT64 = 7,
    OURO_STRING = 8,
    OURO_BOOL = 9,
    OURO_FLOAT16 = 10,
    OURO_DOUBLE = 11,
    OURO_UINT32 = 12,
    OURO_UINT64 = 13,
    OURO_COMPLEX64 = 14,
    OURO_COMPLEX128 = 15,
    OURO_BFLOAT16 = 16,
    OURO_FLOAT8E4M3FN = 17,
    OURO_FLOAT8E4M3FNUZ = 18,
    OURO_FLOAT8E5M2 = 19,
    OURO_FLOAT8E5M2FNUZ = 20,
    OURO_UINT4 = 21, /* of 4 and 2 bits: packed, the first element in the lowest bits of a byte */
    OURO_INT4 = 22,
    OURO_FLOAT4E2M1 = 23,
    OURO_FLOAT8E8M0 = 24,
    OURO_UINT2 = 25,
    OURO_INT2 = 26
} ouro_dtype;

/* An element of a tensor of strings: any bytes, not zero-terminated. Of an input they are the caller's, kept as long as
 * its data; of an output they may be the model's, an input's, or the session's until its next run. */
typedef struct ouro_string {
    const char *data;
    size_t length;
} ouro_string;

/* What a value is. */
typedef enum ouro_kind { OURO_TENSOR = 0, OURO_SEQUENCE = 1, OURO_OPTIONAL = 2, OURO_MAP = 3 } ouro_kind;

/* What an input or output of a model is. A dimension of -1 is not known before the run. For a sequence or an optional,
 * dtype and dims are those of the tensors in it; for a map, or a sequence of maps, dtype is that of the values. */
typedef struct ouro_tensor_info {
    const char *name; /* lives as long as the plan */
    ouro_kind kind;
    ouro_kind element; /* what a sequence or an optional holds: tensors, maps; a tensor, a sequence */
    ouro_dtype dtype;
    int rank; /* -1: not known before the run */
    int64_t dims[OURO_MAX_RANK];
    /* Of a dimension of -1: what the model calls it, "batch"; dimensions of one name are equal in a run. NULL: it has no
     * name, or is known. Lives as long as the plan. */
    const char *dim_names[OURO_MAX_RANK];
    size_t bytes; /* 0: not known before the run */
} ouro_tensor_info;

/* A tensor; or a sequence, an optional or a map with what it holds. A map has two elements, vectors of the same length: its
 * keys, OURO_INT64 or OURO_STRING, and the value of each. */
typedef struct ouro_value {
    ouro_kind kind;
    ouro_dtype dtype; /* of a tensor: its type, data (row-major) and their bytes */
    int rank;
    int64_t dims[OURO_MAX_RANK];
    const void *data;
    size_t bytes;
    const struct ouro_value *elements; /* in their order; of an optional: the value, or none */
    size_t count;
} ouro_value;

typedef struct ouro_plan ouro_plan;
typedef struct ouro_session ouro_session;

/* Where a plan or a session takes its memory from, in place of the heap: all of it, but for what other libraries allocate by
 * themselves (oneDNN; OpenMP for its threads; those that decode images, match regular expressions and know letters, for
 * ImageDecoder, RegexFullMatch, Tokenizer and StringNormalizer). Plans on portable kernels (`ouro compile --portable`) take nothing
 * from anywhere else.
 *
 * `allocate` returns at least `bytes` bytes (never 0), aligned to OURO_ALIGNMENT, whose content does not matter; NULL: there are
 * none, and the call that wanted them ends with OURO_MACHINE. `release` gets back once what it gave, never NULL. Both get `user`.
 * They are called only within calls on the plan or session, by the thread that makes these: an allocator of several sessions that
 * several threads use must be thread-safe. The structure is copied; what it refers to must last until the plan or session is
 * freed. */
typedef struct ouro_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory);
    void *user;
} ouro_allocator;

/* Where a plan puts what has no place in its arena (`ouro compile --spill`), in place of a file: flash, memory of another kind. The
 * functions return 0, or a number of errno (any other one is told as it is): then the call that wanted them ends with a message.
 * They are called only within calls on the session, by the thread that makes these. */
typedef struct ouro_spill {
    /* ouro_plan_spill_bytes(plan) bytes for one session alone, whose content does not matter; *place is what the others get. Each session,
     * and each clone of one, opens its own. */
    int (*open)(void *user, uint64_t bytes, void **place);
    int (*write)(void *place, uint64_t offset, const void *data, size_t bytes); /* all of them */
    int (*read)(void *place, uint64_t offset, void *data, size_t bytes);        /* all of them */
    void (*close)(void *place);
    void *user;
} ouro_spill;

typedef struct ouro_session_options {
    /* 0: as many as the plan was compiled for. They are OpenMP's: those of GCC look for work for up to 10 ms before they sleep, after a run
     * and within it. Where other programs want the processors a run may take a hundred times as long for that. GOMP_SPINCOUNT=5000 in the
     * environment, before the process starts, makes that 0.05 to 0.4 ms, depending on the processor, and costs nothing. */
    int threads;
    void *arena; /* the caller's memory for the arena, aligned to 64; NULL: the session takes its own */
    size_t arena_bytes; /* of it; at least ouro_plan_arena_bytes */
    /* For what has no size before a run: "bfc" or "pool"; NULL: as the plan was compiled, where that names one of these,
     * else bfc. */
    const char *allocator;
    /* What each run may take, in seconds; 0: any time. A run that takes longer ends with OURO_CANCELLED before its next
     * step: a step that is running is never interrupted. */
    double run_seconds;
    const ouro_allocator *memory; /* of all that the session takes; NULL: that of the plan */
    /* Of a plan with a spill file: where that is made. NULL: where the plan says. It must not exist. The name is gone as soon as the
     * session has the file, so that any number of sessions may be given the same one. */
    const char *spill_path;
    const ouro_spill *spill; /* in place of a file; it is copied; NULL: a file */
} ouro_session_options;

/* The memory of a session, in bytes. */
typedef struct ouro_memory {
    size_t arena_bytes;             /* the plan's */
    size_t shape_bytes;             /* planned for the shapes of the last run */
    size_t run_time_bytes;          /* in use by values whose size only a run tells, now */
    size_t run_time_peak_bytes;     /* the same, at most so far */
    size_t run_time_reserved_bytes; /* taken from the system for them */
    uint64_t run_time_allocations;  /* of such values so far */
    size_t state_bytes; /* kept from run to run: the plan's, and what was taken for states in the first run */
    size_t output_bytes;  /* the session's own memory for outputs that are not bound */
    size_t scratch_bytes; /* of kernels, beyond what was planned */
    size_t table_bytes;   /* steps, prepared kernels and the like: what holds no values */
    /* Of all that the session holds now: arena and shapes (its own), run-time memory that is taken from the system, states, outputs,
     * scratch, tables. What oneDNN keeps for its kernels is not known. */
    size_t total_bytes;
} ouro_memory;

/* Memory of the caller. */
typedef struct ouro_span {
    void *data;
    size_t bytes;
} ouro_span;

/* What a run needs, in bytes. Where that is more (sizes that depend on data, loops and branches of unknown sizes), it is taken
 * while it runs. */
typedef struct ouro_needs {
    size_t arena_bytes; /* the plan's */
    size_t
        shape_bytes; /* beside it, for these dimensions; 0 where all of them are known, or bounded (--max) */
    size_t state_bytes;  /* kept from run to run, as far as that has been taken */
    size_t output_bytes; /* of all outputs whose sizes follow from the dimensions */
} ouro_needs;

/* What a plan keeps from run to run: what output `output` of the model was after a run, its input `input` is in the next one.
 * Neither is an input or output of the plan. */
typedef struct ouro_state_info {
    const char *input, *output; /* live as long as the plan */
    ouro_dtype dtype;
    int rank;
    int64_t dims[OURO_MAX_RANK]; /* as the model has them; -1: not known before a run */
    int64_t
        strides[OURO_MAX_RANK]; /* of a session's: bytes from one position along each dimension to the next */
    int axis;                   /* along which each run appends to it; -1: it has one size */
    int64_t bound;              /* the most positions along that axis; 0: any number */
    size_t bytes;               /* 0: not known before a run */
} ouro_state_info;

/* Prints "error: MESSAGE" to stderr and returns the status, so that main can return it. */
int ouro_error_print(const ouro_error *error);
const char *ouro_version(void);

/* ---- plans --------------------------------------------------------------------------------------------- */

/* Reads the file into memory and checks it in full, the verifier included. What happens to the file afterwards does
 * not matter: it may be replaced, changed, cut or removed. Free with ouro_plan_free, after its sessions. OURO_INVALID:
 * the file or the plan; OURO_MACHINE: reading it, or memory. */
ouro_status ouro_plan_load(const char *path, ouro_plan **plan, ouro_error *error);
/* The same, but the file is mapped, not read: processes that map one file share its pages, and what is never used is never loaded into them: it
 * is read once for its checksum, and leaves the process again. The file must not change while the plan is open: a file that shrinks ends the
 * process with SIGBUS, one that is written to makes runs compute anything. Replacing it by another (rename) is no change of it. */
ouro_status ouro_plan_map(const char *path, ouro_plan **plan, ouro_error *error);
/* The same for a plan in memory (aligned to 64, kept by the caller until ouro_plan_free): no file system. */
ouro_status ouro_plan_open(const void *bytes, size_t size, ouro_plan **plan, ouro_error *error);
/* ouro_plan_load and ouro_plan_open with memory from `memory` (NULL: the heap): the plan's own, that of its sessions unless they
 * have an allocator of their own, what checking the plan takes meanwhile, and of a file its bytes. */
ouro_status ouro_plan_load_with(const char *path, const ouro_allocator *memory, ouro_plan **plan,
                                ouro_error *error);
ouro_status ouro_plan_open_with(const void *bytes, size_t size, const ouro_allocator *memory,
                                ouro_plan **plan, ouro_error *error);
void ouro_plan_free(ouro_plan *plan); /* NULL is allowed */

size_t ouro_plan_arena_bytes(const ouro_plan *plan);
/* How large the spill file of each session is, and where the plan wants it; 0 and "": it needs none. */
uint64_t ouro_plan_spill_bytes(const ouro_plan *plan);
const char *ouro_plan_spill_path(const ouro_plan *plan); /* lives as long as the plan */
size_t ouro_plan_input_count(const ouro_plan *plan);
size_t ouro_plan_output_count(const ouro_plan *plan);
ouro_status ouro_plan_input(const ouro_plan *plan, size_t index, ouro_tensor_info *info);
ouro_status ouro_plan_output(const ouro_plan *plan, size_t index, ouro_tensor_info *info);
/* The index of the input or output with this name, or -1. */
int ouro_plan_find_input(const ouro_plan *plan, const char *name);
int ouro_plan_find_output(const ouro_plan *plan, const char *name);

/* The states: how many, what each is, and the index of the one with this input, or output, of the model; -1: none. A session
 * keeps them in ouro_plan_state_bytes(plan) bytes of its own, apart from the arena. */
size_t ouro_plan_state_count(const ouro_plan *plan);
ouro_status ouro_plan_state(const ouro_plan *plan, size_t index, ouro_state_info *info);
int ouro_plan_find_state(const ouro_plan *plan, const char *name);
size_t ouro_plan_state_bytes(const ouro_plan *plan);

/* ---- sessions ------------------------------------------------------------------------------------------ */

/* Makes everything that running needs: arena, kernels, scratch. Options may be NULL. */
ouro_status ouro_session_new(ouro_plan *plan, const ouro_session_options *options, ouro_session **session,
                             ouro_error *error);
void ouro_session_free(ouro_session *session); /* NULL is allowed */

/* The next runs read input `index` from `data`: row-major, `bytes` exactly those of its type, aligned to its
 * element type (at most 8), never written, kept by the caller until it binds another. `dims` gives the
 * extents (as many as the input's rank) where the plan leaves them open; NULL: those of the plan. Where
 * extents that have one name differ between inputs, the run says so. An input whose rank the plan does not know is bound
 * as a value. */
ouro_status ouro_session_bind_input(ouro_session *session, size_t index, const void *data, size_t bytes,
                                    const int64_t *dims, ouro_error *error);
/* The same for any value: the way to bind sequences, optionals and maps. The tree is copied, the data of its tensors are
 * not. */
ouro_status ouro_session_bind_value(ouro_session *session, size_t index, const ouro_value *value,
                                    ouro_error *error);
/* The next runs write output `index` straight to `data`, aligned to its element type; `bytes` is its capacity. It may be written at any time of
 * a run, so it must not overlap any other bound buffer. NULL: to memory of the session, as at the beginning (which it does not hold while he has
 * bound his own). An output whose extents are known only after a run is copied there; too small a capacity then fails the run, and so does one
 * for fewer samples than an open batch has. Memory of the session has the size of one sample until a run has more; then it is taken anew. */
ouro_status ouro_session_bind_output(ouro_session *session, size_t index, void *data, size_t bytes,
                                     ouro_error *error);
/* What a run with inputs of these dimensions needs and gives, before it happens, and memory for it: later runs with them
 * take none, as far as sizes follow from dimensions. dims[i]: the extents of input i, as many as its rank; NULL (also all of `dims`):
 * those of what is bound. `memory` NULL: the session takes shape_bytes from the system, once. Else it uses the caller's bytes, aligned
 * to 64, as long as they are enough: they stay his, and are kept until the session is freed, or is prepared again. Where its
 * data is NULL nothing is taken: the call only asks. `needs` and `outputs` (as many as the plan has; extents that do not follow
 * are -1, bytes then 0) may be NULL. States stay what they are; what is bound stays bound; the outputs of the last run are gone.
 * OURO_INVALID: dimensions that do not fit, or exceed a bound; OURO_USAGE: some are missing, or memory that is too small. */
ouro_status ouro_session_prepare(ouro_session *session, const int64_t *const *dims, const ouro_span *memory,
                                 ouro_needs *needs, ouro_tensor_info *outputs, ouro_error *error);
/* One run. All inputs must be bound. On failure the outputs are undefined and the session stays usable.
 * Allocates nothing where the plan knows all extents and the calling thread made the session or has run it
 * before. */
ouro_status ouro_session_run(ouro_session *session, ouro_error *error);
/* The run under way in another thread ends with OURO_CANCELLED before its next step; where none is under way, the next
 * run does. The session stays usable. May be called from any thread, and from signal handlers, as long as the session
 * is not freed meanwhile. */
void ouro_session_cancel(ouro_session *session);
/* Output `index` of the last run: its extents and its data (the bound buffer, or memory of the session that
 * the next run overwrites). OURO_USAGE before the first run, after one that failed, and after an output was
 * bound anew. */
ouro_status ouro_session_output(const ouro_session *session, size_t index, ouro_tensor_info *info,
                                const void **data, ouro_error *error);
/* The same for any value: the way to read sequences, optionals and maps. What *value refers to is the session's until the
 * next run, or until it is asked again. */
ouro_status ouro_session_output_value(ouro_session *session, size_t index, ouro_value *value,
                                      ouro_error *error);
void ouro_session_memory(const ouro_session *session, ouro_memory *memory);

/* ---- all memory in one block ---------------------------------------------------------------------------
 *
 * For programs without a heap:
 *
 *     static _Alignas(OURO_ALIGNMENT) unsigned char block[BYTES];
 *     ouro_allocator memory;
 *     ouro_block_allocator(block, sizeof block, &memory, &error);
 *     ouro_plan_open_with(bytes, size, &memory, &plan, &error);
 *     ouro_session_new(plan, NULL, &session, &error);
 *
 * BYTES: ouro_plan_bytes and ouro_session_bytes together; `ouro inspect PLAN` prints the sum. The two functions
 * open the plan, or make the session, once more, in a block on the heap: call them where there is one, on a machine of the
 * same kind. */

/* An allocator over one block of the caller, aligned to OURO_ALIGNMENT: the lowest free bytes that are large enough, and what is
 * given back is joined with what is free beside it. Its lists are in the block. For one thread at a time. OURO_USAGE: the block is
 * not aligned, or too small for a list. Nothing is to be freed in the end. */
ouro_status ouro_block_allocator(void *block, size_t bytes, ouro_allocator *allocator, ouro_error *error);
/* How many bytes from the beginning of its block were in use at most so far, the lists included: a block of this size would have
 * done. */
size_t ouro_block_peak(const ouro_allocator *allocator);
/* What a block must have so that the plan can be opened there from bytes in memory. */
ouro_status ouro_plan_bytes(const ouro_plan *plan, size_t *bytes, ouro_error *error);
/* What a block must have for a session with these options (NULL is allowed; their `memory` is not looked at): its arena, states,
 * outputs that are not bound, scratch, tables. Runs with static shapes take nothing more; what other runs and the calls on states
 * take depends on the shapes: ouro_block_peak tells afterwards. */
ouro_status ouro_session_bytes(const ouro_plan *plan, const ouro_session_options *options, size_t *bytes,
                               ouro_error *error);

/* ---- states --------------------------------------------------------------------------------------------
 *
 * In a plan with states a run is an iteration of a loop around the model: each state becomes what the model's output was, in
 * place or in turn with other memory, and nothing is copied. A run that fails or is cancelled leaves all states as they
 * were. Like all calls on a session these are for one thread at a time. */

/* The states become what they are in a new session: zeros, nothing for those that grow; or what ouro_session_state_initial
 * has given. */
ouro_status ouro_session_state_reset(ouro_session *session, ouro_error *error);
/* What resets make of state `index` from now on: `bytes` bytes, row-major, exactly those of its type, which are copied; NULL:
 * zeros. `dims` gives the extents where the plan leaves them open; NULL: those of the plan. It does not change the state itself. */
ouro_status ouro_session_state_initial(ouro_session *session, size_t index, const void *data, size_t bytes,
                                       const int64_t *dims, ouro_error *error);
/* State `index` becomes these bytes, which are copied; the others keep their values. What was read by
 * ouro_session_state_get may be elsewhere afterwards. OURO_MACHINE: no memory; then nothing is changed. */
ouro_status ouro_session_state_set(ouro_session *session, size_t index, const void *data, size_t bytes,
                                   const int64_t *dims, ouro_error *error);
/* What state `index` is: its type, and where it lies now, without a copy, as the strides say. *data is the session's, to be read
 * only, until the next call that runs the session or changes its states; NULL where the state is empty. */
ouro_status ouro_session_state_get(const ouro_session *session, size_t index, ouro_state_info *info,
                                   const void **data, ouro_error *error);
/* How many positions the states that grow have, the longest of them; 0 where none grows. */
int64_t ouro_session_state_length(const ouro_session *session);
/* The states that grow keep their first `length` positions: what later runs appended is forgotten. The others keep their values.
 * Takes no time that depends on their sizes where positions lie one after the other, as the compiler lays them out for products.
 * OURO_USAGE: a length that is negative, or more than ouro_session_state_length. */
ouro_status ouro_session_state_truncate(ouro_session *session, int64_t length, ouro_error *error);
/* How many bytes ouro_session_state_save writes now. */
size_t ouro_session_state_saved_bytes(const ouro_session *session);
/* All states as bytes, which any session of this plan, in any process, continues from; `bytes` is the capacity of
 * `data`. */
ouro_status ouro_session_state_save(const ouro_session *session, void *data, size_t bytes, ouro_error *error);
/* The states become what they were when these bytes were saved. OURO_INVALID: they are not those of a session of this plan;
 * then nothing is changed. */
ouro_status ouro_session_state_load(ouro_session *session, const void *data, size_t bytes, ouro_error *error);
/* A session of the same plan with the same options and states, which goes its own way from there (a beam of a search). Shared, and
 * not copied: the plan with its constants; dynamic states that runs leave as they are (the caches of an encoder, which a decoder
 * only reads), until one of the two sets, loads or resets them; what ouro_session_state_initial was given. Copied: the bytes of all
 * other states, as many as they have now. Made anew: arena, tables, prepared kernels, memory of outputs. Nothing is bound yet. Sessions
 * that share may run in different threads, and be freed in any order; an allocator of theirs must then be thread-safe. Free with
 * ouro_session_free. */
ouro_status ouro_session_clone(const ouro_session *session, ouro_session **clone, ouro_error *error);

#ifdef __cplusplus
}
#endif
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
