/* SPDX-License-Identifier: Apache-2.0 */
/* half_steps_kind.h: what half_steps.c does with numbers and vectors of one kind. It
 * includes this once for each, with LANES, VECTOR (so many floats), MOST_PIXELS (of a tile), TARGET (the attribute that lets a function use
 * them), LIMIT, SEEN (what an element of the scratch is), WIDEN(from) and NARROW(sum, to) of LANES numbers of 16 bits, and NAME(function)
 * defined. What is multiplied how: ELEMENTS (of a pixel that a step reads), STEP_WEIGHTS (elements of a filter's weights that it reads),
 * ENTER(to, from): 16 channels of a pixel into the scratch, and MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums), a step.
 */

/* Sums that pass through memory: of fewer filters than a vector holds, or with an activation that is more than limits. */
TARGET static __attribute__((noinline)) void NAME(finish)(const rt_half_tile *tile, VECTOR *sums, int pixels,
                                                          int vectors) {
    for (int p = 0; p < pixels && tile->residual; p++) {
        for (int v = 0; v < vectors; v++) {
            const uint16_t *from = tile->residual + p * tile->y_pixel + v * tile->y_vector;
            uint16_t some[LANES] = {0};
            memcpy(some, from, (size_t)tile->lanes[v] * sizeof *some);
            sums[p * vectors + v] += WIDEN(some);
        }
    }
    if (tile->activation)
        rt_activation_fused(tile->activation, (float *)sums, (int64_t)pixels * vectors * LANES);
    if (tile->activation && tile->lanes[0] == LANES && tile->lanes[vectors - 1] == LANES) {
        for (int p = 0; p < pixels; p++)
            for (int v = 0; v < vectors; v++)
                NARROW(sums[p * vectors + v], tile->y + p * tile->y_pixel + v * tile->y_vector);
        return;
    }
    for (int p = 0; p < pixels; p++) {
        for (int v = 0; v < vectors; v++) {
            uint16_t *to = tile->y + p * tile->y_pixel + v * tile->y_vector, some[LANES];
            LIMIT(sums[p * vectors + v], tile->low, tile->high);
            if (tile->lanes[v] == LANES) {
                NARROW(sums[p * vectors + v], to);
                continue;
            }
            NARROW(sums[p * vectors + v], some);
            memcpy(to, some, (size_t)tile->lanes[v] * sizeof *some);
            memset(to + tile->lanes[v], 0, (size_t)(tile->stored[v] - tile->lanes[v]) * sizeof *some);
        }
    }
}

/* The sums of a tile, finished and rounded. */
TARGET static inline __attribute__((always_inline)) void NAME(leave)(const rt_half_tile *tile, int PIXELS,
                                                                     int VECTORS, VECTOR (*sums)[2]) {
    if (tile->beside) {
        VECTOR all[MOST_PIXELS * 2];
        _Pragma("GCC unroll 14") for (int p = 0; p < PIXELS; p++) {
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) all[p * VECTORS + v] = sums[p][v];
        }
        NAME(finish)(tile, all, PIXELS, VECTORS);
        return;
    }
    const float low = tile->low, high = tile->high;
    _Pragma("GCC unroll 14") for (int p = 0; p < PIXELS; p++) {
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) {
            const int64_t at = p * tile->y_pixel + v * tile->y_vector;
            if (tile->residual) sums[p][v] += WIDEN(tile->residual + at);
            LIMIT(sums[p][v], low, high);
            NARROW(sums[p][v], tile->y + at);
        }
    }
}

/* PIXELS x VECTORS registers of sums. They begin with the bias. */
TARGET static inline __attribute__((always_inline)) void NAME(tile)(const rt_half_tile *tile, int PIXELS,
                                                                    int VECTORS, int WIDTH) {
    VECTOR sums[MOST_PIXELS][2];
    const SEEN *block = tile->x;
    const uint16_t *of_block = tile->weights;
    _Pragma("GCC unroll 14") for (int p = 0; p < PIXELS; p++) {
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)
            memcpy(&sums[p][v], tile->bias + v * LANES, sizeof(VECTOR));
    }
    for (int64_t left = tile->channels; left > 0; left -= BLOCK, block += tile->block_step) {
        const int64_t steps = ((left < BLOCK ? left : BLOCK) + ELEMENTS - 1) / ELEMENTS;
        const uint16_t *weights = of_block + tile->first_tap * steps * STEP_WEIGHTS * BLOCK;
        for (int64_t t = tile->first_tap; t < tile->end_tap; t++) {
            const SEEN *x = block + tile->taps[t];
            for (int64_t i = 0; i < steps; i++, x += ELEMENTS, weights += STEP_WEIGHTS * BLOCK)
                MULTIPLY(tile, x, weights, PIXELS, VECTORS, WIDTH, sums);
        }
        of_block += tile->all_taps * steps * STEP_WEIGHTS * BLOCK;
    }
    NAME(leave)(tile, PIXELS, VECTORS, sums);
}

