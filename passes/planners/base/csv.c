/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c: allocation problems and solutions as CSV.
 *
 * The public benchmarks' form: a header line that names the columns, then one buffer a line.
 *
 *     id,lower,upper,size
 *     conv1,0,3,802816
 *
 * `upper` is exclusive. Also read: `alignment` and `fixed` (an offset; empty: free). `offset`, as solutions
 * have it, is passed over. `overwrites` is the id of a buffer that this one may be written over, and `at` the byte
 * at which it begins in that (empty: 0). A field may stand in double quotes, with "" for a quote inside.
 */
#include "passes/planners/base/planner.h"
#include "ir/base/file_error.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum column { ID, LOWER, UPPER, SIZE, ALIGNMENT, FIXED, OVERWRITES, AT, OFFSET, COLUMNS } column;
static const char *const column_names[COLUMNS] = {"id",    "lower",      "upper", "size",  "alignment",
                                                  "fixed", "overwrites", "at",    "offset"};
enum { FIELDS = 16 };

/* An overwrite, before it is known who has the id. */
typedef struct named_overwrite {
    const char *target;
    size_t buffer, at, line;
} named_overwrite;

typedef struct reader {
    const char *path;
    size_t line;
    named_overwrite *overwrites;
    size_t overwrite_count, overwrite_capacity;
    base_arena *arena;
    base_report *report;
} reader;

static base_status fail_at(const reader *at, const char *what, const char *detail) {
    return base_fail(at->report, BASE_INVALID, "%s:%zu: %s%s%s", at->path, at->line, what,
                     detail[0] ? " " : "", detail);
}

/* Splits one line, in place, into fields. */
static base_status split_line(const reader *at, char *line, char **fields, size_t *count) {
    *count = 0;
    for (char *read = line;;) {
        if (*count == FIELDS) return fail_at(at, "more than 16 columns", "");
        while (*read == ' ' || *read == '\t') read++;
        char *write = read;
        fields[(*count)++] = read;
        if (*read == '"') {
            read++;
            while (*read && (*read != '"' || read[1] == '"')) {
                if (*read == '"') read++;
                *write++ = *read++;
            }
            if (!*read) return fail_at(at, "a quoted field has no end", "");
            read++;
            while (*read == ' ' || *read == '\t') read++;
            if (*read && *read != ',') return fail_at(at, "a comma must follow a quoted field", "");
        } else {
            while (*read && *read != ',') read++;
            write = read;
            while (write > fields[*count - 1] && (write[-1] == ' ' || write[-1] == '\t')) write--;
        }
        bool more = *read == ',';
        *write = 0;
        if (!more) return BASE_OK;
        read++;
    }
}

static base_status read_header(const reader *at, char *line, column *columns, size_t *count) {
    char *fields[FIELDS];
    base_status status = split_line(at, line, fields, count);
    if (status != BASE_OK) return status;
    unsigned seen = 0;
    for (size_t i = 0; i < *count; i++) {
        int c = 0;
        while (c < COLUMNS && strcmp(fields[i], column_names[c]) != 0) c++;
        if (c == COLUMNS) {
            return base_fail(
                at->report, BASE_INVALID,
                "%s:%zu: unknown column \"%s\": the columns are id, lower, upper, size and, optional, "
                "alignment, fixed, overwrites, at, offset",
                at->path, at->line, fields[i]);
        }
        if (seen & 1u << c) return fail_at(at, "twice the column", column_names[c]);
        seen |= 1u << c;
        columns[i] = (column)c;
    }
    for (int c = ID; c <= SIZE; c++) {
        if (!(seen & 1u << c)) return fail_at(at, "there is no column", column_names[c]);
    }
    return BASE_OK;
}

static base_status read_number(const reader *at, const char *field, column of, int64_t *value) {
    char *end = NULL;
    errno = 0;
    long long number = strtoll(field, &end, 10);
    if (end == field || *end || errno) {
        return base_fail(at->report, BASE_INVALID,
                         "%s:%zu: %s is \"%s\": a whole number of 64 bits is needed", at->path, at->line,
                         column_names[of], field);
    }
    *value = number;
    if (of != LOWER && of != UPPER && number < 0) {
        return base_fail(at->report, BASE_INVALID, "%s:%zu: %s is %lld: it must not be negative", at->path,
                         at->line, column_names[of], number);
    }
    return BASE_OK;
}

