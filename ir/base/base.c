/* base.c: reports, arenas, checked sizes, hashing, maps. See base.h. */
#include "ir/base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- status and report -------------------------------------------------------------------------- */

void base_report_clear(base_report *report) {
    report->status = BASE_OK;
    report->unsupported = false;
    report->count = 0;
    report->length = 0;
    report->context[0] = '\0';
    report->text[0] = '\0';
}

/* The bytes of the UTF-8 character at `text`, 0 where there is none: ill-formed, too long a form, a
 * surrogate. */
static size_t character_length(const unsigned char *text) {
    static const struct {
        unsigned char lead_mask, lead;
        size_t length;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if ((text[0] & forms[i].lead_mask) != forms[i].lead) continue;
        uint32_t code = text[0] & (unsigned char)~forms[i].lead_mask;
        for (size_t k = 1; k < forms[i].length; k++) {
            if ((text[k] & 0xc0) != 0x80) return 0; /* the terminating zero is none either */
            code = code << 6 | (text[k] & 0x3f);
        }
        bool valid = code >= forms[i].least && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
        return valid ? forms[i].length : 0;
    }
    return 0;
}

/* Names come from files: a message must stay one line, must not drive a terminal, and is valid UTF-8 whatever
 * bytes the names have and wherever they were cut. */
static void replace_control_characters(char *text) {
    for (unsigned char *byte = (unsigned char *)text; *byte;) {
        size_t length = character_length(byte);
        bool control = *byte < 0x20 || *byte == 0x7f || (byte[0] == 0xc2 && byte[1] < 0xa0);
        if (length == 0 || control) {
            memset(byte, '?', length ? length : 1);
            length = length ? length : 1;
        }
        byte += length;
    }
}

void base_report_context(base_report *report, const char *format, ...) {
    if (!report) return;
    report->context[0] = '\0';
    if (!format) return;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(report->context, sizeof report->context, format, arguments) < 0) report->context[0] = '\0';
    va_end(arguments);
    replace_control_characters(report->context);
}

base_status base_fail_va(base_report *report, base_status status, const char *format, va_list arguments) {
    if (!report) return status;
    if (report->status == BASE_OK) report->status = status;
    report->count++;

    char message[BASE_REPORT_TEXT];
    size_t used = 0;
    if (report->context[0]) {
        used = (size_t)snprintf(message, sizeof message, "%s: ", report->context);
    }
    int written = vsnprintf(message + used, sizeof message - used, format, arguments);
    if (written < 0) message[used] = '\0';
    replace_control_characters(message);

    /* Line break and terminating zero. The first message is always kept, cut where it must be. */
    size_t length = strlen(message);
    size_t room = sizeof report->text - report->length;
    if (length + 2 > room) {
        if (report->length > 0) return status;
        length = room - 2;
    }
    memcpy(report->text + report->length, message, length);
    report->length += length;
    report->text[report->length++] = '\n';
    report->text[report->length] = '\0';
    return status;
}

base_status base_fail(base_report *report, base_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    base_fail_va(report, status, format, arguments);
    va_end(arguments);
    return status;
}

base_status base_fail_unsupported(base_report *report, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    base_fail_va(report, BASE_INVALID, format, arguments);
    va_end(arguments);
    if (report) report->unsupported = true;
    return BASE_INVALID;
}

base_status base_fail_memory(base_report *report) {
    return base_fail(report, BASE_SYSTEM_ERROR, "out of memory");
}

/* ---- arenas ------------------------------------------------------------------------------------- */

enum { ARENA_ALIGNMENT = 16, ARENA_FIRST_BLOCK = 16 << 10, ARENA_LARGEST_BLOCK = 4 << 20 };

struct base_block {
    base_block *next;
    char *start; /* aligned */
    size_t size; /* usable bytes from start */
};

static void *heap_allocate(void *user, size_t bytes) {
    (void)user;
    return malloc(bytes);
}

static void heap_release(void *user, void *block) {
    (void)user;
    free(block);
}

const base_allocator base_allocator_heap = {heap_allocate, heap_release, NULL};

