/* SPDX-License-Identifier: Apache-2.0 */
/* parse.c: the textual form read into a module. docs/IR.md describes the form; ir/print.c writes it.
 *
 * By recursive descent, one function a phrase, one token ahead. Every function returns false after the first
 * failure, which ir_lex_fail has reported. Texts and lists live in a scratch arena; what stays is the
 * module's.
 */
#include "ir/ir.h"
#include "ir/loop.h"
#include "ir/operators/small.h"
#include "ir/lex.h"
#include "ir/number.h"

#include <string.h>

/* `zeros` and hashes stand for data that the text does not hold: how much a text may ask for in all. */
#define MOST_ZEROS ((size_t)1 << 30)

/* A definition: %name: type, with the known values as extents after it. */
typedef struct definition {
    const char *name;
    op_type type;
    const int64_t *symbolic;
    size_t place;
} definition;

typedef struct parser {
    ir_lexer lexer;
    ir_module *module;
    base_arena *scratch;
    base_map computed; /* "s12" to its dimension, as the text calls it */
    int depth;         /* of graphs */
    size_t zeros;      /* bytes that were asked for without being given */
    /* Of the node that is being read, up to its graphs: kept from node to node, or many nodes would cost
     * much. */
    definition *outputs;
    ir_value **inputs;
    size_t output_capacity, input_capacity;
} parser;

/* ---- phrases of one or two tokens --------------------------------------------------------------- */

static void next(parser *p) {
    ir_lex_next(&p->lexer);
}

static bool is_sign(const parser *p, char sign) {
    return ir_lex_is_sign(&p->lexer, sign);
}

#define FAIL(p, ...) ir_lex_fail(&(p)->lexer, (p)->lexer.token.start, __VA_ARGS__)
#define FAIL_MEMORY(p) ir_lex_fail_memory(&(p)->lexer)

static bool accept_sign(parser *p, char sign) {
    if (!is_sign(p, sign)) return false;
    next(p);
    return true;
}

static bool accept_word(parser *p, const char *word) {
    if (!ir_lex_is_word(&p->lexer, word)) return false;
    next(p);
    return true;
}

static bool expect_sign(parser *p, char sign) {
    return accept_sign(p, sign) || FAIL(p, "expected '%c'", sign);
}

static bool expect_word(parser *p, const char *word) {
    return accept_word(p, word) || FAIL(p, "expected \"%s\"", word);
}

/* The text of the token as a C string, which may not hold zeros. */
static bool take_text(parser *p, const char **text) {
    const ir_token *token = &p->lexer.token;
    if (strlen(token->text) != token->length) return FAIL(p, "a name may not hold a zero byte");
    *text = token->text;
    next(p);
    return p->lexer.status == BASE_OK;
}

static bool expect_string(parser *p, const char *what, const char **text) {
    if (p->lexer.token.kind != IR_TOKEN_STRING) return FAIL(p, "expected %s in quotes", what);
    return take_text(p, text);
}

/* A word, or a string for what is no word. */
static bool expect_name(parser *p, const char *what, const char **text) {
    if (p->lexer.token.kind != IR_TOKEN_STRING && p->lexer.token.kind != IR_TOKEN_WORD) {
        return FAIL(p, "expected %s", what);
    }
    return take_text(p, text);
}

/* A decimal integer as sign and magnitude; false where it is none, or too large. */
static bool integer_parts(const char *text, bool *negative, uint64_t *magnitude) {
    *negative = *text == '-';
    *magnitude = 0;
    for (const char *at = text + *negative; *at; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (*magnitude > (UINT64_MAX - digit) / 10) return false;
        *magnitude = *magnitude * 10 + digit;
    }
    return true;
}

static bool expect_integer(parser *p, int64_t minimum, int64_t *value) {
    bool negative;
    uint64_t magnitude;
    const ir_token *token = &p->lexer.token;
    if (token->kind != IR_TOKEN_INTEGER) return FAIL(p, "expected an integer");
    if (!integer_parts(token->text, &negative, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative) {
        return FAIL(p, "the integer does not fit 64 bits");
    }
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    if (*value < minimum) return FAIL(p, "expected an integer of at least %lld", (long long)minimum);
    next(p);
    return true;
}

static bool expect_size(parser *p, size_t *size) {
    int64_t value;
    if (!expect_integer(p, 0, &value)) return false;
    if ((uint64_t)value > SIZE_MAX) return FAIL(p, "the size is too large");
    *size = (size_t)value;
    return true;
}

/* ---- dimensions and types ----------------------------------------------------------------------- */

static bool looks_computed(const char *name) {
    return name[0] == 's' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1);
}

