/* SPDX-License-Identifier: Apache-2.0 */
/* test_band_plans.c: plans of bands that are broken on purpose: kept rows that lie a row from where they are, rows put where others
 * are, bands that begin or end at another row, other padding, carried rows handed on at another address.
 *
 * The verifier must refuse each of them, or the plan computes the same bits. Numbers of rows that kernels read at run time are not in
 * its hands: with others a plan is one of another model. It may compute something else then, and fails where there are no such
 * rows; run beside memory of its own for each tensor, it stays right.
 */
#include "tests/support/networks.h"
#include "tests/support/plan.h"
#include "tests/support/support.h"
#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { PLANS = 6, MOST_TENSORS = 260 };

typedef struct outcome {
    size_t bytes;
    unsigned char *data; /* of all outputs */
} outcome;

typedef struct mutation {
    uint64_t seed;
    unsigned char *good, *bytes;
    size_t size, input_bytes;
    void *input;
    outcome expected;
    size_t refused, harmless;
    size_t carried; /* changes of what loops carry */
    plan_header *header;
    plan_tensor *tensors;
    plan_node *nodes;
    int64_t *integers;
} mutation;

static bool run(ouro_session *session, const mutation *m, bool check) {
    base_report report = {0};
    if (ouro_session_bind_input(session, 0, m->input, m->input_bytes, NULL, NULL) != OURO_OK) return false;
    if (check) {
        const base_status status = rt_session_check(session, &report);
        if (status != BASE_OK && status != BASE_INVALID) fail_msg("%s", report.text);
    }
    return ouro_session_run(session, NULL) == OURO_OK;
}

/* False where the plan is refused, or its run. */
static bool execute(const mutation *m, const unsigned char *bytes, outcome *made) {
    ouro_plan *opened;
    ouro_session *session = NULL;
    *made = (outcome){0};
    if (ouro_plan_open(bytes, m->size, &opened, NULL) != OURO_OK) return false;
    bool fine = ouro_session_new(opened, NULL, &session, NULL) == OURO_OK && run(session, m, false);
    for (size_t o = 0; o < rt_plan_of(opened)->header->outputs.count && fine; o++) {
        ouro_tensor_info info;
        const void *data;
        assert_int_equal(ouro_session_output(session, o, &info, &data, NULL), OURO_OK);
        made->data = realloc(made->data, made->bytes + info.bytes);
        assert_non_null(made->data);
        memcpy(made->data + made->bytes, data, info.bytes);
        made->bytes += info.bytes;
    }
    ouro_session_free(session);
    ouro_plan_free(opened);
    if (!fine) free(made->data);
    return fine;
}

/* The changed plan is refused, or computes the same; then it is restored. True where it was refused. */
static bool try_change(mutation *m, const char *what, size_t index, int64_t by) {
    outcome is;
    support_plan_seal(m->bytes, m->size);
    const bool refused = !execute(m, m->bytes, &is);
    if (!refused) {
        if (is.bytes != m->expected.bytes || memcmp(is.data, m->expected.data, is.bytes) != 0)
            fail_msg("seed %" PRIu64 ": %s %zu by %" PRId64 ": accepted, and computes something else",
                     m->seed, what, index, by);
        free(is.data);
    }
    m->refused += refused;
    m->harmless += !refused;
    memcpy(m->bytes, m->good, m->size);
    return refused;
}

static bool is_movable(const plan_tensor *tensor) {
    return tensor->bytes && (tensor->address.space == MEMORY_ARENA || tensor->address.space == MEMORY_OUTPUT);
}

/* Of a tensor with rows: bytes of one of them, all channels, or of one channel's. */
static int64_t row_bytes(const mutation *m, const plan_tensor *tensor) {
    if (tensor->rank < 3 || m->integers[tensor->dims + 2] < 1) return 64;
    int64_t bytes = (int64_t)tensor->bytes / m->integers[tensor->dims + 2];
    if (tensor->layout == OP_LAYOUT_ROW_MAJOR && m->integers[tensor->dims + 1] > 0)
        bytes /= m->integers[tensor->dims] * m->integers[tensor->dims + 1];
    return bytes;
}

