/* SPDX-License-Identifier: Apache-2.0 */
/* program_run.c: random programs carried out, and written down as the straight line that was gone; see
 * program.h. */
#include "tests/support/program_parts.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- carrying it out ----------------------------------------------------------------------------------- */

/* What a value is at this moment, and its name in the straight line. */
typedef struct live {
    char name[NAME];
    float data[PROGRAM_ELEMENTS];
    bool flag;
} live;

typedef struct machine {
    const program *of;
    live *values;
    int64_t trips, iterations[VALUES]; /* by loop: the iteration that it is in */
    FILE *file;
    int made;
    bool stacked_nothing;
} machine;

static float clip(float x) {
    return x < -99 ? -99 : x > 99 ? 99 : x;
}

/* Of each query the values at the keys that are most like it, on average. */
static void attend(const statement *s, const live *q, const live *k, const live *v, live *out) {
    for (int i = 0; i < PROGRAM_SIDE; i++) {
        const int keys = s->amount & 1 ? i + 1 : PROGRAM_SIDE;
        float score[PROGRAM_SIDE], largest = -INFINITY;
        for (int j = 0; j < keys; j++) {
            score[j] = 0;
            for (int d = 0; d < PROGRAM_SIDE; d++)
                score[j] += q->data[i * PROGRAM_SIDE + d] * k->data[j * PROGRAM_SIDE + d];
            if (score[j] > largest) largest = score[j];
        }
        for (int d = 0; d < PROGRAM_SIDE; d++) {
            float sum = 0;
            int count = 0;
            for (int j = 0; j < keys; j++) {
                if (score[j] < largest) continue;
                sum += v->data[j * PROGRAM_SIDE + d];
                count++;
            }
            out->data[i * PROGRAM_SIDE + d] = rintf(sum / (float)count);
        }
    }
}

/* Operations whose elements depend on others; the rest is elementwise. */
static bool compute_rarer(const machine *m, const statement *s, int count, live *out) {
    const live *a = &m->values[program_value_of(m->of, s->inputs[0])],
               *b = &m->values[program_value_of(m->of, s->inputs[1])],
               *c = &m->values[program_value_of(m->of, s->inputs[2])];
    const int side = PROGRAM_SIDE, columns = count == PROGRAM_SIDE ? 1 : PROGRAM_SIDE;
    switch (s->operation) {
    case ATTEND:
        attend(s, a, b, c, out);
        return true;
    case WRITE_ROW:
        memcpy(out->data, a->data, sizeof out->data);
        memcpy(out->data + s->amount * side, b->data, PROGRAM_SIDE * sizeof *b->data);
        return true;
    case SIGNS:
        for (int e = 0; e < count; e++) {
            out->data[e] = 1;
            for (int k = e % columns; k < count; k += columns)
                if (s->amount & 1 ? k >= e : k <= e)
                    out->data[e] *= (float)((a->data[k] > 0) - (a->data[k] < 0));
        }
        return true;
    case NORMALIZE:
        for (int e = 0; e < count; e++) {
            double squares = 0;
            for (int k = e - e % side; k < e - e % side + side; k++)
                squares += (double)a->data[k] * (double)a->data[k];
            out->data[e] = (float)rint((double)a->data[e] / sqrt(squares / side + 1e-5) * 7.3);
        }
        return true;
    case TURN:
        for (int e = 0; e < count; e++) {
            static const int cosine[] = {1, 0, -1, 0}, sine[] = {0, 1, 0, -1};
            const int row = e / side, pair = e % 2, turn = program_quarters(row, pair);
            const float low = a->data[row * side + pair], high = a->data[row * side + 2 + pair];
            out->data[e] = e % side < 2 ? low * (float)cosine[turn] - high * (float)sine[turn]
                                        : high * (float)cosine[turn] + low * (float)sine[turn];
        }
        return true;
    case PACKED:
        for (int e = 0; e < count; e++) {
            float sum = 0;
            for (int k = 0; k < side; k++)
                sum += a->data[e / side * side + k] * (float)program_weight(k, e % side);
            out->data[e] = clip(sum);
        }
        return true;
    default:
        return false;
    }
}