static bool parse_dim(parser *p, int64_t *dim) {
    const ir_token *token = &p->lexer.token;
    if (token->kind == IR_TOKEN_INTEGER) return expect_integer(p, 0, dim);
    if (accept_sign(p, '?')) {
        *dim = OP_DIM_UNKNOWN;
        return true;
    }
    if (token->kind == IR_TOKEN_WORD && looks_computed(token->text)) {
        const int64_t *known = base_map_get(&p->computed, token->text);
        if (!known) return FAIL(p, "symbol %s is not declared", token->text);
        *dim = *known;
        next(p);
        return true;
    }
    const char *name = NULL;
    if (!expect_name(p, "an extent: a number, a symbol or ?", &name)) return false;
    *dim = ir_symbol_named(p->module, name);
    return *dim != OP_DIM_UNKNOWN || FAIL_MEMORY(p);
}

/* [dim, dim, ...] after its bracket, or [...] where not even the rank is known. */
static bool parse_shape(parser *p, op_shape *shape) {
    *shape = (op_shape){.rank = -1};
    if (!accept_sign(p, '[')) return true;
    if (p->lexer.token.kind == IR_TOKEN_DOTS) {
        next(p);
        return expect_sign(p, ']');
    }
    shape->rank = 0;
    if (accept_sign(p, ']')) return true;
    do {
        if (shape->rank == OP_MAX_RANK) return FAIL(p, "more than %d dimensions", OP_MAX_RANK);
        if (!parse_dim(p, &shape->dims[shape->rank])) return false;
        shape->rank++;
    } while (accept_sign(p, ','));
    return expect_sign(p, ']');
}

static bool parse_layout(parser *p, op_type *type) {
    if (!accept_sign(p, ':')) return true;
    for (int layout = 0; layout < OP_LAYOUT_COUNT; layout++) {
        if (!accept_word(p, op_layout_name((op_layout)layout))) continue;
        type->layout = (op_layout)layout;
        if (layout != OP_LAYOUT_PACKED) return true;
        return expect_sign(p, '(') && expect_size(p, &type->packed_bytes) && expect_sign(p, ')');
    }
    return FAIL(p, "no such layout; row_major, nc8, nc16, nhwc and packed(BYTES) are");
}

static bool accept_kind(parser *p, op_kind *kind) {
    *kind = OP_KIND_TENSOR;
    if (accept_word(p, "sequence")) *kind = OP_KIND_SEQUENCE;
    else if (accept_word(p, "optional")) *kind = OP_KIND_OPTIONAL;
    else if (accept_word(p, "map")) *kind = OP_KIND_MAP;
    return *kind != OP_KIND_TENSOR;
}

static bool parse_type(parser *p, op_type *type) {
    *type = (op_type){.shape.rank = -1};
    bool outer = accept_kind(p, &type->kind);
    if (outer && !expect_sign(p, '(')) return false;
    bool inner = outer && accept_kind(p, &type->element);
    if (inner && !expect_sign(p, '(')) return false;
    if (!accept_sign(p, '?')) {
        const ir_token *token = &p->lexer.token;
        type->dtype = token->kind == IR_TOKEN_WORD ? op_dtype_from_name(token->text) : OP_NONE;
        if (type->dtype == OP_NONE) return FAIL(p, "expected a type such as float32[1,N]");
        next(p);
    }
    if (!parse_shape(p, &type->shape) || !parse_layout(p, type)) return false;
    return (!inner || expect_sign(p, ')')) && (!outer || expect_sign(p, ')'));
}

/* ---- data --------------------------------------------------------------------------------------- */

/* The low `size` bytes of a number, as a number of that size has them on this machine. */
static void put_low_bytes(char *at, uint64_t eight, size_t size) {
    const uint32_t four = (uint32_t)eight;
    const uint16_t two = (uint16_t)eight;
    const uint8_t one = (uint8_t)eight;
    memcpy(at,
           size == 8   ? (const void *)&eight
           : size == 4 ? (const void *)&four
           : size == 2 ? (const void *)&two
                       : (const void *)&one,
           size);
}

static bool parse_real_element(parser *p, op_dtype dtype, char *at) {
    const ir_token *token = &p->lexer.token;
    uint64_t bits;
    if ((token->kind != IR_TOKEN_REAL && token->kind != IR_TOKEN_INTEGER) ||
        !ir_real_parse(dtype, token->text, &bits)) {
        return FAIL(p, "expected a number of type %s", op_dtype_name(dtype));
    }
    put_low_bytes(at, bits, op_dtype_bytes(dtype));
    next(p);
    return true;
}

