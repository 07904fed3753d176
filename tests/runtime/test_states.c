/* SPDX-License-Identifier: Apache-2.0 */
/* test_states.c: what is kept from run to run, beside a caller who copies outputs to inputs himself: fixed cases, random programs,
 * runs that fail, reset, set, save and load, and plans that are broken on purpose.
 */
#include "compiler/report/state.h"
#include "runtime/executor.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include "tests/support/writer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { SIDE = 4, ELEMENTS = SIDE * SIDE, RUNS = 21, MOST_STATES = 5, TEXT = 8192 };

#define T "float32[4,4]"
#define HEAD                                                                                                 \
    "module \"states\" { constant %%half: " T                                                                \
    " = {0.5, 0, 0, 0.25, 0, 0.5, 0, 0, 0, 0, 0.5, 0, 0.125, 0, 0, 0.5}\n"

typedef float matrix[ELEMENTS];

/* ---- both ways ------------------------------------------------------------------------------------------ */

/* The same program with states, and with a caller who hands them on. */
typedef struct both {
    support_session with, without;
    size_t states;
    matrix held[MOST_STATES]; /* what the caller hands on */
    matrix input;
    int64_t indices[SIDE];
    bool indexed;
} both;

/* The program stands with "%s" where "states N" is. */
static void open_both(both *b, const char *format, size_t states) {
    static char text[TEXT];
    char clause[32];
    *b = (both){.states = states};
    snprintf(clause, sizeof clause, "states %zu", states);
    assert_true(snprintf(text, sizeof text, format, clause) < (int)sizeof text);
    support_session_open(&b->with, text, 1);
    snprintf(text, sizeof text, format, "");
    support_session_open(&b->without, text, 1);
    b->indexed = ouro_plan_input_count(b->with.plan) == 2;
    for (size_t i = 0; i < states; i++) support_bind(&b->without, i, b->held[i], sizeof b->held[i]);
    support_bind(&b->without, states, b->input, sizeof b->input);
    support_bind(&b->with, 0, b->input, sizeof b->input);
    if (!b->indexed) return;
    support_bind(&b->with, 1, b->indices, sizeof b->indices);
    support_bind(&b->without, states + 1, b->indices, sizeof b->indices);
}

static void close_both(both *b) {
    support_session_close(&b->with);
    support_session_close(&b->without);
}

static void draw(matrix values, uint64_t *random) {
    for (int i = 0; i < ELEMENTS; i++) values[i] = (float)(support_random(random) % 2001) / 1000 - 1;
}

static void expect_states(const both *b) {
    for (size_t i = 0; i < b->states; i++) {
        ouro_state_info info;
        const void *data;
        assert_int_equal(ouro_session_state_get(b->with.session, i, &info, &data, NULL), OURO_OK);
        assert_int_equal(info.bytes, sizeof(matrix));
        assert_memory_equal(data, b->held[i], sizeof(matrix));
    }
}

/* One run of both; it fails in both or in neither. True where it was right. */
static bool run_both(both *b, bool check) {
    base_report report = {0};
    ouro_error error;
    const bool fine = ouro_session_run(b->without.session, &error) == OURO_OK;
    const bool ran = check ? rt_session_check(b->with.session, &report) == BASE_OK
                           : ouro_session_run(b->with.session, &error) == OURO_OK;
    if (fine != ran) fail_msg("%s", check ? report.text : error.message);
    if (fine) {
        for (size_t i = 0; i < ouro_plan_output_count(b->with.plan); i++)
            assert_memory_equal(support_output(&b->with, i, sizeof(matrix)),
                                support_output(&b->without, b->states + i, sizeof(matrix)), sizeof(matrix));
        for (size_t i = 0; i < b->states; i++)
            memcpy(b->held[i], support_output(&b->without, i, sizeof(matrix)), sizeof(matrix));
    }
    expect_states(b);
    return fine;
}

/* ---- fixed cases ---------------------------------------------------------------------------------------- */

typedef struct state_case {
    const char *name, *text;
    size_t states;
    uint64_t periods[MOST_STATES];
    uint64_t bytes;  /* of all states */
    uint64_t copied; /* in a run */
} state_case;