static void compute(const machine *m, const statement *s, live *out) {
    const live *a = &m->values[program_value_of(m->of, s->inputs[0])],
               *b = &m->values[program_value_of(m->of, s->inputs[1])];
    kind what = m->of->kinds[s->outputs[0]];
    int count = program_elements_of(m->of, s->outputs[0]), rows = what == MATRIX ? PROGRAM_SIDE : 1;
    float largest = a->data[0];
    switch (s->operation) {
    case PRODUCT:
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < PROGRAM_SIDE; c++) {
                float sum = 0;
                for (int k = 0; k < PROGRAM_SIDE; k++)
                    sum += a->data[r * PROGRAM_SIDE + k] * b->data[k * PROGRAM_SIDE + c];
                out->data[r * PROGRAM_SIDE + c] = clip(sum);
            }
        }
        return;
    case REVERSE:
        for (int e = 0; e < count; e++)
            out->data[e] = a->data[what == ROW ? PROGRAM_SIDE - 1 - e
                                               : e % PROGRAM_SIDE * PROGRAM_SIDE + e / PROGRAM_SIDE];
        return;
    case STACK_ROWS:
        for (int e = 0; e < count; e++)
            out->data[e] =
                m->values[program_value_of(m->of, s->inputs[e / PROGRAM_SIDE])].data[e % PROGRAM_SIDE];
        return;
    case ABOVE:
        for (int e = 0; e < program_elements_of(m->of, s->inputs[0]); e++)
            if (a->data[e] > largest) largest = a->data[e];
        out->flag = largest > (float)s->amount;
        return;
    default:
        break;
    }
    if (compute_rarer(m, s, count, out)) return;
    for (int e = 0; e < count; e++) {
        float x = a->data[e], y = b->data[e], result = x;
        switch (s->operation) {
        case RELU:
        case SWISH:
            result = x > 0 ? x : 0;
            break;
        case GELU:
            result = x > 0 ? clip(10 * x) : 0;
            break;
        case BITS:
            result = clip((float)((int)x ^ (int)y));
            break;
        case NEGATE:
            result = -x;
            break;
        case MAXIMUM:
            result = x > y ? x : y;
            break;
        case MINIMUM:
            result = x < y ? x : y;
            break;
        case SUM:
            result = clip(x + y);
            break;
        case DIFFERENCE:
            result = clip(x - y);
            break;
        case ROW_OF:
            result = a->data[s->amount * PROGRAM_SIDE + e];
            break;
        case HALVES:
            result = a->data[(e + PROGRAM_ELEMENTS / 2) % PROGRAM_ELEMENTS];
            break;
        case ITERATION:
            result = clip(x + (float)m->iterations[s->loop->number]);
            break;
        default:
            break;
        }
        out->data[e] = result;
    }
}

static void run_operation(machine *m, const statement *s) {
    live out = {.flag = false};
    char in[OPERANDS][NAME], count[NAME] = "";
    compute(m, s, &out);
    if (s->operation != ABOVE) {
        snprintf(out.name, NAME, "u%d", m->made++);
        for (int i = 0; i < OPERANDS; i++)
            memcpy(in[i], m->values[program_value_of(m->of, s->inputs[i])].name, NAME);
        if (s->operation == ITERATION)
            snprintf(count, sizeof count, "n%d", (int)m->iterations[s->loop->number]);
        program_write_operation(m->file, s, m->of->kinds[s->outputs[0]], m->of->kinds[s->inputs[0]], out.name,
                                (const char(*)[NAME])in, count);
    }
    m->values[s->outputs[0]] = out;
}

static bool run_block(machine *m, const block *b);

