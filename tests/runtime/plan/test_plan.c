/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c: plans: written and read back, the same bytes each time, refused when damaged, malformed or
 * wrong.
 *
 * The mutation tests break a good plan on purpose, in every way that a planner could get it wrong, and seal
 * it again: the verifier must object, or the plan must compute the same bits as before (a tensor moved to
 * where nothing else is). The fuzz test seals random damage: whatever comes of it, nothing may crash.
 * OURO_FUZZ_RUNS=N in the environment runs it longer. */
#include "tests/support/support.h"
#include "tests/support/plan.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

/* Views of all kinds, results of their own, values that live long and short, in place. */
static const char *const straight =
    "module \"straight\" {\n"
    "  constant %one: float32[8] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}\n"
    "  constant %again: float32[2,4] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}\n"
    "  constant %starts: int64[1] = {4}\n"
    "  constant %ends: int64[1] = {12}\n"
    "  constant %axes: int64[1] = {0}\n"
    "  constant %form: int64[2] = {2, 4}\n"
    "  constant %two: int64[2] = {12, 4}\n"
    "  graph main(%x: float32[16], %i: int64[3]) {\n"
    "    %a: float32[16] = Neg(%x) \"negate\" at \"main\"\n"
    "    %s: float32[8] = Slice(%a, %starts, %ends, %axes)\n"
    "    %b: float32[8] = Add(%s, %one)\n"
    "    %c: float32[8] = Abs(%b)\n"
    "    %r: float32[2,4] = Reshape(%c, %form)\n"
    "    %m: float32[2,4] = Softmax(%r) {axis = 1}\n"
    "    %d: float32[2,4] = Mul(%m, %again)\n"
    "    %t: float32[4,2] = Transpose(%d) {perm = [1, 0]}\n"
    "    %g: float32[3,2] = Gather(%t, %i) {axis = 0}\n"
    "    %p: float32[12], %q: float32[4] = Split(%a, %two) {axis = 0}\n"
    "    %e: float32[12] = Exp(%p)\n"
    "    %f: float32[4] = Sqrt(%q)\n"
    "    %u: float32[16] = Concat(%e, %f) {axis = 0}\n"
    "    %v: float32[16] = Sub(%u, %a)\n"
    "    %w: float32[16] = Relu(%v)\n"
    "    yield %w, %g, %u\n"
    "  }\n"
    "}\n";

/* A loop around a branch; the carried values change places. */
static const char *const looping =
    "module \"looping\" {\n"
    "  constant %trips: int64[] = {5}\n"
    "  constant %half: float32[] = {0.5}\n"
    "  graph main(%x: float32[16], %y: float32[16], %go: bool[]) {\n"
    "    %n: float32[16] = Neg(%x)\n"
    "    %p: float32[16], %q: float32[16], %all: float32[5,16] = Loop(%trips, _, %n, %y) {\n"
    "      graph body(%i: int64[], %k: bool[], %a: float32[16], %b: float32[16]) {\n"
    "        %s: float32[16] = Add(%a, %b)\n"
    "        %t: float32[16] = If(%go) {\n"
    "          graph then() {\n"
    "            %c: float32[16] = Mul(%s, %n)\n"
    "            %d: float32[16] = Abs(%c)\n"
    "            yield %d\n"
    "          }\n"
    "          graph else() {\n"
    "            %e: float32[16] = Tanh(%s)\n"
    "            yield %e\n"
    "          }\n"
    "        }\n"
    "        %h: float32[16] = Mul(%t, %half)\n"
    "        yield %k, %b, %h, %s\n"
    "      }\n"
    "    }\n"
    "    %z: float32[16] = Add(%p, %n)\n"
    "    yield %z, %q, %all\n"
    "  }\n"
    "}\n";

