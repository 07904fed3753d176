/* SPDX-License-Identifier: Apache-2.0 */
/* print.c: a module as text. docs/IR.md describes the form; ir/parse.c reads it. */
#include "ir/ir.h"
#include "ir/loop.h"
#include "ir/operators/small.h"
#include "ir/number.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum {
    SMALL_ELEMENTS = 16, /* constants up to here show their values */
    SMALL_PACKED = 64,   /* the same for packed ones, in bytes */
    INDENT = 2
};

typedef struct printer {
    FILE *file;
    const ir_module *module;
    bool data;
} printer;

static void indent(printer *p, int depth) {
    fprintf(p->file, "%*s", depth * INDENT, "");
}

/* ---- names -------------------------------------------------------------------------------------- */

static void print_string(printer *p, const char *text, size_t length) {
    fputc('"', p->file);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\') fprintf(p->file, "\\%c", byte);
        else if (byte == '\n') fputs("\\n", p->file);
        else if (byte == '\t') fputs("\\t", p->file);
        else if (byte < 0x20 || byte == 0x7f) fprintf(p->file, "\\x%02x", byte);
        else fputc(byte, p->file);
    }
    fputc('"', p->file);
}

static void print_text(printer *p, const char *text) {
    print_string(p, text, strlen(text));
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* What may stand without quotes where a word is expected; `_`, which means absent, may not. */
static bool is_word(const char *text) {
    if (!is_letter(text[0]) || strcmp(text, "_") == 0) return false;
    for (const char *at = text; *at; at++) {
        if (!is_letter(*at) && !is_digit(*at) && *at != '.') return false;
    }
    return true;
}

static void print_word(printer *p, const char *text) {
    /* A bare `graph` after a brace opens graphs, not attributes. */
    if (is_word(text) && strcmp(text, "graph") != 0) fputs(text, p->file);
    else print_text(p, text);
}

static void print_value(printer *p, const ir_value *value) {
    if (!value) {
        fputc('_', p->file);
        return;
    }
    fputc('%', p->file);
    const char *at = value->name;
    while (is_letter(*at) || is_digit(*at) || (*at && strchr(".$/-", *at))) at++;
    if (*at || at == value->name) print_text(p, value->name);
    else fputs(value->name, p->file);
}

/* "s12" is how symbol 12 prints when it has no name, so it cannot stand for a name. */
static bool looks_computed(const char *name) {
    if (name[0] != 's' || !name[1]) return false;
    for (const char *at = name + 1; *at; at++) {
        if (!is_digit(*at)) return false;
    }
    return true;
}

static void print_dim(printer *p, int64_t dim) {
    if (dim >= 0) {
        fprintf(p->file, "%" PRId64, dim);
        return;
    }
    if (dim == OP_DIM_UNKNOWN) {
        fputc('?', p->file);
        return;
    }
    uint64_t number = (uint64_t)-dim;
    const char *name = number < p->module->symbol_count ? p->module->symbols[number].name : NULL;
    if (!name) fprintf(p->file, "s%" PRIu64, number);
    else if (is_word(name) && !looks_computed(name)) fputs(name, p->file);
    else print_text(p, name);
}

/* ---- types and data ----------------------------------------------------------------------------- */

static const char *const kind_names[] = {"tensor", "sequence", "optional", "map"};

static void print_type(printer *p, const op_type *type) {
    FILE *file = p->file;
    if (type->kind != OP_KIND_TENSOR) fprintf(file, "%s(", kind_names[type->kind]);
    if (type->element != OP_KIND_TENSOR) fprintf(file, "%s(", kind_names[type->element]);
    fputs(type->dtype == OP_NONE ? "?" : op_dtype_name(type->dtype), file);
    if (type->shape.rank >= 0) {
        fputc('[', file);
        for (int32_t i = 0; i < type->shape.rank; i++) {
            if (i) fputc(',', file);
            print_dim(p, type->shape.dims[i]);
        }
        fputc(']', file);
    } else if (type->dtype != OP_NONE) {
        fputs("[...]", file);
    }
    if (type->layout == OP_LAYOUT_PACKED) fprintf(file, ":packed(%zu)", type->packed_bytes);
    else if (type->layout != OP_LAYOUT_ROW_MAJOR) fprintf(file, ":%s", op_layout_name(type->layout));
    if (type->element != OP_KIND_TENSOR) fputc(')', file);
    if (type->kind != OP_KIND_TENSOR) fputc(')', file);
}

static void print_real(printer *p, op_dtype dtype, const void *at) {
    uint64_t bits = 0;
    size_t size = op_dtype_bytes(dtype);
    uint32_t four;
    uint16_t two;
    uint8_t one;
    if (size == 8) memcpy(&bits, at, 8);
    else if (size == 4) bits = (memcpy(&four, at, 4), four);
    else if (size == 2) bits = (memcpy(&two, at, 2), two);
    else bits = (memcpy(&one, at, 1), one);
    char text[IR_NUMBER_TEXT];
    ir_real_print(dtype, bits, text);
    fputs(text, p->file);
}

static void print_element(printer *p, op_dtype dtype, const char *at) {
    FILE *file = p->file;
#define PRINT_INTEGER(type, format)                                                                          \
    {                                                                                                        \
        type value;                                                                                          \
        memcpy(&value, at, sizeof value);                                                                    \
        fprintf(file, "%" format, value);                                                                    \
        return;                                                                                              \
    }
    switch (dtype) {
    case OP_FLOAT:
    case OP_DOUBLE:
    case OP_FLOAT16:
    case OP_BFLOAT16:
    case OP_FLOAT8E4M3FN:
    case OP_FLOAT8E4M3FNUZ:
    case OP_FLOAT8E5M2:
    case OP_FLOAT8E5M2FNUZ:
    case OP_FLOAT8E8M0:
    case OP_FLOAT4E2M1:
    case OP_INT4:
    case OP_UINT4:
    case OP_INT2:
    case OP_UINT2:
        print_real(p, dtype, at);
        return;
    case OP_COMPLEX64:
    case OP_COMPLEX128: {
        op_dtype part = dtype == OP_COMPLEX64 ? OP_FLOAT : OP_DOUBLE;
        print_real(p, part, at);
        fputs(" ", file);
        print_real(p, part, at + op_dtype_bytes(part));
        return;
    }
    case OP_BOOL: {
        unsigned char byte = (unsigned char)*at;
        if (byte > 1) fprintf(file, "%u", byte);
        else fputs(byte ? "true" : "false", file);
        return;
    }
    case OP_UINT8:
        PRINT_INTEGER(uint8_t, PRIu8)
    case OP_INT8:
        PRINT_INTEGER(int8_t, PRId8)
    case OP_UINT16:
        PRINT_INTEGER(uint16_t, PRIu16)
    case OP_INT16:
        PRINT_INTEGER(int16_t, PRId16)
    case OP_UINT32:
        PRINT_INTEGER(uint32_t, PRIu32)
    case OP_INT32:
        PRINT_INTEGER(int32_t, PRId32)
    case OP_UINT64:
        PRINT_INTEGER(uint64_t, PRIu64)
    case OP_INT64:
        PRINT_INTEGER(int64_t, PRId64)
    case OP_STRING: {
        op_string text;
        memcpy(&text, at, sizeof text);
        print_string(p, text.data, text.length);
        return;
    }
    case OP_NONE:
    case OP_DTYPE_COUNT:
        return;
    }
#undef PRINT_INTEGER
}

static bool all_zero(const op_tensor *tensor) {
    if (!tensor->data) return true;
    if (tensor->type.dtype == OP_STRING) {
        const op_string *strings = tensor->data;
        for (size_t i = 0; i < tensor->bytes / sizeof *strings; i++) {
            if (strings[i].length) return false;
        }
        return true;
    }
    const unsigned char *bytes = tensor->data;
    for (size_t i = 0; i < tensor->bytes; i++) {
        if (bytes[i]) return false;
    }
    return true;
}

static uint64_t data_hash(const op_tensor *tensor) {
    if (tensor->type.dtype != OP_STRING) return base_hash(tensor->data, tensor->bytes, 0);
    const op_string *strings = tensor->data; /* the characters, not where they lie */
    uint64_t hash = 0;
    for (size_t i = 0; i < tensor->bytes / sizeof *strings; i++) {
        hash = base_hash(strings[i].data, strings[i].length, hash);
    }
    return hash;
}

static void print_data(printer *p, const op_tensor *tensor, bool all) {
    FILE *file = p->file;
    size_t size = op_dtype_bytes(tensor->type.dtype);
    const bool packed = tensor->type.layout == OP_LAYOUT_PACKED || op_dtype_is_packed(tensor->type.dtype);
    size_t count = packed || size == 0 ? tensor->bytes : tensor->bytes / size;
    bool small = count <= (packed ? SMALL_PACKED : SMALL_ELEMENTS);
    if (count && (!small || !tensor->data) && all_zero(tensor)) {
        fputs("zeros", file);
        return;
    }
    if (!small && !all) {
        fprintf(file, "#%016" PRIx64, data_hash(tensor));
        return;
    }
    const unsigned char *data = tensor->data;
    fputs(packed ? "hex \"" : "{", file);
    for (size_t i = 0; i < count; i++) {
        if (packed) {
            fprintf(file, "%02x", data[i]);
            continue;
        }
        if (i) fputs(", ", file);
        print_element(p, tensor->type.dtype, (const char *)data + i * size);
    }
    fputs(packed ? "\"" : "}", file);
}

/* ---- attributes --------------------------------------------------------------------------------- */

static void print_attribute(printer *p, const op_attribute *attribute) {
    FILE *file = p->file;
    print_word(p, attribute->name);
    fputs(" = ", file);
    /* An empty list does not show what it is a list of. */
    bool empty = attribute->count == 0;
    switch (attribute->kind) {
    case OP_ATTRIBUTE_INT:
        fprintf(file, "%" PRId64, attribute->as.integer);
        return;
    case OP_ATTRIBUTE_FLOAT:
        print_real(p, OP_FLOAT, &attribute->as.real);
        return;
    case OP_ATTRIBUTE_STRING:
        print_string(p, attribute->as.text.data, attribute->as.text.length);
        return;
    case OP_ATTRIBUTE_TENSOR:
        fputs("tensor ", file);
        print_type(p, &attribute->as.tensor->type);
        fputc(' ', file);
        print_data(p, attribute->as.tensor, true);
        return;
    case OP_ATTRIBUTE_TYPE:
        fputs("type ", file);
        print_type(p, attribute->as.type);
        return;
    case OP_ATTRIBUTE_INTS:
        fputs(empty ? "integers [" : "[", file);
        break;
    case OP_ATTRIBUTE_FLOATS:
        fputs(empty ? "floats [" : "[", file);
        break;
    case OP_ATTRIBUTE_STRINGS:
        fputs(empty ? "strings [" : "[", file);
        break;
    }
    for (size_t i = 0; i < attribute->count; i++) {
        if (i) fputs(", ", file);
        if (attribute->kind == OP_ATTRIBUTE_INTS) fprintf(file, "%" PRId64, attribute->as.integers[i]);
        else if (attribute->kind == OP_ATTRIBUTE_FLOATS) print_real(p, OP_FLOAT, &attribute->as.reals[i]);
        else print_string(p, attribute->as.texts[i].data, attribute->as.texts[i].length);
    }
    fputc(']', file);
}

/* ---- values, nodes, graphs ---------------------------------------------------------------------- */

/* "%x: float32[N,3]" and, where they are known, the values as extents: "%s: int64[2]<N, 3>". */
static void print_definition(printer *p, const ir_value *value) {
    print_value(p, value);
    if (!value) return;
    fputs(": ", p->file);
    print_type(p, &value->type);
    int64_t elements;
    if (!value->symbolic || value->type.kind != OP_KIND_TENSOR || value->type.shape.rank > 1 ||
        !op_shape_elements(&value->type.shape, &elements)) {
        return;
    }
    fputc('<', p->file);
    for (int64_t i = 0; i < elements; i++) {
        if (i) fputs(", ", p->file);
        print_dim(p, value->symbolic[i]);
    }
    fputc('>', p->file);
}

static void print_graph(printer *p, const ir_graph *graph, int depth);

static void print_node(printer *p, const ir_node *node, const char *usual_path, int depth) {
    FILE *file = p->file;
    indent(p, depth);
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (i) fputs(", ", file);
        print_definition(p, node->outputs[i]);
    }
    if (node->output_count) fputs(" = ", file);
    const op_schema *row = op_schema_of(node->code);
    fprintf(file, "%s%s%s(", row->domain, row->domain[0] ? "." : "", row->name);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (i) fputs(", ", file);
        print_value(p, node->inputs[i]->value);
    }
    fputc(')', file);
    for (size_t i = 0; i < node->attributes.count; i++) {
        fputs(i ? ", " : " {", file);
        print_attribute(p, &node->attributes.items[i]);
    }
    if (node->attributes.count) fputc('}', file);
    if (node->name[0]) {
        fputc(' ', file);
        print_text(p, node->name);
    }
    if (strcmp(node->path, usual_path) != 0) {
        fputs(" at ", file);
        print_text(p, node->path);
    }
    if (node->kernel) {
        fputs(" kernel ", file);
        print_text(p, node->kernel);
    }
    if (node->scratch_bytes) fprintf(file, " scratch %zu", node->scratch_bytes);
    if (node->reason) {
        fputs(" why ", file);
        print_text(p, node->reason);
    }
    if (node->graph_count) {
        fputs(" {\n", file);
        for (uint32_t i = 0; i < node->graph_count; i++) print_graph(p, node->graphs[i], depth + 1);
        indent(p, depth);
        fputc('}', file);
    }
    fputc('\n', file);
}

