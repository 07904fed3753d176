/* SPDX-License-Identifier: Apache-2.0 */
/* bfc.c: TensorFlow's BFCAllocator, best fit with coalescing.
 *
 * Memory comes from the system in regions, each twice as large as the one before. A region is cut into chunks, whose
 * sizes are multiples of 256 bytes; each knows its neighbours. A request takes the smallest free chunk that is large
 * enough, the lowest of equals: what the 21 bins of the source come to, which are ordered by size and then address. A
 * chunk at least twice as large as needed, or 128 MiB larger, is split. A chunk that is given back is merged with free
 * neighbours, unless it carries a time (rt_allocator_give_at): then it waits until the frontier has passed that, or
 * until nothing else is left. When a region cannot be had, regions that are wholly free go back to the system first.
 */
#include "runtime/allocators/allocator.h"
#include "ir/base/block_set.h"
#include <string.h>

enum { UNIT = 256, UNIT_BITS = 8, NONE = -1, FIRST_REGION = 64 << 10 };

typedef struct chunk {
    char *data;
    size_t requested;
    /* Neighbours within the region; of a handle that is not used: the next of these. */
    int32_t previous, next;
    uint64_t freed_at; /* 0: it is safe */
    bool used;
} chunk;

typedef struct region {
    char *memory;
    size_t bytes;
    int32_t *handles; /* the chunk that begins at each unit */
} region;

