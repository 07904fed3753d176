/* SPDX-License-Identifier: Apache-2.0 */
/* caller_block.c: all memory from one block of the caller, and how large that must be.
 *
 * A block begins with a head; then pieces lie side by side, each with its size in front. Those that are free are a list by address.
 * A request takes the first that is large enough, so that where pieces lie does not depend on how much is free at the end: what a
 * session takes in a large block fits into one of the bytes that were in use there (ouro_block_peak). */
#include "runtime/executor.h"
#include <string.h>

/* ---- one block ----------------------------------------------------------------------------------------- */

typedef struct piece piece;
struct piece {
    size_t bytes; /* with this */
    piece *next;  /* of the free ones; in use: nothing */
};

typedef struct block_head {
    size_t bytes, peak;
    piece *free; /* the lowest */
} block_head;

enum { PIECE_HEAD = RT_ALIGNMENT, LEAST_PIECE = PIECE_HEAD + RT_ALIGNMENT };

static void *take_piece(void *user, size_t bytes) {
    block_head *head = user;
    size_t wanted;
    if (!base_size_align(bytes ? bytes : 1, RT_ALIGNMENT, &wanted) ||
        !base_size_add(wanted, PIECE_HEAD, &wanted))
        return NULL;
    piece **at = &head->free;
    while (*at && (*at)->bytes < wanted) at = &(*at)->next;
    piece *found = *at;
    if (!found) return NULL;
    if (found->bytes - wanted >= LEAST_PIECE) {
        piece *rest = (piece *)(void *)((char *)found + wanted);
        *rest = (piece){.bytes = found->bytes - wanted, .next = found->next};
        found->bytes = wanted;
        *at = rest;
    } else {
        *at = found->next;
    }
    const size_t end = (size_t)((char *)found - (char *)head) + wanted;
    if (end > head->peak) head->peak = end;
    return (char *)found + PIECE_HEAD;
}

/* Joins a free piece with the next one, where it ends there. */
static void join_next(piece *one) {
    piece *next = one->next;
    if (!next || (char *)one + one->bytes != (char *)next) return;
    one->bytes += next->bytes;
    one->next = next->next;
}

static void give_piece(void *user, void *memory) {
    block_head *head = user;
    piece *given = (piece *)(void *)((char *)memory - PIECE_HEAD), *before = NULL;
    for (piece *one = head->free; one && one < given; one = one->next) before = one;
    given->next = before ? before->next : head->free;
    if (before) before->next = given;
    else head->free = given;
    join_next(given);
    if (before) join_next(before);
}

ouro_status ouro_block_allocator(void *block, size_t bytes, ouro_allocator *allocator, ouro_error *error) {
    base_report report = {0};
    const size_t usable = bytes / RT_ALIGNMENT * RT_ALIGNMENT;
    if (!block || (uintptr_t)block % RT_ALIGNMENT != 0) {
        base_fail(&report, BASE_USAGE, "the block given is not aligned to %d", (int)RT_ALIGNMENT);
        return rt_error_set(error, &report);
    }
    if (usable < PIECE_HEAD + LEAST_PIECE) {
        base_fail(&report, BASE_USAGE, "the block given has %zu bytes, expected at least %d", bytes,
                  PIECE_HEAD + LEAST_PIECE);
        return rt_error_set(error, &report);
    }
    block_head *head = block;
    piece *all = (piece *)(void *)((char *)block + PIECE_HEAD);
    *head = (block_head){.bytes = usable, .peak = PIECE_HEAD, .free = all};
    *all = (piece){.bytes = usable - PIECE_HEAD};
    *allocator = (ouro_allocator){take_piece, give_piece, block};
    return OURO_OK;
}

size_t ouro_block_peak(const ouro_allocator *allocator) {
    return ((const block_head *)allocator->user)->peak;
}

/* ---- how large a block must be ------------------------------------------------------------------------- */

/* Something that takes memory from an allocator and gives it back. */
typedef struct trial {
    const ouro_plan *handle;
    const ouro_session_options *options; /* of a session; NULL: the plan is opened */
} trial;

static ouro_status try_once(const trial *tried, const ouro_allocator *memory, ouro_error *error) {
    const plan *of = &tried->handle->opened;
    if (tried->options) {
        ouro_session_options options = *tried->options;
        ouro_session *session;
        base_report report = {0};
        options.memory = memory;
        options.spill = &rt_spill_none;
        if (rt_session_make(of, &options, false, &session, &report) != BASE_OK)
            return rt_error_set(error, &report);
        ouro_session_free(session);
        return OURO_OK;
    }
    ouro_plan *opened;
    const ouro_status status = ouro_plan_open_with(of->base, of->bytes, memory, &opened, error);
    if (status == OURO_OK) ouro_plan_free(opened);
    return status;
}

/* In blocks that double until one is large enough. */
static ouro_status measure(const trial *tried, size_t guess, size_t *bytes, ouro_error *error) {
    const base_allocator *source = &tried->handle->memory;
    ouro_status status = OURO_MACHINE;
    *bytes = 0;
    for (size_t size = guess; status == OURO_MACHINE && size < SIZE_MAX / 2; size *= 2) {
        ouro_allocator memory;
        void *block = rt_take(source, size);
        if (!block) {
            base_report report = {0};
            base_fail_memory(&report);
            return rt_error_set(error, &report);
        }
        status = ouro_block_allocator(block, size, &memory, error);
        if (status == OURO_OK) status = try_once(tried, &memory, error);
        if (status == OURO_OK) *bytes = ouro_block_peak(&memory);
        rt_give(source, block);
    }
    return status;
}

ouro_status ouro_plan_bytes(const ouro_plan *handle, size_t *bytes, ouro_error *error) {
    const trial opening = {.handle = handle};
    return measure(&opening, (size_t)64 << 10, bytes, error);
}

ouro_status ouro_session_bytes(const ouro_plan *handle, const ouro_session_options *options, size_t *bytes,
                               ouro_error *error) {
    static const ouro_session_options none = {0};
    const trial making = {.handle = handle, .options = options ? options : &none};
    size_t guess;
    if (!base_size_add(ouro_plan_arena_bytes(handle), ouro_plan_state_bytes(handle), &guess) ||
        !base_size_add(guess, (size_t)256 << 10, &guess))
        guess = (size_t)256 << 10;
    return measure(&making, guess, bytes, error);
}
