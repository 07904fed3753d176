/* SPDX-License-Identifier: Apache-2.0 */
/* inspect_compare.c: `ouro inspect A B`: where two plans differ; see inspect.h. */
#include "compiler/command/inspect.h"
#include "compiler/command/command.h"
#include "compiler/report/emit.h"
#include "compiler/report/loop.h"
#include "compiler/report/peak.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_bytes(const char *label, uint64_t a, uint64_t b) {
    char text[2][32];
    emit_size_print((size_t)a, text[0], sizeof text[0]);
    emit_size_print((size_t)b, text[1], sizeof text[1]);
    printf("  %-34s %12s %12s", label, text[0], text[1]);
    if (a == b) printf("  equal\n");
    else if (a && b / a >= 10) printf("  %.0f times as much\n", (double)b / (double)a);
    else if (a) printf("  %+.1f %%\n", ((double)b - (double)a) / (double)a * 100);
    else printf("\n");
}

/* ---- what is counted by name --------------------------------------------------------------------------- */

typedef struct name_count {
    const char *name;
    int64_t counts[2];
} name_count;

static int compare_differences(const void *a, const void *b) {
    const name_count *x = a, *y = b;
    const int64_t p = llabs(x->counts[1] - x->counts[0]), q = llabs(y->counts[1] - y->counts[0]);
    return p != q ? (p < q ? 1 : -1) : strcmp(x->name, y->name);
}

/* How often each kernel (or, for aliases, each operator) stands in both plans; those that differ are printed. */
static bool print_counts(const plan *const *plans, base_arena *arena) {
    base_map map = {.arena = arena};
    name_count *all =
        BASE_ARRAY(arena, name_count, plans[0]->header->nodes.count + plans[1]->header->nodes.count + 1);
    size_t count = 0, shown = 0;
    for (int p = 0; all && p < 2; p++) {
        for (uint64_t i = 0; i < plans[p]->header->nodes.count; i++) {
            const plan_node *node = &plans[p]->nodes[i];
            const char *kernel = plans[p]->texts + node->kernel, *op = plans[p]->texts + node->operator_name;
            const char *key =
                base_arena_format(arena, "%s%s%s", op, kernel[0] ? " by " : " as a view", kernel);
            name_count *entry = key ? base_map_get(&map, key) : NULL;
            if (key && !entry) {
                entry = &all[count++];
                entry->name = key;
                if (!base_map_put(&map, key, entry)) return false;
            }
            if (!entry) return false;
            entry->counts[p]++;
        }
    }
    if (!all) return false;
    qsort(all, count, sizeof *all, compare_differences);
    for (size_t i = 0; i < count && all[i].counts[0] != all[i].counts[1]; i++) {
        if (!shown++) printf("steps:\n");
        if (shown <= 20)
            printf("  %-48.48s %6" PRId64 " %6" PRId64 "\n", all[i].name, all[i].counts[0], all[i].counts[1]);
    }
    if (shown > 20) printf("  and %zu more\n", shown - 20);
    return true;
}

/* ---- loops --------------------------------------------------------------------------------------------- */

static bool is_loop(const plan *of, uint32_t node) {
    return of->nodes[node].graph_count && strcmp(of->texts + of->nodes[node].operator_name, "Loop") == 0;
}

/* The loop of a plan with this name; PLAN_ABSENT: none. */
static uint32_t find_loop(const plan *of, const char *name) {
    char text[512];
    for (uint32_t i = 0; i < of->header->nodes.count; i++) {
        if (is_loop(of, i) && strcmp(emit_loop_name(of, i, text, sizeof text), name) == 0) return i;
    }
    return PLAN_ABSENT;
}

static bool print_loop(const plan *of, uint32_t node, const char *label) {
    emit_loop loop;
    char text[3][32];
    if (!emit_loop_measure(of, node, &loop)) return false;
    printf("    %s: unroll %" PRIu64 ", %" PRIu64
           " multi-view tensors, copied %s an iteration, %s an entry, buffer %s\n",
           label, loop.unroll, loop.multiview,
           emit_size_print((size_t)loop.iteration_bytes, text[0], sizeof text[0]),
           emit_size_print((size_t)loop.entry_bytes, text[1], sizeof text[1]),
           emit_size_print((size_t)loop.buffer_bytes, text[2], sizeof text[2]));
    return true;
}

static bool loops_differ(const plan *const *plans, uint32_t a, uint32_t b, bool *differ) {
    emit_loop x, y;
    if (!emit_loop_measure(plans[0], a, &x) || !emit_loop_measure(plans[1], b, &y)) return false;
    *differ = x.unroll != y.unroll || x.multiview != y.multiview || x.iteration_bytes != y.iteration_bytes ||
              x.entry_bytes != y.entry_bytes || x.buffer_bytes != y.buffer_bytes;
    return true;
}

