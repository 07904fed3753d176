/* SPDX-License-Identifier: Apache-2.0 */
/* test_spill.c: under a limit of the arena, and with a file, values are written there and read back, and what comes out is the same, to
 * the bit; what the file does wrong ends the run with a message.
 *
 * OURO_TEST_SPILL=N tries N random graphs, OURO_TEST_SEED=S begins with seed S. A failure prints its seed and the graph.
 */
#include "tests/support/allocations.h"
#include "tests/support/networks.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>
#include <inttypes.h>

enum { GRAPHS = 60, NETWORKS = 8 };

static const char file_name[] = "test-spill.file";

static pass_options options_of(size_t limit, int threads) {
    return (pass_options){.exact_arithmetic = true,
                          .arena_limit = limit,
                          .spill_path = limit ? file_name : NULL,
                          .environment = {.threads = threads, .portable_only = true}};
}

/* What the passes say of a module. */
typedef struct outcome {
    size_t arena, file, spills, restores;
    double seconds;
} outcome;

static outcome compile_with(const char *text, pass_options options) {
    ir_module *module = support_module(text, true);
    base_arena arena;
    base_report report = {0};
    pass_memory *memory = NULL;
    base_arena_init(&arena, NULL);
    if (pass_pipeline_run(module, &options, &arena, &memory, &report) != BASE_OK) fail_msg("%s", report.text);
    outcome is = {
        .arena = memory->arena_bytes, .file = memory->spill_bytes, .seconds = memory->spill_seconds};
    for (const ir_node *node = module->main->first; node; node = node->next) {
        is.spills += node->code == OP_SPILL;
        is.restores += node->code == OP_RESTORE;
    }
    base_arena_free(&arena);
    ir_module_free(module);
    return is;
}

static outcome compile(const char *text, size_t limit) {
    return compile_with(text, options_of(limit, 1));
}

static void open_limited(support_session *opened, const char *text, size_t limit, int threads) {
    const pass_options options = options_of(limit, threads);
    support_session_open_with(opened, text, &options);
}

static void bind_all(const support_session *on, uint64_t seed) {
    static float inputs[8][1 << 16]; /* sessions read them where they are */
    uint64_t chance = seed;
    for (size_t i = 0; i < ouro_plan_input_count(on->plan); i++) {
        ouro_tensor_info info;
        float *input = inputs[i];
        assert_int_equal(ouro_plan_input(on->plan, i, &info), OURO_OK);
        const size_t count = info.bytes / sizeof *input;
        assert_true(i < sizeof inputs / sizeof *inputs && info.bytes <= sizeof *inputs);
        for (size_t k = 0; k < count; k++)
            input[k] = (float)(int64_t)(support_random(&chance) % 2001) / 1000 - 1;
        support_bind(on, i, input, info.bytes);
    }
}

static void expect_same(const support_session *a, const support_session *b, const char *text, uint64_t seed) {
    for (size_t o = 0; o < ouro_plan_output_count(a->plan); o++) {
        ouro_error error;
        ouro_tensor_info info;
        const void *whole = NULL;
        assert_int_equal(ouro_session_output(a->session, o, &info, &whole, &error), OURO_OK);
        if (memcmp(whole, support_output(b, o, info.bytes), info.bytes) != 0)
            fail_msg("seed %" PRIu64 ": output %zu differs\n%s", seed, o, text);
    }
}

/* The same bits within the limit as without one. */
static void compare(const char *text, size_t limit, int threads, uint64_t seed) {
    support_session a, b;
    open_limited(&a, text, 0, threads);
    open_limited(&b, text, limit, threads);
    bind_all(&a, seed);
    bind_all(&b, seed);
    support_run(&a);
    support_run(&b);
    expect_same(&a, &b, text, seed);
    support_session_close(&a);
    support_session_close(&b);
    assert_int_not_equal(access(file_name, F_OK), 0);
}

