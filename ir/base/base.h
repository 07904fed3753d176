/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: what every folder stands on: statuses and reports, arenas, checked sizes, hashes, random numbers, half precision.
 *
 * Nothing here knows graphs, operators or plans. No mutable globals: everything is reached through the
 * arguments, so two compiles (or sixty-four sessions) run side by side.
 */
#ifndef OURO_BASE_H
#define OURO_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- status and report (report.c) ------------------------------------------------------------------------ */

/* What a fallible function returns. The numbers are the exit statuses of the command. */
typedef enum base_status {
    BASE_OK = 0,
    BASE_INVALID = 1,     /* the model, plan, data or problem is invalid or not supported */
    BASE_USAGE = 2,       /* the caller asked for something that makes no sense */
    BASE_SYSTEM_ERROR = 3 /* memory or disk failed */
} base_status;

enum { BASE_REPORT_TEXT = 4096, BASE_REPORT_CONTEXT = 512 };

/* Collects messages without allocating, so that running out of memory can be reported too.
 * `context` is put before each message ("model.onnx: main: node \"add_7\" (Add)"); empty means nothing is.
 * `text` holds the messages, each ended by '\n'; those that no longer fit are only counted. */
typedef struct base_report {
    base_status status; /* of the first failure; BASE_OK while there is none */
    bool unsupported;   /* a failure was a valid thing that is not supported: `ouro test` skips, not fails */
    unsigned count;     /* failures reported, kept in text or not */
    size_t length;      /* bytes used of text, without the terminating zero */
    char context[BASE_REPORT_CONTEXT];
    char text[BASE_REPORT_TEXT];
} base_report;

/* Makes a report empty. A zero-initialised report is empty already. */
void base_report_clear(base_report *report);