/* Packed weights, blocked layouts and scratch, where oneDNN is there. */
static const char *const heavy =
    "module \"heavy\" {\n"
    "  constant %w: float32[16,16,3,3] = zeros\n"
    "  constant %v: float32[32,16,1,1] = zeros\n"
    "  graph main(%x: float32[1,16,12,12]) {\n"
    "    %a: float32[1,16,12,12] = Conv(%x, %w) {pads = [1, 1, 1, 1]}\n"
    "    %b: float32[1,16,12,12] = Relu(%a)\n"
    "    %c: float32[1,16,12,12] = Conv(%b, %w) {pads = [1, 1, 1, 1]}\n"
    "    %d: float32[1,16,12,12] = Add(%c, %b)\n"
    "    %e: float32[1,32,12,12] = Conv(%d, %v)\n"
    "    %f: float32[1,32,6,6] = MaxPool(%e) {kernel_shape = [2, 2], strides = [2, 2]}\n"
    "    %g: float32[1,32,1,1] = GlobalAveragePool(%f)\n"
    "    yield %g, %d\n"
    "  }\n"
    "}\n";

/* Weights of bytes, packed where the machine multiplies bytes. */
static const char *const bytes_text =
    "module \"bytes\" {\n"
    "  constant %w: int8[16,16,3,3] = zeros\n"
    "  constant %v: int8[12,64] = zeros\n"
    "  constant %scale: float32[] = {1.0}\n"
    "  constant %zero: uint8[] = {3}\n"
    "  constant %none: int8[] = {1}\n"
    "  graph main(%x: uint8[1,16,12,12]) {\n"
    "    %a: uint8[1,16,12,12] = QLinearConv(%x, %scale, %zero, %w, %scale, %none, %scale, %zero) {pads = "
    "[1, 1, 1, 1]}\n"
    "    %b: int32[1,16,12,12] = ConvInteger(%a, %w) {pads = [1, 1, 1, 1]}\n"
    "    %c: int32[1,16,12,64] = MatMulInteger(%a, %v)\n"
    "    yield %b, %c\n"
    "  }\n"
    "}\n";

static const char *const open_text = "module \"open\" {\n"
                                     "  symbol N\n"
                                     "  constant %flat: int64[1] = {-1}\n"
                                     "  graph main(%x: float32[N,4], %b: float32[4]) {\n"
                                     "    %n: float32[4] = Neg(%b)\n"
                                     "    %a: float32[N,4] = Add(%x, %n)\n"
                                     "    %f: float32[?] = Reshape(%a, %flat)\n"
                                     "    %s: int64[2] = Shape(%a)\n"
                                     "    yield %f, %s, %n\n"
                                     "  }\n"
                                     "}\n";

/* ---- writing and opening ------------------------------------------------------------------------------- */

static void test_round_trip(void **state) {
    (void)state;
    size_t size;
    unsigned char *bytes = support_plan(straight, true, &size);
    plan opened;
    base_report report = {0};
    if (plan_open(bytes, size, "straight.plan", &rt_plan_host, NULL, NULL, &opened, &report))
        fail_msg("%s", report.text);
    assert_string_equal(opened.header->machine, "portable");
    assert_string_equal(opened.texts + opened.header->model_name, "straight");
    assert_int_equal(opened.header->file_bytes, size);
    assert_int_equal(opened.header->inputs.count, 2);
    assert_int_equal(opened.header->outputs.count, 3);
    assert_int_equal(opened.header->graphs.count, 1);
    op_type type;
    char text[64];
    plan_tensor_type(&opened, opened.inputs[1].tensor, &type);
    assert_string_equal(op_type_print(&type, text, sizeof text), "int64[3]");
    /* Equal constants lie in one place, aligned. */
    uint64_t places[2];
    size_t found = 0;
    for (uint32_t i = 0; i < opened.header->tensors.count; i++) {
        const plan_tensor *tensor = &opened.tensors[i];
        if (tensor->address.space != MEMORY_CONSTANT || tensor->bytes != 32) continue;
        assert_int_equal(tensor->address.offset % PLAN_ALIGNMENT, 0);
        assert_true(found < 2);
        places[found++] = tensor->address.offset;
        assert_true(((const float *)(const void *)(opened.constants + tensor->address.offset))[7] == 8.0f);
    }
    assert_int_equal(found, 2);
    assert_int_equal(places[0], places[1]);
    /* Attributes and names are what they were. */
    base_arena arena;
    base_arena_init(&arena, NULL);
    bool seen = false;
    for (uint64_t n = 0; n < opened.header->nodes.count; n++) {
        op_attributes attributes;
        size_t count;
        assert_true(plan_node_attributes(&opened, &opened.nodes[n], &arena, &attributes));
        if (plan_node_code(&opened, &opened.nodes[n]) == OP_NEG) {
            assert_string_equal(opened.texts + opened.nodes[n].name, "negate");
            assert_string_equal(opened.texts + opened.nodes[n].path, "main");
        }
        if (plan_node_code(&opened, &opened.nodes[n]) != OP_TRANSPOSE) continue;
        const int64_t *perm = op_attribute_integers(&attributes, "perm", &count);
        assert_int_equal(count, 2);
        assert_int_equal(perm[0], 1);
        seen = true;
    }
    assert_true(seen);
    base_arena_free(&arena);
    plan_close(&opened);
    free(bytes);
}