/* Products that are kept for a way back. */
#define TYPE "float32[64,64]"
static const char back[] = "module \"back\" {\n"
                           "  graph main(%x: " TYPE ", %w: " TYPE ") {\n"
                           "    %a: " TYPE " = MatMul(%x, %w)\n    %b: " TYPE " = MatMul(%a, %w)\n"
                           "    %c: " TYPE " = MatMul(%b, %w)\n    %d: " TYPE " = MatMul(%c, %w)\n"
                           "    %e: " TYPE " = MatMul(%d, %w)\n    %f: " TYPE " = MatMul(%e, %d)\n"
                           "    %g: " TYPE " = MatMul(%f, %c)\n    %h: " TYPE " = MatMul(%g, %b)\n"
                           "    %i: " TYPE " = MatMul(%h, %a)\n    %j: " TYPE " = MatMul(%i, %b)\n"
                           "    %k: " TYPE " = MatMul(%j, %a)\n    yield %k\n  }\n}\n";
enum { MATRIX = 64 * 64 * sizeof(float) };

/* The module, and where its storages lie in the arena and in the file. */
static void a_dump(void **state) {
    (void)state;
    ir_module *module = support_module(back, true);
    base_arena arena;
    base_report report = {0};
    pass_memory *memory = NULL;
    pass_options options = options_of(PASS_ARENA_LEAST, 1);
    char *text = NULL;
    size_t size = 0;
    options.dump_after = "allocate";
    options.dump_file = open_memstream(&text, &size);
    assert_non_null(options.dump_file);
    base_arena_init(&arena, NULL);
    if (pass_pipeline_run(module, &options, &arena, &memory, &report) != BASE_OK) fail_msg("%s", report.text);
    fclose(options.dump_file);
    support_expect_golden("passes/memory/cases/spill.txt", text);
    free(text);
    base_arena_free(&arena);
    ir_module_free(module);
}

static void a_way_back(void **state) {
    (void)state;
    const outcome whole = compile(back, 0), least = compile(back, PASS_ARENA_LEAST);
    assert_int_equal(whole.spills + whole.restores + whole.file, 0);
    /* Five matrices, and what a product works in; of these two have to be there, as one more is an input or the output. */
    assert_int_equal(whole.arena, 7 * MATRIX);
    assert_int_equal(least.arena, 4 * MATRIX);
    assert_true(least.spills > 0 && least.restores >= least.spills && least.seconds > 0);
    assert_true(least.file >= MATRIX && least.file <= least.spills * MATRIX);
    /* Fewest bytes for what is asked; nothing where the limit is met anyhow. */
    const outcome one = compile(back, whole.arena - MATRIX);
    assert_int_equal(one.spills, 1);
    assert_int_equal(one.arena, whole.arena - MATRIX);
    assert_int_equal(compile(back, whole.arena).spills, 0);
    for (int threads = 1; threads <= 2; threads++) {
        compare(back, PASS_ARENA_LEAST, threads, 3);
        compare(back, whole.arena - MATRIX, threads, 4);
    }
}

/* What is read three times, with peaks in between, is written once. */
static void written_once(void **state) {
    (void)state;
    static const char text[] =
        "module \"mask\" {\n"
        "  graph main(%x: float32[64,64], %w: float32[64,256], %v: float32[256,64], %k: float32[64,1]) {\n"
        "    %m: float32[64,64] = Softmax(%x) {axis = 1}\n"
        "    %a0: float32[64,64] = Add(%x, %m)\n    %b0: float32[64,256] = MatMul(%a0, %w)\n"
        "    %c0: float32[64,256] = Softmax(%b0) {axis = 1}\n    %d0: float32[64,64] = MatMul(%c0, %v)\n"
        "    %a1: float32[64,64] = Add(%d0, %m)\n    %b1: float32[64,256] = MatMul(%a1, %w)\n"
        "    %c1: float32[64,256] = Softmax(%b1) {axis = 1}\n    %d1: float32[64,64] = MatMul(%c1, %v)\n"
        "    %a2: float32[64,64] = Add(%d1, %m)\n    %b2: float32[64,256] = MatMul(%a2, %w)\n"
        "    %c2: float32[64,256] = Softmax(%b2) {axis = 1}\n    %d2: float32[64,64] = MatMul(%c2, %v)\n"
        "    %r: float32[64,64] = Add(%d2, %m)\n    %s: float32[64,1] = MatMul(%r, %k)\n    yield %s\n  "
        "}\n}\n";
    pass_options options = options_of(PASS_ARENA_LEAST, 1);
    const outcome whole = compile(text, 0);
    options.arena_limit = whole.arena - MATRIX;
    const outcome limited = compile_with(text, options);
    assert_int_equal(limited.arena, whole.arena - MATRIX);
    assert_int_equal(limited.spills, 1);
    assert_int_equal(limited.restores, 3);
    assert_int_equal(limited.file, MATRIX);
    compare(text, options.arena_limit, 1, 5);
}

