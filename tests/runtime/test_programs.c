/* SPDX-License-Identifier: Apache-2.0 */
/* test_programs.c: random programs of nested loops, scans and branches give the same bits however they are
 * run: planned by each allocator, with memory of its own for every tensor, unrolled into a straight line, and with
 * extents that are open until the run.
 * And the numbers are those of an interpreter that knows nothing of kernels and plans.
 *
 * OURO_TEST_PROGRAMS=N tries N programs (100,000 take about two minutes), OURO_TEST_SEED=S begins
 * with seed S. A failure prints its seed and the smallest program found that fails in any way.
 */
#include "tests/support/program.h"
#include "compiler/compiler.h"
#include "runtime/session.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <inttypes.h>

enum { PROGRAMS = 10000 };

typedef struct judge {
    char message[8192];
    uint64_t seed;
} judge;

/* How many plans have buffers that are exchanged. */
static uint64_t exchanging;

typedef struct running {
    unsigned char *bytes;
    ouro_plan *plan;
    ouro_session *session;
} running;

static void stop(running *r) {
    ouro_session_free(r->session);
    ouro_plan_free(r->plan);
    free(r->bytes);
}

static bool start(running *r, const char *text, const char *allocator, judge *by) {
    ir_module *module = support_module(text, true);
    pass_options options = {.allocator = allocator,
                            .max_unroll = by->seed % 5 ? 16 : 1 + (int)(by->seed / 5 % 3),
                            .environment = {.threads = 1, .portable_only = true}};
    ouro_session_options session_options = {.threads = 1};
    base_arena arena;
    base_report report = {0};
    ouro_error error;
    pass_memory *memory;
    size_t size;
    *r = (running){0};
    base_arena_init(&arena, NULL);
    bool fine = pass_pipeline_run(module, &options, &arena, &memory, &report) == BASE_OK &&
                compile_write_plan(module, memory, &options, (void **)&r->bytes, &size, &report) == BASE_OK;
    if (!fine) snprintf(by->message, sizeof by->message, "%s: %s", allocator, report.text);
    base_arena_free(&arena);
    ir_module_free(module);
    if (!fine) return false;
    if (ouro_plan_open(r->bytes, size, &r->plan, &error) == OURO_OK &&
        ouro_session_new(r->plan, &session_options, &r->session, &error) == OURO_OK) {
        const plan *of = rt_plan_of(r->plan);
        bool exchanged = false;
        for (uint64_t v = 0; v < of->header->multiviews.count; v++) exchanged |= of->multiviews[v].group != 0;
        exchanging += exchanged;
        return true;
    }
    snprintf(by->message, sizeof by->message, "%s: %s", allocator, error.message);
    stop(r);
    *r = (running){0};
    return false;
}

/* Runs against memory of its own for every tensor, and by itself. */
static bool run(const running *r, const program *of, int64_t trips, const char *allocator,
                program_answer *answer, judge *by) {
    static const unsigned char yes = 1, no = 0;
    ouro_error error = {0};
    base_report report = {0};
    bool fine = ouro_session_bind_input(r->session, 0, &trips, sizeof trips, NULL, &error) == OURO_OK &&
                ouro_session_bind_input(r->session, 1, &yes, 1, NULL, &error) == OURO_OK &&
                ouro_session_bind_input(r->session, 2, &no, 1, NULL, &error) == OURO_OK;
    for (int i = 3; i < PROGRAM_INPUTS && fine; i++) {
        int count;
        const float *data = program_input(of, i, &count);
        const int64_t matrix[] = {PROGRAM_SIDE, PROGRAM_SIDE};
        fine = ouro_session_bind_input(r->session, (size_t)i, data, (size_t)count * sizeof *data, matrix,
                                       &error) == OURO_OK;
    }
    if (fine && rt_session_check(r->session, &report) != BASE_OK) {
        snprintf(by->message, sizeof by->message, "%s, %" PRId64 " trips: %s", allocator, trips, report.text);
        return false;
    }
    fine = fine && ouro_session_run(r->session, &error) == OURO_OK;
    for (int i = 0; i < answer->count && fine; i++) {
        ouro_tensor_info info;
        const void *data;
        fine = ouro_session_output(r->session, (size_t)i, &info, &data, &error) == OURO_OK;
        if (!fine) break;
        if (info.bytes != (size_t)answer->elements[i] * sizeof(float)) {
            snprintf(by->message, sizeof by->message, "%s, %" PRId64 " trips: result %d has %zu bytes",
                     allocator, trips, i, info.bytes);
            return false;
        }
        memcpy(answer->values[i], data, info.bytes);
    }
    if (!fine)
        snprintf(by->message, sizeof by->message, "%s, %" PRId64 " trips: %s", allocator, trips,
                 error.message);
    return fine;
}

static bool agree(const program_answer *a, const program_answer *b, bool bits, const char *who, int64_t trips,
                  judge *by) {
    for (int i = 0; i < a->count; i++) {
        for (int e = 0; e < a->elements[i]; e++) {
            float x = a->values[i][e], y = b->values[i][e];
            if (bits ? memcmp(&x, &y, sizeof x) == 0 : x == y) continue;
            snprintf(by->message, sizeof by->message,
                     "%s, %" PRId64 " trips: result %d, element %d is %g, expected %g", who, trips, i, e,
                     (double)x, (double)y);
            return false;
        }
    }
    return true;
}

/* The program with extents that are not known before the run: of the matrices' rows, or of everything. What is declared
 * within the graphs is inferred again. */
