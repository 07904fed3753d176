/* SPDX-License-Identifier: Apache-2.0 */
/* make_bands.c: feature maps that are never whole: spatial operators one after another become a loop over bands of rows.
 *
 *     %a: [1,64,112,112] = Conv(%x, %w)  %b = Conv(%a, %v)
 *  => a loop whose iterations make some rows of %a, and of %b what these let them make (emit.c has the picture)
 *
 * The lower bound of a graph is the largest sum of tensors that are live at one step. Band by band only some rows of them are:
 * the bound of the graph becomes that of another graph.
 *
 * Needs: types, final layouts; somebody reads every node. Breaks: nothing. Guarantees: values stay what they were, to the bit
 * where kernels sum in one order.
 */
#include "passes/bands/bands.h"
#include "passes/bands/emit.h"

/* The longest region that begins with `first`, and has at most so many nodes; *last is NULL where there is none of two. */
static bool longest_region(ir_node *first, int64_t rows, size_t most, base_arena *arena, ir_node **last) {
    size_t count = 0;
    ir_node *end = NULL;
    for (ir_node *node = first; node && count < most && band_node_supported(node, arena); node = node->next) {
        end = node;
        count++;
    }
    for (*last = NULL; count > 1 && !*last; end = end->previous, count--) {
        band_region *region;
        bool fits;
        if (!band_region_new(first, end, rows, arena, &region, &fits)) return false;
        if (fits) *last = end;
        base_arena_free(arena);
    }
    return true;
}

static base_status band_all(pass_context *context, base_arena *arena) {
    const pass_options *options = context->options;
    const size_t most = options->band_nodes ? options->band_nodes : SIZE_MAX;
    for (ir_node *node = context->module->main->first, *next; node; node = next) {
        ir_node *last;
        next = node->next;
        if (!longest_region(node, options->band_rows, most, arena, &last))
            return base_fail_memory(context->report);
        base_arena_free(arena);
        if (!last) continue;
        next = last->next;
        band_region *region;
        bool fits;
        if (!band_region_new(node, last, options->band_rows, arena, &region, &fits))
            return base_fail_memory(context->report);
        base_status status = band_emit(region, arena, context->report);
        base_arena_free(arena);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

base_status pass_make_bands(pass_context *context) {
    if (context->options->band_rows <= 0) return BASE_OK;
    base_arena arena;
    base_arena_init(&arena, context->scratch->allocator);
    base_status status = band_all(context, &arena);
    base_arena_free(&arena);
    return status;
}
