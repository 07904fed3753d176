/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c: implements spill.h. All is found from the plan alone. */
#include "compiler/report/spill.h"
#include <inttypes.h>

static bool is_code(const plan *of, uint64_t n, op_code code) {
    return plan_node_code(of, &of->nodes[n]) == code;
}

static uint32_t put_by(const plan *of, uint64_t n) {
    return of->tensor_ids[of->nodes[n].outputs];
}

static bool reads(const plan *of, uint64_t n, uint32_t id) {
    return is_code(of, n, OP_RESTORE) && of->tensor_ids[of->nodes[n].inputs] == id;
}

emit_spilled emit_spilled_sum(const plan *of) {
    emit_spilled sum = {0};
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        const bool put = is_code(of, n, OP_SPILL), back = is_code(of, n, OP_RESTORE);
        if (!put && !back) continue;
        const uint64_t bytes = of->tensors[put_by(of, n)].bytes;
        sum.values += put;
        sum.restores += back;
        sum.written += put ? bytes : 0;
        sum.read += back ? bytes : 0;
    }
    return sum;
}

/* Steps are those of the main graph, whose nodes come first. */
void emit_spilled_emit(emit_buffer *json, const plan *of) {
    const emit_spilled sum = emit_spilled_sum(of);
    if (!of->header->spill_bytes) return;
    emit_json_text(json, "spill_file", of->texts + of->header->spill_path);
    emit_json_integer(json, "spill_file_bytes", of->header->spill_bytes);
    emit_json_integer(json, "spilled_bytes_written", sum.written);
    emit_json_integer(json, "spilled_bytes_read", sum.read);
    emit_json_open(json, "spilled", '[');
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        if (!is_code(of, n, OP_SPILL)) continue;
        const plan_tensor *tensor = &of->tensors[put_by(of, n)];
        emit_json_open(json, NULL, '{');
        emit_json_text(json, "value", of->texts + of->tensors[of->tensor_ids[of->nodes[n].inputs]].name);
        emit_json_integer(json, "bytes", tensor->bytes);
        emit_json_integer(json, "file_offset", tensor->address.offset);
        emit_json_integer(json, "written_in_step", n);
        emit_json_open(json, "read_in_steps", '[');
        for (uint64_t k = n + 1; k < of->header->nodes.count; k++)
            if (reads(of, k, put_by(of, n))) emit_json_integer(json, NULL, k);
        emit_json_close(json, ']');
        emit_json_close(json, '}');
    }
    emit_json_close(json, ']');
}

/* The next smaller one after `last`, of equal ones the later one; UINT64_MAX: there is none. */
static uint64_t next_largest(const plan *of, uint64_t last) {
    uint64_t found = UINT64_MAX;
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        if (!is_code(of, n, OP_SPILL)) continue;
        const uint64_t bytes = of->tensors[put_by(of, n)].bytes,
                       before = last == UINT64_MAX ? UINT64_MAX : of->tensors[put_by(of, last)].bytes;
        if (last != UINT64_MAX && (bytes > before || (bytes == before && n <= last))) continue;
        if (found == UINT64_MAX || bytes > of->tensors[put_by(of, found)].bytes) found = n;
    }
    return found;
}

void emit_spilled_print(FILE *file, const plan *of) {
    enum { MOST = 10 };
    const emit_spilled sum = emit_spilled_sum(of);
    char texts[3][32];
    uint64_t at = UINT64_MAX;
    if (!of->header->spill_bytes) return;
    fprintf(file, "spilled: %" PRIu64 " value%s to %s (%s); a run writes %s and reads %s\n", sum.values,
            sum.values == 1 ? "" : "s", of->texts + of->header->spill_path,
            emit_size_print((size_t)of->header->spill_bytes, texts[0], sizeof texts[0]),
            emit_size_print((size_t)sum.written, texts[1], sizeof texts[1]),
            emit_size_print((size_t)sum.read, texts[2], sizeof texts[2]));
    for (int i = 0; i < MOST && (at = next_largest(of, at)) != UINT64_MAX; i++) {
        const plan_tensor *tensor = &of->tensors[put_by(of, at)];
        fprintf(file, "  %10s @%-10" PRIu64 " %s, from step %" PRIu64 ", read in step",
                emit_size_print((size_t)tensor->bytes, texts[0], sizeof texts[0]), tensor->address.offset,
                of->texts + of->tensors[of->tensor_ids[of->nodes[at].inputs]].name, at);
        for (uint64_t k = at + 1; k < of->header->nodes.count; k++)
            if (reads(of, k, put_by(of, at))) fprintf(file, " %" PRIu64, k);
        fputc('\n', file);
    }
    if (sum.values > MOST) fprintf(file, "  and %" PRIu64 " more\n", sum.values - MOST);
}