#ifdef ADD_PRODUCT
/* The same of channels by themselves: lanes are channels, of the image, too. */
TARGET static inline __attribute__((always_inline)) void NAME(by_channel)(const rt_half_tile *tile,
                                                                          int PIXELS, int VECTORS) {
    VECTOR sums[MOST_PIXELS][2];
    const SEEN *seen = tile->x;
    _Pragma("GCC unroll 14") for (int p = 0; p < PIXELS; p++) {
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++)
            memcpy(&sums[p][v], tile->bias + v * LANES, sizeof(VECTOR));
    }
    for (int64_t t = tile->first_tap; t < tile->end_tap; t++) {
        VECTOR right[2];
        _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) right[v] =
            WIDEN(tile->weights + t * BLOCK + v * LANES);
        _Pragma("GCC unroll 14") for (int p = 0; p < PIXELS; p++) {
            _Pragma("GCC unroll 2") for (int v = 0; v < VECTORS; v++) {
                VECTOR left;
                memcpy(&left, seen + tile->taps[t] + p * BLOCK + v * LANES, sizeof left);
                sums[p][v] = ADD_PRODUCT(right[v], left, sums[p][v]);
            }
        }
    }
    NAME(leave)(tile, PIXELS, VECTORS, sums);
}
#endif

#ifdef ADD_PRODUCT
#define CHANNELS(PIXELS)                                                                                     \
    TARGET static void NAME(channels_##PIXELS)(const rt_half_tile *tile) {                                   \
        NAME(by_channel)(tile, PIXELS, LANES == BLOCK ? 1 : 2);                                              \
    }
#else
#define CHANNELS(PIXELS)
#endif
#define TILE(PIXELS)                                                                                         \
    TARGET static void NAME(one_##PIXELS)(const rt_half_tile *tile) {                                        \
        NAME(tile)(tile, PIXELS, 1, BLOCK);                                                                  \
    }                                                                                                        \
    TARGET static void NAME(two_##PIXELS)(const rt_half_tile *tile) {                                        \
        NAME(tile)(tile, PIXELS, 2, BLOCK);                                                                  \
    }                                                                                                        \
    TARGET static void NAME(few_one_##PIXELS)(const rt_half_tile *tile) {                                    \
        NAME(tile)(tile, PIXELS, 1, RT_HALF_FEW);                                                            \
    }                                                                                                        \
    TARGET static void NAME(few_two_##PIXELS)(const rt_half_tile *tile) {                                    \
        NAME(tile)(tile, PIXELS, 2, RT_HALF_FEW);                                                            \
    }                                                                                                        \
    CHANNELS(PIXELS)
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#if LANES == BLOCK_LANES
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
TILE(13)
TILE(14)
#define ALL(kind)                                                                                            \
    {                                                                                                        \
        NAME(kind##_1), NAME(kind##_2), NAME(kind##_3), NAME(kind##_4), NAME(kind##_5), NAME(kind##_6),      \
            NAME(kind##_7), NAME(kind##_8), NAME(kind##_9), NAME(kind##_10), NAME(kind##_11),                \
            NAME(kind##_12), NAME(kind##_13), NAME(kind##_14)                                                \
    }
#else
#define ALL(kind)                                                                                            \
    { NAME(kind##_1), NAME(kind##_2), NAME(kind##_3), NAME(kind##_4), NAME(kind##_5), NAME(kind##_6) }
#endif

/* A block of channels of some pixels of a row, of which `inside` begin at `from`, `before` of them are padding. Pixels that windows see one
 * after another lie side by side: those of one phase of the stride. */
TARGET static void NAME(enter)(const rt_half_line *line, void *scratch) {
    const int64_t stride = line->stride, end = line->before + line->inside;
    for (int64_t phase = 0; phase < stride && phase < line->count; phase++) {
        SEEN *to = (SEEN *)scratch + phase * line->phase_width * BLOCK;
        const int64_t pixels = (line->count - phase - 1) / stride + 1;
        const int64_t low = line->before > phase ? (line->before - phase - 1) / stride + 1 : 0,
                      most = end > phase ? (end - phase - 1) / stride + 1 : 0, high = most < low ? low : most;
        const uint16_t *from = line->from;
        if (high > low) from += (low * stride + phase - line->before) * line->pixel;
        memset(to, 0, (size_t)(low < pixels ? low : pixels) * BLOCK * sizeof *to);
        if (line->channels == BLOCK) {
            for (int64_t at = low; at < high; at++, from += stride * line->pixel)
                ENTER(to + at * BLOCK, from);
        } else {
            for (int64_t at = low; at < high; at++, from += stride * line->pixel) {
                uint16_t some[BLOCK] = {0};
                memcpy(some, from, (size_t)line->channels * sizeof *some);
                ENTER(to + at * BLOCK, some);
            }
        }
        if (high < pixels) memset(to + high * BLOCK, 0, (size_t)(pixels - high) * BLOCK * sizeof *to);
    }
}

static const rt_half_steps NAME(steps) = {
    .lanes = LANES,
    .most = MOST_PIXELS,
    .element = sizeof(SEEN),
    .enter = NAME(enter),
    .run = {{ALL(one), ALL(two)}, {ALL(few_one), ALL(few_two)}},
#ifdef ADD_PRODUCT
    .channels = ALL(channels),
#endif
};

#undef ALL
#undef TILE
#undef CHANNELS
#undef ADD_PRODUCT
#undef LANES
#undef VECTOR
#undef MOST_PIXELS
#undef TARGET
#undef LIMIT
#undef SEEN
#undef WIDEN
#undef NARROW
#undef NAME
#undef ELEMENTS
#undef STEP_WEIGHTS
#undef ENTER
#undef MULTIPLY