/* Sets the context of the messages to come; a NULL format means none. Too long a context is cut. */
void base_report_context(base_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds one message "CONTEXT: MESSAGE\n" and returns `status`, so that `return base_fail(...)` reads well.
 * Line breaks and other control characters inside a message (names come from files) are replaced by '?'.
 * `report` may be NULL: then only the status is passed on. */
base_status base_fail(base_report *report, base_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
base_status base_fail_va(base_report *report, base_status status, const char *format, va_list arguments);

/* The same for what is valid but not supported (an operator, a type, a form): BASE_INVALID, and marks the
 * report as unsupported. */
base_status base_fail_unsupported(base_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reports that memory ran out; returns BASE_SYSTEM_ERROR. */
base_status base_fail_memory(base_report *report);

/* ---- arenas (arena.c) ----------------------------------------------------------------------------------- */

/* Where an arena takes its blocks from. `allocate` returns NULL when there is none; both get `user`. */
typedef struct base_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *block);
    void *user;
} base_allocator;

/* malloc and free. */
extern const base_allocator base_allocator_heap;

/* An allocator over another one that notes whether that ever gave nothing. Who goes on without memory has made something else than
 * with it: whoever hands out such an allocator looks at the end, and fails. It stays where it is. From any thread. */
typedef struct base_watched_allocator {
    base_allocator allocator;
    const base_allocator *inner;
    _Atomic bool failed;
} base_watched_allocator;

void base_watch_allocator(base_watched_allocator *watched, const base_allocator *inner);

typedef struct base_block base_block;

/* Memory that is freed as a whole. One thread at a time. */
typedef struct base_arena {
    const base_allocator *allocator;
    base_block *blocks; /* newest first */
    size_t used;        /* bytes used of the newest block */
    size_t reserved;    /* bytes taken from the allocator in all */
} base_arena;

/* Prepares an empty arena; takes nothing yet. A NULL allocator means base_allocator_heap. */
void base_arena_init(base_arena *arena, const base_allocator *allocator);

/* Gives everything back. The arena is empty and usable afterwards. */
void base_arena_free(base_arena *arena);

/* `count` elements of `size` bytes, zeroed, aligned to 16. NULL when memory runs out or the product
 * overflows. Zero bytes give a valid pointer. */
void *base_arena_alloc(base_arena *arena, size_t count, size_t size);

/* A copy of `length` bytes with a terminating zero after them; NULL when memory runs out. */
char *base_arena_text(base_arena *arena, const char *text, size_t length);

/* A formatted string; NULL when memory runs out. */
char *base_arena_format(base_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Grows an array that lives in the arena so that it holds at least `needed` elements: returns the array
 * (moved or not) and updates *capacity; the old copy stays in the arena. New elements are zero.
 * NULL when memory runs out (the old array is untouched). */
void *base_arena_grow(base_arena *arena, void *array, size_t *capacity, size_t needed, size_t size);

/* One `type`, or an array of them, zeroed. */
#define BASE_NEW(arena, type) ((type *)base_arena_alloc((arena), 1, sizeof(type)))
#define BASE_ARRAY(arena, type, count) ((type *)base_arena_alloc((arena), (count), sizeof(type)))

/* ---- integers (integers.c) ------------------------------------------------------------------------------- */

/* Each returns false, and leaves *result alone, when the exact result does not fit. */
bool base_size_add(size_t a, size_t b, size_t *result);
bool base_size_multiply(size_t a, size_t b, size_t *result);
bool base_size_align(size_t value, size_t alignment, size_t *result); /* up; alignment is a power of two */
bool base_int64_add(int64_t a, int64_t b, int64_t *result);
bool base_int64_multiply(int64_t a, int64_t b, int64_t *result);

/* The greatest common divisor; of 0 and b it is b. */
uint64_t base_gcd(uint64_t a, uint64_t b);
/* The least common multiple, UINT64_MAX where it is more than that; with 0 it is 0. */
uint64_t base_lcm(uint64_t a, uint64_t b);

/* ---- random numbers (here) --------------------------------------------------------------------------- */

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. The state takes steps of
 * BASE_RANDOM_STEP, which is 2^64 divided by the golden ratio; each number is a state, mixed. */
#define BASE_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* A bijection of 64 bits in which each bit of the result depends on all bits of the value. */
static inline uint64_t base_mix(uint64_t value) {
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

/* The next number of the generator whose state is *state. Any state may start one. */
static inline uint64_t base_random(uint64_t *state) {
    *state += BASE_RANDOM_STEP;
    return base_mix(*state);
}

/* ---- floats as bits, and half precision (half.c) ---------------------------------------------------------- */

static inline uint32_t base_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float base_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* float16 (IEEE 754 binary16) and bfloat16 as their bits. Rounded to nearest, ties to even; a NaN stays a NaN. */
float base_float_from_half(uint16_t bits);
uint16_t base_half_from_float(float value);
float base_float_from_bfloat16(uint16_t bits);
uint16_t base_bfloat16_from_float(float value);
/* From a double in one rounding: two, by way of a float, would differ. */
uint16_t base_half_from_double(double value);
uint16_t base_bfloat16_from_double(double value);

/* ---- hashes and maps (hash.c) ---------------------------------------------------------------------------------- */

/* A 64-bit non-cryptographic hash, the same on every machine: FNV-1a over 8-byte words (long data: eight
 * lanes of them), each step folded onto its lower half, with a final mix in the manner of splitmix64. For
 * name tables and plan checksums. `seed` chains calls. */
uint64_t base_hash(const void *data, size_t bytes, uint64_t seed);

/* A map from text to a pointer, in an arena. Zero-initialise with the arena set. */
typedef struct base_map_entry {
    const char *key;
    uint64_t hash;
    void *value;
} base_map_entry;
typedef struct base_map {
    base_arena *arena;
    base_map_entry *entries;
    size_t capacity, count;
} base_map;

/* The value under key, or NULL. */
void *base_map_get(const base_map *map, const char *key);

/* Puts or replaces; keeps the key pointer. False when memory runs out. */
bool base_map_put(base_map *map, const char *key, void *value);

#endif