/* A view of what is spilled is made again of what is restored. */
static void views_are_made_again(void **state) {
    (void)state;
    static const char text[] =
        "module \"views\" {\n"
        "  constant %flat: int64[1] = {4096} constant %square: int64[2] = {64, 64}\n"
        "  graph main(%x: " TYPE ", %w: " TYPE ") {\n"
        "    %a: " TYPE " = MatMul(%x, %w)\n    %r: float32[4096] = Reshape(%a, %flat)\n"
        "    %b: " TYPE " = MatMul(%a, %w)\n    %c: " TYPE " = MatMul(%b, %w)\n"
        "    %d: " TYPE " = MatMul(%c, %b)\n    %e: " TYPE " = MatMul(%d, %c)\n"
        "    %q: float32[4096] = Reshape(%e, %flat)\n    %s: float32[4096] = Sub(%r, %q)\n"
        "    %t: " TYPE " = Reshape(%s, %square)\n    %u: " TYPE " = MatMul(%t, %a)\n"
        "    yield %u\n  }\n}\n";
    const outcome whole = compile(text, 0), least = compile(text, PASS_ARENA_LEAST);
    assert_true(least.spills > 0 && least.arena < whole.arena);
    compare(text, PASS_ARENA_LEAST, 1, 6);
}

/* ---- what the error says --------------------------------------------------------------------------------- */

static void a_limit_that_cannot_be_met(void **state) {
    (void)state;
    const size_t least = compile(back, PASS_ARENA_LEAST).arena;
    ir_module *module = support_module(back, true);
    base_arena arena;
    base_report report = {0};
    pass_memory *memory = NULL;
    pass_options options = options_of(least - 64, 1);
    char expected[128];
    base_arena_init(&arena, NULL);
    assert_int_equal(pass_pipeline_run(module, &options, &arena, &memory, &report), BASE_INVALID);
    snprintf(expected, sizeof expected, "the least is %zu bytes, which node \"", least);
    if (!strstr(report.text, expected)) fail_msg("%s", report.text);
    base_arena_free(&arena);
    ir_module_free(module);
}

/* ---- what the verifier says ------------------------------------------------------------------------------ */

static void expect_refused(const unsigned char *good, size_t size, const char *words) {
    plan opened;
    base_report report = {0};
    unsigned char *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(bytes);
    memcpy(bytes, good, size);
    support_plan_seal(bytes, size);
    assert_int_equal(plan_open(bytes, size, "bad.plan", &rt_plan_host, NULL, NULL, &opened, &report),
                     BASE_INVALID);
    if (!strstr(report.text, words)) fail_msg("\"%s\" does not say \"%s\"", report.text, words);
    free(bytes);
}

/* The record of the spilled tensor that node `nth` of the Spills makes, in bytes that may be changed. */
static plan_tensor *spilled_tensor(unsigned char *bytes, size_t nth) {
    const plan_header *header = (const plan_header *)(void *)bytes;
    plan_tensor *tensors = (plan_tensor *)(void *)(bytes + header->tensors.offset);
    for (uint64_t i = 0; i < header->tensors.count; i++)
        if (tensors[i].address.space == MEMORY_SPILL && !nth--) return &tensors[i];
    fail_msg("there are not so many spilled tensors");
    return NULL;
}

