/* SPDX-License-Identifier: Apache-2.0 */
/* bfc.c: TensorFlow's BFCAllocator, best fit with coalescing.
 *
 * Memory comes from the system in regions, each twice as large as the one before. A region is cut into chunks, whose
 * sizes are multiples of 256 bytes; each knows its neighbours (ir/base/chunks.h). A request takes the smallest free chunk that is
 * large enough, the lowest of equals. A chunk at least twice as large as needed, or 128 MiB larger, is split. A chunk that is given back is merged with free
 * neighbours, unless it carries a time (rt_allocator_give_at): then it waits until the frontier has passed that, or
 * until nothing else is left. When a region cannot be had, regions that are wholly free go back to the system first.
 */
#include "runtime/allocators/allocator.h"
#include "ir/base/chunks.h"
#include <string.h>

enum { UNIT = 256, UNIT_BITS = 8, FIRST_REGION = 64 << 10 };

typedef struct chunk {
    char *data;
    uint64_t freed_at; /* 0: it is safe */
} chunk;

typedef struct region {
    char *memory;
    size_t bytes;
    uint32_t *handles; /* the chunk that begins at each unit */
} region;

typedef struct bfc {
    rt_allocator base;
    base_chunks chunks; /* in the set: those that are free and safe */
    chunk *more;        /* by chunk */
    size_t capacity;    /* of `more`, `waiting`, and the arrays of `chunks` */
    region *regions;    /* by address */
    size_t region_count, region_capacity;
    size_t next_region;
    uint32_t
        *waiting; /* free chunks that carry a time: every chunk may have to, and giving back never fails */
    size_t waiting_count;
    uint64_t frontier;
} bfc;

/* ---- arrays -------------------------------------------------------------------------------------------- */

static bool reserve(bfc *b, void *array, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity) return true;
    size_t larger = *capacity ? 2 * *capacity : 16, bytes;
    if (larger < count) larger = count;
    if (!base_size_multiply(larger, size, &bytes)) return false;
    void *grown = rt_allocator_list_new(&b->base, bytes);
    if (!grown) return false;
    if (*capacity) memcpy(grown, *(void **)array, *capacity * size);
    rt_allocator_list_free(&b->base, *(void **)array);
    *(void **)array = grown;
    *capacity = larger;
    return true;
}

/* Everything that is kept by chunk. */
static bool reserve_chunks(bfc *b, size_t count) {
    base_chunks *c = &b->chunks;
    if (count > UINT32_MAX / 2) return false;
    const struct {
        void *array;
        size_t size;
    } arrays[] = {
        {&b->more, sizeof *b->more},   {&b->waiting, sizeof *b->waiting}, {&c->addresses, sizeof(size_t)},
        {&c->sizes, sizeof(size_t)},   {&c->previous, sizeof(uint32_t)},  {&c->next, sizeof(uint32_t)},
        {&c->available, sizeof(bool)}, {&c->set.left, sizeof(uint32_t)},  {&c->set.right, sizeof(uint32_t)}};
    size_t capacity = b->capacity;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        capacity = b->capacity;
        if (!reserve(b, arrays[i].array, &capacity, count, arrays[i].size)) return false;
    }
    b->capacity = capacity;
    base_chunks_attach(c, c->set.left, c->set.right);
    return true;
}

static bool one_more_chunk(bfc *b) {
    return reserve_chunks(b, base_chunks_needed(&b->chunks));
}

/* ---- regions ------------------------------------------------------------------------------------------- */

static region *region_of(const bfc *b, const void *data) {
    size_t low = 0, high = b->region_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)b->regions[middle].memory <= (uintptr_t)data) low = middle;
        else high = middle;
    }
    return &b->regions[low];
}

static uint32_t *handle_at(const bfc *b, const void *data) {
    region *r = region_of(b, data);
    return &r->handles[(size_t)((const char *)data - r->memory) >> UNIT_BITS];
}