static bool parse_integer_element(parser *p, op_dtype dtype, char *at) {
    const ir_token *token = &p->lexer.token;
    size_t size = op_dtype_bytes(dtype);
    bool is_signed = dtype == OP_INT8 || dtype == OP_INT16 || dtype == OP_INT32 || dtype == OP_INT64,
         negative;
    uint64_t magnitude, largest = UINT64_MAX >> (64 - 8 * size);
    if (token->kind != IR_TOKEN_INTEGER) return FAIL(p, "expected a number of type %s", op_dtype_name(dtype));
    bool fits = integer_parts(token->text, &negative, &magnitude);
    if (is_signed) fits = fits && magnitude <= largest / 2 + negative;
    else fits = fits && magnitude <= largest && (!negative || magnitude == 0);
    if (!fits) return FAIL(p, "%s does not fit %s", token->text, op_dtype_name(dtype));
    uint64_t eight = negative ? 0 - magnitude : magnitude;
    put_low_bytes(at, eight, size);
    next(p);
    return true;
}

static bool parse_element(parser *p, op_dtype dtype, char *at) {
    if (ir_dtype_is_real(dtype)) return parse_real_element(p, dtype, at);
    if (dtype == OP_COMPLEX64 || dtype == OP_COMPLEX128) {
        op_dtype part = dtype == OP_COMPLEX64 ? OP_FLOAT : OP_DOUBLE;
        return parse_real_element(p, part, at) && parse_real_element(p, part, at + op_dtype_bytes(part));
    }
    if (dtype == OP_STRING) {
        if (p->lexer.token.kind != IR_TOKEN_STRING) return FAIL(p, "expected a string in quotes");
        op_string text = {p->lexer.token.text, p->lexer.token.length};
        memcpy(at, &text, sizeof text);
        next(p);
        return true;
    }
    if (dtype == OP_BOOL && (ir_lex_is_word(&p->lexer, "true") || ir_lex_is_word(&p->lexer, "false"))) {
        *at = ir_lex_is_word(&p->lexer, "true");
        next(p);
        return true;
    }
    return parse_integer_element(p, dtype, at);
}

/* {1, 2, 3}: as many elements as `bytes` hold. */
static bool parse_elements(parser *p, op_dtype dtype, size_t bytes, void **data) {
    size_t size = op_dtype_bytes(dtype), count = 0, capacity = 0;
    char *elements = NULL;
    if (!expect_sign(p, '{')) return false;
    size_t start = p->lexer.token.start;
    while (!is_sign(p, '}')) {
        if (count && !expect_sign(p, ',')) return false;
        elements = base_arena_grow(p->scratch, elements, &capacity, count + 1, size);
        if (!elements) return FAIL_MEMORY(p);
        if (!parse_element(p, dtype, elements + count * size)) return false;
        count++;
    }
    if (count != bytes / size) {
        return ir_lex_fail(&p->lexer, start, "%zu elements given, the type has %zu", count, bytes / size);
    }
    *data = elements;
    return expect_sign(p, '}');
}

/* hex "00ff...": the bytes of packed data. */
static bool parse_hex(parser *p, size_t bytes, void **data) {
    static const char digits[] = "0123456789abcdef";
    const ir_token *token = &p->lexer.token;
    if (token->kind != IR_TOKEN_STRING) return FAIL(p, "expected hexadecimal digits in quotes");
    if (token->length / 2 != bytes || token->length % 2)
        return FAIL(p, "expected two digits for each of %zu bytes", bytes);
    unsigned char *made = base_arena_alloc(p->scratch, bytes, 1);
    if (!made) return FAIL_MEMORY(p);
    for (size_t i = 0; i < token->length; i++) {
        const char *digit = token->text[i] ? strchr(digits, token->text[i]) : NULL;
        if (!digit) return FAIL(p, "expected hexadecimal digits 0 to 9, a to f");
        made[i / 2] = (unsigned char)(made[i / 2] << 4 | (digit - digits));
    }
    *data = made;
    next(p);
    return true;
}

