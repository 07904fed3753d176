/* SPDX-License-Identifier: Apache-2.0 */
/* structure_spills.c: is the spill file used as such? See runtime/plan/structure.c.
 *
 * No kernel can read or write a file. So what lies there is made by Spill, and read by Restore alone. Whether a Restore finds what a
 * Spill put there is found when the plan is replayed: the file is one more memory in the map of bytes.
 */
#include "runtime/plan/structure.h"
#include <inttypes.h>
#include <string.h>

static bool is_spilled(const structure_checker *c, uint32_t id) {
    return id != PLAN_ABSENT && c->of->tensors[id].address.space == MEMORY_SPILL;
}

static const char *name_of(const structure_checker *c, uint32_t id) {
    return id == PLAN_ABSENT ? "" : c->of->texts + c->of->tensors[id].name;
}

/* An operand of one of the two operators. */
static bool check_operand(structure_checker *c, uint32_t id, const char *what, bool in_file) {
    return is_spilled(c, id) == in_file ||
           structure_fail(c, "its %s, tensor \"%s\", %s in the spill file", what, name_of(c, id),
                          in_file ? "does not lie" : "lies");
}

/* It runs, once in each run, between the file and other memory. */
static bool check_transfer(structure_checker *c, const plan_node *node, op_code code) {
    const uint32_t from = c->of->tensor_ids[node->inputs], to = c->of->tensor_ids[node->outputs];
    const uint32_t put = code == OP_SPILL ? to : from;
    if (node->graph)
        return structure_fail(c, "runs in a graph within the main one, and moves to or from a file");
    if (node->flags) return structure_fail(c, "moves to or from a file, and is an alias or of unknown size");
    if (!check_operand(c, from, "input", code == OP_RESTORE) ||
        !check_operand(c, to, "output", code == OP_SPILL))
        return false;
    if (c->of->tensors[put].dtype == OP_STRING)
        return structure_fail(c, "moves strings, which are addresses, to or from a file");
    return true;
}

static bool check_node(structure_checker *c, const plan_node *node) {
    const plan *of = c->of;
    const op_code code = plan_node_code(of, node);
    if (code == OP_SPILL || code == OP_RESTORE) return check_transfer(c, node, code);
    for (uint64_t i = 0; i < node->input_count; i++)
        if (is_spilled(c, of->tensor_ids[node->inputs + i]))
            return structure_fail(
                c, "input %" PRIu64 ", tensor \"%s\", is read from the spill file, which only Restore does",
                i, name_of(c, of->tensor_ids[node->inputs + i]));
    for (uint64_t i = 0; i < node->output_count; i++)
        if (is_spilled(c, of->tensor_ids[node->outputs + i]))
            return structure_fail(
                c, "output %" PRIu64 ", tensor \"%s\", is made in the spill file, which only Spill does", i,
                name_of(c, of->tensor_ids[node->outputs + i]));
    return true;
}

/* A session takes that much of the disk. */
static bool check_size(structure_checker *c) {
    const plan_header *header = c->of->header;
    uint64_t end = 0;
    for (uint32_t id = 0; id < header->tensors.count; id++) {
        const plan_tensor *tensor = &c->of->tensors[id];
        if (is_spilled(c, id) && tensor->address.offset + tensor->bytes > end)
            end = tensor->address.offset + tensor->bytes;
    }
    end = (end + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
    return header->spill_bytes == end ||
           structure_fail(c, "its spill file has %" PRIu64 " bytes, what lies there needs %" PRIu64,
                          header->spill_bytes, end);
}

bool structure_check_spills(structure_checker *c) {
    const plan *of = c->of;
    if (!check_size(c)) return false;
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        plan_node_context(of, &of->nodes[n], c->file[0] ? c->file : NULL, c->report);
        if (!check_node(c, &of->nodes[n])) return false;
    }
    memcpy(c->report->context, c->file, sizeof c->file);
    for (uint64_t g = 0; g < of->header->graphs.count; g++) {
        const plan_graph *graph = &of->graphs[g];
        for (uint64_t i = 0; i < graph->parameter_count + graph->result_count; i++) {
            const uint32_t id = i < graph->parameter_count
                                    ? of->tensor_ids[graph->parameters + i]
                                    : of->tensor_ids[graph->results + i - graph->parameter_count];
            if (is_spilled(c, id))
                return structure_fail(c, "tensor \"%s\" begins or ends a graph in the spill file",
                                      name_of(c, id));
        }
    }
    return true;
}