static const state_case cases[] = {
    {"made over what dies",
     HEAD "graph main(%%h: " T ", %%x: " T ") %s { %%y: " T " = Add(%%h, %%x) yield %%y } }",
     1,
     {1},
     64,
     0},
    {"a state that its operator makes anew beside its result",
     HEAD
     "constant %%one: int64[3] = {1, 4, 4} constant %%head: int64[4] = {1, 1, 4, 4} constant %%whole: "
     "int64[2] = {4, 4}\n"
     "graph main(%%h: " T ", %%x: " T
     ") %s { %%k: float32[1,4,4] = Reshape(%%x, %%one) %%p: float32[1,1,4,4] = Reshape(%%h, %%head)\n"
     " %%o: float32[1,4,4], %%n: float32[1,1,4,4] = LinearAttention(%%k, %%k, %%k, %%p) {kv_num_heads = 1, "
     "q_num_heads = 1, update_rule = \"linear\"}\n"
     " %%y: " T " = Reshape(%%n, %%whole) %%r: " T " = Reshape(%%o, %%whole) yield %%y, %%r } }",
     1,
     {1},
     64,
     0},
    {"the states of an LSTM, whose result is the next layer's input",
     HEAD
     "constant %%one: int64[3] = {1, 4, 4} constant %%whole: int64[2] = {4, 4}\n"
     "graph main(%%h: " T ", %%c: " T ", %%g: " T ", %%x: " T
     ") %s { %%k: float32[1,4,4] = Reshape(%%x, %%one) %%h0: float32[1,4,4] = Reshape(%%h, %%one)\n"
     " %%c0: float32[1,4,4] = Reshape(%%c, %%one) %%g0: float32[1,4,4] = Reshape(%%g, %%one)\n"
     " %%w1: float32[1,4,4] = Reshape(%%half, %%one) %%w3: float32[1,12,4] = Concat(%%w1, %%w1, %%w1) {axis "
     "= 1}\n"
     " %%w4: float32[1,16,4] = Concat(%%w1, %%w3) {axis = 1}\n"
     " %%y: float32[1,1,4,4], %%hn: float32[1,4,4], %%cn: float32[1,4,4] = LSTM(%%k, %%w4, %%w4, _, _, %%h0, "
     "%%c0) {hidden_size = 4}\n"
     " %%o: float32[1,4,4] = Reshape(%%y, %%one)\n"
     " %%p: float32[1,1,4,4], %%gn: float32[1,4,4] = GRU(%%o, %%w3, %%w3, _, _, %%g0) {hidden_size = 4}\n"
     " %%h1: " T " = Reshape(%%hn, %%whole) %%c1: " T " = Reshape(%%cn, %%whole) %%g1: " T
     " = Reshape(%%gn, %%whole) %%r: " T " = Reshape(%%p, %%whole) yield %%h1, %%c1, %%g1, %%r } }",
     3,
     {1, 1, 1},
     192,
     0},
    {"two buffers in turn",
     HEAD "graph main(%%h: " T ", %%x: " T ") %s { %%y: " T " = MatMul(%%h, %%x) yield %%y } }",
     1,
     {2},
     128,
     0},
    {"made when it has been read",
     HEAD "graph main(%%h: " T ", %%x: " T ") %s { %%t: " T " = MatMul(%%h, %%x) %%y: " T
          " = MatMul(%%t, %%half) yield %%y } }",
     1,
     {1},
     64,
     0},
    {"a delay of three",
     HEAD "graph main(%%a: " T ", %%b: " T ", %%c: " T ", %%x: " T ") %s { %%y: " T
          " = MatMul(%%x, %%half) %%o: " T " = MatMul(%%a, %%b) yield %%b, %%c, %%y, %%o } }",
     3,
     {4, 4, 4},
     256,
     0},
    {"two that change places",
     HEAD "graph main(%%a: " T ", %%b: " T ", %%x: " T ") %s { %%o: " T
          " = Add(%%a, %%x) yield %%b, %%a, %%o } }",
     2,
     {2, 2},
     128,
     0},
    {"one that a run leaves as it is",
     HEAD "graph main(%%a: " T ", %%x: " T ") %s { %%o: " T " = Add(%%a, %%x) yield %%a, %%o } }",
     1,
     {1},
     64,
     0},
    {"a constant from the second run on",
     HEAD "graph main(%%a: " T ", %%x: " T ") %s { %%o: " T " = Add(%%a, %%x) yield %%half, %%o } }",
     1,
     {1},
     64,
     0},
    {"one value that two become",
     HEAD "graph main(%%a: " T ", %%b: " T ", %%x: " T ") %s { %%y: " T " = MatMul(%%a, %%x) %%o: " T
          " = Add(%%y, %%b) yield %%y, %%y, %%o } }",
     2,
     {2, 2},
     192,
     0},
    {"an input of the run, which the caller may take away",
     HEAD "graph main(%%a: " T ", %%x: " T ") %s { %%o: " T " = Sub(%%a, %%x) yield %%x, %%o } }",
     1,
     {1},
     64,
     64},
    {"a state that is an output as well",
     HEAD "graph main(%%a: " T ", %%x: " T ") %s { %%y: " T " = MatMul(%%a, %%x) yield %%y, %%y } }",
     1,
     {2},
     128,
     64},
    {"a sliding window",
     HEAD "constant %%one: int64[1] = {1} constant %%four: int64[1] = {4} constant %%none: int64[1] = {0}\n"
          "graph main(%%a: " T ", %%x: " T ") %s { %%w: float32[3,4] = Slice(%%a, %%one, %%four, %%none)\n"
          " %%r: float32[1,4] = Slice(%%x, %%none, %%one, %%none) %%y: " T
          " = Concat(%%w, %%r) {axis = 0} yield %%y, %%x } }",
     1,
     {8},
     192,
     6},
    {"a window of what was kept of more",
     HEAD "constant %%one: int64[1] = {1} constant %%five: int64[1] = {5} constant %%none: int64[1] = {0}\n"
          "graph main(%%a: " T ", %%x: " T ") %s { %%r: float32[1,4] = Slice(%%x, %%none, %%one, %%none)\n"
          " %%c: float32[5,4] = Concat(%%a, %%r) {axis = 0} %%o: float32[5,4] = Neg(%%c)\n"
          " %%p: " T " = Slice(%%o, %%one, %%five, %%none) %%y: " T
          " = Slice(%%c, %%one, %%five, %%none) yield %%y, %%p } }",
     1,
     {8},
     192,
     8},
    {"a window that moves by three of four positions",
     HEAD "constant %%three: int64[1] = {3} constant %%four: int64[1] = {4} constant %%none: int64[1] = {0}\n"
          "graph main(%%a: " T ", %%x: " T ") %s { %%w: float32[1,4] = Slice(%%a, %%three, %%four, %%none)\n"
          " %%r: float32[3,4] = Slice(%%x, %%none, %%three, %%none) %%y: " T
          " = Concat(%%w, %%r) {axis = 0} %%o: " T " = Add(%%y, %%a) yield %%y, %%o } }",
     1,
     {4},
     256,
     4},
    {"a window whose old value is read last",
     HEAD "constant %%one: int64[1] = {1} constant %%four: int64[1] = {4} constant %%none: int64[1] = {0}\n"
          "graph main(%%a: " T ", %%x: " T ") %s { %%w: float32[3,4] = Slice(%%a, %%one, %%four, %%none)\n"
          " %%r: float32[1,4] = Slice(%%x, %%none, %%one, %%none) %%y: " T
          " = Concat(%%w, %%r) {axis = 0} %%o: " T " = MatMul(%%y, %%a) yield %%y, %%o } }",
     1,
     {8},
     192,
     6},
};