/* A region of at least `bytes`, as one free chunk. */
static bool extend(bfc *b, size_t bytes) {
    bool doubled = false;
    while (b->next_region < bytes) {
        b->next_region *= 2;
        doubled = true;
    }
    size_t wanted = b->next_region;
    if (!reserve(b, &b->regions, &b->region_capacity, b->region_count + 1, sizeof *b->regions)) return false;
    char *memory = rt_allocator_system_take(&b->base, wanted);
    while (!memory && wanted > bytes) { /* a tenth less each time, down to what is needed */
        wanted = wanted / 10 * 9 / UNIT * UNIT;
        if (wanted < bytes) wanted = bytes;
        memory = rt_allocator_system_take(&b->base, wanted);
    }
    uint32_t *handles =
        memory ? rt_allocator_list_new(&b->base, (wanted >> UNIT_BITS) * sizeof *handles) : NULL;
    if (!handles || !one_more_chunk(b)) {
        if (memory) rt_allocator_system_give(&b->base, memory, wanted);
        rt_allocator_list_free(&b->base, handles);
        return false;
    }
    const uint32_t handle =
        base_chunk_new(&b->chunks, (size_t)(uintptr_t)memory, wanted, BASE_NO_BLOCK, BASE_NO_BLOCK);
    b->more[handle] = (chunk){.data = memory};
    if (!doubled) b->next_region *= 2;
    size_t at = 0;
    while (at < b->region_count && (uintptr_t)b->regions[at].memory < (uintptr_t)memory) at++;
    memmove(b->regions + at + 1, b->regions + at, (b->region_count - at) * sizeof *b->regions);
    b->regions[at] = (region){memory, wanted, handles};
    b->region_count++;
    *handle_at(b, memory) = handle;
    base_chunk_put(&b->chunks, handle);
    return true;
}

/* ---- chunks -------------------------------------------------------------------------------------------- */

/* The rest is free, and waits where the whole does. The chunk is in no set. */
static bool split(bfc *b, uint32_t handle, size_t bytes) {
    if (!one_more_chunk(b)) return false;
    const uint32_t rest = base_chunk_split(&b->chunks, handle, bytes);
    const uint64_t freed_at = b->more[handle].freed_at;
    b->more[rest] = (chunk){.data = b->more[handle].data + bytes, .freed_at = freed_at};
    *handle_at(b, b->more[rest].data) = rest;
    if (freed_at) b->waiting[b->waiting_count++] = rest;
    else base_chunk_put(&b->chunks, rest);
    return true;
}

/* The chunk, which is safe, can be handed out again, with its neighbours. */
static void make_available(bfc *b, uint32_t handle) {
    base_chunk_put(&b->chunks, base_chunk_coalesce(&b->chunks, handle));
}

static void stop_waiting(bfc *b, uint32_t handle) {
    size_t at = 0;
    while (b->waiting[at] != handle) at++;
    b->waiting[at] = b->waiting[--b->waiting_count];
}

/* Chunks that need not wait any longer, or (`all`) that nobody can wait for, are merged with their neighbours. */
static void merge_waiting(bfc *b, bool all) {
    for (size_t i = 0; i < b->waiting_count;) {
        const uint32_t handle = b->waiting[i];
        chunk *c = &b->more[handle];
        if (!all && c->freed_at > b->frontier) {
            i++;
            continue;
        }
        b->waiting[i] = b->waiting[--b->waiting_count];
        c->freed_at = 0;
        make_available(b, handle);
    }
}

/* The smaller, the lower of equals; no chunk is after all. */
static bool precedes(const bfc *b, uint32_t x, uint32_t y) {
    const size_t *sizes = b->chunks.sizes, *addresses = b->chunks.addresses;
    if (x == BASE_NO_BLOCK || y == BASE_NO_BLOCK) return y == BASE_NO_BLOCK && x != BASE_NO_BLOCK;
    return sizes[x] != sizes[y] ? sizes[x] < sizes[y] : addresses[x] < addresses[y];
}

/* The best of the chunks that are safe, and of those that were freed no later than `before`. */
static uint32_t find_chunk(const bfc *b, size_t bytes, uint64_t before) {
    uint32_t best = base_block_set_find(&b->chunks.set, bytes);
    for (size_t i = 0; i < b->waiting_count && before; i++) {
        const uint32_t handle = b->waiting[i];
        if (b->chunks.sizes[handle] < bytes || b->more[handle].freed_at > before) continue;
        if (precedes(b, handle, best)) best = handle;
    }
    return best;
}