static void print_graph(printer *p, const ir_graph *graph, int depth) {
    FILE *file = p->file;
    indent(p, depth);
    fputs("graph ", file);
    print_word(p, graph->name);
    fputc('(', file);
    for (uint32_t i = 0; i < graph->parameter_count; i++) {
        if (i) fputs(", ", file);
        print_definition(p, graph->parameters[i]);
        if (graph->parameters[i]->is_sample) fputs(" sample", file);
    }
    fputc(')', file);
    /* Nodes mostly come from one place of the model: it is said once. */
    const char *path = graph->first ? graph->first->path : "";
    if (path[0]) {
        fputs(" at ", file);
        print_text(p, path);
    }
    if (ir_graph_is_run(graph)) fprintf(file, " states %u", ir_module_states(p->module));
    fputs(" {\n", file);
    for (const ir_node *node = graph->first; node; node = node->next) print_node(p, node, path, depth + 1);
    indent(p, depth + 1);
    fputs("yield", file);
    for (uint32_t i = 0; i < graph->result_count; i++) {
        fputs(i ? ", " : " ", file);
        const ir_value *value = graph->results[i]->value;
        print_value(p, value);
        const char *name = value ? ir_graph_result_name(graph, i) : "";
        if (!value || strcmp(name, value->name) == 0) continue;
        fputs(" as ", file);
        print_word(p, name);
    }
    fputc('\n', file);
    indent(p, depth);
    fputs("}\n", file);
}

