/* SPDX-License-Identifier: Apache-2.0 */
/* load.c: opening plans: header, checksum, machine, tables.
 *
 * The order of the checks is the order of trust: the size of the header, magic and version (another version
 * may lay out the rest differently), byte order, size, checksum (accidents), tables and all that they refer
 * to (runtime/plan/structure.c: malice), machine, and at last what the plan does (runtime/plan/check.c).
 */
#include "ir/base/pages.h"
#include "runtime/plan/plan.h"
#include <string.h>
#define XXH_INLINE_ALL /* so that nothing more needs to be linked */
#include <xxhash.h>

enum { LEFT_AT_ONCE = 4 << 20 }; /* bytes of a file that is mapped, as the checksum reads it */

static uint64_t seed_of(const void *bytes) {
    plan_header header;
    memcpy(&header, bytes, sizeof header);
    header.checksum = 0;
    return XXH3_64bits(&header, sizeof header);
}

uint64_t plan_checksum(const void *bytes, size_t size) {
    return XXH3_64bits_withSeed((const unsigned char *)bytes + sizeof(plan_header),
                                size - sizeof(plan_header), seed_of(bytes));
}

/* The same. What was read leaves the memory of the process: runs use less than all of many plans. */
static uint64_t checksum_of_mapped(const unsigned char *bytes, size_t size) {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_64bits_reset_withSeed(&state, seed_of(bytes));
    for (size_t from = 0, end; from < size; from = end) {
        const size_t first = from ? from : sizeof(plan_header);
        end = size - from > LEFT_AT_ONCE ? from + LEFT_AT_ONCE : size;
        (void)XXH3_64bits_update(&state, bytes + first, end - first);
        base_pages_leave(bytes + from, end - from);
    }
    return XXH3_64bits_digest(&state);
}

/* ---- header -------------------------------------------------------------------------------------------- */

static base_status check_header(const plan *of, bool mapped, base_report *report) {
    const unsigned char *bytes = of->base;
    const size_t size = of->bytes;
    const plan_header *header = (const plan_header *)bytes;
    if (size < 8 || memcmp(bytes, PLAN_MAGIC, 8) != 0)
        return base_fail(report, BASE_INVALID, "is not a plan");
    if (size < 16) return base_fail(report, BASE_INVALID, "is cut off: %zu bytes", size);
    if (header->endian != PLAN_ENDIAN) {
        return base_fail(report, BASE_INVALID,
                         "was compiled for a machine of another byte order: compile the model again here");
    }
    if (header->version != PLAN_VERSION) {
        return base_fail(report, BASE_INVALID,
                         "is a plan of version %u, this library reads version %d: compile the model again",
                         header->version, (int)PLAN_VERSION);
    }
    if (size < sizeof *header || header->file_bytes != size) {
        return base_fail(report, BASE_INVALID,
                         "is cut off or has bytes too many: %zu bytes, its header says %llu", size,
                         size < sizeof *header ? 0 : (unsigned long long)header->file_bytes);
    }
    if (header->checksum != (mapped ? checksum_of_mapped(bytes, size) : plan_checksum(bytes, size))) {
        return base_fail(report, BASE_INVALID, "is damaged: the checksum is wrong");
    }
    return BASE_OK;
}

static base_status check_machine(const plan_header *header, const plan_host *host, base_report *report) {
    char here[PLAN_MACHINE_TEXT];
    if (strcmp(header->machine, "portable") == 0) return BASE_OK;
    if (!host->describe_machine(false, here, sizeof here)) return base_fail_memory(report);
    if (strcmp(header->machine, here) == 0) return BASE_OK;
    return base_fail(report, BASE_INVALID,
                     "was compiled for \"%s\", this is \"%s\": compile the model again here", header->machine,
                     here);
}

/* ---- opening ------------------------------------------------------------------------------------------- */

static base_status place_table(plan *of, const plan_table *table, size_t record, const char *name,
                               const void **first, base_report *report) {
    size_t bytes, end;
    if (table->offset % 8 != 0 || table->offset < sizeof(plan_header) || table->offset > of->bytes ||
        table->count >= PLAN_ABSENT || !base_size_multiply((size_t)table->count, record, &bytes) ||
        !base_size_add((size_t)table->offset, bytes, &end) || end > of->bytes) {
        return base_fail(report, BASE_INVALID, "is malformed: its table of %s lies outside of the file",
                         name);
    }
    *first = of->base + table->offset;
    return BASE_OK;
}