/* Row `index` of a matrix, or its column. */
static void take_slice(machine *m, const live *whole, int index, int axis, live *slice) {
    live lying = *whole;
    statement row = {.operation = ROW_OF, .amount = index}, turn = {.operation = REVERSE};
    char in[OPERANDS][NAME];
    for (int e = 0; e < PROGRAM_SIDE; e++)
        slice->data[e] = whole->data[axis ? e * PROGRAM_SIDE + index : index * PROGRAM_SIDE + e];
    if (axis) {
        memcpy(in[0], whole->name, NAME);
        snprintf(lying.name, NAME, "u%d", m->made++);
        program_write_operation(m->file, &turn, MATRIX, MATRIX, lying.name, (const char(*)[NAME])in, "");
    }
    memcpy(in[0], lying.name, NAME);
    snprintf(slice->name, NAME, "u%d", m->made++);
    program_write_operation(m->file, &row, ROW, MATRIX, slice->name, (const char(*)[NAME])in, "");
}

/* The rows that a loop of four iterations has stacked. */
static void put_stack(machine *m, const live *rows, int axis, bool backwards, live *whole) {
    statement stack = {.operation = STACK_ROWS}, turn = {.operation = REVERSE};
    char in[OPERANDS][NAME];
    for (int t = 0; t < PROGRAM_SIDE; t++) {
        int index = backwards ? PROGRAM_SIDE - 1 - t : t;
        memcpy(in[index], rows[t].name, NAME);
        for (int e = 0; e < PROGRAM_SIDE; e++)
            whole->data[axis ? e * PROGRAM_SIDE + index : index * PROGRAM_SIDE + e] = rows[t].data[e];
    }
    snprintf(whole->name, NAME, "u%d", m->made++);
    program_write_operation(m->file, &stack, MATRIX, ROW, whole->name, (const char(*)[NAME])in, "");
    if (!axis) return;
    memcpy(in[0], whole->name, NAME);
    snprintf(whole->name, NAME, "u%d", m->made++);
    program_write_operation(m->file, &turn, MATRIX, MATRIX, whole->name, (const char(*)[NAME])in, "");
}

/* The sum of the rows that a loop has stacked, however many. */
static void put_sum(machine *m, const live *rows, int count, live *sum) {
    snprintf(sum->name, NAME, "u%d", m->made++);
    for (int e = 0; e < PROGRAM_SIDE; e++) {
        sum->data[e] = 0;
        for (int t = 0; t < count; t++) sum->data[e] += rows[t].data[e];
        sum->data[e] = clip(sum->data[e]);
    }
    if (count == 0) {
        m->stacked_nothing = true;
        fprintf(m->file, "%%%s: float32[4] = Sub(%%v%d, %%v%d)\n", sum->name, ROW_0, ROW_0);
        return;
    }
    for (int t = 0; t < count; t++)
        fprintf(m->file, "%%%s.%d: float32[1,4] = Reshape(%%%s, %%as_matrix)\n", sum->name, t, rows[t].name);
    fprintf(m->file, "%%%s.d: float32[%d,4] = Concat(", sum->name, count);
    for (int t = 0; t < count; t++) fprintf(m->file, "%s%%%s.%d", t ? ", " : "", sum->name, t);
    fprintf(m->file, ") {axis = 0}\n%%%s.s: float32[4] = ReduceSum(%%%s.d, %%k0) {keepdims = 0}\n", sum->name,
            sum->name);
    fprintf(m->file, "%%%s: float32[4] = Clip(%%%s.s, %%low, %%high)\n", sum->name, sum->name);
}