bool ir_print(const ir_module *module, const ir_print_options *options, FILE *file) {
    printer printing = {.file = file, .module = module, .data = options && options->data}, *p = &printing;
    fputs("module ", file);
    print_text(p, module->name);
    fputs(" {\n", file);
    for (size_t i = 1; i < module->symbol_count; i++) {
        const ir_symbol *symbol = &module->symbols[i];
        indent(p, 1);
        fputs("symbol ", file);
        print_dim(p, -(int64_t)i);
        if (!symbol->name) {
            fputs(" = ", file);
            print_dim(p, symbol->a);
            fprintf(file, " %c ", symbol->operation);
            print_dim(p, symbol->b);
        }
        if (symbol->unnamed) fputs(" unnamed", file);
        if (symbol->bound) fprintf(file, " most %" PRId64, symbol->bound);
        fputc('\n', file);
    }
    if (module->batch) {
        indent(p, 1);
        fputs("batch ", file);
        print_dim(p, module->batch);
        fputc('\n', file);
    }
    for (size_t i = 1; i < module->value_count; i++) {
        const ir_value *value = module->values[i];
        if (!value || value->kind != IR_CONSTANT) continue;
        indent(p, 1);
        fputs("constant ", file);
        print_definition(p, value);
        fputs(" = ", file);
        op_tensor tensor = value->constant->tensor;
        tensor.type = value->type;
        print_data(p, &tensor, p->data);
        fputc('\n', file);
    }
    if (module->main) print_graph(p, module->main, 1);
    fputs("}\n", file);
    return fflush(file) == 0 && !ferror(file);
}