static void test_cases(void **context) {
    (void)context;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const state_case *one = &cases[c];
        uint64_t random = 7 + c, copied = 0;
        both b;
        print_message("%s\n", one->name);
        open_both(&b, one->text, one->states);
        const plan *of = rt_plan_of(b.with.plan);
        assert_int_equal(of->header->states.count, one->states);
        for (uint32_t i = 0; i < one->states; i++) {
            const emit_state state = emit_state_measure(of, i);
            assert_int_equal(state.period, one->periods[i]);
            copied += state.copied;
        }
        assert_int_equal(of->header->state_bytes, one->bytes);
        assert_int_equal(copied, one->copied);
        for (int run = 0; run < RUNS; run++) {
            draw(b.input, &random);
            assert_true(run_both(&b, run % 2));
        }
        close_both(&b);
    }
}

/* The second of two recurrences fails where a length is wrong: the state of the first is then as it was. */
static void test_lengths(void **context) {
    (void)context;
    static const char text[] =
        HEAD "constant %%one: int64[3] = {1, 4, 4} constant %%whole: int64[2] = {4, 4}\n"
             "graph main(%%h: " T ", %%g: " T ", %%x: " T ", %%at: int64[4]) %s {\n"
             " %%k: float32[1,4,4] = Reshape(%%x, %%one) %%w: float32[1,4,4] = Reshape(%%half, %%one)\n"
             " %%h0: float32[1,4,4] = Reshape(%%h, %%one) %%g0: float32[1,4,4] = Reshape(%%g, %%one)\n"
             " %%y: float32[1,1,4,4], %%hn: float32[1,4,4] = RNN(%%k, %%w, %%w, _, _, %%h0) {hidden_size = "
             "4}\n"
             " %%o: float32[1,4,4] = Reshape(%%y, %%one) %%l: int32[4] = Cast(%%at) {to = 6}\n"
             " %%p: float32[1,1,4,4], %%gn: float32[1,4,4] = RNN(%%o, %%w, %%w, _, %%l, %%g0) {hidden_size = "
             "4}\n"
             " %%h1: " T " = Reshape(%%hn, %%whole) %%g1: " T " = Reshape(%%gn, %%whole) %%r: " T
             " = Reshape(%%p, %%whole) yield %%h1, %%g1, %%r } }";
    uint64_t random = 3;
    both b;
    open_both(&b, text, 2);
    assert_int_equal(rt_plan_of(b.with.plan)->header->state_bytes,
                     192); /* the second state alone lies in one place */
    for (int run = 0; run < RUNS; run++) {
        const bool wrong = run % 3 == 2;
        draw(b.input, &random);
        for (int i = 0; i < SIDE; i++) b.indices[i] = (run >> i) & 1;
        if (wrong) b.indices[run % SIDE] = run % 2 ? 2 : -1;
        assert_int_equal(run_both(&b, run % 2), !wrong);
    }
    close_both(&b);
}