static void wrong_places_are_refused(void **state) {
    (void)state;
    const pass_options options = options_of(PASS_ARENA_LEAST, 1);
    size_t size;
    unsigned char *good = support_plan_with(back, &options, &size);
    plan_header *header = (plan_header *)(void *)good;
    plan_tensor *one = spilled_tensor(good, 0), *two = spilled_tensor(good, 1);
    const plan_address at = one->address, other = two->address;
    assert_int_not_equal(at.offset, other.offset);
    /* Two that are there at once lie in one place; in part; where the file ends. */
    one->address = other;
    expect_refused(good, size, "is not there: bytes");
    one->address.offset = other.offset < at.offset ? other.offset + 64 : other.offset - 64;
    expect_refused(good, size, "of the spill file");
    one->address.offset = header->spill_bytes - MATRIX + 64;
    expect_refused(good, size, "lie outside of their memory");
    /* In the arena, where a Restore does not look. */
    one->address = (plan_address){MEMORY_ARENA, 0, 0};
    expect_refused(good, size, "does not lie in the spill file");
    one->address = at;
    const uint64_t bytes = header->spill_bytes;
    header->spill_bytes += 64;
    expect_refused(good, size, "what lies there needs");
    header->spill_bytes = bytes;
    header->spill_path = UINT32_MAX;
    expect_refused(good, size, "its spill file is none");
    free(good);
}

static void strings_are_not_spilled(void **state) {
    (void)state;
    static const char text[] = "module \"texts\" { graph main(%x: string[4]) { %s: string[4] = "
                               "ouro.Spill(%x) %r: string[4] = ouro.Restore(%s) yield %r } }\n";
    size_t size;
    unsigned char *bytes = support_plan(text, true, &size);
    expect_refused(bytes, size, "moves strings");
    free(bytes);
}

/* ---- files ----------------------------------------------------------------------------------------------- */

/* Memory in place of a file, whose transfer number `fails` does not go well. */
typedef struct broken_file {
    unsigned char bytes[8 * MATRIX];
    int fails, transfers, open;
    bool full;
} broken_file;

static int open_broken(void *user, uint64_t bytes, void **place) {
    broken_file *file = *place = user;
    if (file->full || bytes > sizeof file->bytes) return 28; /* no space left on device */
    file->open++;
    return 0;
}

static int write_broken(void *place, uint64_t offset, const void *data, size_t bytes) {
    broken_file *file = place;
    if (++file->transfers == file->fails) return 5;
    assert_true(offset <= sizeof file->bytes && bytes <= sizeof file->bytes - offset);
    memcpy(file->bytes + offset, data, bytes);
    return 0;
}

static int read_broken(void *place, uint64_t offset, void *data, size_t bytes) {
    broken_file *file = place;
    if (++file->transfers == file->fails) return 5;
    memcpy(data, file->bytes + offset, bytes);
    return 0;
}

static void close_broken(void *place) {
    ((broken_file *)place)->open--;
}

