/* SPDX-License-Identifier: Apache-2.0 */
/* write.c: the bytes of a plan file; see write.h. Constants are hashed, compared where hashes meet, and copied once. */
#include "runtime/plan/write.h"
#include "ir/base/pages.h"
#include <stdlib.h>
#include <string.h>

/* By plan_part: the size of a record, and where its table stands in the header. */
static const struct {
    size_t record, header;
} parts[PLAN_PARTS] = {
    [PLAN_TEXTS] = {1, offsetof(plan_header, texts)},
    [PLAN_INTEGERS] = {sizeof(int64_t), offsetof(plan_header, integers)},
    [PLAN_TENSOR_IDS] = {sizeof(uint32_t), offsetof(plan_header, tensor_ids)},
    [PLAN_TENSORS] = {sizeof(plan_tensor), offsetof(plan_header, tensors)},
    [PLAN_ATTRIBUTES] = {sizeof(plan_attribute), offsetof(plan_header, attributes)},
    [PLAN_NODES] = {sizeof(plan_node), offsetof(plan_header, nodes)},
    [PLAN_GRAPHS] = {sizeof(plan_graph), offsetof(plan_header, graphs)},
    [PLAN_MULTIVIEWS] = {sizeof(plan_multiview), offsetof(plan_header, multiviews)},
    [PLAN_ADDRESSES] = {sizeof(plan_address), offsetof(plan_header, addresses)},
    [PLAN_SYMBOLS] = {sizeof(uint32_t), offsetof(plan_header, symbols)},
    [PLAN_INPUTS] = {sizeof(plan_interface), offsetof(plan_header, inputs)},
    [PLAN_OUTPUTS] = {sizeof(plan_interface), offsetof(plan_header, outputs)},
    [PLAN_STATES] = {sizeof(plan_state), offsetof(plan_header, states)},
    [PLAN_BOUNDS] = {sizeof(int64_t), offsetof(plan_header, bounds)},
};

void plan_writer_init(plan_writer *w, base_report *report) {
    *w = (plan_writer){.report = report};
    base_arena_init(&w->arena, NULL);
    w->text_offsets.arena = &w->arena;
}

void plan_writer_free(plan_writer *w) {
    base_arena_free(&w->arena);
}

/* ---- records ------------------------------------------------------------------------------------------- */

void *plan_write_records(plan_writer *w, plan_part part, size_t count) {
    plan_part_records *records = &w->parts[part];
    const size_t size = parts[part].record;
    size_t needed;
    void *items = NULL;
    if (base_size_add(records->count, count, &needed) && needed < PLAN_ABSENT)
        items = base_arena_grow(&w->arena, records->items, &records->capacity, needed, size);
    if (!items) {
        base_fail_memory(w->report);
        return NULL;
    }
    records->items = items;
    char *first = (char *)items + records->count * size;
    records->count = needed;
    return first;
}

size_t plan_written_count(const plan_writer *w, plan_part part) {
    return w->parts[part].count;
}

void *plan_written_record(plan_writer *w, plan_part part, size_t index) {
    return (char *)w->parts[part].items + index * parts[part].record;
}

bool plan_write_text(plan_writer *w, const char *text, size_t length, uint32_t *offset) {
    const bool whole = !memchr(text, 0, length); /* a zero inside would make another text of it */
    char *key = base_arena_text(&w->arena, text, length);
    if (!key) {
        base_fail_memory(w->report);
        return false;
    }
    const uintptr_t known = whole ? (uintptr_t)base_map_get(&w->text_offsets, key) : 0;
    if (known) {
        *offset = (uint32_t)(known - 1);
        return true;
    }
    const uint32_t at = (uint32_t)w->parts[PLAN_TEXTS].count;
    char *to = plan_write_records(w, PLAN_TEXTS, length + 1);
    if (!to) return false;
    memcpy(to, key, length + 1);
    *offset = at;
    if (whole && !base_map_put(&w->text_offsets, key, (void *)(uintptr_t)(at + (uint64_t)1))) {
        base_fail_memory(w->report);
        return false;
    }
    return true;
}

bool plan_write_integers(plan_writer *w, const int64_t *values, size_t count, uint64_t *first) {
    *first = w->parts[PLAN_INTEGERS].count;
    if (!count) return true;
    int64_t *to = plan_write_records(w, PLAN_INTEGERS, count);
    if (!to) return false;
    memcpy(to, values, count * sizeof *to);
    return true;
}

/* ---- constants ----------------------------------------------------------------------------------------- */

static void enter_constant(plan_writer *w, size_t index) {
    size_t at = w->constants[index].hash & (w->constant_buckets - 1);
    while (w->constant_table[at]) at = (at + 1) & (w->constant_buckets - 1);
    w->constant_table[at] = index + 1;
}

