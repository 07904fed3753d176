/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c: a hash of bytes, and maps from names to pointers. See base.h. */
#include "ir/base/base.h"

#include <string.h>

static uint64_t hash_step(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x00000100000001b3);
    return hash ^ (hash >> 32); /* or the top bits of the words would never reach the bottom */
}

static uint64_t hash_word(const unsigned char *at) {
    uint64_t word;
    memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* One step waits for the one before it; lanes of their own keep the multiplier busy, so that long data is
 * hashed as fast as memory gives it. */
enum { HASH_LANES = 8, HASH_STRIPE = 8 * HASH_LANES };

uint64_t base_hash(const void *data, size_t bytes, uint64_t seed) {
    const unsigned char *at = data;
    uint64_t hash = hash_step(UINT64_C(0xcbf29ce484222325), seed ^ bytes);
    size_t left = bytes;
    if (left >= HASH_STRIPE) {
        uint64_t lanes[HASH_LANES];
        for (int i = 0; i < HASH_LANES; i++) lanes[i] = hash_step(hash, (uint64_t)i);
        for (; left >= HASH_STRIPE; left -= HASH_STRIPE, at += HASH_STRIPE) {
            for (int i = 0; i < HASH_LANES; i++) lanes[i] = hash_step(lanes[i], hash_word(at + 8 * i));
        }
        for (int i = 0; i < HASH_LANES; i++) hash = hash_step(hash, lanes[i]);
    }
    for (; left >= 8; left -= 8, at += 8) hash = hash_step(hash, hash_word(at));
    uint64_t rest = 0;
    for (size_t i = 0; i < left; i++) rest |= (uint64_t)at[i] << (8 * i);
    if (left) hash = hash_step(hash, rest);
    return base_mix(hash);
}

/* The slot of the key, or the empty slot where it belongs; NULL while the map has no slots. */
static base_map_entry *map_slot(const base_map *map, const char *key, uint64_t hash) {
    if (!map->capacity) return NULL;
    size_t slot = hash & (map->capacity - 1);
    while (map->entries[slot].key) {
        base_map_entry *entry = &map->entries[slot];
        if (entry->hash == hash && strcmp(entry->key, key) == 0) return entry;
        slot = (slot + 1) & (map->capacity - 1);
    }
    return &map->entries[slot];
}

void *base_map_get(const base_map *map, const char *key) {
    if (!map->count) return NULL;
    const base_map_entry *entry = map_slot(map, key, base_hash(key, strlen(key), 0));
    return entry->key ? entry->value : NULL;
}

bool base_map_put(base_map *map, const char *key, void *value) {
    uint64_t hash = base_hash(key, strlen(key), 0);
    base_map_entry *entry = map_slot(map, key, hash);
    if (entry && entry->key) { /* replacing never needs memory */
        entry->value = value;
        return true;
    }
    if (map->count >= map->capacity / 2) {
        size_t capacity = 16;
        if (map->capacity && !base_size_multiply(map->capacity, 2, &capacity)) return false;
        base_map larger = {map->arena, BASE_ARRAY(map->arena, base_map_entry, capacity), capacity,
                           map->count};
        if (!larger.entries) return false;
        for (size_t i = 0; i < map->capacity; i++) {
            const base_map_entry *old = &map->entries[i];
            if (old->key) *map_slot(&larger, old->key, old->hash) = *old;
        }
        *map = larger;
        entry = map_slot(map, key, hash);
    }
    *entry = (base_map_entry){key, hash, value};
    map->count++;
    return true;
}
