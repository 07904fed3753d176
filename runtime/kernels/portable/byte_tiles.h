/* SPDX-License-Identifier: Apache-2.0 */
/* byte_tiles.h: tiles of bytes and of their sums, as AMX has them: how they are set up, filled and stored. For integer_tiles.c and filter_tiles.c.
 *
 * Products of up to 32 rows. More than 16: sums are tiles 0 and 1, side by side, and 2 and 3 below them, A is 4 and 5, B 6 and 7. Else sums are tiles 0 to 3,
 * side by side, A is 4, B 5 to 7.
 */
#ifndef OURO_BYTE_TILES_H
#define OURO_BYTE_TILES_H

#include "runtime/kernels/base/x86.h"
#if RT_X86_KERNELS && defined(__linux__)
#define RT_HAS_BYTE_TILES 1
#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RT_TILE_ROWS = 16,
    RT_TILE_BYTES = 64,                         /* of a row */
    RT_TILE_GROUP = 2 * RT_TILE_ROWS,           /* rows at a time */
    RT_TILE_TOGETHER = 4,                       /* tiles of sums */
    RT_TILE_SIZE = RT_TILE_ROWS * RT_TILE_BYTES /* in bytes */
};
#define RT_WITH_TILES __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vnni")))

/* Whether the processor has tiles that multiply bytes, and the system gives leave to use them, which is asked for. */
static inline bool rt_tiles_are_here(void) {
    enum { TILES = 1 << 24, OF_BYTES = 1 << 25, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d = 0;
    return __builtin_cpu_supports("avx512bw") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & TILES) &&
           (d & OF_BYTES) && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* Instructions on tiles say nothing to the compiler of the memory that they read: what was written has to be there before, and has to stay until then. */
static inline void rt_tiles_settle(void) {
    __asm__ volatile("" ::: "memory");
}

/* What tiles are: as the processor reads it. */
typedef struct rt_tiles_setting {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} rt_tiles_setting;

/* Tiles for `rows` rows of A, of `quads` quadruples each. */
RT_WITH_TILES static inline void rt_tiles_set_up(int64_t rows, int64_t quads) {
    rt_tiles_setting made = {.palette = 1};
    const bool tall = rows > RT_TILE_ROWS;
    const uint8_t above = (uint8_t)(tall ? RT_TILE_ROWS : rows);
    for (int i = 0; i < 8; i++) {
        made.row_bytes[i] = i < 4 || i > (tall ? 5 : 4) ? RT_TILE_BYTES : (uint16_t)(4 * quads);
        made.rows[i] = i > 4 ? (uint8_t)quads : above;
    }
    if (tall) made.rows[2] = made.rows[3] = made.rows[5] = (uint8_t)(rows - RT_TILE_ROWS);
    rt_tiles_settle();
    _tile_loadconfig(&made);
    rt_tiles_settle();
}

/* Tiles of sums begin with what is there, `row` bytes from one row to the next: tiles side by side begin `beside` numbers after each other, those below
 * `below` numbers after those above. */
RT_WITH_TILES static inline void rt_tiles_load(const int32_t *from, int64_t row, int64_t beside,
                                               int64_t below, bool tall, int64_t panels) {
    rt_tiles_settle();
    _tile_loadd(0, from, row);
    if (panels > 1) _tile_loadd(1, from + beside, row);
    if (tall) {
        _tile_loadd(2, from + below, row);
        if (panels > 1) _tile_loadd(3, from + below + beside, row);
    } else {
        if (panels > 2) _tile_loadd(2, from + 2 * beside, row);
        if (panels > 3) _tile_loadd(3, from + 3 * beside, row);
    }
    rt_tiles_settle();
}

/* Stores them, side by side, in rows of `pitch` numbers. */
RT_WITH_TILES static inline void rt_tiles_store(int32_t *to, int64_t pitch, bool tall, int64_t panels) {
    const int64_t row = pitch * (int64_t)sizeof *to;
    _tile_stored(0, to, row);
    if (panels > 1) _tile_stored(1, to + RT_TILE_ROWS, row);
    if (tall) {
        _tile_stored(2, to + RT_TILE_ROWS * pitch, row);
        if (panels > 1) _tile_stored(3, to + RT_TILE_ROWS * pitch + RT_TILE_ROWS, row);
    } else {
        if (panels > 2) _tile_stored(2, to + 2 * RT_TILE_ROWS, row);
        if (panels > 3) _tile_stored(3, to + 3 * RT_TILE_ROWS, row);
    }
}
#endif

#endif