/* The data of a tensor of this type; *data is NULL for `zeros` and a hash. */
static bool parse_data(parser *p, const op_type *type, size_t *bytes, void **data) {
    *data = NULL;
    if (!op_type_bytes(type, bytes)) return FAIL(p, "the size of the type must be known where data is given");
    if (p->lexer.token.kind == IR_TOKEN_HASH || ir_lex_is_word(&p->lexer, "zeros")) {
        if (*bytes > MOST_ZEROS - p->zeros) {
            return FAIL(p, "%zu bytes that are not given are too many; a text may ask for %zu", *bytes,
                        MOST_ZEROS);
        }
        p->zeros += *bytes;
        next(p);
        return true;
    }
    if (type->layout == OP_LAYOUT_PACKED || op_dtype_is_packed(type->dtype))
        return expect_word(p, "hex") && parse_hex(p, *bytes, data);
    return parse_elements(p, type->dtype, *bytes, data);
}

/* As parse_data, but with zeros filled in, in the scratch arena. */
static bool parse_data_filled(parser *p, const op_type *type, size_t *bytes, void **data) {
    if (!parse_data(p, type, bytes, data)) return false;
    if (*data) return true;
    *data = base_arena_alloc(p->scratch, *bytes, 1);
    if (!*data) return FAIL_MEMORY(p);
    if (type->dtype != OP_STRING) return true;
    op_string *strings = *data;
    for (size_t i = 0; i < *bytes / sizeof *strings; i++) strings[i].data = "";
    return true;
}

/* ---- values ------------------------------------------------------------------------------------- */

static bool parse_symbolic(parser *p, definition *defined) {
    if (!accept_sign(p, '<')) return true;
    int64_t elements;
    if (defined->type.kind != OP_KIND_TENSOR || defined->type.shape.rank > 1 ||
        !op_shape_elements(&defined->type.shape, &elements)) {
        return FAIL(p, "only tensors of rank 0 or 1 and a known extent have known values");
    }
    int64_t *dims = NULL;
    size_t count = 0, capacity = 0;
    while (!is_sign(p, '>')) {
        if (count && !expect_sign(p, ',')) return false;
        dims = base_arena_grow(p->scratch, dims, &capacity, count + 1, sizeof *dims);
        if (!dims) return FAIL_MEMORY(p);
        if (!parse_dim(p, &dims[count++])) return false;
    }
    if (count != (uint64_t)elements)
        return FAIL(p, "%zu values given, the tensor has %lld", count, (long long)elements);
    int64_t *kept = BASE_ARRAY(&p->module->arena, int64_t, count);
    if (!kept) return FAIL_MEMORY(p);
    if (count) memcpy(kept, dims, count * sizeof *kept);
    defined->symbolic = kept;
    return expect_sign(p, '>');
}

static bool parse_definition(parser *p, definition *defined) {
    const ir_token *token = &p->lexer.token;
    *defined = (definition){.place = token->start};
    if (token->kind != IR_TOKEN_VALUE) return FAIL(p, "expected %%name: type");
    if (token->length == 0) return FAIL(p, "a value has a name");
    if (!take_text(p, &defined->name)) return false;
    return expect_sign(p, ':') && parse_type(p, &defined->type) && parse_symbolic(p, defined);
}

/* Names are unique: the module would rename the second one. */
static bool check_new(parser *p, const definition *defined) {
    if (!base_map_get(&p->module->names, defined->name)) return true;
    return ir_lex_fail(&p->lexer, defined->place, "%%%s is defined twice", defined->name);
}

/* A use: a value that is defined above and visible in `graph`. */
static bool parse_use(parser *p, const ir_graph *graph, ir_value **value) {
    const ir_token *token = &p->lexer.token;
    if (token->kind != IR_TOKEN_VALUE) return FAIL(p, "expected %%name");
    size_t place = token->start;
    const char *name = NULL;
    if (!take_text(p, &name)) return false;
    *value = base_map_get(&p->module->names, name);
    bool visible = *value && (!(*value)->graph || ir_graph_encloses((*value)->graph, graph));
    /* What a node makes is not there yet inside its own graphs. */
    for (const ir_graph *inside = graph; visible && inside->owner; inside = inside->owner->graph) {
        if (inside->owner == (*value)->node) visible = false;
    }
    return visible || ir_lex_fail(&p->lexer, place, "%%%s is not defined here", name);
}

/* ---- attributes --------------------------------------------------------------------------------- */