typedef struct bfc {
    rt_allocator base;
    chunk *chunks;
    size_t chunk_count, chunk_capacity, set_capacity;
    size_t *sizes, *addresses; /* by chunk */
    base_block_set free;       /* chunks that are free and safe; ordered by these */
    int32_t spare;             /* a chain of unused handles */
    region *regions;           /* by address */
    size_t region_count, region_capacity;
    size_t next_region;
    int32_t *waiting; /* free chunks that carry a time */
    size_t waiting_count, waiting_capacity;
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

/* The arrays of the set are of one length. */
static bool reserve_set(bfc *b, size_t count) {
    size_t capacities[4] = {b->set_capacity, b->set_capacity, b->set_capacity, b->set_capacity};
    const bool made = reserve(b, &b->sizes, &capacities[0], count, sizeof *b->sizes) &&
                      reserve(b, &b->addresses, &capacities[1], count, sizeof *b->addresses) &&
                      reserve(b, &b->free.left, &capacities[2], count, sizeof *b->free.left) &&
                      reserve(b, &b->free.right, &capacities[3], count, sizeof *b->free.right);
    b->free.sizes = b->sizes;
    b->free.ties = b->addresses;
    if (made) b->set_capacity = capacities[0];
    return made;
}

/* Every chunk may have to wait: capacity for that is made with the chunk, so that giving back never fails. */
static int32_t new_chunk(bfc *b, char *data, size_t size, int32_t previous, int32_t next) {
    int32_t handle = b->spare;
    if (handle != NONE) {
        b->spare = b->chunks[handle].next;
    } else {
        if (b->chunk_count >= INT32_MAX ||
            !reserve(b, &b->chunks, &b->chunk_capacity, b->chunk_count + 1, sizeof *b->chunks) ||
            !reserve(b, &b->waiting, &b->waiting_capacity, b->chunk_count + 1, sizeof *b->waiting) ||
            !reserve_set(b, b->chunk_count + 1))
            return NONE;
        handle = (int32_t)b->chunk_count++;
    }
    b->chunks[handle] = (chunk){.data = data, .previous = previous, .next = next};
    b->sizes[handle] = size;
    b->addresses[handle] = (size_t)(uintptr_t)data;
    return handle;
}

static void drop_chunk(bfc *b, int32_t handle) {
    b->chunks[handle] = (chunk){.next = b->spare};
    b->spare = handle;
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

static int32_t *handle_at(const bfc *b, const void *data) {
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
    int32_t *handles =
        memory ? rt_allocator_list_new(&b->base, (wanted >> UNIT_BITS) * sizeof *handles) : NULL;
    int32_t handle = handles ? new_chunk(b, memory, wanted, NONE, NONE) : NONE;
    if (handle == NONE) {
        if (memory) rt_allocator_system_give(&b->base, memory, wanted);
        rt_allocator_list_free(&b->base, handles);
        return false;
    }
    if (!doubled) b->next_region *= 2;
    size_t at = 0;
    while (at < b->region_count && (uintptr_t)b->regions[at].memory < (uintptr_t)memory) at++;
    memmove(b->regions + at + 1, b->regions + at, (b->region_count - at) * sizeof *b->regions);
    b->regions[at] = (region){memory, wanted, handles};
    b->region_count++;
    *handle_at(b, memory) = handle;
    base_block_set_add(&b->free, (uint32_t)handle);
    return true;
}

/* ---- chunks -------------------------------------------------------------------------------------------- */

/* The rest is free, and waits where the whole does. The chunk is in no set. */
static bool split(bfc *b, int32_t handle, size_t bytes) {
    const chunk whole = b->chunks[handle];
    const int32_t rest = new_chunk(b, whole.data + bytes, b->sizes[handle] - bytes, handle, whole.next);
    if (rest == NONE) return false;
    b->chunks[rest].freed_at = whole.freed_at;
    if (whole.next != NONE) b->chunks[whole.next].previous = rest;
    b->chunks[handle].next = rest;
    b->sizes[handle] = bytes;
    *handle_at(b, whole.data + bytes) = rest;
    if (whole.freed_at) b->waiting[b->waiting_count++] = rest;
    else base_block_set_add(&b->free, (uint32_t)rest);
    return true;
}

/* Both are free and in no set. */
static void merge(bfc *b, int32_t handle, int32_t next) {
    b->sizes[handle] += b->sizes[next];
    b->chunks[handle].next = b->chunks[next].next;
    if (b->chunks[next].next != NONE) b->chunks[b->chunks[next].next].previous = handle;
    drop_chunk(b, next);
}

static bool can_merge(const bfc *b, int32_t handle) {
    return handle != NONE && !b->chunks[handle].used && b->chunks[handle].freed_at == 0;
}

/* The chunk with its free neighbours, in no set. */
static int32_t coalesce(bfc *b, int32_t handle) {
    int32_t next = b->chunks[handle].next, previous = b->chunks[handle].previous;
    if (can_merge(b, next)) {
        base_block_set_remove(&b->free, (uint32_t)next);
        merge(b, handle, next);
    }
    if (can_merge(b, previous)) {
        base_block_set_remove(&b->free, (uint32_t)previous);
        merge(b, previous, handle);
        handle = previous;
    }
    return handle;
}

static void stop_waiting(bfc *b, int32_t handle) {
    size_t at = 0;
    while (b->waiting[at] != handle) at++;
    b->waiting[at] = b->waiting[--b->waiting_count];
}

/* Chunks that need not wait any longer, or (`all`) that nobody can wait for, are merged with their neighbours. */
static void merge_waiting(bfc *b, bool all) {
    for (size_t i = 0; i < b->waiting_count;) {
        int32_t handle = b->waiting[i];
        chunk *c = &b->chunks[handle];
        if (!all && c->freed_at > b->frontier) {
            i++;
            continue;
        }
        b->waiting[i] = b->waiting[--b->waiting_count];
        c->freed_at = 0;
        base_block_set_add(&b->free, (uint32_t)coalesce(b, handle));
    }
}

/* The smaller, the lower of equals; NONE is after all. */
static bool precedes(const bfc *b, int32_t x, int32_t y) {
    if (x == NONE || y == NONE) return y == NONE && x != NONE;
    return b->sizes[x] != b->sizes[y] ? b->sizes[x] < b->sizes[y] : b->addresses[x] < b->addresses[y];
}

/* The best of the chunks that are safe, and of those that were freed no later than `before`. */
static int32_t find_chunk(const bfc *b, size_t bytes, uint64_t before) {
    const uint32_t safe = base_block_set_find(&b->free, bytes);
    int32_t best = safe == BASE_NO_BLOCK ? NONE : (int32_t)safe;
    for (size_t i = 0; i < b->waiting_count && before; i++) {
        const int32_t handle = b->waiting[i];
        if (b->sizes[handle] < bytes || b->chunks[handle].freed_at > before) continue;
        if (precedes(b, handle, best)) best = handle;
    }
    return best;
}

static void *take_chunk(bfc *b, size_t bytes, size_t requested, uint64_t before) {
    const int32_t handle = find_chunk(b, bytes, before);
    if (handle == NONE) return NULL;
    const bool waits = b->chunks[handle].freed_at != 0;
    const bool large = base_block_is_split(b->sizes[handle], bytes);
    if (!waits) base_block_set_remove(&b->free, (uint32_t)handle);
    if (large && !split(b, handle, bytes)) {
        if (!waits) base_block_set_add(&b->free, (uint32_t)handle);
        return NULL;
    }
    if (waits) stop_waiting(b, handle);
    chunk *c = &b->chunks[handle];
    c->freed_at = 0;
    c->used = true;
    c->requested = requested;
    rt_allocator_count(&b->base, b->sizes[handle], true);
    return c->data;
}

/* Regions that hold one free chunk only go back to the system. */
static bool drop_free_regions(bfc *b) {
    bool dropped = false;
    for (size_t i = 0; i < b->region_count;) {
        region *r = &b->regions[i];
        int32_t handle = r->handles[0];
        const chunk *c = &b->chunks[handle];
        if (c->used || c->freed_at || b->sizes[handle] != r->bytes) {
            i++;
            continue;
        }
        base_block_set_remove(&b->free, (uint32_t)handle);
        drop_chunk(b, handle);
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
    b->spare = NONE;
    b->free.root = BASE_NO_BLOCK;
    return base_size_align(options->first_region ? options->first_region : FIRST_REGION, UNIT,
                           &b->next_region);
}

static void end(rt_allocator *allocator) {
    bfc *b = (bfc *)allocator;
    for (size_t i = 0; i < b->region_count; i++) {
        rt_allocator_list_free(allocator, b->regions[i].memory);
        rt_allocator_list_free(allocator, b->regions[i].handles);
    }
    void *const lists[] = {b->sizes,   b->addresses, b->free.left, b->free.right,
                           b->regions, b->chunks,    b->waiting};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) rt_allocator_list_free(allocator, lists[i]);
}

static void *take(rt_allocator *allocator, size_t requested, uint64_t before) {
    bfc *b = (bfc *)allocator;
    size_t bytes;
    if (!base_size_align(requested, UNIT, &bytes)) return NULL;
    merge_waiting(b, false);
    void *data = take_chunk(b, bytes, requested, before);
    if (!data && extend(b, bytes)) data = take_chunk(b, bytes, requested, before);
    if (!data && before == 0 && b->waiting_count) {
        merge_waiting(b, true);
        data = take_chunk(b, bytes, requested, before);
    }
    if (!data && drop_free_regions(b) && extend(b, bytes)) data = take_chunk(b, bytes, requested, before);
    return data;
}

static void give(rt_allocator *allocator, void *data, uint64_t time) {
    bfc *b = (bfc *)allocator;
    int32_t handle = *handle_at(b, data);
    chunk *c = &b->chunks[handle];
    rt_allocator_count(allocator, b->sizes[handle], false);
    c->used = false;
    c->requested = 0;
    c->freed_at = time > b->frontier ? time : 0;
    if (c->freed_at) {
        b->waiting[b->waiting_count++] = handle;
    } else {
        base_block_set_add(&b->free, (uint32_t)coalesce(b, handle));
    }
}

static size_t capacity(rt_allocator *allocator, const void *data) {
    const bfc *b = (const bfc *)allocator;
    return b->sizes[*handle_at(b, data)];
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
