/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: `ouro ops`: the operators that can be compiled, with their kernels and types. */
#include "compiler/command/command.h"
#include "compiler/report/emit.h"
#include "compiler/onnx/import.h"
#include <string.h>

typedef struct ops_options {
    bool json;
} ops_options;

static const command_option ops_table[] = {
    {"--json", NULL, COMMAND_FLAG, NULL, "print a JSON list", offsetof(ops_options, json)},
    {0},
};

enum { PROBE_INPUTS = 8, PROBE_OUTPUTS = 4 };

/* Types of the inputs of made-up applications, one letter an input, the last for all that follow: s the type that is
 * asked about, b bool, f float32, l int64. Only for operators of at least so many inputs, and at most. */
static const struct {
    const char *letters;
    uint32_t least, most;
} patterns[] = {
    {"s", 1, PROBE_INPUTS},
    {"sl", 2, PROBE_INPUTS},       /* indices, axes, shapes */
    {"sb", 2, 2},                  /* conditions */
    {"bs", 3, 3},                  /* Where */
    {"sls", 3, 3},                 /* scattered updates */
    {"lls", 3, 3},                 /* values at indices */
    {"sf", 2, 3},                  /* a scale */
    {"sfssfsfs", 8, PROBE_INPUTS}, /* quantised operands, each with scale and zero point */
    {"fls", 5, PROBE_INPUTS},      /* steps of training */
};

static op_dtype letter_dtype(char letter, op_dtype same) {
    return letter == 'b' ? OP_BOOL : letter == 'f' ? OP_FLOAT : letter == 'l' ? OP_INT64 : same;
}

/* Does some kernel take the operator with elements of `dtype`? It is asked about made-up applications of tensors
 * whose shapes are not known. What needs more than that to be accepted is not told. */
static bool probe(const op_schema *row, op_dtype dtype, base_arena *arena) {
    rt_environment environment = {.threads = 1};
    uint32_t inputs = row->input_minimum > 0 ? (uint32_t)row->input_minimum : row->input_maximum ? 1 : 0;
    uint32_t outputs = row->output_minimum > 0 ? (uint32_t)row->output_minimum : 1;
    if (outputs > PROBE_OUTPUTS) return false;
    if (row->flags & OP_FLAG_LISTS) return true; /* what is in a list does not matter to it */
    op_attribute attributes[] = {
        {.name = "to", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = OP_FLOAT},
        {.name = "axis", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 0},
        {.name = "blocksize", .kind = OP_ATTRIBUTE_INT, .count = 1, .as.integer = 1},
        {.name = "mode", .kind = OP_ATTRIBUTE_STRING, .count = 1, .as.text = {"standard", 8}},
    };
    const size_t pattern_count = sizeof patterns / sizeof *patterns;
    for (size_t try = 0; try < 2 * pattern_count; try++) { /* without a mode and with one */
        size_t p = try % pattern_count, given = 3 + try / pattern_count;
        if (inputs < patterns[p].least || inputs > patterns[p].most) continue;
        op_tensor in[PROBE_INPUTS] = {0}, out[PROBE_OUTPUTS] = {0};
        size_t last = strlen(patterns[p].letters) - 1;
        for (uint32_t i = 0; i < inputs; i++) {
            in[i].type = (op_type){.dtype = letter_dtype(patterns[p].letters[i < last ? i : last], dtype),
                                   .shape = {.rank = -1}};
        }
        op_call call = {.code = row->code,
                        .attributes = {given, attributes},
                        .input_count = inputs,
                        .output_count = outputs,
                        .inputs = in,
                        .outputs = out,
                        .arena = arena};
        if (op_infer(&call, NULL) == BASE_OK && rt_kernel_select(&call, &environment)) return true;
    }
    return false;
}

/* The kernels' names, "a, b"; what runs without one says how. */
static void print_kernels(const op_schema *row, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    const rt_kernel *kernel;
    for (unsigned i = 0; (kernel = rt_kernel_candidate(row->code, i)) && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", kernel->name);
    }
    if (!used)
        snprintf(text, capacity,
                 row->flags & OP_FLAG_GRAPHS  ? "(sub-graphs)"
                 : row->flags & OP_FLAG_LISTS ? "(executor)"
                                              : "(none)");
}

static int ops_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    ops_options options = {0};
    command_list operands;
    emit_buffer json = {0};
    int status = command_parse(self, count, arguments, &options, &operands, &arena);
    emit_json_open(&json, NULL, '[');
    if (!status && !options.json) printf("%-20s %-8s %-44s %s\n", "operator", "version", "kernels", "types");
    for (int code = OP_CODE_NONE + 1; code < OP_CODE_COUNT && !status; code++) {
        const op_schema *row = op_schema_of((op_code)code);
        if (strcmp(row->domain, "ouro") == 0) continue; /* internal: no file may hold it */
        char kernels[256], types[256] = "";
        print_kernels(row, kernels, sizeof kernels);
        emit_json_open(&json, NULL, '{');
        emit_json_text(&json, "name", row->name);
        emit_json_text(&json, "domain", row->domain);
        emit_json_integer(&json, "since", (uint64_t)row->since);
        emit_json_open(&json, "types", '[');
        for (int dtype = OP_NONE + 1; dtype < OP_DTYPE_COUNT; dtype++) {
            if (!probe(row, (op_dtype)dtype, &arena)) continue;
            size_t used = strlen(types);
            snprintf(types + used, sizeof types - used, "%s%s", used ? " " : "",
                     op_dtype_name((op_dtype)dtype));
            emit_json_text(&json, NULL, op_dtype_name((op_dtype)dtype));
        }
        emit_json_close(&json, ']');
        emit_json_open(&json, "kernels", '[');
        const rt_kernel *kernel;
        for (unsigned i = 0; (kernel = rt_kernel_candidate(row->code, i)); i++)
            emit_json_text(&json, NULL, kernel->name);
        emit_json_close(&json, ']');
        emit_json_bool(&json, "view", row->view != OP_VIEW_NONE);
        emit_json_bool(&json, "in_place", row->in_place != 0);
        emit_json_close(&json, '}');
        if (!options.json)
            printf("%-20s %-8d %-44s %s\n", row->name, row->since, kernels, types[0] ? types : "-");
    }
    const char *name, *domain;
    int since;
    for (size_t i = 0; !status && (name = import_composed_operator(i, &domain, &since)); i++) {
        emit_json_open(&json, NULL, '{');
        emit_json_text(&json, "name", name);
        emit_json_text(&json, "domain", domain);
        emit_json_integer(&json, "since", (uint64_t)since);
        emit_json_bool(&json, "composed", true);
        emit_json_close(&json, '}');
        if (!options.json) printf("%-20s %-8d %-44s %s\n", name, since, "(made of others)", "those of these");
    }
    emit_json_close(&json, ']');
    if (!status && options.json) {
        if (json.failed) status = command_fail_memory();
        else fwrite(json.data, 1, json.length, stdout);
    }
    emit_free(&json);
    base_arena_free(&arena);
    return status;
}

const command command_ops = {
    .name = "ops",
    .usage = "ops [--json]",
    .summary = "list the supported operators, versions, types and kernels",
    .details = "The version is the opset whose meaning an operator has here; models of other opsets are "
               "converted. The\n"
               "types are those of the first input that a kernel takes at every shape; with known shapes it "
               "can be more.",
    .options = ops_table,
    .operand_minimum = 0,
    .operand_maximum = 0,
    .operand = "",
    .run = ops_main,
};