static void *take_chunk(bfc *b, size_t bytes, uint64_t before) {
    const uint32_t handle = find_chunk(b, bytes, before);
    if (handle == BASE_NO_BLOCK) return NULL;
    const bool waits = b->more[handle].freed_at != 0;
    const bool large = base_block_is_split(b->chunks.sizes[handle], bytes);
    if (!waits) base_chunk_take(&b->chunks, handle);
    if (large && !split(b, handle, bytes)) {
        if (!waits) base_chunk_put(&b->chunks, handle);
        return NULL;
    }
    if (waits) stop_waiting(b, handle);
    chunk *c = &b->more[handle];
    c->freed_at = 0;
    rt_allocator_count(&b->base, b->chunks.sizes[handle], true);
    return c->data;
}

/* Regions that hold one free chunk only go back to the system. */
static bool drop_free_regions(bfc *b) {
    bool dropped = false;
    for (size_t i = 0; i < b->region_count;) {
        region *r = &b->regions[i];
        const uint32_t handle = r->handles[0];
        if (!b->chunks.available[handle] || b->chunks.sizes[handle] != r->bytes) {
            i++;
            continue;
        }
        base_chunk_take(&b->chunks, handle);
        base_chunk_drop(&b->chunks, handle);
        rt_allocator_system_give(&b->base, r->memory, r->bytes);
        rt_allocator_list_free(&b->base, r->handles);
        b->region_count--;
        memmove(r, r + 1, (b->region_count - i) * sizeof *r);
        dropped = true;
    }
    return dropped;
}

/* ---- the interface ------------------------------------------------------------------------------------- */

static bool begin(rt_allocator *allocator, const rt_allocator_options *options) {
    bfc *b = (bfc *)allocator;
    base_chunks_init(&b->chunks);
    return base_size_align(options->first_region ? options->first_region : FIRST_REGION, UNIT,
                           &b->next_region);
}

static void end(rt_allocator *allocator) {
    bfc *b = (bfc *)allocator;
    for (size_t i = 0; i < b->region_count; i++) {
        rt_allocator_list_free(allocator, b->regions[i].memory);
        rt_allocator_list_free(allocator, b->regions[i].handles);
    }
    const base_chunks *c = &b->chunks;
    void *const lists[] = {c->addresses, c->sizes,     c->previous, c->next, c->available,
                           c->set.left,  c->set.right, b->regions,  b->more, b->waiting};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) rt_allocator_list_free(allocator, lists[i]);
}

static void *take(rt_allocator *allocator, size_t requested, uint64_t before) {
    bfc *b = (bfc *)allocator;
    size_t bytes;
    if (!base_size_align(requested, UNIT, &bytes)) return NULL;
    merge_waiting(b, false);
    void *data = take_chunk(b, bytes, before);
    if (!data && extend(b, bytes)) data = take_chunk(b, bytes, before);
    if (!data && before == 0 && b->waiting_count) {
        merge_waiting(b, true);
        data = take_chunk(b, bytes, before);
    }
    if (!data && drop_free_regions(b) && extend(b, bytes)) data = take_chunk(b, bytes, before);
    return data;
}

static void give(rt_allocator *allocator, void *data, uint64_t time) {
    bfc *b = (bfc *)allocator;
    const uint32_t handle = *handle_at(b, data);
    chunk *c = &b->more[handle];
    rt_allocator_count(allocator, b->chunks.sizes[handle], false);
    c->freed_at = time > b->frontier ? time : 0;
    if (c->freed_at) b->waiting[b->waiting_count++] = handle;
    else make_available(b, handle);
}

static size_t capacity(rt_allocator *allocator, const void *data) {
    const bfc *b = (const bfc *)allocator;
    return b->chunks.sizes[*handle_at(b, data)];
}

static void advance(rt_allocator *allocator, uint64_t time) {
    bfc *b = (bfc *)allocator;
    if (time > b->frontier) b->frontier = time;
    merge_waiting(b, false);
}

const rt_allocator_kind rt_allocator_bfc = {.name = "bfc",
                                            .bytes = sizeof(bfc),
                                            .begin = begin,
                                            .end = end,
                                            .take = take,
                                            .give = give,
                                            .capacity = capacity,
                                            .advance = advance};