static base_status add_overwrite(reader *at, size_t buffer, const char *target, int64_t from) {
    named_overwrite *grown = base_arena_grow(at->arena, at->overwrites, &at->overwrite_capacity,
                                             at->overwrite_count + 1, sizeof *grown);
    if (!grown) return base_fail_memory(at->report);
    at->overwrites = grown;
    grown += at->overwrite_count++;
    *grown =
        (named_overwrite){base_arena_text(at->arena, target, strlen(target)), buffer, (size_t)from, at->line};
    return grown->target ? BASE_OK : base_fail_memory(at->report);
}

static base_status read_buffer(reader *at, char *line, const column *columns, size_t column_count,
                               size_t number, planner_buffer *buffer, const char **id) {
    char *fields[FIELDS];
    size_t count;
    base_status status = split_line(at, line, fields, &count);
    if (status != BASE_OK) return status;
    if (count != column_count) {
        return base_fail(at->report, BASE_INVALID, "%s:%zu: %zu fields, but the header has %zu columns",
                         at->path, at->line, count, column_count);
    }
    *buffer = (planner_buffer){.alignment = 1, .fixed = PLANNER_NOT_FIXED};
    const char *target = "";
    int64_t from = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t value = 0;
        if (columns[i] == ID) {
            *id = base_arena_text(at->arena, fields[i], strlen(fields[i]));
            if (!*id) return base_fail_memory(at->report);
            continue;
        }
        if (columns[i] == OVERWRITES) target = fields[i];
        if (columns[i] == OFFSET || columns[i] == OVERWRITES) continue;
        if ((columns[i] == FIXED || columns[i] == AT) && !fields[i][0]) continue;
        status = read_number(at, fields[i], columns[i], &value);
        if (status != BASE_OK) return status;
        if (columns[i] == LOWER) buffer->first = value;
        if (columns[i] == UPPER) buffer->last = value;
        if (columns[i] == SIZE) buffer->size = (size_t)value;
        if (columns[i] == ALIGNMENT) buffer->alignment = (size_t)value;
        if (columns[i] == FIXED) buffer->fixed = (size_t)value;
        if (columns[i] == AT) from = value;
    }
    if (buffer->first >= buffer->last) {
        return base_fail(at->report, BASE_INVALID,
                         "%s:%zu: lower is %" PRId64 " and upper is %" PRId64 ": upper must be greater",
                         at->path, at->line, buffer->first, buffer->last);
    }
    if (buffer->alignment & (buffer->alignment - 1)) {
        return base_fail(at->report, BASE_INVALID, "%s:%zu: alignment is %zu: a power of two is needed",
                         at->path, at->line, buffer->alignment);
    }
    return target[0] ? add_overwrite(at, number, target, from) : BASE_OK;
}

/* Buffers for ids. Every id that is overwritten must be that of one buffer. */
static base_status find_targets(reader *at, planner_problem *problem, const char *const *names) {
    if (at->overwrite_count == 0) return BASE_OK;
    base_map map = {.arena = at->arena};
    planner_overwrite *overwrites = BASE_ARRAY(at->arena, planner_overwrite, at->overwrite_count);
    uint32_t *known = BASE_ARRAY(at->arena, uint32_t, problem->buffer_count + 1);
    if (!overwrites || !known) return base_fail_memory(at->report);
    for (size_t i = 0; i < problem->buffer_count; i++) {
        uint32_t *before = base_map_get(&map, names[i]);
        known[i] = before ? UINT32_MAX : (uint32_t)i;
        if (before) *before = UINT32_MAX;
        else if (!base_map_put(&map, names[i], &known[i])) return base_fail_memory(at->report);
    }
    for (size_t i = 0; i < at->overwrite_count; i++) {
        const named_overwrite *over = &at->overwrites[i];
        const uint32_t *target = base_map_get(&map, over->target);
        at->line = over->line;
        if (!target) return fail_at(at, "there is no buffer to overwrite with the id", over->target);
        if (*target == UINT32_MAX)
            return fail_at(at, "more than one buffer has the id to overwrite", over->target);
        overwrites[i] = (planner_overwrite){(uint32_t)over->buffer, *target, over->at};
    }
    problem->overwrites = overwrites;
    problem->overwrite_count = at->overwrite_count;
    return BASE_OK;
}