static void transfers_that_fail(void **state) {
    (void)state;
    static broken_file file;
    const ouro_spill calls = {open_broken, write_broken, read_broken, close_broken, &file};
    const ouro_session_options options = {.spill = &calls};
    support_session plain, spilled;
    ouro_error error;
    open_limited(&plain, back, 0, 1);
    open_limited(&spilled, back, PASS_ARENA_LEAST, 1);
    assert_true(ouro_plan_spill_bytes(spilled.plan) >= MATRIX && ouro_plan_spill_bytes(plain.plan) == 0);
    assert_string_equal(ouro_plan_spill_path(spilled.plan), file_name);
    assert_string_equal(ouro_plan_spill_path(plain.plan), "");
    ouro_session_free(spilled.session);
    file.full = true;
    assert_int_equal(ouro_session_new(spilled.plan, &options, &spilled.session, &error), OURO_MACHINE);
    assert_non_null(strstr(error.message, "cannot be made: error 28"));
    file.full = false;
    assert_int_equal(ouro_session_new(spilled.plan, &options, &spilled.session, &error), OURO_OK);
    bind_all(&plain, 7);
    bind_all(&spilled, 7);
    support_run(&plain);
    assert_int_equal(ouro_session_run(spilled.session, &error), OURO_OK);
    const int transfers = file.transfers;
    assert_true(transfers >= 4);
    for (int at = 1; at <= transfers; at++) {
        file.transfers = 0;
        file.fails = at;
        assert_int_equal(ouro_session_run(spilled.session, &error), OURO_MACHINE);
        assert_non_null(
            strstr(error.message,
                   at == 1 ? "(Spill): what the session was given to spill to cannot be written: error 5"
                           : "error 5"));
        file.fails = 0;
        assert_int_equal(ouro_session_run(spilled.session, &error), OURO_OK);
        expect_same(&plain, &spilled, back, 7);
    }
    assert_int_equal(file.open, 1);
    support_session_close(&plain);
    support_session_close(&spilled);
    assert_int_equal(file.open, 0);
}