/* The hash table is at most half full. */
static bool grow_constants(plan_writer *w) {
    plan_constant_bytes *constants = base_arena_grow(&w->arena, w->constants, &w->constant_capacity,
                                                     w->constant_count + 1, sizeof *constants);
    if (!constants) return false;
    w->constants = constants;
    if (w->constant_buckets > 2 * w->constant_count) return true;
    const size_t buckets = w->constant_buckets ? 2 * w->constant_buckets : 16;
    size_t *table = BASE_ARRAY(&w->arena, size_t, buckets);
    if (!table) return false;
    w->constant_table = table;
    w->constant_buckets = buckets;
    for (size_t i = 0; i < w->constant_count; i++) enter_constant(w, i);
    return true;
}

bool plan_write_constant(plan_writer *w, const void *data, size_t bytes, uint64_t *offset) {
    *offset = 0;
    if (!bytes) return true;
    if (!grow_constants(w)) {
        base_fail_memory(w->report);
        return false;
    }
    const uint64_t hash = base_hash(data, bytes, 0);
    for (size_t at = hash & (w->constant_buckets - 1); w->constant_table[at];
         at = (at + 1) & (w->constant_buckets - 1)) {
        const plan_constant_bytes *known = &w->constants[w->constant_table[at] - 1];
        if (known->hash != hash || known->bytes != bytes || memcmp(known->data, data, bytes) != 0) continue;
        *offset = known->offset;
        return true;
    }
    size_t start, end;
    if (!base_size_align((size_t)w->constants_bytes, PLAN_ALIGNMENT, &start) ||
        !base_size_add(start, bytes, &end)) {
        base_fail(w->report, BASE_INVALID, "the constants are too large");
        return false;
    }
    w->constants[w->constant_count] = (plan_constant_bytes){data, bytes, hash, start};
    enter_constant(w, w->constant_count++);
    w->constants_bytes = end;
    *offset = start;
    return true;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static plan_table *table_of(plan_header *header, int part) {
    return (plan_table *)(void *)((char *)header + parts[part].header);
}

/* Where everything stands. */
static bool lay_out(const plan_writer *w, plan_header *header, size_t *padded) {
    size_t end = sizeof *header, bytes, start, total;
    for (int i = 0; i < PLAN_PARTS; i++) {
        if (!base_size_align(end, 8, &start) ||
            !base_size_multiply(w->parts[i].count, parts[i].record, &bytes) ||
            !base_size_add(start, bytes, &end))
            return false;
        *table_of(header, i) = (plan_table){start, w->parts[i].count};
    }
    if (!base_size_align(end, PLAN_ALIGNMENT, &start) ||
        !base_size_add(start, (size_t)w->constants_bytes, &total))
        return false;
    header->constants_offset = start;
    header->constants_bytes = w->constants_bytes;
    header->file_bytes = total;
    return base_size_align(total, PLAN_ALIGNMENT, padded);
}

/* Bytes at an offset, and zeros from where the last ones ended. */
static void put(unsigned char *base, size_t *written, size_t offset, const void *data, size_t bytes) {
    memset(base + *written, 0, offset - *written);
    if (bytes) memcpy(base + offset, data, bytes);
    *written = offset + bytes;
}

base_status plan_write_file(plan_writer *w, const plan_header *given, void **bytes, size_t *size) {
    plan_header header = *given;
    size_t padded, written = sizeof header;
    memcpy(header.magic, PLAN_MAGIC, sizeof header.magic);
    header.version = PLAN_VERSION;
    header.endian = PLAN_ENDIAN;
    header.checksum = 0;
    if (!lay_out(w, &header, &padded)) return base_fail(w->report, BASE_INVALID, "the plan is too large");
    const size_t alignment = base_pages_alignment(padded, PLAN_ALIGNMENT);
    size_t capacity;
    unsigned char *base = base_size_align(padded, alignment, &capacity) ? aligned_alloc(alignment, capacity) : NULL;
    if (!base) return base_fail_memory(w->report);
    base_pages_request(base, capacity); /* who compiles it may run it where it is */
    for (int i = 0; i < PLAN_PARTS; i++) {
        put(base, &written, (size_t)table_of(&header, i)->offset, w->parts[i].items,
            w->parts[i].count * parts[i].record);
    }
    for (size_t i = 0; i < w->constant_count; i++) {
        const plan_constant_bytes *constant = &w->constants[i];
        const size_t start = (size_t)(header.constants_offset + constant->offset);
        put(base, &written, start, constant->data, constant->bytes);
        if (w->constant_copied) w->constant_copied(w->user, i, base + start);
    }
    put(base, &written, padded, NULL, 0);
    memcpy(base, &header, sizeof header);
    header.checksum = plan_checksum(base, (size_t)header.file_bytes);
    memcpy(base, &header, sizeof header);
    *bytes = base;
    *size = (size_t)header.file_bytes;
    return BASE_OK;
}