/* [1, 2], [1.0, 2.0] or ["a"]; `kind` is 0 where the first element decides. */
static bool parse_list(parser *p, int kind, op_attribute *attribute) {
    if (!expect_sign(p, '[')) return false;
    ir_token_kind first = p->lexer.token.kind;
    if (kind == 0 && first == IR_TOKEN_INTEGER) kind = OP_ATTRIBUTE_INTS;
    if (kind == 0 && first == IR_TOKEN_REAL) kind = OP_ATTRIBUTE_FLOATS;
    if (kind == 0 && first == IR_TOKEN_STRING) kind = OP_ATTRIBUTE_STRINGS;
    if (kind == 0)
        return FAIL(
            p, "expected a number or a string; an empty list is `integers []`, `floats []`, `strings []`");
    op_dtype dtype = kind == OP_ATTRIBUTE_INTS     ? OP_INT64
                     : kind == OP_ATTRIBUTE_FLOATS ? OP_FLOAT
                                                   : OP_STRING;
    size_t size = op_dtype_bytes(dtype), capacity = 0;
    char *elements = NULL;
    attribute->kind = (op_attribute_kind)kind;
    attribute->count = 0;
    while (!is_sign(p, ']')) {
        if (attribute->count && !expect_sign(p, ',')) return false;
        elements = base_arena_grow(p->scratch, elements, &capacity, attribute->count + 1, size);
        if (!elements) return FAIL_MEMORY(p);
        if (!parse_element(p, dtype, elements + attribute->count * size)) return false;
        attribute->count++;
    }
    if (kind == OP_ATTRIBUTE_INTS) attribute->as.integers = (const int64_t *)(void *)elements;
    else if (kind == OP_ATTRIBUTE_FLOATS) attribute->as.reals = (const float *)(void *)elements;
    else attribute->as.texts = (const op_string *)(void *)elements;
    return expect_sign(p, ']');
}

static bool parse_attribute(parser *p, op_attribute *attribute) {
    *attribute = (op_attribute){.count = 1};
    if (!expect_name(p, "the name of an attribute", &attribute->name) || !expect_sign(p, '=')) return false;
    const ir_token *token = &p->lexer.token;
    if (token->kind == IR_TOKEN_INTEGER) {
        attribute->kind = OP_ATTRIBUTE_INT;
        return expect_integer(p, INT64_MIN, &attribute->as.integer);
    }
    if (token->kind == IR_TOKEN_REAL) {
        attribute->kind = OP_ATTRIBUTE_FLOAT;
        return parse_real_element(p, OP_FLOAT, (char *)&attribute->as.real);
    }
    if (token->kind == IR_TOKEN_STRING) {
        attribute->kind = OP_ATTRIBUTE_STRING;
        attribute->as.text = (op_string){token->text, token->length};
        next(p);
        return true;
    }
    if (is_sign(p, '[')) return parse_list(p, 0, attribute);
    if (accept_word(p, "integers")) return parse_list(p, OP_ATTRIBUTE_INTS, attribute);
    if (accept_word(p, "floats")) return parse_list(p, OP_ATTRIBUTE_FLOATS, attribute);
    if (accept_word(p, "strings")) return parse_list(p, OP_ATTRIBUTE_STRINGS, attribute);
    if (accept_word(p, "type")) {
        op_type *type = BASE_NEW(p->scratch, op_type);
        if (!type) return FAIL_MEMORY(p);
        attribute->kind = OP_ATTRIBUTE_TYPE;
        attribute->as.type = type;
        return parse_type(p, type);
    }
    if (accept_word(p, "tensor")) {
        op_tensor *tensor = BASE_NEW(p->scratch, op_tensor);
        if (!tensor) return FAIL_MEMORY(p);
        attribute->kind = OP_ATTRIBUTE_TENSOR;
        attribute->as.tensor = tensor;
        return parse_type(p, &tensor->type) &&
               parse_data_filled(p, &tensor->type, &tensor->bytes, &tensor->data);
    }
    return FAIL(p, "expected a number, a string, a list, `tensor` or `type`");
}

/* {name = value, ...} after its brace, in the scratch arena. */
static bool parse_attributes(parser *p, op_attributes *attributes) {
    op_attribute *items = NULL;
    size_t count = 0, capacity = 0;
    base_map names = {.arena = p->scratch};
    do {
        items = base_arena_grow(p->scratch, items, &capacity, count + 1, sizeof *items);
        if (!items) return FAIL_MEMORY(p);
        size_t place = p->lexer.token.start;
        if (!parse_attribute(p, &items[count])) return false;
        if (base_map_get(&names, items[count].name)) {
            return ir_lex_fail(&p->lexer, place, "attribute %s is given twice", items[count].name);
        }
        if (!base_map_put(&names, items[count].name, p)) return FAIL_MEMORY(p);
        count++;
    } while (accept_sign(p, ','));
    *attributes = (op_attributes){count, items};
    return expect_sign(p, '}');
}