/* ---- random programs ------------------------------------------------------------------------------------ */

typedef struct program {
    char text[TEXT / 2];
    support_writer to;
    size_t states;
    int values;
    bool indexed;
} program;

static int pick(const program *p, uint64_t *random) {
    return (int)(support_random(random) % (uint64_t)p->values);
}

/* Value 0 to states - 1: states; then the input; then what nodes make. Magnitudes stay small. */
static void draw_node(program *p, uint64_t *random) {
    const int a = pick(p, random), b = pick(p, random), made = p->values;
    switch (support_random(random) % (p->indexed ? 9 : 8)) {
    case 0:
    case 1:
        support_write(&p->to, " %%%%s%d: " T " = Add(%%%%v%d, %%%%v%d) %%%%v%d: " T " = Tanh(%%%%s%d)\n",
                      made, a, b, made, made);
        break;
    case 2:
        support_write(&p->to, " %%%%v%d: " T " = Tanh(%%%%v%d)\n", made, a);
        break;
    case 3:
        support_write(&p->to, " %%%%s%d: " T " = MatMul(%%%%v%d, %%%%v%d) %%%%v%d: " T " = Tanh(%%%%s%d)\n",
                      made, a, b, made, made);
        break;
    case 4:
        support_write(&p->to, " %%%%v%d: " T " = MatMul(%%%%v%d, %%%%half)\n", made, a);
        break;
    case 5:
        support_write(&p->to, " %%%%v%d: " T " = Transpose(%%%%v%d) {perm = [1, 0]}\n", made, a);
        break;
    case 6:
        support_write(&p->to, " %%%%v%d: " T " = Neg(%%%%v%d)\n", made, a);
        break;
    case 7:
        support_write(
            &p->to,
            " %%%%w%d: float32[3,4] = Slice(%%%%v%d, %%%%one, %%%%four, %%%%none) %%%%r%d: float32[1,4] = "
            "Slice(%%%%v%d, %%%%none, %%%%one, %%%%none) %%%%v%d: " T
            " = Concat(%%%%w%d, %%%%r%d) {axis = 0}\n",
            made, a, made, b, made, made, made);
        break;
    default:
        support_write(&p->to, " %%%%v%d: " T " = Gather(%%%%v%d, %%%%at) {axis = 0}\n", made, a);
    }
    p->values++;
}

