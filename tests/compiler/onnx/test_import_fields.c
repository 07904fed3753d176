/* SPDX-License-Identifier: Apache-2.0 */
/* test_import_fields.c: every field of every message of a model, and of data files, is left out, put in or given other values, one
 * at a time. What is read keeps the rules of the IR; what is refused gets a line that says why (golden: cases/fields.err has
 * each once). The models have messages of all kinds: graphs of loops and branches, functions, tensors in all encodings. */
#include "compiler/onnx/import.h"
#include "onnx_data.pb-c.h"
#include "tests/support/onnx.h"
#include "tests/support/support.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static base_report report;

/* ---- lines that were seen ------------------------------------------------------------------------------- */

typedef struct sweep {
    base_arena arena;
    base_map seen;
    FILE *file;
    size_t tried, refused;
    ProtobufCMessage *root;
    const op_type *expected; /* of a data file; NULL: it is a model */
} sweep;

/* The line of the report after its place, once, whatever its numbers and the names in quotes are. */
static void add_line(sweep *s) {
    char form[sizeof report.text];
    size_t length = 0;
    bool quoted = false;
    report.text[strcspn(report.text, "\n")] = '\0';
    const char *text = strstr(report.text, "): ");
    text = text ? text + 3 : report.text;
    for (const char *at = text; *at; at++) {
        if (*at == '"') quoted = !quoted;
        if (!quoted && !isdigit((unsigned char)*at)) form[length++] = *at;
    }
    form[length] = '\0';
    if (base_map_get(&s->seen, form)) return;
    const char *kept = base_arena_text(&s->arena, form, length);
    assert_true(kept && base_map_put(&s->seen, kept, s));
    fprintf(s->file, "%s\n", text);
}

/* ---- reading what was changed ---------------------------------------------------------------------------- */

static void try(sweep *s, const ProtobufCMessage *in, const ProtobufCFieldDescriptor *field,
                const char *what) {
    const size_t size = protobuf_c_message_get_packed_size(s->root);
    uint8_t *bytes = malloc(size + 1);
    ir_module *module = NULL;
    base_arena arena;
    import_value value;
    base_status status;
    assert_non_null(bytes);
    protobuf_c_message_pack(s->root, bytes);
    onnx_write_bytes("fields.onnx", bytes, size);
    free(bytes);
    base_report_clear(&report);
    base_arena_init(&arena, NULL);
    if (s->expected) status = import_value_read("fields.onnx", s->expected, &arena, &value, &report);
    else status = import_model("fields.onnx", NULL, 0, NULL, &module, &report);
    if (status == BASE_OK && module && ir_verify(module, "imported", &report) != BASE_OK)
        fail_msg("%s.%s %s: %s", in->descriptor->short_name, field->name, what, report.text);
    if (status != BASE_OK &&
        (status != BASE_INVALID || !report.length || strstr(report.text, "out of memory")))
        fail_msg("%s.%s %s: status %d, \"%s\"", in->descriptor->short_name, field->name, what, (int)status,
                 report.text);
    s->tried++;
    s->refused += status != BASE_OK;
    if (status != BASE_OK) add_line(s);
    ir_module_free(module);
    base_arena_free(&arena);
}

/* ---- changing a field ------------------------------------------------------------------------------------- */

static size_t width(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4;
    }
}

typedef union cell {
    int64_t integer;
    int32_t number;
    float real;
    double large;
    const char *text;
    void *message;
    ProtobufCBinaryData bytes;
} cell;