static base_status read_lines(FILE *file, reader *at, planner_problem *problem, const char *const **ids) {
    planner_buffer *buffers = NULL;
    const char **names = NULL;
    size_t capacity = 0, name_capacity = 0, count = 0, column_count = 0, line_capacity = 0;
    column columns[FIELDS];
    char *line = NULL;
    base_status status = BASE_OK;
    for (ssize_t length; status == BASE_OK && (length = getline(&line, &line_capacity, file)) >= 0;) {
        at->line++;
        if (memchr(line, 0, (size_t)length)) {
            status = fail_at(at, "a zero byte: this is not a text", "");
            break;
        }
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = 0;
        if (length == 0) continue;
        if (column_count == 0) {
            status = read_header(at, line, columns, &column_count);
            continue;
        }
        planner_buffer *grown = base_arena_grow(at->arena, buffers, &capacity, count + 1, sizeof *buffers);
        if (grown) buffers = grown;
        const char **grown_names =
            base_arena_grow(at->arena, names, &name_capacity, count + 1, sizeof *names);
        if (grown_names) names = grown_names;
        if (!grown || !grown_names) {
            status = base_fail_memory(at->report);
            break;
        }
        if (count == UINT32_MAX - 1) {
            status = fail_at(at, "more buffers than are supported", "");
            break;
        }
        status = read_buffer(at, line, columns, column_count, count, &buffers[count], &names[count]);
        count++;
    }
    free(line);
    if (status == BASE_OK && !feof(file)) /* no end, so an error: of reading, or of memory for the line */
        status = base_fail_file(at->report, at->path, "cannot read", errno);
    if (status == BASE_OK && column_count == 0) {
        status = base_fail(at->report, BASE_INVALID, "%s: empty: the header id,lower,upper,size is needed",
                           at->path);
    }
    *problem = (planner_problem){.buffers = buffers, .buffer_count = count};
    if (ids) *ids = (const char *const *)names;
    if (status == BASE_OK) status = find_targets(at, problem, names);
    return status;
}

base_status planner_csv_read(const char *path, base_arena *arena, planner_problem *problem,
                             const char *const **ids, base_report *report) {
    *problem = (planner_problem){0};
    FILE *file = fopen(path, "r");
    if (!file) return base_fail_file(report, path, "cannot open", errno);
    reader at = {.path = path, .arena = arena, .report = report};
    base_status status = read_lines(file, &at, problem, ids);
    fclose(file);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void write_id(FILE *file, const char *id) {
    if (id[0] && !strpbrk(id, ",\"\r\n \t")) {
        fputs(id, file);
        return;
    }
    fputc('"', file);
    for (; *id; id++) {
        if (*id == '"') fputc('"', file);
        fputc(*id == '\n' || *id == '\r' ? '?' : *id, file);
    }
    fputc('"', file);
}

base_status planner_csv_write(const char *path, const planner_problem *problem, const char *const *ids,
                              const planner_solution *solution, base_report *report) {
    bool alignment = false, fixed = false;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        alignment |= problem->buffers[i].alignment > 1;
        fixed |= problem->buffers[i].fixed != PLANNER_NOT_FIXED;
    }
    FILE *file = fopen(path, "w");
    if (!file) return base_fail(report, BASE_SYSTEM_ERROR, "%s: %s", path, strerror(errno));
    const planner_overwrite *over = problem->overwrites, *end = over + problem->overwrite_count;
    fprintf(file, "id,lower,upper,size%s%s%s%s\n", alignment ? ",alignment" : "", fixed ? ",fixed" : "",
            over < end ? ",overwrites,at" : "", solution ? ",offset" : "");
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const planner_buffer *b = &problem->buffers[i];
        if (ids) write_id(file, ids[i]);
        else fprintf(file, "%zu", i);
        fprintf(file, ",%" PRId64 ",%" PRId64 ",%zu", b->first, b->last, b->size);
        if (alignment) fprintf(file, ",%zu", b->alignment ? b->alignment : 1);
        if (fixed && b->fixed == PLANNER_NOT_FIXED) fputc(',', file);
        else if (fixed) fprintf(file, ",%zu", b->fixed);
        if (problem->overwrite_count > 0 && (over == end || over->buffer != i)) {
            fputs(",,", file);
        } else if (problem->overwrite_count > 0) {
            fputc(',', file);
            if (ids) write_id(file, ids[over->target]);
            else fprintf(file, "%" PRIu32, over->target);
            fprintf(file, ",%zu", over->at);
            over++;
        }
        if (solution) fprintf(file, ",%zu", solution->offsets[i]);
        fputc('\n', file);
    }
    bool bad = ferror(file) != 0;
    if (fclose(file) != 0 || bad) return base_fail(report, BASE_SYSTEM_ERROR, "%s: cannot be written", path);
    return BASE_OK;
}