static void draw_program(program *p, uint64_t *random) {
    *p = (program){.states = 1 + support_random(random) % 4, .indexed = support_random(random) % 3 == 0};
    const int nodes = 1 + (int)(support_random(random) % 8), outputs = 1 + (int)(support_random(random) % 2);
    p->to = support_writer_on(p->text, sizeof p->text);
    support_write(&p->to, "%s", HEAD);
    support_write(
        &p->to,
        "constant %%%%one: int64[1] = {1} constant %%%%four: int64[1] = {4} constant %%%%none: int64[1] = "
        "{0}\n");
    support_write(&p->to, "graph main(");
    for (size_t i = 0; i <= p->states; i++)
        support_write(&p->to, "%s%%%%v%d: " T, i ? ", " : "", p->values++);
    support_write(&p->to, "%s) %%s {\n", p->indexed ? ", %%at: int64[4]" : "");
    for (int i = 0; i < nodes; i++) draw_node(p, random);
    support_write(&p->to, " yield ");
    for (size_t i = 0; i < p->states + (size_t)outputs; i++)
        support_write(&p->to, "%s%%%%v%d", i ? ", " : "", pick(p, random));
    support_write(&p->to, " } }");
}

static void test_random_programs(void **context) {
    (void)context;
    const char *const asked = getenv("OURO_STATES_PROGRAMS");
    const int programs = asked ? atoi(asked) : 250;
    for (int n = 0; n < programs; n++) {
        uint64_t random = 1000 + (uint64_t)n;
        static program p;
        both b;
        draw_program(&p, &random);
        if (asked) print_message("program %d\n%s\n", n, p.text);
        open_both(&b, p.text, p.states);
        for (int run = 0; run < RUNS; run++) {
            /* Every fourth run is given an index that is out of range. */
            for (int i = 0; i < SIDE; i++) b.indices[i] = (int64_t)(support_random(&random) % SIDE);
            if (b.indexed && run % 4 == 2) b.indices[support_random(&random) % SIDE] = 17;
            draw(b.input, &random);
            (void)run_both(&b, run % 3 == 1);
        }
        close_both(&b);
    }
}

/* ---- reset, set, save, load ----------------------------------------------------------------------------- */

static const char delays[] =
    HEAD "graph main(%%a: " T ", %%b: " T ", %%c: " T ", %%x: " T ") %s { %%y: " T
         " = MatMul(%%x, %%half) %%o: " T " = MatMul(%%a, %%b) yield %%b, %%c, %%y, %%o } }";