/* Value `at` of those that are tried for a field; false: there are no more. An empty message is made in *space. */
static bool value_for(const ProtobufCFieldDescriptor *field, size_t at, void *space, cell *value) {
    static const int64_t integers[] = {
        0, 1, -1, 2, 3, 7, 8, 9, 11, 16, 21, 100, INT64_MAX, INT64_MIN, INT64_C(1) << 40};
    static const double reals[] = {0, -1, 1e30};
    static const char *const texts[] = {"",           "x",    "a",  "body", "If",      "Relu",
                                        "ai.onnx.ml", "\xff", "..", "-1",   "location"};
    static uint8_t data[] = {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0};
    static const size_t lengths[] = {0, 1, 3, 4, 8, 12};
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        if (at) return false;
        protobuf_c_message_init(field->descriptor, space);
        value->message = space;
        return true;
    case PROTOBUF_C_TYPE_STRING:
        if (at >= sizeof texts / sizeof *texts) return false;
        value->text = texts[at];
        return true;
    case PROTOBUF_C_TYPE_BYTES:
        if (at >= sizeof lengths / sizeof *lengths) return false;
        value->bytes = (ProtobufCBinaryData){lengths[at], data};
        return true;
    case PROTOBUF_C_TYPE_FLOAT:
        if (at >= sizeof reals / sizeof *reals) return false;
        value->real = (float)reals[at];
        return true;
    case PROTOBUF_C_TYPE_DOUBLE:
        if (at >= sizeof reals / sizeof *reals) return false;
        value->large = reals[at];
        return true;
    default:
        if (at >= sizeof integers / sizeof *integers) return false;
        if (width(field->type) == 8) value->integer = integers[at];
        else value->number = (int32_t)integers[at];
        return true;
    }
}

static void change_repeated(sweep *s, ProtobufCMessage *m, const ProtobufCFieldDescriptor *field,
                            void *space) {
    size_t *count = (void *)((char *)m + field->quantifier_offset), had = *count;
    void **items = (void *)((char *)m + field->offset), *had_items = *items;
    const size_t bytes = width(field->type);
    char *other = calloc(had + 1, bytes);
    cell value;
    assert_non_null(other);
    if (had) {
        *count = 0;
        try(s, m, field, "empty");
        *count = had - 1;
        try(s, m, field, "without the last");
        *items = (char *)had_items + bytes;
        try(s, m, field, "without the first");
        *items = other;
        for (size_t i = 0; i < had; i++)
            memcpy(other + i * bytes, (char *)had_items + (had - 1 - i) * bytes, bytes);
        *count = had;
        try(s, m, field, "in another order");
        memcpy(other, had_items, had * bytes);
        memcpy(other + had * bytes, had_items, bytes);
        *count = had + 1;
        try(s, m, field, "with the first once more");
    }
    *items = other;
    for (size_t at = 0; value_for(field, at, space, &value); at++) {
        if (had) memcpy(other, had_items, had * bytes);
        memcpy(other + had * bytes, &value, bytes);
        *count = had + 1;
        try(s, m, field, "with one more");
        if (!had) continue;
        memcpy(other, &value, bytes);
        *count = had;
        try(s, m, field, "with another first");
    }
    *items = had_items;
    *count = had;
    free(other);
}

static void change_single(sweep *s, ProtobufCMessage *m, const ProtobufCFieldDescriptor *field, void *space) {
    const size_t bytes = width(field->type);
    const bool pointer = field->type == PROTOBUF_C_TYPE_MESSAGE || field->type == PROTOBUF_C_TYPE_STRING;
    void *at = (char *)m + field->offset;
    protobuf_c_boolean *has = pointer ? NULL : (void *)((char *)m + field->quantifier_offset),
                       had = has && *has;
    cell before, value;
    memcpy(&before, at, bytes);
    if (pointer ? before.message != NULL && before.message != field->default_value : had) {
        if (has) *has = 0;
        else memset(at, 0, bytes);
        try(s, m, field, "absent");
    }
    for (size_t i = 0; value_for(field, i, space, &value); i++) {
        if (has) *has = 1;
        memcpy(at, &value, bytes);
        try(s, m, field, "with another value");
    }
    memcpy(at, &before, bytes);
    if (has) *has = had;
}

static void change_all(sweep *s, ProtobufCMessage *m) {
    for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &m->descriptor->fields[i];
        const ProtobufCMessageDescriptor *of =
            field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
        void *space = calloc(1, of ? of->sizeof_message : 1);
        assert_non_null(space);
        if (field->label == PROTOBUF_C_LABEL_REPEATED) change_repeated(s, m, field, space);
        else change_single(s, m, field, space);
        free(space);
        if (!of) continue;
        ProtobufCMessage **within = (void *)((char *)m + field->offset);
        size_t count = *within != NULL;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            count = *(size_t *)(void *)((char *)m + field->quantifier_offset);
            within = count ? *(ProtobufCMessage ***)(void *)((char *)m + field->offset) : NULL;
        }
        for (size_t k = 0; k < count; k++) change_all(s, within[k]);
    }
}

