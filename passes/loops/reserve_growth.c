/* SPDX-License-Identifier: Apache-2.0 */
/* reserve_growth.c: what grows in a loop that may end early gets as many bytes of the arena as it can become.
 *
 *     loop(most 64, %go) { %x <= Concat(%x, %y)   yield %again, %x, %z }
 *
 *     after at most 64 iterations %x has the bytes of its initial value and 64 times those of %y, and the stack
 *     of %z those of 64 slices: so many bytes of the arena are theirs, however many are used in the end
 *
 * The types of such outputs are known at run time only, when the loop has ended. What is appended or stacked is
 * made in its place all the same, and moves no more.
 *
 * Whether the size is certain or bounded, the initial value is made where it will grow, where it can be.
 *
 * A bound is a constant trip count. More than MOST_RESERVED bytes are not reserved (models that write the largest integer
 * where they mean "until the condition fails"): such a value grows in run-time memory.
 *
 * Needs: types, storages. Breaks: nothing. Guarantees: a capacity, which is a storage in the arena for a value whose type has
 * no size, for all that a loop of known length appends or stacks.
 */
#include "ir/loop.h"
#include "passes/loops/loops.h"

static const size_t MOST_RESERVED = (size_t)1 << 28;

/* `begin` bytes and `trips` times `more`. */
static bool bytes_after(size_t begin, size_t more, int64_t trips, size_t *bytes) {
    size_t grown;
    return base_size_multiply(more, (size_t)trips, &grown) && base_size_add(begin, grown, bytes);
}

/* What carried value `index` is at most, if it is only appended to, after what is there. */
static bool grown_bytes(const ir_loop *loop, uint32_t index, int64_t trips, size_t *bytes) {
    ir_loop_growth growth;
    size_t begin, appended = 0;
    if (!ir_loop_grows(loop, index, &growth) || !growth.after ||
        !op_type_bytes(&ir_loop_carry(loop, index).initial->type, &begin))
        return false;
    for (uint32_t i = 1; i < growth.concat->input_count; i++) {
        size_t part;
        if (!op_type_bytes(&ir_input(growth.concat, i)->type, &part) ||
            !base_size_add(appended, part, &appended))
            return false;
    }
    return bytes_after(begin, appended, trips, bytes);
}

/* What stacked output `index` is at most, if its slices lie one after the other. */
static bool stacked_bytes(const ir_loop *loop, uint32_t index, int64_t trips, size_t *bytes) {
    const ir_loop_slices stack = ir_loop_stack(loop, index);
    size_t each;
    return stack.axis == 0 && !stack.backwards && stack.slice->type.kind == OP_KIND_TENSOR &&
           stack.slice->type.layout == OP_LAYOUT_ROW_MAJOR && op_type_bytes(&stack.slice->type, &each) &&
           bytes_after(0, each, trips, bytes);
}

/* The initial value of what grows is made where it will grow, if nobody else reads it. */
static void begin_there(pass_memory *memory, const ir_node *loop, uint32_t index) {
    const ir_value *initial = ir_input(loop, 2 + index);
    pass_location from = pass_memory_location(memory, initial),
                  to = pass_memory_location(memory, loop->outputs[index]);
    const pass_storage *storage = pass_memory_storage(memory, from.storage),
                       *place = pass_memory_storage(memory, to.storage);
    size_t bytes;
    bool made = initial->kind == IR_RESULT_OF_NODE && initial->graph == loop->graph && initial->uses &&
                !initial->uses->next;
    bool alone = storage->space == MEMORY_ARENA && storage->graph == loop->graph && !from.offset &&
                 storage->values.index == initial->id.index && !memory->siblings[initial->id.index].index &&
                 op_type_bytes(&initial->type, &bytes) && storage->bytes == bytes;
    bool planned = (place->space == MEMORY_ARENA || place->space == MEMORY_OUTPUT) &&
                   place->graph == loop->graph && place->bytes >= to.offset + storage->bytes;
    if (made && alone && planned && from.storage.index != to.storage.index)
        pass_memory_join(memory, to.storage, from.storage, to.offset);
}

static void reserve(pass_memory *memory, const ir_loop *loop) {
    const uint32_t carried = loop->carried;
    const int64_t trips = ir_loop_most_trips(loop);
    for (uint32_t i = 0; i < loop->node->output_count && trips >= 0; i++) {
        const ir_value *output = loop->node->outputs[i];
        size_t bytes;
        if (!output || output->type.kind != OP_KIND_TENSOR || output->type.dtype == OP_STRING) continue;
        pass_location at = pass_memory_location(memory, output);
        pass_storage *storage = pass_memory_storage(memory, at.storage);
        bool known = i < carried ? grown_bytes(loop, i, trips, &bytes)
                                 : stacked_bytes(loop, i - carried, trips, &bytes);
        if (known && storage->space == MEMORY_DYNAMIC && !at.offset && bytes && bytes <= MOST_RESERVED) {
            storage->space = MEMORY_ARENA;
            storage->bytes = bytes;
        }
        if (known && i < carried) begin_there(memory, loop->node, i);
    }
}

base_status pass_reserve_growth(pass_context *context) {
    for (size_t n = 1; n < context->module->node_count; n++) {
        const ir_node *node = context->module->nodes[n];
        ir_loop loop;
        if (node && ir_loop_read(node, &loop) && !loop.runs) reserve(context->memory, &loop);
    }
    return BASE_OK;
}