/* ---- nodes and graphs --------------------------------------------------------------------------- */

static bool parse_graph(parser *p, ir_node *owner);

/* Op, or domain.Op: the domain is what stands before the last point. */
static bool parse_operator(parser *p, op_code *code) {
    const ir_token *token = &p->lexer.token;
    if (token->kind != IR_TOKEN_WORD) return FAIL(p, "expected an operator");
    const char *point = strrchr(token->text, '.');
    const char *domain = point ? base_arena_text(p->scratch, token->text, (size_t)(point - token->text)) : "";
    if (!domain) return FAIL_MEMORY(p);
    *code = op_code_from_name(domain, point ? point + 1 : token->text);
    if (*code == OP_CODE_NONE) return FAIL(p, "there is no operator %s", token->text);
    next(p);
    return true;
}

static bool parse_outputs(parser *p, size_t *count) {
    *count = 0;
    if (p->lexer.token.kind != IR_TOKEN_VALUE && !ir_lex_is_word(&p->lexer, "_")) return true;
    do {
        definition *outputs =
            base_arena_grow(p->scratch, p->outputs, &p->output_capacity, *count + 1, sizeof *outputs);
        if (!outputs) return FAIL_MEMORY(p);
        p->outputs = outputs;
        definition *defined = &outputs[(*count)++];
        if (accept_word(p, "_")) *defined = (definition){0};
        else if (!parse_definition(p, defined)) return false;
    } while (accept_sign(p, ','));
    return expect_sign(p, '=');
}

static bool parse_inputs(parser *p, const ir_graph *graph, size_t *count) {
    *count = 0;
    if (!expect_sign(p, '(')) return false;
    while (!is_sign(p, ')')) {
        if (*count && !expect_sign(p, ',')) return false;
        ir_value **inputs =
            base_arena_grow(p->scratch, p->inputs, &p->input_capacity, *count + 1, sizeof *inputs);
        if (!inputs) return FAIL_MEMORY(p);
        p->inputs = inputs;
        ir_value **input = &inputs[(*count)++];
        if (accept_word(p, "_")) *input = NULL;
        else if (!parse_use(p, graph, input)) return false;
    }
    return expect_sign(p, ')');
}

/* outputs = Op(inputs) {attributes} "name" at "path" kernel "kernel" scratch bytes why "reason" {graphs} */
static bool parse_node(parser *p, ir_graph *graph, const char *usual_path) {
    size_t output_count, input_count;
    op_code code;
    if (!parse_outputs(p, &output_count) || !parse_operator(p, &code) ||
        !parse_inputs(p, graph, &input_count)) {
        return false;
    }
    op_attributes attributes = {0};
    bool braces = accept_sign(p, '{');
    bool graphs = braces && ir_lex_is_word(&p->lexer, "graph");
    if (braces && !graphs && !parse_attributes(p, &attributes)) return false;

    const char *name = "", *path = usual_path, *kernel = NULL, *reason = NULL;
    size_t scratch_bytes = 0;
    if (!graphs) {
        if (p->lexer.token.kind == IR_TOKEN_STRING && !take_text(p, &name)) return false;
        if (accept_word(p, "at") && !expect_string(p, "a path", &path)) return false;
        if (accept_word(p, "kernel") && !expect_string(p, "the name of a kernel", &kernel)) return false;
        if (accept_word(p, "scratch") && !expect_size(p, &scratch_bytes)) return false;
        if (accept_word(p, "why") && !expect_string(p, "a reason", &reason)) return false;
        graphs = accept_sign(p, '{');
    }

    op_attributes kept;
    if (!ir_attributes_copy(p->module, &attributes, &kept)) return FAIL_MEMORY(p);
    ir_node *node = ir_node_new(graph, NULL, code, name, path, kept, (uint32_t)input_count, p->inputs);
    if (!node) return FAIL_MEMORY(p);
    node->scratch_bytes = scratch_bytes;
    if (kernel) {
        node->kernel = base_arena_text(&p->module->arena, kernel, strlen(kernel));
        if (!node->kernel) return FAIL_MEMORY(p);
    }
    if (reason) {
        node->reason = base_arena_text(&p->module->arena, reason, strlen(reason));
        if (!node->reason) return FAIL_MEMORY(p);
    }
    for (size_t i = 0; i < output_count; i++) {
        const definition *defined = &p->outputs[i];
        if (!defined->name) {
            if (!ir_node_add_absent_output(node)) return FAIL_MEMORY(p);
            continue;
        }
        if (!check_new(p, defined)) return false;
        ir_value *value = ir_node_add_output(node, defined->name, &defined->type);
        if (!value) return FAIL_MEMORY(p);
        value->symbolic = defined->symbolic;
    }
    if (!graphs) return true;
    while (!is_sign(p, '}')) {
        if (!parse_graph(p, node)) return false;
    }
    return expect_sign(p, '}');
}

