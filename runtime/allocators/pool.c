/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: TensorFlow's PoolAllocator: freed blocks are kept and handed out again to requests of exactly their
 * size, the one freed last first. Each block begins with a cookie that tells its size. When more blocks are kept than
 * the pool holds, the one that was freed longest ago goes back to the system; where that happens often while requests
 * find nothing, the pool becomes a tenth larger.
 */
#include "runtime/allocators/allocator.h"
#include <stdlib.h>

enum { BUCKETS = 256, LEAST_KEPT = 100, CHECK_EVERY = 1000 };
static const double tolerable =
    2e-3; /* evictions among gives, and requests that the system served among all */

/* In front of the bytes that are handed out. While the block is kept it stands in two lists. */
typedef struct block {
    size_t bytes;                  /* of all of it */
    struct block *newer, *older;   /* of all that are kept, by when they were freed */
    struct block *next, *previous; /* in the bucket of the size, the last freed first */
} block;

enum { COOKIE = RT_ALLOCATOR_ALIGNMENT };

typedef struct pool {
    rt_allocator base;
    block *newest, *oldest;
    block *buckets[BUCKETS];
    size_t count, most; /* blocks kept */
    bool grows;
    uint64_t given, evicted, found, missed;
} pool;

static block **bucket_of(pool *p, size_t bytes) {
    return &p->buckets[(bytes / RT_ALLOCATOR_ALIGNMENT * BASE_RANDOM_STEP) >> 56];
}

static void unlink_block(pool *p, block *b) {
    if (b->newer) b->newer->older = b->older;
    else p->newest = b->older;
    if (b->older) b->older->newer = b->newer;
    else p->oldest = b->newer;
    if (b->previous) b->previous->next = b->next;
    else *bucket_of(p, b->bytes) = b->next;
    if (b->next) b->next->previous = b->previous;
    p->count--;
}

/* Is the pool too small for what is asked of it? */
static void reconsider_size(pool *p) {
    if (!p->grows || p->evicted % CHECK_EVERY != 0) return;
    const double evictions = (double)p->evicted / (double)p->given,
                 misses = (double)p->missed / (double)(p->missed + p->found + 1);
    if (evictions > tolerable && misses > tolerable)
        p->most = p->most < LEAST_KEPT ? LEAST_KEPT : p->most + p->most / 10;
}

static void evict_oldest(pool *p) {
    block *b = p->oldest;
    unlink_block(p, b);
    rt_allocator_system_give(&p->base, b, b->bytes);
    p->evicted++;
    reconsider_size(p);
}

static bool begin(rt_allocator *allocator, const rt_allocator_options *options) {
    pool *p = (pool *)allocator;
    p->most = options->kept ? options->kept : LEAST_KEPT;
    p->grows = options->kept == 0;
    return true;
}

static void end(rt_allocator *allocator) {
    pool *p = (pool *)allocator;
    while (p->oldest) evict_oldest(p);
}

static void *take(rt_allocator *allocator, size_t bytes, uint64_t before) {
    (void)before;
    pool *p = (pool *)allocator;
    size_t all;
    if (!base_size_align(bytes, RT_ALLOCATOR_ALIGNMENT, &all) || !base_size_add(all, COOKIE, &all))
        return NULL;
    block *b = *bucket_of(p, all);
    while (b && b->bytes != all) b = b->next;
    if (b) {
        p->found++;
        unlink_block(p, b);
    } else {
        p->missed++;
        b = rt_allocator_system_take(allocator, all);
        /* What is kept may be what the limit lacks. */
        while (!b && p->oldest) {
            evict_oldest(p);
            b = rt_allocator_system_take(allocator, all);
        }
        if (!b) return NULL;
        b->bytes = all;
    }
    rt_allocator_count(allocator, all, true);
    return (char *)b + COOKIE;
}

static void give(rt_allocator *allocator, void *data, uint64_t time) {
    (void)time;
    pool *p = (pool *)allocator;
    block *b = (block *)(void *)((char *)data - COOKIE);
    rt_allocator_count(allocator, b->bytes, false);
    p->given++;
    while (p->count >= p->most) evict_oldest(p);
    block **bucket = bucket_of(p, b->bytes);
    b->newer = NULL;
    b->older = p->newest;
    if (p->newest) p->newest->newer = b;
    else p->oldest = b;
    p->newest = b;
    b->previous = NULL;
    b->next = *bucket;
    if (b->next) b->next->previous = b;
    *bucket = b;
    p->count++;
}

static size_t capacity(rt_allocator *allocator, const void *data) {
    (void)allocator;
    return ((const block *)(const void *)((const char *)data - COOKIE))->bytes - COOKIE;
}

static void advance(rt_allocator *allocator, uint64_t time) {
    (void)allocator;
    (void)time;
}

const rt_allocator_kind rt_allocator_pool = {.name = "pool",
                                             .bytes = sizeof(pool),
                                             .begin = begin,
                                             .end = end,
                                             .take = take,
                                             .give = give,
                                             .capacity = capacity,
                                             .advance = advance};