static void test_calls(void **context) {
    (void)context;
    uint64_t random = 3;
    ouro_error error;
    both b;
    open_both(&b, delays, 3);
    ouro_session *session = b.with.session;
    assert_int_equal(ouro_plan_state_count(b.with.plan), 3);
    assert_int_equal(ouro_plan_state_bytes(b.with.plan), 4 * sizeof(matrix));
    assert_int_equal(ouro_plan_find_state(b.with.plan, "b"), 1);
    assert_int_equal(ouro_plan_find_state(b.with.plan, "nothing"), -1);
    assert_int_equal(ouro_plan_find_input(b.with.plan, "b"), -1);
    for (int run = 0; run < 7; run++) {
        draw(b.input, &random);
        assert_true(run_both(&b, false));
    }
    /* One is set in the middle; the others stay. */
    draw(b.held[1], &random);
    assert_int_equal(ouro_session_state_set(session, 1, b.held[1], sizeof(matrix), NULL, &error), OURO_OK);
    expect_states(&b);
    for (int run = 0; run < 5; run++) assert_true(run_both(&b, false));
    /* Saved here, gone on, and loaded into another session. */
    const size_t bytes = ouro_session_state_saved_bytes(session);
    unsigned char *saved = malloc(bytes);
    matrix kept[3];
    assert_int_equal(ouro_session_state_save(session, saved, bytes - 1, &error), OURO_USAGE);
    assert_int_equal(ouro_session_state_save(session, saved, bytes, &error), OURO_OK);
    memcpy(kept, b.held, sizeof kept);
    for (int run = 0; run < 3; run++) assert_true(run_both(&b, false));
    ouro_session *other;
    assert_int_equal(ouro_session_new(b.with.plan, NULL, &other, &error), OURO_OK);
    assert_int_equal(ouro_session_state_load(other, saved, bytes, &error), OURO_OK);
    assert_int_equal(ouro_session_bind_input(other, 0, b.input, sizeof b.input, NULL, &error), OURO_OK);
    b.with.session = other;
    memcpy(b.held, kept, sizeof kept);
    for (int run = 0; run < 3; run++) assert_true(run_both(&b, false));
    b.with.session = session;
    ouro_session_free(other);
    /* Bytes that are none. */
    saved[9] ^= 1;
    assert_int_equal(ouro_session_state_load(session, saved, bytes, &error), OURO_INVALID);
    assert_int_equal(ouro_session_state_load(session, NULL, 0, &error), OURO_INVALID);
    free(saved);
    /* Zeros, or what is given. */
    memset(b.held, 0, sizeof b.held);
    draw(b.held[2], &random);
    assert_int_equal(ouro_session_state_initial(session, 2, b.held[2], sizeof(matrix), NULL, &error),
                     OURO_OK);
    assert_int_equal(ouro_session_state_reset(session, &error), OURO_OK);
    expect_states(&b);
    for (int run = 0; run < 5; run++) assert_true(run_both(&b, false));
    assert_int_equal(ouro_session_state_set(session, 3, b.input, sizeof(matrix), NULL, &error), OURO_USAGE);
    assert_int_equal(ouro_session_state_set(session, 0, b.input, 4, NULL, &error), OURO_USAGE);
    close_both(&b);
}

/* A run that is cancelled changes nothing, or is done. */
static void test_cancelled(void **context) {
    (void)context;
    uint64_t random = 5;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        both b;
        ouro_error error;
        open_both(&b, cases[c].text, cases[c].states);
        for (int run = 0; run < 3; run++) {
            draw(b.input, &random);
            assert_true(run_both(&b, false));
        }
        ouro_session_cancel(b.with.session);
        if (ouro_session_run(b.with.session, &error) == OURO_OK) {
            assert_int_equal(ouro_session_run(b.without.session, &error), OURO_OK);
            for (size_t i = 0; i < b.states; i++)
                memcpy(b.held[i], support_output(&b.without, i, sizeof(matrix)), sizeof(matrix));
        } else {
            assert_int_equal(error.status, OURO_CANCELLED);
        }
        expect_states(&b);
        for (int run = 0; run < 3; run++) assert_true(run_both(&b, false));
        close_both(&b);
    }
}

/* ---- broken plans --------------------------------------------------------------------------------------- */

/* What the plan computes in some runs from its states on; false where a run fails. */
static bool record(ouro_plan *opened, matrix *results, size_t *count) {
    uint64_t random = 11;
    matrix input;
    int64_t indices[SIDE] = {3, 1, 2, 0};
    ouro_session *session;
    bool fine = true;
    *count = 0;
    assert_int_equal(ouro_session_new(opened, NULL, &session, NULL), OURO_OK);
    (void)ouro_session_bind_input(session, 0, input, sizeof input, NULL, NULL);
    if (ouro_plan_input_count(opened) > 1)
        (void)ouro_session_bind_input(session, 1, indices, sizeof indices, NULL, NULL);
    for (int run = 0; run < 9 && fine; run++) {
        ouro_tensor_info info;
        ouro_state_info state;
        const void *data[2] = {NULL, NULL};
        draw(input, &random);
        fine = ouro_session_run(session, NULL) == OURO_OK &&
               ouro_session_state_get(session, 0, &state, &data[0], NULL) == OURO_OK &&
               state.bytes == sizeof(matrix);
        if (fine && ouro_plan_output_count(opened))
            fine = ouro_session_output(session, 0, &info, &data[1], NULL) == OURO_OK &&
                   info.bytes == sizeof(matrix);
        for (int i = 0; i < ELEMENTS && fine; i++)
            results[*count][i] =
                ((const float *)data[0])[i] + (data[1] ? 3 * ((const float *)data[1])[i] : 0);
        *count += fine;
    }
    ouro_session_free(session);
    return fine;
}