static void test_deterministic(void **state) {
    (void)state;
    const char *const texts[] = {straight, looping, heavy, bytes_text, open_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t a, b;
        unsigned char *first = support_plan(texts[i], false, &a), *second = support_plan(texts[i], false, &b);
        assert_int_equal(a, b);
        assert_memory_equal(first, second, a);
        free(first);
        free(second);
    }
}

static void test_file(void **state) {
    (void)state;
    char path[] = "/tmp/ouro_test_plan_XXXXXX";
    size_t size;
    unsigned char *bytes = support_plan(straight, true, &size);
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    ouro_plan *handle;
    ouro_error error;
    assert_int_equal(ouro_plan_load(path, &handle, &error), OURO_OK);
    ouro_plan_free(handle);
    assert_int_equal(ftruncate(file, (off_t)size - 1), 0);
    assert_int_equal(ouro_plan_load(path, &handle, &error), OURO_INVALID);
    assert_non_null(strstr(error.message, path));
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(ouro_plan_load(path, &handle, &error), OURO_INVALID);
    assert_non_null(strstr(error.message, "is not a plan"));
    close(file);
    /* Without descriptors it is the machine that fails, not the plan. */
    struct rlimit kept, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
    none = (struct rlimit){0, kept.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const ouro_status without = ouro_plan_load(path, &handle, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
    assert_int_equal(without, OURO_MACHINE);
    unlink(path);
    assert_int_equal(ouro_plan_load(path, &handle, &error), OURO_INVALID);
    assert_int_equal(ouro_plan_load("/tmp", &handle, &error), OURO_INVALID);
    free(bytes);
}

/* ---- damage -------------------------------------------------------------------------------------------- */

static void expect_refused(const unsigned char *bytes, size_t size, const char *part) {
    plan opened;
    base_report report = {0};
    assert_int_equal(plan_open(bytes, size, "bad.plan", &rt_plan_host, NULL, NULL, &opened, &report),
                     BASE_INVALID);
    if (strncmp(report.text, "bad.plan: ", 10) != 0 || !strstr(report.text, part)) {
        fail_msg("\"%s\" does not say \"%s\"", report.text, part);
    }
}

static unsigned char *copy_of(const unsigned char *bytes, size_t size) {
    unsigned char *copy =
        aligned_alloc(PLAN_ALIGNMENT, (size + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT);
    memcpy(copy, bytes, size);
    return copy;
}

static void test_damage(void **state) {
    (void)state;
    size_t size;
    unsigned char *good = support_plan(straight, false, &size), *bytes = copy_of(good, size);
    plan_header *header = (plan_header *)(void *)bytes;
    header->magic[0] = 'o';
    expect_refused(bytes, size, "is not a plan");
    *header = *(const plan_header *)(const void *)good;
    header->version = 99;
    expect_refused(bytes, size, "version 99");
    *header = *(const plan_header *)(const void *)good;
    header->endian = 0x04030201;
    expect_refused(bytes, size, "byte order");
    *header = *(const plan_header *)(const void *)good;
    strcpy(header->machine, "vax onednn-0.1");
    expect_refused(bytes, size, "checksum");
    support_plan_seal(bytes, size);
    expect_refused(bytes, size, "compiled for \"vax onednn-0.1\"");
    plan opened;
    assert_int_equal(plan_open(bytes, size, "bad.plan", NULL, NULL, NULL, &opened, NULL), BASE_OK);
    plan_close(&opened);
    *header = *(const plan_header *)(const void *)good;
    for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : 97) expect_refused(good, cut, "");
    /* Any single damaged byte is noticed. */
    for (size_t at = 0; at < size; at += 7) {
        bytes[at] ^= 0x10;
        expect_refused(bytes, size, "");
        bytes[at] ^= 0x10;
    }
    free(bytes);
    free(good);
}

/* ---- execution of what was accepted -------------------------------------------------------------------- */

typedef struct outcome {
    unsigned char *data;
    size_t bytes;
} outcome;

/* All outputs of a run on fixed inputs, one after another; false where it fails. Frees the plan. */
static bool run_plan(ouro_plan *handle, outcome *made) {
    ouro_session *session = NULL;
    *made = (outcome){0};
    bool good = ouro_session_new(handle, NULL, &session, NULL) == OURO_OK;
    size_t inputs = ouro_plan_input_count(handle);
    void *data[8] = {0};
    for (size_t i = 0; i < inputs && i < 8 && good; i++) {
        ouro_tensor_info info;
        assert_int_equal(ouro_plan_input(handle, i, &info), OURO_OK);
        int64_t dims[OURO_MAX_RANK];
        size_t elements = 1, element = op_dtype_bytes((op_dtype)info.dtype);
        for (int d = 0; d < info.rank; d++) {
            dims[d] = info.dims[d] < 0 ? 3 : info.dims[d];
            elements *= (size_t)dims[d];
        }
        data[i] = calloc(elements + 1, element);
        for (size_t k = 0; k < elements; k++) {
            if (info.dtype == OURO_FLOAT) ((float *)data[i])[k] = (float)((k * 37 + i) % 23) * 0.25f - 2.0f;
            else memset((char *)data[i] + k * element, 1, 1);
        }
        good = ouro_session_bind_input(session, i, data[i], elements * element, dims, NULL) == OURO_OK;
    }
    good = good && inputs <= 8 && ouro_session_run(session, NULL) == OURO_OK;
    for (size_t i = 0; good && i < ouro_plan_output_count(handle); i++) {
        ouro_tensor_info info;
        const void *output;
        assert_int_equal(ouro_session_output(session, i, &info, &output, NULL), OURO_OK);
        made->data = realloc(made->data, made->bytes + info.bytes + 1);
        memcpy(made->data + made->bytes, output, info.bytes);
        made->bytes += info.bytes;
    }
    for (size_t i = 0; i < 8; i++) free(data[i]);
    ouro_session_free(session);
    ouro_plan_free(handle);
    return good;
}

static bool execute(const unsigned char *bytes, size_t size, outcome *made) {
    ouro_plan *handle;
    *made = (outcome){0};
    return ouro_plan_open(bytes, size, &handle, NULL) == OURO_OK && run_plan(handle, made);
}

/* What happens to the file of a plan that is open does not matter to those who have read it. */
static void test_file_that_shrinks(void **state) {
    (void)state;
    char path[] = "/tmp/ouro_test_plan_XXXXXX";
    size_t size;
    unsigned char *bytes = support_plan(straight, true, &size);
    outcome expected, is;
    assert_true(execute(bytes, size, &expected));
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), (ssize_t)size);
    ouro_plan *read_plan, *mapped;
    assert_int_equal(ouro_plan_map(path, &mapped, NULL), OURO_OK);
    assert_true(run_plan(mapped, &is));
    assert_memory_equal(is.data, expected.data, expected.bytes);
    free(is.data);
    assert_int_equal(ouro_plan_load(path, &read_plan, NULL), OURO_OK);
    assert_int_equal(ftruncate(file, 0), 0);
    assert_true(run_plan(read_plan, &is));
    assert_int_equal(is.bytes, expected.bytes);
    assert_memory_equal(is.data, expected.data, expected.bytes);
    free(is.data);
    free(expected.data);
    close(file);
    unlink(path);
    free(bytes);
}

