/* bfc.c: TensorFlow's BFCAllocator, best fit with coalescing.
 *
 * Memory comes from the system in regions, each twice as large as the one before. A region is cut into chunks, whose
 * sizes are multiples of 256 bytes; each knows its neighbours. Free chunks stand in 21 bins, of 256 bytes, 512, ...,
 * 256 MiB and more, ordered by size and then address. A request takes the first that is large enough, beginning with
 * the bin of its size; a chunk at least twice as large as needed, or 128 MiB larger, is split. A chunk that is given
 * back is merged with free neighbours, unless it carries a time (rt_allocator_give_at): then it waits until the
 * frontier has passed that, or until nothing else is left. When a region cannot be had, regions that are wholly free go
 * back to the system first.
 */
#include "runtime/allocators/allocator.h"
#include <stdlib.h>
#include <string.h>

enum { UNIT = 256, UNIT_BITS = 8, BINS = 21, NONE = -1, FIRST_REGION = 64 << 10 };
static const size_t split_excess = (size_t)128 << 20;

typedef struct chunk {
    char *data;
    size_t size, requested;
    int32_t previous,
        next;          /* neighbours within the region; of a handle that is not used: the next of these */
    int32_t bin;       /* NONE: it is taken, or no chunk */
    uint64_t freed_at; /* 0: it is safe */
    bool used;
} chunk;

typedef struct bin {
    int32_t *chunks; /* by size, then address */
    size_t count, capacity;
} bin;

typedef struct region {
    char *memory;
    size_t bytes;
    int32_t *handles; /* the chunk that begins at each unit */
} region;

typedef struct bfc {
    rt_allocator base;
    chunk *chunks;
    size_t chunk_count, chunk_capacity;
    int32_t spare; /* a chain of unused handles */
    bin bins[BINS];
    region *regions; /* by address */
    size_t region_count, region_capacity;
    size_t next_region;
    int32_t *waiting; /* free chunks that carry a time */
    size_t waiting_count, waiting_capacity;
    uint64_t frontier;
} bfc;

/* ---- arrays -------------------------------------------------------------------------------------------- */

static bool reserve(void *array, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity) return true;
    size_t larger = *capacity ? 2 * *capacity : 16, bytes;
    if (larger < count) larger = count;
    if (!base_size_multiply(larger, size, &bytes)) return false;
    void *grown = realloc(*(void **)array, bytes);
    if (!grown) return false;
    *(void **)array = grown;
    *capacity = larger;
    return true;
}

/* Every chunk may have to stand in any bin, and wait: capacity for that is made with the chunk, so that giving back never
 * fails. */
static int32_t new_chunk(bfc *b) {
    int32_t handle = b->spare;
    if (handle != NONE) {
        b->spare = b->chunks[handle].next;
        return handle;
    }
    if (b->chunk_count >= INT32_MAX ||
        !reserve(&b->chunks, &b->chunk_capacity, b->chunk_count + 1, sizeof *b->chunks) ||
        !reserve(&b->waiting, &b->waiting_capacity, b->chunk_count + 1, sizeof *b->waiting))
        return NONE;
    for (size_t i = 0; i < BINS; i++) {
        if (!reserve(&b->bins[i].chunks, &b->bins[i].capacity, b->chunk_count + 1, sizeof(int32_t)))
            return NONE;
    }
    return (int32_t)b->chunk_count++;
}

static void drop_chunk(bfc *b, int32_t handle) {
    b->chunks[handle] = (chunk){.next = b->spare, .bin = NONE};
    b->spare = handle;
}

/* ---- bins ---------------------------------------------------------------------------------------------- */

static int32_t bin_of(size_t bytes) {
    int32_t number = 0;
    for (size_t units = bytes >> UNIT_BITS; units > 1 && number < BINS - 1; units >>= 1) number++;
    return number;
}