/* ---- models with messages of all kinds ------------------------------------------------------------------- */

/* Tensors in all encodings. */
static onnx *tensors(void) {
    onnx *o = onnx_new(20);
    static const struct {
        const char *name;
        int dtype;
        char field; /* raw, float_data, double_data, int32_data, int64_data, uint64_data */
    } forms[] = {{"raw", 1, 'r'},    {"floats", 1, 'f'},    {"complex", 14, 'f'}, {"doubles", 11, 'd'},
                 {"bytes", 2, 'i'},  {"halves", 10, 'i'},   {"truths", 9, 'i'},   {"longs", 7, 'l'},
                 {"large", 13, 'u'}, {"unsigned", 12, 'u'}, {"small", 22, 'i'},   {"raw_small", 21, 'r'}};
    static float reals[4] = {1, 2, 3, 4};
    static double doubles[2] = {1, 2};
    static int32_t numbers[2] = {1, 0};
    static int64_t longs[2] = {1, 2};
    static uint64_t large[2] = {3, 4};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        Onnx__TensorProto *t = onnx_tensor(o, forms[i].name, forms[i].dtype, "2");
        switch (forms[i].field) {
        case 'r':
            onnx_raw(o, t, reals, forms[i].dtype == 1 ? 8 : 1);
            break;
        case 'f':
            t->n_float_data = forms[i].dtype == 14 ? 4 : 2;
            t->float_data = reals;
            break;
        case 'd':
            t->n_double_data = 2;
            t->double_data = doubles;
            break;
        case 'i':
            t->n_int32_data = forms[i].dtype == 22 ? 1 : 2;
            t->int32_data = numbers;
            break;
        case 'l':
            t->n_int64_data = 2;
            t->int64_data = longs;
            break;
        default:
            t->n_uint64_data = 2;
            t->uint64_data = large;
            break;
        }
        onnx_initializer(o, o->graph, t);
        onnx_output(o, o->graph, forms[i].name);
    }
    static ProtobufCBinaryData texts[] = {{3, (uint8_t *)"abc"}, {1, (uint8_t *)"d"}};
    Onnx__TensorProto *t = onnx_tensor(o, "texts", 8, "2");
    t->n_string_data = 2;
    t->string_data = texts;
    onnx_initializer(o, o->graph, t);
    onnx_output(o, o->graph, "texts");
    Onnx__SparseTensorProto *sparse = onnx_take(o, sizeof *sparse);
    onnx__sparse_tensor_proto__init(sparse);
    sparse->values = onnx_tensor(o, "sparse", 1, "2");
    onnx_raw(o, sparse->values, reals, 8);
    sparse->indices = onnx_tensor(o, "", 7, "2,2");
    static int64_t where[] = {0, 1, 2, 0}, dims[] = {3, 2};
    onnx_raw(o, sparse->indices, where, sizeof where);
    sparse->n_dims = 2;
    sparse->dims = dims;
    ONNX_ADD(o, o->graph->n_sparse_initializer, o->graph->sparse_initializer, sparse);
    onnx_output(o, o->graph, "sparse");
    onnx_write_bytes("fields.bin", reals, sizeof reals);
    Onnx__TensorProto *external = onnx_tensor(o, "outside", 1, "2");
    onnx_external(o, external, "fields.bin", "4", "8");
    onnx_initializer(o, o->graph, external);
    onnx_output(o, o->graph, "outside");
    return o;
}