/* A changed plan is refused, or computes the same. */
static void try_changed(const unsigned char *bytes, size_t size, const matrix *expected, size_t count,
                        size_t *refused, const char *what) {
    ouro_plan *opened;
    matrix results[9];
    size_t made;
    unsigned char *copy = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    support_plan_seal(copy, size);
    if (ouro_plan_open(copy, size, &opened, NULL) != OURO_OK) {
        ++*refused;
    } else {
        if (!record(opened, results, &made) || made != count ||
            memcmp(results, expected, count * sizeof *results) != 0)
            fail_msg("%s: a broken plan is taken, and computes something else", what);
        ouro_plan_free(opened);
    }
    free(copy);
}

static size_t break_plan(const char *format, size_t states) {
    static char text[TEXT];
    char clause[32];
    size_t size, count, refused = 0;
    ouro_plan *opened;
    matrix expected[9];
    snprintf(clause, sizeof clause, "states %zu", states);
    snprintf(text, sizeof text, format, clause);
    unsigned char *bytes = support_plan(text, true, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &opened, NULL), OURO_OK);
    assert_true(record(opened, expected, &count));
    const plan *of = rt_plan_of(opened);
    const plan_header *header = of->header;
    /* Addresses in the memory of the states, of tensors and of tables, moved to each other's places. */
    for (uint64_t i = 0; i < header->tensors.count + header->addresses.count; i++) {
        const size_t at =
            i < header->tensors.count
                ? (size_t)header->tensors.offset + (size_t)i * sizeof(plan_tensor) +
                      offsetof(plan_tensor, address)
                : (size_t)(header->addresses.offset + (i - header->tensors.count) * sizeof(plan_address));
        plan_address *address = (plan_address *)(void *)(bytes + at);
        const plan_address saved = *address;
        if (saved.space != MEMORY_STATE && saved.space != MEMORY_ARENA) continue;
        for (uint64_t to = 0; to <= header->state_bytes; to += 64) {
            *address = (plan_address){MEMORY_STATE, 0, to};
            try_changed(bytes, size, expected, count, &refused, "an address");
        }
        *address = (plan_address){MEMORY_ARENA, 0, 0};
        try_changed(bytes, size, expected, count, &refused, "a state in the arena");
        *address = saved;
    }
    /* Tables of addresses: longer, shorter, elsewhere. */
    for (uint64_t v = 0; v < header->multiviews.count; v++) {
        plan_multiview *view =
            (plan_multiview *)(void *)(bytes + header->multiviews.offset + v * sizeof(plan_multiview));
        const plan_multiview saved = *view;
        for (uint32_t period = 1; period < 5; period++)
            for (uint32_t prologue = 0; prologue < 2; prologue++)
                for (uint64_t first = 0; first < header->addresses.count; first++) {
                    view->period = period;
                    view->prologue_count = prologue;
                    view->first = first;
                    try_changed(bytes, size, expected, count, &refused, "a table");
                }
        *view = saved;
        view->loop = 0;
        try_changed(bytes, size, expected, count, &refused, "the loop of a table");
        view->loop = (uint32_t)header->nodes.count + 1;
        try_changed(bytes, size, expected, count, &refused, "the loop of a table");
        *view = saved;
    }
    for (uint64_t i = 0; i < header->states.count; i++) {
        plan_state *state = (plan_state *)(void *)(bytes + header->states.offset + i * sizeof(plan_state));
        const plan_state saved = *state;
        for (uint32_t id = 0; id <= header->tensors.count; id++) {
            state->parameter = id;
            try_changed(bytes, size, expected, count, &refused, "a parameter");
            *state = saved;
            state->result = id;
            try_changed(bytes, size, expected, count, &refused, "a result");
            *state = saved;
        }
    }
    plan_header *changed = (plan_header *)(void *)bytes;
    for (uint64_t state_bytes = 0; state_bytes < of->header->state_bytes; state_bytes += 64) {
        const uint64_t saved = changed->state_bytes;
        changed->state_bytes = state_bytes;
        try_changed(bytes, size, expected, count, &refused, "the size of the states");
        changed->state_bytes = saved;
    }
    ouro_plan_free(opened);
    free(bytes);
    return refused;
}