/* Kept rows, windows, new rows: each a row before or after its place, and where the next tensor of this size is. */
static void move_rows(mutation *m) {
    const size_t count = (size_t)m->header->tensors.count;
    const size_t every = 1 + count / MOST_TENSORS;
    for (size_t i = m->seed % every; i < count; i += every) {
        if (!is_movable(&m->tensors[i])) continue;
        const int64_t row = row_bytes(m, &m->tensors[i]), steps[] = {row, -row, 64, -64};
        for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
            m->tensors[i].address.offset += (uint64_t)steps[k];
            (void)try_change(m, "moved: tensor", i, steps[k]);
        }
        for (size_t j = i + 1; j < count; j++) {
            if (!is_movable(&m->tensors[j]) || m->tensors[j].bytes != m->tensors[i].bytes) continue;
            m->tensors[i].address = m->tensors[j].address;
            (void)try_change(m, "put where another is: tensor", i, (int64_t)j);
            break;
        }
    }
}

static op_code code_of(const mutation *m, const plan_node *node) {
    const char *texts = (const char *)m->bytes + m->header->texts.offset;
    return op_code_from_name(texts + node->operator_domain, texts + node->operator_name);
}

/* What a loop carries, handed on or begun with a row from where its parameter lies. */
static void hand_on_elsewhere(mutation *m) {
    plan opened;
    assert_int_equal(plan_open(m->good, m->size, "bands", &rt_plan_host, NULL, NULL, &opened, NULL), BASE_OK);
    for (uint64_t n = 0; n < m->header->nodes.count; n++) {
        plan_loop_form form;
        if (code_of(m, &m->nodes[n]) != OP_LOOP || !plan_loop_form_read(&opened, &m->nodes[n], &form))
            continue;
        for (uint32_t c = 0; c < form.carried; c++) {
            const uint32_t ids[] = {form.parameters[2 + c], form.results[1 + c], form.outputs[c]};
            for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
                if (!is_movable(&m->tensors[ids[k]])) continue;
                const int64_t row = row_bytes(m, &m->tensors[ids[k]]);
                m->tensors[ids[k]].address.offset += (uint64_t)row;
                (void)try_change(m, "carried elsewhere: tensor", ids[k], row);
                m->carried++;
            }
        }
    }
    plan_close(&opened);
}

/* A row more or less of one tensor: the shapes of what makes and reads it say otherwise. */
static void change_rows(mutation *m) {
    for (size_t i = 0; i < m->header->tensors.count; i++) {
        plan_tensor *tensor = &m->tensors[i];
        if (!is_movable(tensor) || tensor->rank != 4) continue;
        int64_t *rows = &m->integers[tensor->dims + 2];
        for (int64_t by = -1; by <= 1; by += 2) {
            if (*rows + by < 1) continue;
            tensor->bytes = tensor->bytes / (uint64_t)*rows * (uint64_t)(*rows + by);
            *rows += by;
            assert_true(try_change(m, "rows more: tensor", i, by));
        }
    }
}

/* Bands see the padding that is theirs: with more or less of it they have other rows. */
static void change_padding(mutation *m) {
    const char *texts = (const char *)m->bytes + m->header->texts.offset;
    const plan_attribute *attributes =
        (const plan_attribute *)(const void *)(m->bytes + m->header->attributes.offset);
    for (uint64_t n = 0; n < m->header->nodes.count; n++) {
        const op_code code = code_of(m, &m->nodes[n]);
        if (code != OP_CONV && code != OP_MAX_POOL && code != OP_AVERAGE_POOL) continue;
        bool unit = true;
        const plan_attribute *pads = NULL;
        for (uint64_t a = 0; a < m->nodes[n].attribute_count; a++) {
            const plan_attribute *own = &attributes[m->nodes[n].attributes + a];
            if (strcmp(texts + own->name, "pads") == 0) pads = own;
            if (strcmp(texts + own->name, "strides") == 0) unit = m->integers[own->value] == 1;
        }
        if (!pads || !unit || pads->count != 4) continue;
        for (uint64_t side = 0; side <= 2; side += 2) {
            m->integers[pads->value + side]++;
            assert_true(try_change(m, "more padding: node", (size_t)n, (int64_t)side));
        }
    }
}