/* Bytes of mapped files in the memory of this process; -1: the system does not say. */
static long mapped_bytes(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kilobytes = -1;
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "RssFile:", 8) == 0) kilobytes = strtol(line + 8, NULL, 10);
    if (status) fclose(status);
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

/* Constants that no run reads are checked where a plan is mapped, and are no part of the process afterwards. */
static void test_unused_constants_of_a_mapped_plan(void **state) {
    (void)state;
    enum { UNUSED = 48 << 20 };
    char path[] = "/tmp/ouro_test_plan_XXXXXX";
    size_t size;
    unsigned char *bytes = support_plan(straight, true, &size);
    outcome expected, is;
    assert_true(execute(bytes, size, &expected));
    const size_t larger = size + UNUSED;
    unsigned char *more =
        aligned_alloc(PLAN_ALIGNMENT, larger / PLAN_ALIGNMENT * PLAN_ALIGNMENT + PLAN_ALIGNMENT);
    assert_non_null(more);
    memcpy(more, bytes, size);
    memset(more + size, 7, UNUSED);
    plan_header *header = (plan_header *)(void *)more;
    assert_int_equal(header->constants_offset + header->constants_bytes, size);
    header->constants_bytes += UNUSED;
    header->file_bytes = larger;
    support_plan_seal(more, larger);
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, more, larger), (ssize_t)larger);
    const long before = mapped_bytes();
    ouro_plan *mapped;
    assert_int_equal(ouro_plan_map(path, &mapped, NULL), OURO_OK);
    if (before >= 0) assert_true(mapped_bytes() - before < UNUSED / 4);
    assert_true(run_plan(mapped, &is));
    assert_memory_equal(is.data, expected.data, expected.bytes);
    free(is.data);
    free(expected.data);
    /* They are checked as all others are. */
    assert_int_equal(pwrite(file, "8", 1, (off_t)(size + UNUSED / 2)), 1);
    assert_int_equal(ouro_plan_map(path, &mapped, NULL), OURO_INVALID);
    close(file);
    unlink(path);
    free(more);
    free(bytes);
}

