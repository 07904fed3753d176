/* SPDX-License-Identifier: Apache-2.0 */
/* write.h: the bytes of a plan file, put together from records; what they say is the business of the compiler.
 *
 *     plan_writer w;
 *     plan_writer_init(&w, report);
 *     plan_tensor *tensor = plan_write_records(&w, PLAN_TENSORS, 1);
 *     if (tensor && plan_write_text(&w, "x", 1, &tensor->name)) ...
 *     plan_header header = {.threads = 1, ...};
 *     status = plan_write_file(&w, &header, &bytes, &size);
 *     plan_writer_free(&w);
 *
 * The same calls in the same order give the same bytes, and gaps are zero. Texts are stored once each, and so are
 * constants: constants of equal bytes share them, whatever their types. A function that returns false or NULL has
 * reported why. A writer is used by one thread at a time.
 */
#ifndef OURO_PLAN_WRITE_H
#define OURO_PLAN_WRITE_H

#include "runtime/plan/plan.h"

/* The tables, in the order in which they stand in the file. */
typedef enum plan_part {
    PLAN_TEXTS,
    PLAN_INTEGERS,
    PLAN_TENSOR_IDS,
    PLAN_TENSORS,
    PLAN_ATTRIBUTES,
    PLAN_NODES,
    PLAN_GRAPHS,
    PLAN_MULTIVIEWS,
    PLAN_ADDRESSES,
    PLAN_SYMBOLS,
    PLAN_INPUTS,
    PLAN_OUTPUTS,
    PLAN_STATES,
    PLAN_BOUNDS,
    PLAN_PARTS
} plan_part;

/* A growing table of records of one kind. */
typedef struct plan_part_records {
    void *items;
    size_t count, capacity;
} plan_part_records;

/* Bytes of constants: one for all constants that hold them. */
typedef struct plan_constant_bytes {
    const void *data; /* the caller's, until the file is written */
    size_t bytes;
    uint64_t hash;
    uint64_t offset; /* into the constants */
} plan_constant_bytes;

typedef struct plan_writer {
    base_arena arena;
    base_report *report;
    base_map text_offsets; /* text -> its offset, as a pointer into the table's numbers + 1 */
    plan_part_records parts[PLAN_PARTS];
    plan_constant_bytes *constants; /* in the order of offsets */
    size_t constant_count, constant_capacity;
    size_t *constant_table; /* a hash table: indices into `constants` + 1 */
    size_t constant_buckets;
    uint64_t constants_bytes;
    /* Called by plan_write_file with the index of a constant and where its bytes lie now, which are then no longer read
     * where they came from; NULL: nobody asks. */
    void (*constant_copied)(void *user, size_t index, void *to);
    void *user;
} plan_writer;

/* `report` is not NULL, and outlives the writer. */
void plan_writer_init(plan_writer *w, base_report *report);
void plan_writer_free(plan_writer *w);

/* `count` zeroed records at the end of a table: the first of them. It stays where it is until the same table grows. */
void *plan_write_records(plan_writer *w, plan_part part, size_t count);
/* How many records a table has, and the one with this index. */
size_t plan_written_count(const plan_writer *w, plan_part part);
void *plan_written_record(plan_writer *w, plan_part part, size_t index);

/* A text of any bytes, which is copied: its offset in the table of texts. */
bool plan_write_text(plan_writer *w, const char *text, size_t length, uint32_t *offset);
/* Integers, which are copied: the index of the first. */
bool plan_write_integers(plan_writer *w, const int64_t *values, size_t count, uint64_t *first);
/* Bytes of a constant, which are the caller's until the file is written: their offset among the constants, a
 * multiple of PLAN_ALIGNMENT. */
bool plan_write_constant(plan_writer *w, const void *data, size_t bytes, uint64_t *offset);

/* The whole file. The caller fills the header but for what follows from the records: magic, version, byte order,
 * tables, sizes of constants and file, checksum. *bytes is aligned to PLAN_ALIGNMENT, from aligned_alloc, the
 * caller's. */
base_status plan_write_file(plan_writer *w, const plan_header *header, void **bytes, size_t *size);

#endif