/* The attribute of a node; NULL: it has none of this name. */
static const plan_attribute *attribute_of(const mutation *m, const plan_node *node, const char *name) {
    const char *texts = (const char *)m->bytes + m->header->texts.offset;
    const plan_attribute *attributes =
        (const plan_attribute *)(const void *)(m->bytes + m->header->attributes.offset);
    for (uint64_t a = 0; a < node->attribute_count; a++)
        if (strcmp(texts + attributes[node->attributes + a].name, name) == 0)
            return &attributes[node->attributes + a];
    return NULL;
}

/* Rows that are read from two tensors: fewer or more of them make another number of rows, and there are none before the first and after the last. (Others of
 * the same number are those of another model.) */
static size_t change_joined_rows(mutation *m) {
    size_t nodes = 0;
    for (uint64_t n = 0; n < m->header->nodes.count; n++) {
        const op_code code = code_of(m, &m->nodes[n]);
        const plan_attribute *rows = attribute_of(m, &m->nodes[n], "rows");
        if ((code != OP_JOINED_CONV && code != OP_JOINED_MAX_POOL) || !rows) continue;
        nodes++;
        for (uint64_t i = 0; i < 4; i++) {
            static const int64_t far[] = {-1000, 1000, INT64_MIN, INT64_MAX};
            const plan_attribute *strides = attribute_of(m, &m->nodes[n], "strides");
            for (size_t k = 0; k < sizeof far / sizeof *far; k++) {
                m->integers[rows->value + i] = far[k];
                assert_true(try_change(m, "rows far away: node", (size_t)n, far[k]));
            }
            for (int64_t by = -1; by <= 1 && (!strides || m->integers[strides->value] == 1); by += 2) {
                m->integers[rows->value + i] += by;
                assert_true(try_change(m, "rows of a piece: node", (size_t)n, by));
            }
        }
    }
    return nodes;
}

/* Rows that Gather, TensorScatter and Slice are told: wherever they are, nothing is read or written outside. */
static void change_first_rows(mutation *m) {
    int64_t *const constants = (int64_t *)(void *)(m->bytes + m->header->constants_offset);
    for (size_t i = 0; i < m->header->tensors.count; i++) {
        const plan_tensor *tensor = &m->tensors[i];
        if (tensor->address.space != MEMORY_CONSTANT || tensor->dtype != OP_INT64 || tensor->bytes < 8)
            continue;
        const int64_t changes[] = {1, -1, 1000, -1000, INT64_MAX / 2};
        for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
            outcome is;
            ouro_plan *opened;
            ouro_session *session = NULL;
            constants[tensor->address.offset / 8] += changes[k];
            support_plan_seal(m->bytes, m->size);
            if (execute(m, m->bytes, &is)) free(is.data);
            if (ouro_plan_open(m->bytes, m->size, &opened, NULL) == OURO_OK) {
                assert_int_equal(ouro_session_new(opened, NULL, &session, NULL), OURO_OK);
                (void)run(session, m, true);
                ouro_session_free(session);
                ouro_plan_free(opened);
            }
            memcpy(m->bytes, m->good, m->size);
        }
    }
}

static size_t count_loops(const mutation *m) {
    size_t loops = 0;
    for (uint64_t n = 0; n < m->header->nodes.count; n++) loops += code_of(m, &m->nodes[n]) == OP_LOOP;
    return loops;
}