static void test_broken_plans(void **context) {
    (void)context;
    size_t refused = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        refused += break_plan(cases[c].text, cases[c].states);
    for (uint64_t n = 0; n < 12; n++) {
        uint64_t random = 5000 + n;
        static program p;
        draw_program(&p, &random);
        refused += break_plan(p.text, p.states);
    }
    print_message("%zu changed plans refused\n", refused);
    assert_true(refused > 1000);
}

/* A step that can fail, after a state has been written over: the plan is refused. */
static void test_late_failure(void **context) {
    (void)context;
    static const char format[] =
        HEAD "graph main(%%h: " T ", %%x: " T ", %%at: int64[4]) states 1 { %%y: " T
             " = Add(%%h, %%x) %%o: " T " = Gather(%%x, %%at) {axis = 0} yield %%y, %%o } }%s";
    static char text[TEXT];
    snprintf(text, sizeof text, format, "");
    size_t size;
    ouro_plan *opened;
    ouro_error error;
    unsigned char *bytes = support_plan(text, true, &size);
    assert_int_equal(ouro_plan_open(bytes, size, &opened, &error), OURO_OK);
    const plan *of = rt_plan_of(opened);
    const uint32_t commit = plan_commit(of);
    bool failing = false;
    base_arena arena;
    base_arena_init(&arena, NULL);
    const bool *fails = plan_find_failures(of, &arena);
    assert_non_null(fails);
    for (uint32_t n = 0; n < of->header->nodes.count; n++) {
        if (fails[n]) {
            failing = true;
            assert_true(commit == PLAN_ABSENT || n <= commit);
        }
    }
    base_arena_free(&arena);
    assert_true(failing);
    /* All results of the state in the place that its parameter has: the two buffers are one. */
    for (uint64_t i = 0; i < of->header->addresses.count; i++)
        ((plan_address *)(void *)(bytes + of->header->addresses.offset))[i].offset = 0;
    const bool in_turn = of->header->addresses.count > 0;
    support_plan_seal(bytes, size);
    ouro_plan_free(opened);
    if (in_turn) {
        assert_int_equal(ouro_plan_open(bytes, size, &opened, &error), OURO_INVALID);
    }
    free(bytes);
}

/* ---- several plans in one arena ------------------------------------------------------------------------- */

/* Sessions of different plans that run in turns have one arena; their states are apart. */
static void test_one_arena(void **context) {
    (void)context;
    enum { PLANS = 3 };
    both all[PLANS];
    uint64_t random = 23;
    size_t most = 0;
    ouro_error error;
    for (size_t i = 0; i < PLANS; i++) {
        open_both(&all[i], cases[2 * i + 1].text, cases[2 * i + 1].states);
        if (ouro_plan_arena_bytes(all[i].with.plan) > most) most = ouro_plan_arena_bytes(all[i].with.plan);
    }
    void *arena = aligned_alloc(64, most + 64);
    assert_non_null(arena);
    ouro_session *own[PLANS];
    for (size_t i = 0; i < PLANS; i++) {
        const ouro_session_options options = {.arena = arena, .arena_bytes = most + 64};
        own[i] = all[i].with.session;
        assert_int_equal(ouro_session_new(all[i].with.plan, &options, &all[i].with.session, &error), OURO_OK);
        assert_int_equal(
            ouro_session_bind_input(all[i].with.session, 0, all[i].input, sizeof(matrix), NULL, &error),
            OURO_OK);
    }
    for (int run = 0; run < 30; run++) {
        const size_t i = support_random(&random) % PLANS;
        draw(all[i].input, &random);
        memset(arena, (int)(run & 0xff), most);
        assert_true(run_both(&all[i], false));
    }
    for (size_t i = 0; i < PLANS; i++) {
        ouro_session_free(all[i].with.session);
        all[i].with.session = own[i];
        close_both(&all[i]);
    }
    free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),           cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_random_programs), cmocka_unit_test(test_calls),
        cmocka_unit_test(test_cancelled),       cmocka_unit_test(test_broken_plans),
        cmocka_unit_test(test_late_failure),    cmocka_unit_test(test_one_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