static bool precedes(const bfc *b, int32_t left, int32_t right) {
    const chunk *x = &b->chunks[left], *y = &b->chunks[right];
    return x->size != y->size ? x->size < y->size : (uintptr_t)x->data < (uintptr_t)y->data;
}

/* The place of the chunk in its bin: of the first that does not precede it. */
static size_t place_in(const bfc *b, const bin *within, int32_t handle) {
    size_t low = 0, high = within->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (precedes(b, within->chunks[middle], handle)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void put_into_bin(bfc *b, int32_t handle) {
    chunk *c = &b->chunks[handle];
    c->bin = bin_of(c->size);
    bin *to = &b->bins[c->bin];
    size_t at = place_in(b, to, handle);
    memmove(to->chunks + at + 1, to->chunks + at, (to->count - at) * sizeof *to->chunks);
    to->chunks[at] = handle;
    to->count++;
}

static void take_from_bin(bfc *b, int32_t handle) {
    chunk *c = &b->chunks[handle];
    bin *from = &b->bins[c->bin];
    size_t at = place_in(b, from, handle);
    from->count--;
    memmove(from->chunks + at, from->chunks + at + 1, (from->count - at) * sizeof *from->chunks);
    c->bin = NONE;
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
    if (!reserve(&b->regions, &b->region_capacity, b->region_count + 1, sizeof *b->regions)) return false;
    char *memory = rt_allocator_system_take(&b->base, wanted);
    while (!memory && wanted > bytes) { /* a tenth less each time, down to what is needed */
        wanted = wanted / 10 * 9 / UNIT * UNIT;
        if (wanted < bytes) wanted = bytes;
        memory = rt_allocator_system_take(&b->base, wanted);
    }
    int32_t *handles = memory ? calloc(wanted >> UNIT_BITS, sizeof *handles) : NULL;
    int32_t handle = handles ? new_chunk(b) : NONE;
    if (handle == NONE) {
        if (memory) rt_allocator_system_give(&b->base, memory, wanted);
        free(handles);
        return false;
    }
    if (!doubled) b->next_region *= 2;
    size_t at = 0;
    while (at < b->region_count && (uintptr_t)b->regions[at].memory < (uintptr_t)memory) at++;
    memmove(b->regions + at + 1, b->regions + at, (b->region_count - at) * sizeof *b->regions);
    b->regions[at] = (region){memory, wanted, handles};
    b->region_count++;
    b->chunks[handle] = (chunk){.data = memory, .size = wanted, .previous = NONE, .next = NONE, .bin = NONE};
    *handle_at(b, memory) = handle;
    put_into_bin(b, handle);
    return true;
}

/* ---- chunks -------------------------------------------------------------------------------------------- */

static bool split(bfc *b, int32_t handle, size_t bytes) {
    int32_t rest = new_chunk(b);
    if (rest == NONE) return false;
    chunk *c = &b->chunks[handle], *rest_chunk = &b->chunks[rest];
    *rest_chunk = (chunk){.data = c->data + bytes,
                          .size = c->size - bytes,
                          .previous = handle,
                          .next = c->next,
                          .bin = NONE,
                          .freed_at = c->freed_at};
    if (c->next != NONE) b->chunks[c->next].previous = rest;
    c->next = rest;
    c->size = bytes;
    *handle_at(b, rest_chunk->data) = rest;
    if (rest_chunk->freed_at) b->waiting[b->waiting_count++] = rest;
    put_into_bin(b, rest);
    return true;
}

/* Both are free and in no bin. */
static void merge(bfc *b, int32_t handle, int32_t next) {
    chunk *c = &b->chunks[handle], *gone = &b->chunks[next];
    c->size += gone->size;
    c->next = gone->next;
    if (gone->next != NONE) b->chunks[gone->next].previous = handle;
    drop_chunk(b, next);
}

static bool can_merge(const bfc *b, int32_t handle) {
    return handle != NONE && !b->chunks[handle].used && b->chunks[handle].freed_at == 0;
}

/* The chunk with its free neighbours, in no bin. */
static int32_t coalesce(bfc *b, int32_t handle) {
    int32_t next = b->chunks[handle].next, previous = b->chunks[handle].previous;
    if (can_merge(b, next)) {
        take_from_bin(b, next);
        merge(b, handle, next);
    }
    if (can_merge(b, previous)) {
        take_from_bin(b, previous);
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
        take_from_bin(b, handle);
        put_into_bin(b, coalesce(b, handle));
    }
}

/* `before` 0: chunks that are safe, else also those that were freed no later. */
static void *find_chunk(bfc *b, size_t bytes, size_t requested, uint64_t before) {
    for (int32_t number = bin_of(bytes); number < BINS; number++) {
        const bin *within = &b->bins[number];
        for (size_t i = 0; i < within->count; i++) {
            int32_t handle = within->chunks[i];
            chunk *c = &b->chunks[handle];
            if (c->size < bytes || c->freed_at > before) continue;
            take_from_bin(b, handle);
            bool large = c->size >= 2 * bytes || c->size - bytes >= split_excess;
            if (large && !split(b, handle, bytes)) {
                put_into_bin(b, handle);
                return NULL;
            }
            c = &b->chunks[handle]; /* the array may have moved */
            if (c->freed_at) stop_waiting(b, handle);
            c->freed_at = 0;
            c->used = true;
            c->requested = requested;
            rt_allocator_count(&b->base, c->size, true);
            return c->data;
        }
    }
    return NULL;
}

/* Regions that hold one free chunk only go back to the system. */
static bool drop_free_regions(bfc *b) {
    bool dropped = false;
    for (size_t i = 0; i < b->region_count;) {
        region *r = &b->regions[i];
        int32_t handle = r->handles[0];
        const chunk *c = &b->chunks[handle];
        if (c->used || c->freed_at || c->size != r->bytes) {
            i++;
            continue;
        }
        take_from_bin(b, handle);
        drop_chunk(b, handle);
        rt_allocator_system_give(&b->base, r->memory, r->bytes);
        free(r->handles);
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
    return base_size_align(options->first_region ? options->first_region : FIRST_REGION, UNIT,
                           &b->next_region);
}

static void end(rt_allocator *allocator) {
    bfc *b = (bfc *)allocator;
    for (size_t i = 0; i < b->region_count; i++) {
        free(b->regions[i].memory);
        free(b->regions[i].handles);
    }
    for (size_t i = 0; i < BINS; i++) free(b->bins[i].chunks);
    free(b->regions);
    free(b->chunks);
    free(b->waiting);
}

static void *take(rt_allocator *allocator, size_t requested, uint64_t before) {
    bfc *b = (bfc *)allocator;
    size_t bytes;
    if (!base_size_align(requested, UNIT, &bytes)) return NULL;
    merge_waiting(b, false);
    void *data = find_chunk(b, bytes, requested, before);
    if (!data && extend(b, bytes)) data = find_chunk(b, bytes, requested, before);
    if (!data && before == 0 && b->waiting_count) {
        merge_waiting(b, true);
        data = find_chunk(b, bytes, requested, before);
    }
    if (!data && drop_free_regions(b) && extend(b, bytes)) data = find_chunk(b, bytes, requested, before);
    return data;
}

static void give(rt_allocator *allocator, void *data, uint64_t time) {
    bfc *b = (bfc *)allocator;
    int32_t handle = *handle_at(b, data);
    chunk *c = &b->chunks[handle];
    rt_allocator_count(allocator, c->size, false);
    c->used = false;
    c->requested = 0;
    c->freed_at = time > b->frontier ? time : 0;
    if (c->freed_at) {
        b->waiting[b->waiting_count++] = handle;
        put_into_bin(b, handle);
    } else {
        put_into_bin(b, coalesce(b, handle));
    }
}

static size_t capacity(rt_allocator *allocator, const void *data) {
    const bfc *b = (const bfc *)allocator;
    return b->chunks[*handle_at(b, data)].size;
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