/* Attributes of all kinds, functions with references to attributes, and types of all kinds. */
static onnx *nodes(void) {
    onnx *o = onnx_new(18);
    onnx_opset(o, "own", 1);
    onnx_input(o, o->graph, "x", 1, "2,N,3");
    Onnx__FunctionProto *f = onnx_function(o, "own", "Twice", "a", "b", 18);
    static char *attributes[] = {(char *)(uintptr_t) "alpha"};
    f->n_attribute = 1;
    f->attribute = attributes;
    Onnx__NodeProto *inner = onnx_function_node(o, f, "LeakyRelu", "a", "m");
    Onnx__AttributeProto *reference =
        onnx_attribute(o, inner, "alpha", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    reference->ref_attr_name = attributes[0];
    onnx_function_node(o, f, "Add", "m,a", "b");
    Onnx__NodeProto *call = onnx_node(o, o->graph, "Twice", "call", "x", "t");
    call->domain = onnx_text(o, "own");
    onnx_set_real(o, call, "alpha", 0.5f);
    onnx_set_integers(o, onnx_node(o, o->graph, "Transpose", "turn", "t", "u"), "perm", "2,0,1");
    Onnx__TensorProto *value = onnx_tensor(o, "", 1, "1");
    onnx_raw(o, value, (float[]){2}, 4);
    onnx_set_tensor(o, onnx_node(o, o->graph, "Constant", "two", "", "c"), "value", value);
    onnx_node(o, o->graph, "Mul", "scale", "u,c", "v");
    onnx_set_integer(o, onnx_node(o, o->graph, "Softmax", "soft", "v", "y"), "axis", 1);
    onnx_node(o, o->graph, "SequenceConstruct", "list", "y,v", "s");
    Onnx__NodeProto *empty = onnx_node(o, o->graph, "Optional", "none", "s", "p");
    (void)empty;
    onnx_output(o, o->graph, "y");
    onnx_output(o, o->graph, "s");
    onnx_output(o, o->graph, "p");
    return o;
}

/* Branches and loops. */
static onnx *control(void) {
    onnx *o = onnx_new(16);
    onnx_input(o, o->graph, "x", 1, "2,3");
    onnx_input(o, o->graph, "go", 9, "");
    Onnx__GraphProto *yes = onnx_graph(o, "yes"), *no = onnx_graph(o, "no"), *body = onnx_graph(o, "body"),
                     *scan = onnx_graph(o, "scan");
    onnx_node(o, yes, "Relu", "r", "x", "a");
    onnx_output(o, yes, "a");
    onnx_node(o, no, "Exp", "e", "x", "b");
    onnx_output(o, no, "b");
    Onnx__NodeProto *branch = onnx_node(o, o->graph, "If", "if", "go", "c");
    onnx_set_graph(o, branch, "then_branch", yes);
    onnx_set_graph(o, branch, "else_branch", no);
    onnx_input(o, body, "i", 7, "");
    onnx_input(o, body, "k", 9, "");
    onnx_input(o, body, "h", 1, "2,3");
    onnx_node(o, body, "Identity", "on", "k", "k1");
    onnx_node(o, body, "Add", "add", "h,c", "h1");
    onnx_node(o, body, "Neg", "neg", "h1", "o1");
    onnx_output(o, body, "k1");
    onnx_output(o, body, "h1");
    onnx_output(o, body, "o1");
    onnx_integers(o, o->graph, "n", -1, (int64_t[]){3});
    onnx_set_graph(o, onnx_node(o, o->graph, "Loop", "loop", "n,,x", "l,stack"), "body", body);
    onnx_input(o, scan, "sh", 1, "3");
    onnx_input(o, scan, "sx", 1, "3");
    onnx_node(o, scan, "Add", "sadd", "sh,sx", "sh1");
    onnx_node(o, scan, "Neg", "sneg", "sh1", "so");
    onnx_output(o, scan, "sh1");
    onnx_output(o, scan, "so");
    onnx_floats(o, o->graph, "s0", 3, (float[]){0, 1, 2});
    Onnx__NodeProto *scans = onnx_node(o, o->graph, "Scan", "scans", "s0,l", "p,q");
    onnx_set_graph(o, scans, "body", scan);
    onnx_set_integer(o, scans, "num_scan_inputs", 1);
    onnx_set_integers(o, scans, "scan_input_directions", "1");
    onnx_output(o, o->graph, "stack");
    onnx_output(o, o->graph, "p");
    onnx_output(o, o->graph, "q");
    return o;
}

static void sweep_all(sweep *s, ProtobufCMessage *root, const op_type *expected) {
    static const ProtobufCFieldDescriptor none = {.name = "-"};
    s->root = root;
    s->expected = expected;
    const size_t refused = s->refused;
    try(s, root, &none, "as it is");
    if (s->refused != refused) fail_msg("%s", report.text);
    change_all(s, root);
}

static void begin(sweep *s, char **text, size_t *length) {
    *s = (sweep){.file = open_memstream(text, length)};
    base_arena_init(&s->arena, NULL);
    s->seen.arena = &s->arena;
}

static void finish(sweep *s, char **text, const char *golden) {
    fclose(s->file);
    print_message("%zu files, %zu refused\n", s->tried, s->refused);
    support_expect_golden(golden, *text);
    free(*text);
    base_arena_free(&s->arena);
    unlink("fields.onnx");
    unlink("fields.bin");
}

static void models_with_other_fields(void **state) {
    (void)state;
    onnx *(*const make[])(void) = {tensors, nodes, control};
    char *text;
    size_t length;
    sweep s;
    begin(&s, &text, &length);
    for (size_t i = 0; i < sizeof make / sizeof *make; i++) {
        onnx *o = make[i]();
        sweep_all(&s, &o->model->base, NULL);
        onnx_free(o);
    }
    finish(&s, &text, "compiler/onnx/cases/fields.err");
}

static void data_files_with_other_fields(void **state) {
    (void)state;
    onnx *o = onnx_new(13);
    char *text;
    size_t length;
    sweep s;
    begin(&s, &text, &length);
    Onnx__TensorProto *tensor = onnx_tensor(o, "t", 1, "2"), *single = onnx_tensor(o, "s", 1, ""),
                      *items[] = {tensor, tensor}, *singles[] = {single, single};
    onnx_raw(o, tensor, (float[]){1, 2}, 8);
    onnx_raw(o, single, (float[]){5}, 4);
    sweep_all(&s, &tensor->base,
              &(op_type){.kind = OP_KIND_TENSOR, .dtype = OP_FLOAT, .shape = {.rank = -1}});
    Onnx__SequenceProto sequence = ONNX__SEQUENCE_PROTO__INIT, numbers = ONNX__SEQUENCE_PROTO__INIT,
                        list = ONNX__SEQUENCE_PROTO__INIT;
    sequence.has_elem_type = 1;
    sequence.elem_type = ONNX__SEQUENCE_PROTO__DATA_TYPE__TENSOR;
    sequence.n_tensor_values = 2;
    sequence.tensor_values = items;
    sweep_all(&s, &sequence.base,
              &(op_type){.kind = OP_KIND_SEQUENCE, .dtype = OP_FLOAT, .shape = {.rank = -1}});
    Onnx__OptionalProto optional = ONNX__OPTIONAL_PROTO__INIT;
    optional.sequence_value = &sequence;
    sweep_all(&s, &optional.base,
              &(op_type){.kind = OP_KIND_OPTIONAL, .element = OP_KIND_SEQUENCE, .shape = {.rank = -1}});
    static int64_t keys[] = {4, 7};
    Onnx__MapProto map = ONNX__MAP_PROTO__INIT, *maps[] = {&map, &map};
    map.n_keys = 2;
    map.keys = keys;
    map.values = &numbers;
    numbers.n_tensor_values = 2;
    numbers.tensor_values = singles;
    list.n_map_values = 2;
    list.map_values = maps;
    sweep_all(&s, &list.base,
              &(op_type){.kind = OP_KIND_SEQUENCE, .element = OP_KIND_MAP, .shape = {.rank = -1}});
    finish(&s, &text, "compiler/onnx/cases/data_fields.err");
    onnx_free(o);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    char folder[] = "/tmp/ouro_fields_XXXXXX";
    if (!mkdtemp(folder) || chdir(folder) != 0) return 1; /* messages then have no path in them */
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_with_other_fields),
                                       cmocka_unit_test(data_files_with_other_fields)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return chdir("/") != 0 || rmdir(folder) != 0 ? 1 : failed;
}