static bool run_loop(machine *m, const statement *s) {
    const program *of = m->of;
    const block *body = &s->blocks[0];
    int64_t trips = s->trips >= 0 ? s->trips : m->trips;
    bool again = s->begins ? m->values[program_value_of(of, s->begins)].flag : true;
    live state[CARRIED], stacked[SLICES][8 + 1];
    int64_t t = 0;
    int before[SLICES]; /* rows that are there before the first iteration */
    for (int i = 0; i < s->stacks; i++) {
        before[i] = s->grown_from[i] != 0;
        if (before[i]) stacked[i][0] = m->values[program_value_of(of, s->grown_from[i])];
    }
    for (int i = 0; i < s->carried; i++)
        if (!s->dropped[i]) state[i] = m->values[program_value_of(of, s->initial[i])];
    for (; t < trips && again; t++) {
        m->iterations[s->number] = t;
        for (int i = 0; i < s->carried; i++)
            if (!s->dropped[i]) m->values[s->parameters[i]] = state[i];
        for (int i = 0; i < s->scans; i++) {
            int index = (int)(s->scan_back[i] ? PROGRAM_SIDE - 1 - t : t);
            take_slice(m, &m->values[program_value_of(of, s->whole[i])], index, s->scan_axis[i],
                       &m->values[s->slices[i]]);
        }
        if (!run_block(m, body)) return false;
        for (int i = 0; i < s->carried; i++)
            if (!s->dropped[i]) state[i] = m->values[program_value_of(of, body->results[i])];
        for (int i = 0; i < s->stacks; i++)
            stacked[i][before[i] + t] = m->values[program_value_of(of, body->results[s->carried + i])];
        if (body->again) again = m->values[program_value_of(of, body->again)].flag;
    }
    for (int i = 0; i < s->carried; i++)
        if (!s->dropped[i]) m->values[s->outputs[i]] = state[i];
    for (int i = 0; i < s->stacks; i++) {
        live *output = &m->values[s->outputs[s->carried + i]];
        if (s->counted) put_stack(m, stacked[i], s->stack_axis[i], s->stack_back[i], output);
        else put_sum(m, stacked[i], before[i] + (int)t, output);
    }
    return true;
}

static bool run_block(machine *m, const block *b) {
    for (int k = 0; k < b->count; k++) {
        const statement *s = b->items[k];
        if (s->deleted) continue;
        if (m->made > LONGEST) return false;
        if (s->operation == LOOP) {
            if (!run_loop(m, s)) return false;
        } else if (s->operation == BRANCH) {
            const block *taken = &s->blocks[m->values[program_value_of(m->of, s->inputs[0])].flag ? 0 : 1];
            if (!run_block(m, taken)) return false;
            for (int i = 0; i < taken->result_count; i++)
                m->values[s->outputs[i]] = m->values[program_value_of(m->of, taken->results[i])];
        } else {
            run_operation(m, s);
        }
    }
    return true;
}

bool program_unroll(const program *of, int64_t trips, char **text, program_answer *answer) {
    size_t length;
    machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->of = of;
    m->trips = trips;
    m->values = calloc((size_t)of->value_count, sizeof *m->values);
    *text = NULL;
    m->file = open_memstream(text, &length);
    assert_true(m->values && m->file);
    for (int v = 1; v < of->first_made; v++) {
        snprintf(m->values[v].name, NAME, "v%d", v);
        memcpy(m->values[v].data, of->data[v], sizeof of->data[v]);
        m->values[v].flag = v == YES;
    }
    program_write_head(of, m->file);
    bool fine = run_block(m, &of->main);
    *answer = (program_answer){.count = of->main.result_count, .stacked_nothing = m->stacked_nothing};
    for (int i = 0; i < of->main.result_count; i++) {
        int value = program_value_of(of, of->main.results[i]);
        fprintf(m->file, "%s%%%s", i ? ", " : "yield ", m->values[value].name);
        answer->elements[i] = program_elements_of(of, value);
        memcpy(answer->values[i], m->values[value].data, sizeof answer->values[i]);
    }
    fprintf(m->file, "\n} }\n");
    assert_int_equal(fclose(m->file), 0);
    free(m->values);
    free(m);
    if (!fine) {
        free(*text);
        *text = NULL;
    }
    return fine;
}