static bool print_loops(const plan *const *plans) {
    char name[512];
    bool any = false;
    for (int p = 0; p < 2; p++) {
        for (uint32_t i = 0; i < plans[p]->header->nodes.count; i++) {
            if (!is_loop(plans[p], i)) continue;
            const uint32_t other = find_loop(plans[1 - p], emit_loop_name(plans[p], i, name, sizeof name));
            bool differ = true;
            if (other != PLAN_ABSENT && (p == 1 || !loops_differ(plans, i, other, &differ))) continue;
            if (!differ) continue;
            if (!any) printf("loops:\n");
            any = true;
            printf("  %s%s\n", name,
                   other == PLAN_ABSENT ? (p ? ": only in the second" : ": only in the first") : "");
            if (!print_loop(plans[p], i, p ? "second" : "first")) return false;
            if (other != PLAN_ABSENT && !print_loop(plans[1], other, "second")) return false;
        }
    }
    return true;
}

/* ---- the peak ------------------------------------------------------------------------------------------ */

static bool holds(const plan *of, const peak *found, const char *name, uint64_t bytes) {
    char text[512];
    for (size_t i = 0; i < found->count; i++) {
        if (found->items[i].bytes == bytes &&
            strcmp(emit_peak_name(of, found, &found->items[i], text, sizeof text), name) == 0)
            return true;
    }
    return false;
}

/* What is live at the peak of one plan and not at that of the other. */
static bool print_peaks(const plan *const *plans, base_arena *arena) {
    enum { MOST = 10 };
    peak found[2];
    if (!emit_peak_find(plans[0], 0, arena, &found[0]) || !emit_peak_find(plans[1], 0, arena, &found[1]))
        return false;
    bool any = false;
    for (int p = 0; p < 2; p++) {
        for (size_t i = 0; i < found[p].count && i < MOST; i++) {
            const peak_item *item = &found[p].items[i];
            char text[512], size[32], why[512];
            if (holds(plans[1 - p], &found[1 - p],
                      emit_peak_name(plans[p], &found[p], item, text, sizeof text), item->bytes))
                continue;
            if (!any) printf("at the peak of only one of them:\n");
            any = true;
            printf("  %-6s %10s  %s: %s\n", p ? "second" : "first",
                   emit_size_print((size_t)item->bytes, size, sizeof size), text,
                   emit_peak_why(plans[p], &found[p], item, why, sizeof why));
        }
    }
    return true;
}

/* ---- addresses ----------------------------------------------------------------------------------------- */

/* How many tensors of one name and size lie elsewhere in the arena. */
static bool print_places(const plan *const *plans, base_arena *arena) {
    base_map map = {.arena = arena};
    size_t both = 0, moved = 0;
    for (int p = 0; p < 2; p++) {
        for (uint64_t i = 0; i < plans[p]->header->tensors.count; i++) {
            const plan_tensor *tensor = &plans[p]->tensors[i];
            const char *name = plans[p]->texts + tensor->name;
            if (tensor->address.space != MEMORY_ARENA || !name[0]) continue;
            const plan_tensor *other = base_map_get(&map, name);
            if (!p && !other && !base_map_put(&map, name, (void *)(uintptr_t)tensor)) return false;
            if (!p || !other || other->bytes != tensor->bytes) continue;
            both++;
            moved += other->address.offset != tensor->address.offset;
        }
    }
    if (both)
        printf("addresses: %zu of %zu tensors of the arena that both have lie elsewhere\n", moved, both);
    return true;
}

int command_inspect_compare(const plan *a, const plan *b, const char *const *names, base_arena *arena) {
    const plan *const plans[] = {a, b};
    const plan_header *x = a->header, *y = b->header;
    printf("first: %s, %s\nsecond: %s, %s\n", names[0], a->texts + x->allocator, names[1],
           b->texts + y->allocator);
    print_bytes("arena", x->arena_bytes, y->arena_bytes);
    print_bytes("lower bound", x->lower_bound_bytes, y->lower_bound_bytes);
    print_bytes("without reuse", x->sum_bytes, y->sum_bytes);
    print_bytes("lower bound in the file's order", x->file_order_peak_bytes, y->file_order_peak_bytes);
    print_bytes("constants", x->constants_bytes, y->constants_bytes);
    print_bytes("plan", x->file_bytes, y->file_bytes);
    if (a->bytes == b->bytes && memcmp(a->base, b->base, a->bytes) == 0) {
        printf("the same bytes\n");
        return 0;
    }
    if (!print_places(plans, arena) || !print_counts(plans, arena) || !print_loops(plans) ||
        !print_peaks(plans, arena))
        return command_fail_memory();
    return 0;
}