/* ---- plans that are wrong ------------------------------------------------------------------------------ */

typedef struct mutation {
    unsigned char *good, *bytes;
    size_t size;
    outcome expected;
    size_t refused, harmless;
    plan_tensor *tensors;
    plan_node *nodes;
    plan_header *header;
} mutation;

static void begin(mutation *m, const char *text, bool portable) {
    *m = (mutation){0};
    m->good = support_plan(text, portable, &m->size);
    if (text == heavy) { /* its constants are weights: any numbers will do, in any packing */
        const plan_header *header = (const plan_header *)(const void *)m->good;
        float *weights = (float *)(void *)(m->good + header->constants_offset);
        for (size_t i = 0; i < header->constants_bytes / sizeof *weights; i++) {
            weights[i] = (float)(i % 13) * 0.0625f - 0.25f;
        }
        support_plan_seal(m->good, m->size);
    }
    m->bytes = copy_of(m->good, m->size);
    m->header = (plan_header *)(void *)m->bytes;
    m->tensors = (plan_tensor *)(void *)(m->bytes + m->header->tensors.offset);
    m->nodes = (plan_node *)(void *)(m->bytes + m->header->nodes.offset);
    if (!execute(m->good, m->size, &m->expected)) fail_msg("the plan does not run");
}

/* The changed plan is refused, or computes the same; then it is restored. True where it was refused. */
static bool try_mutation(mutation *m, const char *what) {
    plan opened;
    base_report report = {0};
    support_plan_seal(m->bytes, m->size);
    bool refused =
        plan_open(m->bytes, m->size, "bad.plan", &rt_plan_host, NULL, NULL, &opened, &report) != BASE_OK;
    if (refused) {
        assert_int_equal(report.status, BASE_INVALID);
        m->refused++;
    } else {
        outcome is;
        plan_close(&opened);
        if (!execute(m->bytes, m->size, &is)) {
            refused = true; /* by the run: a loop does not run as often as its stacked output says */
            m->refused++;
        } else if (is.bytes != m->expected.bytes || memcmp(is.data, m->expected.data, is.bytes) != 0) {
            fail_msg("%s: accepted, and computes something else", what);
        } else {
            m->harmless++;
        }
        free(is.data);
    }
    memcpy(m->bytes, m->good, m->size);
    return refused;
}

static void end(mutation *m, const char *name) {
    print_message("%s: %zu refused, %zu harmless\n", name, m->refused, m->harmless);
    free(m->expected.data);
    free(m->good);
    free(m->bytes);
}