static bool parse_parameters(parser *p, ir_graph *graph) {
    if (!expect_sign(p, '(')) return false;
    while (!is_sign(p, ')')) {
        definition defined;
        if (graph->parameter_count && !expect_sign(p, ',')) return false;
        if (!parse_definition(p, &defined) || !check_new(p, &defined)) return false;
        ir_value *value = ir_graph_add_parameter(graph, defined.name, &defined.type);
        if (!value) return FAIL_MEMORY(p);
        value->symbolic = defined.symbolic;
        value->is_sample = p->module->batch && p->depth == 0 && accept_word(p, "sample");
    }
    return expect_sign(p, ')');
}

static bool parse_results(parser *p, ir_graph *graph) {
    if (p->lexer.token.kind != IR_TOKEN_VALUE) return true;
    do {
        ir_value *value;
        const char *name = NULL;
        if (!parse_use(p, graph, &value)) return false;
        if (!ir_graph_add_result(graph, value)) return FAIL_MEMORY(p);
        if (!accept_word(p, "as")) continue;
        if (!expect_name(p, "the name of a result", &name)) return false;
        if (!ir_graph_set_result_name(graph, graph->result_count - 1, name)) return FAIL_MEMORY(p);
    } while (accept_sign(p, ','));
    return true;
}

/* The first parameters and results are states. */
static bool carry_states(parser *p, const ir_graph *graph, int64_t states) {
    if (!states) return true;
    if (states > graph->parameter_count || states > graph->result_count)
        return FAIL(p, "there are %lld states, but %u parameters and %u results", (long long)states,
                    graph->parameter_count, graph->result_count);
    ir_state_pair *pairs = BASE_ARRAY(p->scratch, ir_state_pair, (size_t)states);
    for (uint32_t i = 0; pairs && i < states; i++) pairs[i] = (ir_state_pair){i, i};
    return (pairs && ir_module_carry(p->module, pairs, (uint32_t)states)) || FAIL_MEMORY(p);
}

/* graph name(parameters) at "path" states N { nodes yield results }; a result: %value, or %value as name */
static bool parse_graph(parser *p, ir_node *owner) {
    const char *name = NULL, *path = "";
    if (p->depth == IR_MAX_DEPTH) return FAIL(p, "graphs nest deeper than %d", IR_MAX_DEPTH);
    if (!expect_word(p, "graph") || !expect_name(p, "the name of a graph", &name)) return false;
    ir_graph *graph = ir_graph_new(p->module, name);
    if (!graph || (owner && !ir_node_add_graph(owner, graph))) return FAIL_MEMORY(p);
    if (!parse_parameters(p, graph)) return false;
    int64_t states = 0;
    if (accept_word(p, "at") && !expect_string(p, "a path", &path)) return false;
    if (!owner && accept_word(p, "states") && !expect_integer(p, 1, &states)) return false;
    if (!expect_sign(p, '{')) return false;
    p->depth++;
    while (!ir_lex_is_word(&p->lexer, "yield")) {
        if (is_sign(p, '}')) return FAIL(p, "expected \"yield\" before the end of the graph");
        if (!parse_node(p, graph, path)) return false;
    }
    p->depth--;
    next(p);
    return parse_results(p, graph) && expect_sign(p, '}') && carry_states(p, graph, states);
}

/* ---- modules ------------------------------------------------------------------------------------ */

