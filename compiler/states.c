/* SPDX-License-Identifier: Apache-2.0 */
/* states.c: which outputs of a model become which of its inputs in the next run: the pairs of --state, by name.
 *
 * A name may hold stars, each of which stands for any text. `past.*=present.*` pairs past.0.key with present.0.key, past.1.key
 * with present.1.key, and so on: what the stars stand for in the input they stand for in the output.
 */
#include "compiler/compiler.h"
#include "ir/loop.h"
#include <string.h>

enum { MOST_STARS = 8, MOST_NAME = 1024 };

typedef struct star {
    const char *text;
    size_t length;
} star;

/* The name is what the pattern says: stars[i] is what its i-th star stands for, as few characters as can be. Only the last
 * star passed can have to take more, since the ones before it stand where what follows them is found first. */
static bool match(const char *pattern, const char *name, star *stars) {
    const char *after = NULL; /* the last star passed */
    size_t count = 0;
    while (*pattern || *name) {
        if (*pattern == '*') {
            if (count == MOST_STARS) return false;
            stars[count++] = (star){name, 0};
            after = ++pattern;
        } else if (*pattern && *pattern == *name) {
            pattern++;
            name++;
        } else {
            star *last = count > 0 ? &stars[count - 1] : NULL;
            if (!last || !last->text[last->length]) return false;
            last->length++;
            pattern = after;
            name = last->text + last->length;
        }
    }
    return true;
}

/* The pattern with its stars replaced; false where it is too long, or has more stars than there are. */
static bool substitute(const char *pattern, const star *stars, size_t count, char *text, size_t capacity) {
    size_t used = 0, next = 0;
    for (; *pattern; pattern++) {
        const bool is_star = *pattern == '*';
        if (is_star && next == count) return false;
        const size_t length = is_star ? stars[next].length : 1;
        if (length >= capacity - used) return false;
        memcpy(text + used, is_star ? stars[next].text : pattern, length);
        used += length;
        next += is_star;
    }
    text[used] = 0;
    return true;
}

static size_t count_stars(const char *pattern) {
    size_t count = 0;
    for (; *pattern; pattern++) count += *pattern == '*';
    return count;
}

typedef struct pairing {
    const ir_module *module;
    ir_state_pair *pairs;
    uint32_t count;
    base_report *report;
} pairing;

static base_status add_pair(pairing *p, uint32_t parameter, const char *output) {
    const ir_graph *main = p->module->main;
    const char *input = main->parameters[parameter]->name;
    uint32_t result = 0;
    while (result < main->result_count && strcmp(ir_graph_result_name(main, result), output) != 0) result++;
    if (result == main->result_count)
        return base_fail(p->report, BASE_USAGE, "%s: there is no output '%s' to carry into input '%s'",
                         p->module->name, output, input);
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->pairs[i].parameter == parameter)
            return base_fail(p->report, BASE_USAGE, "%s: input '%s' is a state already, of output '%s'",
                             p->module->name, input, ir_graph_result_name(main, p->pairs[i].result));
        if (p->pairs[i].result == result)
            return base_fail(p->report, BASE_USAGE,
                             "%s: output '%s' is carried into two inputs: '%s' and '%s'", p->module->name,
                             output, main->parameters[p->pairs[i].parameter]->name, input);
    }
    p->pairs[p->count++] = (ir_state_pair){parameter, result};
    return BASE_OK;
}

static base_status add_pairs(pairing *p, const ouro_state_pair *given) {
    const ir_graph *main = p->module->main;
    const size_t count = count_stars(given->input);
    const uint32_t before = p->count;
    char output[MOST_NAME];
    if (count != count_stars(given->output) || count > MOST_STARS)
        return base_fail(p->report, BASE_USAGE,
                         "state '%s=%s': both names need equally many stars, at most %d", given->input,
                         given->output, (int)MOST_STARS);
    for (uint32_t i = 0; i < main->parameter_count; i++) {
        star stars[MOST_STARS];
        if (!match(given->input, main->parameters[i]->name, stars)) continue;
        if (!substitute(given->output, stars, count, output, sizeof output))
            return base_fail(p->report, BASE_USAGE, "state '%s=%s': the name is too long", given->input,
                             given->output);
        base_status status = add_pair(p, i, output);
        if (status != BASE_OK) return status;
    }
    if (p->count > before) return BASE_OK;
    return base_fail(p->report, BASE_USAGE, "%s: there is no input '%s'%s", p->module->name, given->input,
                     count ? " (the star stands for any text)" : "");
}

base_status compile_bound_dims(ir_module *module, const ouro_dim *bounds, size_t count, base_report *report) {
    for (size_t i = 0; i < count; i++) {
        size_t symbol = 1;
        while (symbol < module->symbol_count &&
               (!module->symbols[symbol].name || module->symbols[symbol].unnamed ||
                strcmp(module->symbols[symbol].name, bounds[i].name) != 0))
            symbol++;
        if (symbol == module->symbol_count)
            return base_fail(report, BASE_USAGE, "%s: there is no symbolic dimension '%s' to bound",
                             module->name, bounds[i].name);
        if (bounds[i].extent < 1)
            return base_fail(report, BASE_USAGE,
                             "%s: the bound of dimension '%s' is %lld, expected at least 1", module->name,
                             bounds[i].name, (long long)bounds[i].extent);
        module->symbols[symbol].bound = bounds[i].extent;
    }
    return BASE_OK;
}

base_status compile_carry_states(ir_module *module, const ouro_state_pair *states, size_t count,
                                 base_arena *arena, base_report *report) {
    pairing p = {.module = module, .report = report};
    if (!count) return BASE_OK;
    p.pairs = BASE_ARRAY(arena, ir_state_pair, (size_t)module->main->parameter_count + 1);
    if (!p.pairs) return base_fail_memory(report);
    for (size_t i = 0; i < count; i++) {
        base_status status = add_pairs(&p, &states[i]);
        if (status != BASE_OK) return status;
    }
    return ir_module_carry(module, p.pairs, p.count) ? BASE_OK : base_fail_memory(report);
}