static bool is_movable(const plan_tensor *tensor) {
    return tensor->bytes && (tensor->address.space == MEMORY_ARENA || tensor->address.space == MEMORY_OUTPUT);
}

static void mutate_addresses(mutation *m) {
    char what[256];
    size_t count = (size_t)m->header->tensors.count;
    for (size_t i = 0; i < count; i++) {
        const int64_t steps[] = {64, -64, 4, -4, 128, (int64_t)m->tensors[i].bytes};
        if (!is_movable(&m->tensors[i])) continue;
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            snprintf(what, sizeof what, "tensor %zu moved by %" PRId64, i, steps[k]);
            m->tensors[i].address.offset += (uint64_t)steps[k];
            try_mutation(m, what);
        }
        snprintf(what, sizeof what, "tensor %zu in another place", i);
        m->tensors[i].address.space =
            m->tensors[i].address.space == MEMORY_ARENA ? MEMORY_OUTPUT : MEMORY_ARENA;
        m->tensors[i].address.index = 0;
        try_mutation(m, what);
        const uint32_t places[] = {MEMORY_NONE, MEMORY_CONSTANT, MEMORY_INPUT, MEMORY_DYNAMIC,
                                   MEMORY_MULTIVIEW};
        for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
            snprintf(what, sizeof what, "tensor %zu in place %u", i, places[k]);
            m->tensors[i].address = (plan_address){.space = places[k]};
            try_mutation(m, what);
        }
        for (size_t j = 0; j < count; j++) {
            if (i == j || !is_movable(&m->tensors[j])) continue;
            snprintf(what, sizeof what, "tensor %zu put where tensor %zu is", i, j);
            m->tensors[i].address = m->tensors[j].address;
            try_mutation(m, what);
            snprintf(what, sizeof what, "tensors %zu and %zu exchanged", i, j);
            plan_address kept = m->tensors[i].address;
            m->tensors[i].address = m->tensors[j].address;
            m->tensors[j].address = kept;
            try_mutation(m, what);
        }
    }
}

static void mutate_nodes(mutation *m) {
    char what[256];
    for (size_t n = 0; n < m->header->nodes.count; n++) {
        snprintf(what, sizeof what, "node %zu made a view, or run", n);
        m->nodes[n].flags ^= PLAN_NODE_ALIAS;
        m->nodes[n].kernel = 0;
        try_mutation(m, what);
        const char *name = (const char *)m->bytes + m->header->texts.offset + m->nodes[n].operator_name;
        op_code code = op_code_from_name("", name);
        if (code && m->nodes[n].input_count == (uint64_t)op_schema_of(code)->input_minimum &&
            m->nodes[n].input_count) {
            snprintf(what, sizeof what, "node %zu without its last input", n);
            m->nodes[n].input_count--;
            assert_true(try_mutation(m, what));
        }
        if (n + 1 < m->header->nodes.count && m->nodes[n].graph == m->nodes[n + 1].graph) {
            snprintf(what, sizeof what, "nodes %zu and %zu exchanged", n, n + 1);
            plan_node kept = m->nodes[n];
            if (!kept.graph_count && !m->nodes[n + 1].graph_count) {
                m->nodes[n] = m->nodes[n + 1];
                m->nodes[n + 1] = kept;
                try_mutation(m, what);
            }
        }
        for (size_t i = 0; i < m->header->tensors.count && m->nodes[n].scratch_bytes; i++) {
            if (!is_movable(&m->tensors[i]) || m->tensors[i].address.space != MEMORY_ARENA) continue;
            snprintf(what, sizeof what, "scratch of node %zu put where tensor %zu is", n, i);
            m->nodes[n].scratch.offset = m->tensors[i].address.offset;
            try_mutation(m, what);
            snprintf(what, sizeof what, "scratch of node %zu enlarged", n);
            m->nodes[n].scratch_bytes += m->tensors[i].bytes;
            try_mutation(m, what);
        }
    }
}