void base_arena_init(base_arena *arena, const base_allocator *allocator) {
    arena->allocator = allocator ? allocator : &base_allocator_heap;
    arena->blocks = NULL;
    arena->used = 0;
    arena->reserved = 0;
}

void base_arena_free(base_arena *arena) {
    base_block *block = arena->blocks;
    while (block) {
        base_block *next = block->next;
        arena->allocator->release(arena->allocator->user, block);
        block = next;
    }
    base_arena_init(arena, arena->allocator);
}

static base_block *new_block(base_arena *arena, size_t size) {
    if (!arena->allocator) arena->allocator = &base_allocator_heap;
    size_t bytes;
    if (!base_size_add(size, sizeof(base_block) + ARENA_ALIGNMENT, &bytes)) return NULL;
    base_block *block = arena->allocator->allocate(arena->allocator->user, bytes);
    if (!block) return NULL;
    size_t misalignment = (uintptr_t)(block + 1) % ARENA_ALIGNMENT;
    block->start = (char *)(block + 1) + (misalignment ? ARENA_ALIGNMENT - misalignment : 0);
    block->size = size;
    arena->reserved += bytes;
    return block;
}

void *base_arena_alloc(base_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (!base_size_multiply(count, size, &bytes)) return NULL;
    if (!base_size_align(bytes ? bytes : 1, ARENA_ALIGNMENT, &bytes)) return NULL;

    base_block *block = arena->blocks;
    if (!block || block->size - arena->used < bytes) {
        size_t usual = arena->reserved < ARENA_FIRST_BLOCK ? ARENA_FIRST_BLOCK : arena->reserved;
        if (usual > ARENA_LARGEST_BLOCK) usual = ARENA_LARGEST_BLOCK;
        if (block && bytes > usual / 4) {
            /* A large piece gets a block of its own, behind the newest, so that the rest of that stays
             * usable. */
            base_block *large = new_block(arena, bytes);
            if (!large) return NULL;
            large->next = block->next;
            block->next = large;
            return memset(large->start, 0, bytes);
        }
        block = new_block(arena, bytes > usual ? bytes : usual);
        if (!block) return NULL;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
    }
    void *result = block->start + arena->used;
    arena->used += bytes;
    return memset(result, 0, bytes);
}

char *base_arena_text(base_arena *arena, const char *text, size_t length) {
    size_t bytes;
    if (!base_size_add(length, 1, &bytes)) return NULL;
    char *copy = base_arena_alloc(arena, bytes, 1);
    if (copy && length) memcpy(copy, text, length);
    return copy;
}

char *base_arena_format(base_arena *arena, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return NULL;
    char *text = base_arena_alloc(arena, (size_t)length + 1, 1);
    if (!text) return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void *base_arena_grow(base_arena *arena, void *array, size_t *capacity, size_t needed, size_t size) {
    if (array && needed <= *capacity) return array;
    size_t larger;
    if (!base_size_multiply(*capacity, 2, &larger)) return NULL;
    if (larger < needed) larger = needed;
    if (larger < 8) larger = 8;
    char *moved = base_arena_alloc(arena, larger, size);
    if (!moved) return NULL;
    if (array && *capacity) memcpy(moved, array, *capacity * size);
    *capacity = larger;
    return moved;
}

/* ---- checked sizes ------------------------------------------------------------------------------ */

bool base_size_add(size_t a, size_t b, size_t *result) {
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *result = sum;
    return true;
}

bool base_size_multiply(size_t a, size_t b, size_t *result) {
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *result = product;
    return true;
}

bool base_size_align(size_t value, size_t alignment, size_t *result) {
    size_t sum;
    if (__builtin_add_overflow(value, alignment - 1, &sum)) return false;
    *result = sum & ~(alignment - 1);
    return true;
}

bool base_int64_add(int64_t a, int64_t b, int64_t *result) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *result = sum;
    return true;
}

bool base_int64_multiply(int64_t a, int64_t b, int64_t *result) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *result = product;
    return true;
}

/* ---- hashing ------------------------------------------------------------------------------------ */

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
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
    return hash ^ (hash >> 31);
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