static base_status place_tables(plan *of, base_report *report) {
    const plan_header *header = of->header;
    struct {
        const plan_table *table;
        size_t record;
        const char *name;
        const void **first;
    } tables[] = {
        {&header->texts, 1, "texts", (const void **)&of->texts},
        {&header->integers, sizeof *of->integers, "integers", (const void **)&of->integers},
        {&header->tensor_ids, sizeof *of->tensor_ids, "tensor ids", (const void **)&of->tensor_ids},
        {&header->tensors, sizeof *of->tensors, "tensors", (const void **)&of->tensors},
        {&header->attributes, sizeof *of->attributes, "attributes", (const void **)&of->attributes},
        {&header->nodes, sizeof *of->nodes, "nodes", (const void **)&of->nodes},
        {&header->graphs, sizeof *of->graphs, "graphs", (const void **)&of->graphs},
        {&header->multiviews, sizeof *of->multiviews, "multiviews", (const void **)&of->multiviews},
        {&header->addresses, sizeof *of->addresses, "addresses", (const void **)&of->addresses},
        {&header->symbols, sizeof *of->symbols, "symbols", (const void **)&of->symbols},
        {&header->inputs, sizeof *of->inputs, "inputs", (const void **)&of->inputs},
        {&header->outputs, sizeof *of->outputs, "outputs", (const void **)&of->outputs},
        {&header->states, sizeof *of->states, "states", (const void **)&of->states},
        {&header->bounds, sizeof *of->bounds, "bounds", (const void **)&of->bounds},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        base_status status =
            place_table(of, tables[i].table, tables[i].record, tables[i].name, tables[i].first, report);
        if (status != BASE_OK) return status;
    }
    size_t end;
    if (header->constants_offset % PLAN_ALIGNMENT != 0 || header->constants_offset > of->bytes ||
        !base_size_add((size_t)header->constants_offset, (size_t)header->constants_bytes, &end) ||
        end > of->bytes) {
        return base_fail(report, BASE_INVALID, "is malformed: its constants lie outside of the file");
    }
    of->constants = of->base + header->constants_offset;
    return BASE_OK;
}

static base_status open_bytes(plan *of, bool mapped, const plan_host *host, base_report *report) {
    if ((uintptr_t)of->base % PLAN_ALIGNMENT != 0) {
        return base_fail(report, BASE_USAGE, "the bytes of a plan must be aligned to %d",
                         (int)PLAN_ALIGNMENT);
    }
    base_status status = check_header(of, mapped, report);
    if (status != BASE_OK) return status;
    of->header = (const plan_header *)of->base;
    if (!memchr(of->header->machine, 0, sizeof of->header->machine)) {
        return base_fail(report, BASE_INVALID, "is malformed: its machine has no end");
    }
    if (host) status = check_machine(of->header, host, report);
    if (status == BASE_OK) status = place_tables(of, report);
    if (status == BASE_OK) status = plan_check_structure(of, host, report);
    if (status == BASE_OK) status = plan_check(of, report);
    return status;
}

static base_status open_named(const void *bytes, size_t size, bool mapped, const char *name,
                              const plan_host *host, void (*release)(void *owner), void *owner, plan *opened,
                              base_report *report) {
    *opened = (plan){.base = bytes,
                     .bytes = size,
                     .release = release,
                     .owner = owner,
                     .memory = host ? host->memory : NULL};
    base_report_context(report, "%s", name);
    base_status status = open_bytes(opened, mapped, host, report);
    base_report_context(report, NULL);
    if (status != BASE_OK) plan_close(opened);
    return status;
}

base_status plan_open(const void *bytes, size_t size, const char *name, const plan_host *host,
                      void (*release)(void *owner), void *owner, plan *opened, base_report *report) {
    return open_named(bytes, size, false, name, host, release, owner, opened, report);
}

base_status plan_open_mapped(const void *bytes, size_t size, const char *name, const plan_host *host,
                             void (*release)(void *owner), void *owner, plan *opened, base_report *report) {
    return open_named(bytes, size, true, name, host, release, owner, opened, report);
}

void plan_close(plan *opened) {
    if (opened->release) opened->release(opened->owner);
    *opened = (plan){0};
}