static void mutate_sizes(mutation *m) {
    char what[256];
    int64_t *integers = (int64_t *)(void *)(m->bytes + m->header->integers.offset);
    for (size_t i = 0; i < m->header->tensors.count; i++) {
        if (!is_movable(&m->tensors[i]) || m->tensors[i].rank < 1) continue;
        snprintf(what, sizeof what, "tensor %zu shrunk", i);
        int64_t *dim = &integers[m->tensors[i].dims];
        if (*dim > 1) {
            m->tensors[i].bytes = m->tensors[i].bytes / (uint64_t)*dim * (uint64_t)(*dim - 1);
            (*dim)--;
            assert_true(try_mutation(m, what));
        }
        m->tensors[i].bytes -= 4;
        assert_true(try_mutation(m, what));
    }
    /* Packed weights that are too short, at the end of the constants: only their kernel knows how long they
     * must be. */
    for (size_t i = 0; i < m->header->tensors.count; i++) {
        if (m->tensors[i].layout != OP_LAYOUT_PACKED) continue;
        for (uint64_t bytes = 64; bytes < m->tensors[i].bytes; bytes *= 4) {
            snprintf(what, sizeof what, "packed tensor %zu of %" PRIu64 " bytes", i, bytes);
            m->tensors[i].bytes = bytes;
            m->tensors[i].address.offset = (m->header->constants_bytes - bytes) / 64 * 64;
            assert_true(try_mutation(m, what));
        }
        snprintf(what, sizeof what, "packed tensor %zu not aligned", i);
        m->tensors[i].address.offset += m->tensors[i].address.offset ? (uint64_t)-32 : 32;
        assert_true(try_mutation(m, what));
    }
    /* A smaller arena can hold less. */
    m->header->arena_bytes -= 64;
    ((plan_graph *)(void *)(m->bytes + m->header->graphs.offset))->region_bytes -= 64;
    assert_true(try_mutation(m, "arena shrunk"));
}

/* What an operator needs is there and has memory: of inputs and outputs, whatever reads or writes them. */
static void mutate_operands(mutation *m) {
    uint32_t *ids = (uint32_t *)(void *)(m->bytes + m->header->tensor_ids.offset);
    const char *texts = (const char *)m->bytes + m->header->texts.offset;
    char what[256];
    for (size_t n = 0; n < m->header->nodes.count; n++) {
        const plan_node node = m->nodes[n];
        const op_code code = op_code_from_name(texts + node.operator_domain, texts + node.operator_name);
        const op_schema *schema = op_schema_of(code);
        const bool control = schema->flags & OP_FLAG_GRAPHS;
        for (uint64_t i = 0; i < node.input_count + node.output_count; i++) {
            const bool output = i >= node.input_count;
            const uint64_t index = output ? i - node.input_count : i;
            uint32_t *id = &ids[output ? node.outputs + index : node.inputs + index];
            const int least = output ? schema->output_minimum : schema->input_minimum;
            if (*id == PLAN_ABSENT || (output && control)) continue;
            snprintf(what, sizeof what, "%s %" PRIu64 " of node %zu in no memory",
                     output ? "output" : "input", index, n);
            if (!output || (int64_t)index < least) {
                m->tensors[*id].address = (plan_address){.space = MEMORY_NONE};
                assert_true(try_mutation(m, what));
            }
            snprintf(what, sizeof what, "%s %" PRIu64 " of node %zu absent", output ? "output" : "input",
                     index, n);
            if (!control && (int64_t)index < least) {
                *id = PLAN_ABSENT;
                assert_true(try_mutation(m, what));
            }
        }
    }
}