static void files_that_cannot_be_made(void **state) {
    (void)state;
    support_session spilled;
    ouro_session *other = NULL;
    ouro_error error;
    open_limited(&spilled, back, PASS_ARENA_LEAST, 1);
    ouro_session_options options = {.spill_path = "/nowhere/at/all"};
    assert_int_equal(ouro_session_new(spilled.plan, &options, &other, &error), OURO_INVALID);
    assert_non_null(strstr(error.message, "spill file /nowhere/at/all cannot be made: No such file"));
    /* What is there is left alone. */
    FILE *there = fopen(file_name, "w");
    assert_non_null(there);
    fputs("precious", there);
    fclose(there);
    assert_true(ouro_session_new(spilled.plan, NULL, &other, &error) != OURO_OK);
    assert_non_null(strstr(error.message, "File exists"));
    size_t size;
    char *text = support_read_file(file_name, &size);
    assert_memory_equal(text, "precious", 8);
    free(text);
    unlink(file_name);
    /* A disk that is full is told before anything runs. */
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = MATRIX / 2;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const ouro_status full = ouro_session_new(spilled.plan, NULL, &other, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(full != OURO_OK && strstr(error.message, "cannot be made: File too large"));
    assert_int_not_equal(access(file_name, F_OK), 0);
    options.spill_path = "";
    assert_int_equal(ouro_session_new(spilled.plan, &options, &other, &error), OURO_USAGE);
    /* Sizes are told without a file. */
    options.spill_path = "/nowhere/at/all";
    assert_int_equal(ouro_session_bytes(spilled.plan, &options, &size, &error), OURO_OK);
    assert_true(size > ouro_plan_arena_bytes(spilled.plan));
    support_session_close(&spilled);
}

/* Each session, and each clone, has a file of its own under one name. Runs take no memory. */
static void sessions_side_by_side(void **state) {
    (void)state;
    enum { SESSIONS = 4 };
    support_session plain[SESSIONS], spilled;
    ouro_session *sessions[SESSIONS];
    ouro_error error;
    open_limited(&spilled, back, PASS_ARENA_LEAST, 1);
    static float inputs[SESSIONS][2][64 * 64];
    for (int i = 0; i < SESSIONS; i++) {
        uint64_t chance = (uint64_t)i + 1;
        if (i % 2) assert_int_equal(ouro_session_clone(sessions[i - 1], &sessions[i], &error), OURO_OK);
        else assert_int_equal(ouro_session_new(spilled.plan, NULL, &sessions[i], &error), OURO_OK);
        open_limited(&plain[i], back, 0, 1);
        for (size_t k = 0; k < 2; k++) {
            for (int n = 0; n < 64 * 64; n++)
                inputs[i][k][n] = (float)(support_random(&chance) % 1000) / 1000;
            support_bind(&plain[i], k, inputs[i][k], MATRIX);
            assert_int_equal(ouro_session_bind_input(sessions[i], k, inputs[i][k], MATRIX, NULL, &error),
                             OURO_OK);
        }
        support_run(&plain[i]);
    }
    for (int i = 0; i < SESSIONS; i++) assert_int_equal(ouro_session_run(sessions[i], &error), OURO_OK);
    const size_t before = allocations_count();
    for (int i = 0; i < SESSIONS; i++) assert_int_equal(ouro_session_run(sessions[i], &error), OURO_OK);
    assert_int_equal(allocations_count(), before);
    for (int i = 0; i < SESSIONS; i++) {
        ouro_tensor_info info;
        const void *data;
        assert_int_equal(ouro_session_output(sessions[i], 0, &info, &data, &error), OURO_OK);
        assert_memory_equal(data, support_output(&plain[i], 0, MATRIX), MATRIX);
        ouro_session_free(sessions[i]);
        support_session_close(&plain[i]);
    }
    support_session_close(&spilled);
}

/* ---- random graphs --------------------------------------------------------------------------------------- */

enum { VALUES = 30 };

/* One node, or a few, that make value n of values before it: `soon` is one of the last ones, `late` any. */
static void write_value(FILE *out, unsigned n, unsigned soon, unsigned late, uint64_t kind) {
    static const char *const unary[] = {"Tanh(%%v%u)\n", "Transpose(%%v%u) {perm = [1, 0]}\n",
                                        "Softmax(%%v%u) {axis = 1}\n"};
    if (kind < 3) {
        (void)fprintf(out, "    %%v%u: float32[16,16] = ", n);
        (void)fprintf(out, unary[kind], soon);
    } else if (kind == 3) {
        (void)fprintf(out,
                      "    %%f%u: float32[256] = Reshape(%%v%u, %%flat)\n"
                      "    %%v%u: float32[16,16] = Reshape(%%f%u, %%shape)\n",
                      n, late, n, n);
    } else if (kind == 4) {
        (void)fprintf(out,
                      "    %%c%u: float32[32,16] = Concat(%%v%u, %%v%u) {axis = 0}\n"
                      "    %%s%u: float32[32,16] = Softmax(%%c%u) {axis = 0}\n"
                      "    %%v%u: float32[16,16], %%w%u: float32[16,16] = Split(%%s%u, %%ends) {axis = 0}\n",
                      n, late, soon, n, n, n, n, n);
    } else if (kind == 5) {
        (void)fprintf(
            out,
            "    %%v%u: float32[16,16] = Loop(%%trips, _, %%v%u) { graph body%u(%%i%u: int64[], %%k%u: "
            "bool[], "
            "%%x%u: float32[16,16]) { %%y%u: float32[16,16] = MatMul(%%x%u, %%v%u) %%z%u: float32[16,16] = "
            "Softmax(%%y%u) {axis = 1} yield %%k%u, %%z%u } }\n",
            n, soon, n, n, n, n, n, n, late, n, n, n, n);
    } else if (kind < 8) {
        (void)fprintf(out, "    %%v%u: float32[16,16] = MatMul(%%v%u, %%v%u)\n", n, soon, late);
    } else {
        (void)fprintf(out, "    %%v%u: float32[16,16] = Add(%%v%u, %%v%u)\n", n, soon, late);
    }
}

/* Values of 16 x 16 that are read soon and late: by products, concatenations, views and loops. */
static char *random_graph(uint64_t seed) {
    uint64_t chance = seed * 2654435761u + 1;
    char *text = NULL;
    size_t size = 0;
    bool read[VALUES] = {false};
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    (void)fputs("module \"m\" {\n"
                "  constant %shape: int64[2] = {16, 16}\n"
                "  constant %flat: int64[1] = {256}\n"
                "  constant %ends: int64[2] = {16, 16}\n"
                "  constant %trips: int64[] = {3}\n"
                "  graph main(%v0: float32[16,16], %v1: float32[16,16]) {\n",
                out);
    for (unsigned n = 2; n < VALUES; n++) {
        const unsigned late = (unsigned)(support_random(&chance) % n),
                       soon = n - 1 - (unsigned)(support_random(&chance) % 2);
        const uint64_t kind = support_random(&chance) % 10;
        write_value(out, n, soon, late, kind);
        if (kind != 3) read[soon] = true;
        if (kind >= 3) read[late] = true;
    }
    (void)fprintf(out, "    yield %%v%d", VALUES - 1);
    for (int n = 2; n < VALUES - 1; n++)
        if (!read[n]) (void)fprintf(out, ", %%v%d", n);
    (void)fputs("\n  }\n}\n", out);
    (void)fclose(out);
    return text;
}

static uint64_t first_seed(void) {
    const char *first = getenv("OURO_TEST_SEED");
    return first ? strtoull(first, NULL, 10) : 1;
}

static uint64_t seeds(uint64_t otherwise) {
    const char *many = getenv("OURO_TEST_SPILL");
    return many ? strtoull(many, NULL, 10) : otherwise;
}

/* Within the least arena there is, and in the middle between that and the arena without a limit. *smaller: it is less than that
 * without spilling. */
static size_t try_graph(const char *text, uint64_t seed, size_t *smaller) {
    const int threads = 1 + (int)(seed % 2); /* kernels work in more memory on two */
    pass_options unspilled = options_of(PASS_ARENA_LEAST, threads);
    unspilled.spill_path = NULL;
    const outcome whole = compile_with(text, options_of(0, threads)), bands = compile_with(text, unspilled),
                  least = compile_with(text, options_of(PASS_ARENA_LEAST, threads));
    if (least.arena > bands.arena)
        fail_msg("seed %" PRIu64 ": %zu bytes, without spilling %zu\n%s", seed, least.arena, bands.arena,
                 text);
    assert_true((least.spills > 0) == (least.file > 0) && least.restores >= least.spills);
    *smaller += least.arena < bands.arena;
    compare(text, PASS_ARENA_LEAST, threads, seed);
    if (least.arena < whole.arena) {
        const size_t limit = (least.arena + whole.arena) / 2;
        assert_in_range(compile_with(text, options_of(limit, threads)).arena, 0, limit);
        compare(text, limit, threads, seed);
    }
    return least.restores;
}

static void random_graphs(void **state) {
    (void)state;
    const uint64_t begin = first_seed(), count = seeds(support_share(GRAPHS));
    size_t smaller = 0, restored = 0;
    for (uint64_t seed = begin; seed < begin + count; seed++) {
        char *text = random_graph(seed);
        if (begin != 1) puts(text);
        restored += try_graph(text, seed, &smaller);
        free(text);
    }
    printf("%zu values restored, %zu of %zu arenas smaller\n", restored, smaller, (size_t)count);
    assert_true(smaller * 2 >= count);
}

/* Beside bands. */
static void random_networks(void **state) {
    (void)state;
    const uint64_t begin = first_seed(), count = seeds(support_share(NETWORKS));
    size_t smaller = 0, restored = 0, tried = 0;
    for (uint64_t seed = begin; tried < count && seed < begin + 20 * count; seed++) {
        size_t bytes;
        char *text = support_network_of_maps(seed, 1, &bytes);
        if (!text || bytes > sizeof(float) << 16) {
            free(text);
            continue;
        }
        tried++;
        restored += try_graph(text, seed, &smaller);
        free(text);
    }
    printf("%zu values restored, %zu of %zu arenas smaller\n", restored, smaller, tried);
}

int main(int count, char **arguments) {
    support_arguments(count, arguments);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dump),
        cmocka_unit_test(a_way_back),
        cmocka_unit_test(written_once),
        cmocka_unit_test(views_are_made_again),
        cmocka_unit_test(a_limit_that_cannot_be_met),
        cmocka_unit_test(transfers_that_fail),
        cmocka_unit_test(files_that_cannot_be_made),
        cmocka_unit_test(sessions_side_by_side),
        cmocka_unit_test(wrong_places_are_refused),
        cmocka_unit_test(strings_are_not_spilled),
        cmocka_unit_test(random_graphs),
        cmocka_unit_test(random_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