/* symbol N, or symbol N unnamed, or symbol N most 64, or symbol s2 = N + 1 */
static bool parse_symbol(parser *p) {
    const ir_token *token = &p->lexer.token;
    bool bare = token->kind == IR_TOKEN_WORD;
    size_t place = token->start;
    const char *name = NULL;
    if (!expect_name(p, "the name of a symbol", &name)) return false;
    bool computed = bare && looks_computed(name);
    if (computed ? base_map_get(&p->computed, name) != NULL
                 : base_map_get(&p->module->symbol_names, name) != NULL) {
        return ir_lex_fail(&p->lexer, place, "symbol %s is declared twice", name);
    }
    if (!computed) {
        int64_t bound = 0;
        const int64_t named = ir_symbol_named(p->module, name);
        if (named == OP_DIM_UNKNOWN) return FAIL_MEMORY(p);
        p->module->symbols[-named].unnamed = accept_word(p, "unnamed");
        if (accept_word(p, "most") && !expect_integer(p, 1, &bound)) return false;
        p->module->symbols[-named].bound = bound;
        return true;
    }

    int64_t a, b, *dim = BASE_NEW(p->scratch, int64_t);
    if (!dim) return FAIL_MEMORY(p);
    if (!expect_sign(p, '=') || !parse_dim(p, &a)) return false;
    char operation = token->kind == IR_TOKEN_SIGN ? token->sign : '\0';
    if (!operation || !strchr("+-*/^", operation))
        return FAIL(p, "expected one of + - * / ^ (division rounding up)");
    next(p);
    if (!parse_dim(p, &b)) return false;
    *dim = ir_symbol_compute(p->module, operation, a, b);
    if (*dim == OP_DIM_UNKNOWN && p->module->memory.failed) return FAIL_MEMORY(p);
    if (*dim == OP_DIM_UNKNOWN) return ir_lex_fail(&p->lexer, place, "symbol %s cannot be computed", name);
    return base_map_put(&p->computed, name, dim) || FAIL_MEMORY(p);
}

/* batch N */
static bool parse_batch(parser *p) {
    const size_t place = p->lexer.token.start;
    int64_t dim;
    if (!parse_dim(p, &dim)) return false;
    if (dim >= 0 || dim == OP_DIM_UNKNOWN || p->module->batch)
        return ir_lex_fail(&p->lexer, place, "expected one batch, which is a symbol");
    p->module->batch = dim;
    return true;
}

/* constant %name: type = data */
static bool parse_constant(parser *p) {
    definition defined;
    size_t bytes;
    void *data;
    if (!parse_definition(p, &defined) || !check_new(p, &defined) || !expect_sign(p, '=')) return false;
    ir_value *value;
    if (defined.type.dtype == OP_STRING) {
        if (!parse_data_filled(p, &defined.type, &bytes, &data)) return false;
        value = ir_constant_copy(p->module, defined.name, &defined.type, data, bytes);
    } else {
        void *memory;
        if (!parse_data(p, &defined.type, &bytes, &data)) return false;
        value = ir_constant_reserve(p->module, defined.name, &defined.type, bytes, &memory);
        if (value && bytes && data) memcpy(memory, data, bytes);
        if (value && bytes && !data) memset(memory, 0, bytes);
    }
    if (!value) return FAIL_MEMORY(p);
    value->symbolic = defined.symbolic;
    return true;
}

static bool parse_module(parser *p, const base_allocator *allocator) {
    const char *name = "";
    if (!expect_word(p, "module") || !expect_string(p, "the name of the module", &name)) return false;
    p->module = ir_module_new(allocator, name);
    if (!p->module) return FAIL_MEMORY(p);
    if (!expect_sign(p, '{')) return false;
    while (!ir_lex_is_word(&p->lexer, "graph")) {
        if (accept_word(p, "symbol")) {
            if (!parse_symbol(p)) return false;
        } else if (accept_word(p, "batch")) {
            if (!parse_batch(p)) return false;
        } else if (accept_word(p, "constant")) {
            if (!parse_constant(p)) return false;
        } else {
            return FAIL(p, "expected \"symbol\", \"batch\", \"constant\" or \"graph\"");
        }
    }
    if (!parse_graph(p, NULL) || !expect_sign(p, '}')) return false;
    return p->lexer.token.kind == IR_TOKEN_END || FAIL(p, "expected the end of the text");
}

base_status ir_parse(const char *text, size_t length, const char *name, const base_allocator *allocator,
                     ir_module **module, base_report *report) {
    base_arena scratch;
    base_arena_init(&scratch, allocator);
    parser parsing = {
        .lexer = {.file = text, .name = name, .length = length, .arena = &scratch, .report = report},
        .scratch = &scratch,
        .computed = {.arena = &scratch}};
    *module = NULL;
    next(&parsing);
    bool parsed = parse_module(&parsing, allocator) && parsing.lexer.status == BASE_OK;
    base_arena_free(&scratch);
    if (parsed) {
        *module = parsing.module;
        return BASE_OK;
    }
    ir_module_free(parsing.module);
    return parsing.lexer.status;
}