static void test_mutations(void **state) {
    (void)state;
    const struct {
        const char *name, *text;
        bool portable;
    } cases[] = {{"straight", straight, true},
                 {"looping", looping, true},
                 {"heavy", heavy, false},
                 {"bytes", bytes_text, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mutation m;
        begin(&m, cases[i].text, cases[i].portable);
        mutate_addresses(&m);
        mutate_nodes(&m);
        mutate_sizes(&m);
        mutate_operands(&m);
        assert_true(m.refused > m.harmless);
        end(&m, cases[i].name);
    }
}

/* What the verifier says names the step, the tensors and the bytes. */
static void test_message(void **state) {
    (void)state;
    mutation m;
    begin(&m, straight, true);
    const char *texts = (const char *)m.bytes + m.header->texts.offset;
    plan_tensor *a = NULL, *b = NULL;
    for (size_t i = 0; i < m.header->tensors.count; i++) {
        if (strcmp(texts + m.tensors[i].name, "a") == 0) a = &m.tensors[i];
        if (strcmp(texts + m.tensors[i].name, "t") == 0) b = &m.tensors[i];
    }
    assert_non_null(a);
    assert_non_null(b);
    b->address = a->address;
    support_plan_seal(m.bytes, m.size);
    expect_refused(m.bytes, m.size, "hold tensor \"t\"");
    expect_refused(m.bytes, m.size, "the plan is wrong at step ");
    expect_refused(m.bytes, m.size, ") is not there: bytes ");
    end(&m, "message");
}

/* ---- fuzz ---------------------------------------------------------------------------------------------- */

static bool has_loop(const plan *of) {
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        if (plan_node_code(of, &of->nodes[n]) == OP_LOOP) return true;
    }
    return false;
}

static void damage(unsigned char *bytes, size_t end_of_tables, uint64_t *state) {
    static const uint64_t values[] = {
        0,        1,  2,    3,          0x7f,       0xff, UINT32_MAX, INT32_MAX,       INT64_MAX, UINT64_MAX,
        1u << 31, 64, 4096, 1ull << 40, 1ull << 62, 0x80, 16,         PLAN_ABSENT - 1, 8,         1ull << 63};
    uint64_t count = 1 + support_random(state) % 3;
    for (uint64_t i = 0; i < count; i++) {
        size_t width = (size_t)1 << (support_random(state) % 4);
        size_t at = support_random(state) % (end_of_tables / width) * width;
        uint64_t value = values[support_random(state) % (sizeof values / sizeof *values)], old;
        switch (support_random(state) % 4) {
        case 0:
            bytes[at] ^= (unsigned char)(1u << (support_random(state) % 8));
            continue;
        case 1:
            memcpy(&old, bytes + at, width), value = old + support_random(state) % 9 - 4;
            break;
        case 2:
            memcpy(&value, bytes + support_random(state) % (end_of_tables / width) * width, width);
            break;
        default:
            break;
        }
        memcpy(bytes + at, &value, width);
    }
}

static void test_fuzz(void **state) {
    (void)state;
    const char *const texts[] = {straight, looping, heavy, bytes_text, open_text};
    const char *wish = getenv("OURO_FUZZ_RUNS"), *seed_wish = getenv("OURO_FUZZ_SEED");
    uint64_t runs = wish ? strtoull(wish, NULL, 10) : 4000,
             seed = seed_wish ? strtoull(seed_wish, NULL, 10) : 1;
    print_message("seed %" PRIu64 "\n", seed);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        size_t size, opened_count = 0, ran = 0;
        unsigned char *good = support_plan(texts[t], false, &size), *bytes = copy_of(good, size);
        const plan_header *header = (const plan_header *)(const void *)good;
        size_t end_of_tables = (size_t)header->constants_offset;
        for (uint64_t run = 0; run < runs; run++) {
            uint64_t random = seed * 1000003 + t * 7919 + run;
            memcpy(bytes, good, size);
            damage(bytes, end_of_tables, &random);
            support_plan_seal(bytes, size);
            plan opened;
            base_report report = {0};
            if (plan_open(bytes, size, "fuzz.plan", &rt_plan_host, NULL, NULL, &opened, &report) != BASE_OK) {
                assert_true(report.count > 0);
                continue;
            }
            opened_count++;
            /* A loop without an end is a valid plan, and so is one of a terabyte. */
            bool run_it = !has_loop(&opened) && opened.header->arena_bytes < (1u << 26);
            for (uint64_t i = 0; i < opened.header->tensors.count; i++) {
                if (opened.tensors[i].bytes > (1u << 24)) run_it = false;
            }
            plan_close(&opened);
            outcome made;
            if (run_it && execute(bytes, size, &made)) {
                ran++;
                free(made.data);
            }
        }
        print_message("%zu: %" PRIu64 " damaged, %zu opened, %zu ran\n", t, runs, opened_count, ran);
        assert_true(opened_count > 0 && opened_count < runs);
        free(good);
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_that_shrinks),
        cmocka_unit_test(test_unused_constants_of_a_mapped_plan),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_fuzz),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