/* The text is freed. False: there is no loop, or the plan is too large. */
static bool begin_with(mutation *m, uint64_t seed, bool portable, char *text, size_t input_bytes) {
    *m = (mutation){.seed = seed, .input_bytes = input_bytes};
    const pass_options options = {.exact_arithmetic = true,
                                  .band_rows = 1 + (int64_t)(seed % 3),
                                  .environment = {.threads = 1, .portable_only = portable}};
    m->good = support_plan_with(text, &options, &m->size);
    free(text);
    m->bytes = aligned_alloc(64, (m->size + 63) / 64 * 64);
    m->input = malloc(m->input_bytes);
    assert_true(m->bytes && m->input);
    memcpy(m->bytes, m->good, m->size);
    for (size_t i = 0; i < m->input_bytes / sizeof(float); i++)
        ((float *)m->input)[i] = (float)(support_random(&seed) % 2001) / 1000 - 1;
    m->header = (plan_header *)(void *)m->bytes;
    m->tensors = (plan_tensor *)(void *)(m->bytes + m->header->tensors.offset);
    m->nodes = (plan_node *)(void *)(m->bytes + m->header->nodes.offset);
    m->integers = (int64_t *)(void *)(m->bytes + m->header->integers.offset);
    return count_loops(m) > 0 && m->header->tensors.count < 600;
}

/* False: this seed gives no loop, or too large a plan. */
static bool begin(mutation *m, uint64_t seed, bool portable) {
    size_t input_bytes;
    char *text = support_network_of_maps(seed, portable ? 1 : 16, &input_bytes);
    *m = (mutation){.seed = seed};
    return text && begin_with(m, seed, portable, text, input_bytes);
}

static void end(mutation *m) {
    free(m->expected.data);
    free(m->input);
    free(m->good);
    free(m->bytes);
}

static void break_plans(bool portable) {
    static void (*const kinds[])(mutation *) = {move_rows, hand_on_elsewhere, change_rows, change_padding};
    int tried = 0;
    size_t carried = 0;
    for (uint64_t seed = 1; tried < PLANS; seed++) {
        mutation m;
        if (begin(&m, seed, portable)) {
            if (!execute(&m, m.good, &m.expected)) fail_msg("seed %" PRIu64 ": the plan does not run", seed);
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) kinds[k](&m);
            change_first_rows(&m);
            print_message("seed %" PRIu64 ": %zu refused, %zu harmless\n", seed, m.refused, m.harmless);
            assert_true(m.refused > m.harmless);
            carried += m.carried;
            tried++;
        }
        end(&m);
    }
    assert_true(carried > 4 * PLANS);
}

static void broken_rows_are_refused(void **state) {
    (void)state;
    break_plans(true);
}

/* Rows that lie together: kept ones are copies, parts of windows are read where they lie. */
static void broken_rows_that_lie_together_are_refused(void **state) {
    (void)state;
    break_plans(false);
}

/* Rows of two tensors that are read where they lie. */
static void broken_rows_of_two_tensors_are_refused(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        mutation m;
        size_t input_bytes;
        char *text = (seed % 2 ? support_network_of_joins : support_network_of_shuffles)(&input_bytes);
        if (!begin_with(&m, seed, false, text, input_bytes) || !execute(&m, m.good, &m.expected))
            fail_msg("seed %" PRIu64 ": no plan, or one that does not run", seed);
        move_rows(&m);
        hand_on_elsewhere(&m);
        change_rows(&m);
        const size_t joined = change_joined_rows(&m);
        print_message("seed %" PRIu64 ": %zu of two tensors, %zu refused, %zu harmless\n", seed, joined,
                      m.refused, m.harmless);
        assert_true(m.refused > m.harmless);
        end(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(broken_rows_are_refused),
                                       cmocka_unit_test(broken_rows_that_lie_together_are_refused),
                                       cmocka_unit_test(broken_rows_of_two_tensors_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