static char *open_extents(const char *text, bool all) {
    static const char *const changes[][3] = {{"float32[4,4]", "float32[N,4]", "float32[N,M]"},
                                             {"float32[4]", "float32[4]", "float32[M]"},
                                             {"float32[?,4]", "float32[?,4]", "float32[?,M]"},
                                             {"float32[1,4]", "float32[?,4]", "float32[?,M]"},
                                             {"float32[2,4]", "float32[?,4]", "float32[?,M]"}};
    size_t length = strlen(text);
    char *opened = malloc(3 * length + 512), *to = opened, *shaped = malloc(length + 512), *more = shaped;
    bool first = true; /* the module's first line */
    assert_non_null(opened);
    assert_non_null(shaped);
    *more = 0;
    for (const char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n') + 1;
        unsigned number;
        if (sscanf(line, "constant %%v%u: float32[", &number) == 1) {
            /* Constants with the extents of the inputs, so that loops may carry either. */
            bool matrix = strncmp(strchr(line, '['), "[4,4]", 5) == 0;
            to += sprintf(to, "constant %%c%.*s", (int)(end - line - 11), line + 11);
            more += sprintf(more, "%%v%u: %s = Reshape(%%c%u, %s)\n", number,
                            changes[matrix ? 0 : 1][1 + all], number, matrix ? "%shape_m" : "%shape_r");
            continue;
        }
        bool constant = strncmp(line, "constant", 8) == 0;
        for (const char *at = line; at < end;) {
            size_t change = 0;
            while (change < 5 && strncmp(at, changes[change][0], strlen(changes[change][0])) != 0) change++;
            if (change < 5 && !constant) {
                to = stpcpy(to, changes[change][1 + all]);
                at += strlen(changes[change][0]);
            } else {
                *to++ = *at++;
            }
        }
        if (first) to = stpcpy(to, all ? "symbol N\nsymbol M\n" : "symbol N\n");
        if (strncmp(line, "graph main", 10) == 0) {
            to += sprintf(to, "%%shape_m: int64[2] = Shape(%%v%d)\n%%shape_r: int64[1] = Shape(%%v%d)\n%s", 3,
                          3 + PROGRAM_MATRICES, shaped);
        }
        first = false;
    }
    *to = 0;
    free(shaped);
    return opened;
}

/* Everything agrees. *long_winded: the program was not run, because it goes on for too long. */
static bool holds(const program *of, judge *by, bool *long_winded) {
    const int64_t trips[2] = {(int64_t)(by->seed % 3), 3 + (int64_t)(by->seed % 3)};
    program_answer straight[2];
    bool fine = true;
    *long_winded = false;
    for (int k = 0; k < 2 && fine; k++) {
        char *text;
        running r;
        program_answer expected;
        if (!program_unroll(of, trips[k], &text, &expected)) {
            *long_winded = true;
            return true;
        }
        straight[k] = expected;
        fine = start(&r, text, "nnc", by);
        if (fine) {
            fine = run(&r, of, trips[k], "straight line", &straight[k], by) &&
                   agree(&straight[k], &expected, false, "straight line", trips[k], by);
            stop(&r);
        }
        free(text);
    }
    char *text = program_text(of);
    const planner *with;
    for (size_t p = 0; fine && (with = planner_at(p)); p++) {
        running r;
        fine = start(&r, text, with->name, by);
        if (!fine) break;
        for (int k = 0; k < 2 && fine; k++) {
            program_answer planned = straight[k];
            fine = run(&r, of, trips[k], with->name, &planned, by) &&
                   agree(&planned, &straight[k], true, with->name, trips[k], by);
        }
        stop(&r);
    }
    for (int all = 0; all < 2 && fine; all++) {
        static const char *const names[] = {"open rows", "dynamic dimensions"};
        char *opened = open_extents(text, all);
        running r;
        fine = start(&r, opened, "auto", by);
        for (int k = 0; k < 2 && fine; k++) {
            program_answer planned = straight[k];
            if (planned.stacked_nothing) continue; /* a slice's extents may be known to nobody then */
            fine = run(&r, of, trips[k], names[all], &planned, by) &&
                   agree(&planned, &straight[k], true, names[all], trips[k], by);
        }
        if (r.session) stop(&r);
        free(opened);
    }
    free(text);
    return fine;
}

static bool fails(const program *of, void *user) {
    judge again = {.seed = ((const judge *)user)->seed};
    bool long_winded;
    return !holds(of, &again, &long_winded);
}

static void random_programs_agree(void **state) {
    (void)state;
    const char *number = getenv("OURO_TEST_PROGRAMS"), *begin = getenv("OURO_TEST_SEED");
    uint64_t most = number ? strtoull(number, NULL, 10) : support_share(PROGRAMS), tried = 0,
             seed = begin ? strtoull(begin, NULL, 10) : 1;
    for (; tried < most; seed++) {
        judge by = {.seed = seed};
        bool long_winded;
        program *of = program_random(seed);
        if (!holds(of, &by, &long_winded)) {
            fprintf(stderr, "seed %" PRIu64 " fails: %s\nshrinking\n", seed, by.message);
            program_shrink(of, fails, &by);
            (void)holds(of, &by, &long_winded);
            char *text = program_text(of);
            fprintf(stderr, "%s\n", text);
            free(text);
            program_free(of);
            fail_msg("seed %" PRIu64 ": %s", seed, by.message);
        }
        tried += !long_winded;
        program_free(of);
    }
    printf("%" PRIu64 " programs, seeds to %" PRIu64 "; %" PRIu64 " plans exchange buffers\n", tried,
           seed - 1, exchanging);
    if (!number) assert_true(exchanging > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_programs_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
