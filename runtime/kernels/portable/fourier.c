/* SPDX-License-Identifier: Apache-2.0 */
/* fourier.c: see fourier.h.
 *
 * A length whose prime factors are small is split into them, one after the other, as Stockham does it: from one buffer to another,
 * so that the result is in order without a permutation, and the innermost loop runs over `stride` neighbours that share their roots of
 * unity:
 *
 *     stage of factor r, with n elements left:   m = n / r
 *         to[stride (r p + k) + q] = w_n^(p k) * sum over j < r of w_r^(j k) from[stride (p + m j) + q]
 *
 * Other lengths become a cyclic convolution with a chirp, k t = (k^2 + t^2 - (k - t)^2) / 2, as Bluestein does it, of a length that has
 * small factors only.
 */
#include "runtime/kernels/portable/fourier.h"
#include <math.h>
#include <string.h>

enum { MOST_FACTORS = 64, LARGEST_FACTOR = 13 };

struct rt_fourier {
    int64_t length, size;
    int factors[MOST_FACTORS], count; /* of the length; of a convolution none */
    const double *cosines, *sines;    /* exp(-2 pi i t / length); of a convolution the chirp */
    const rt_fourier *convolution;    /* NULL: the length has small factors */
    const double *spectrum;           /* of the chirp, that of its real and that of its imaginary part, divided by the size */
};

/* One stage on planes of `size` elements: real parts first. */
typedef struct stage {
    const double *from, *cosines, *sines;
    double *to;
    int64_t plane, m, stride, turn; /* turn: roots of unity from one p to the next */
} stage;

/* Of one p and q the inputs a0, a1 and so on, and where the results go. */
#define INPUT(j)                                                                                             \
    const double r##j = from[(p + m * (j)) * stride + q], i##j = from[plane + (p + m * (j)) * stride + q]
#define OUTPUT(k, real, imaginary)                                                                           \
    do {                                                                                                     \
        const double x_ = (real), y_ = (imaginary);                                                          \
        to[(first + (k)) * stride + q] = x_ * c##k - y_ * s##k;                                              \
        to[plane + (first + (k)) * stride + q] = x_ * s##k + y_ * c##k;                                      \
    } while (0)
#define OUTPUT_FIRST(real, imaginary)                                                                        \
    do {                                                                                                     \
        to[first * stride + q] = (real);                                                                     \
        to[plane + first * stride + q] = (imaginary);                                                        \
    } while (0)
#define ROOT(k) const double c##k = s->cosines[p * (k)*s->turn], s##k = s->sines[p * (k)*s->turn]
#define STAGE(name, factor, roots, ...)                                                                      \
    RT_CLONES static void name(const stage *s) {                                                             \
        const int64_t plane = s->plane, m = s->m, stride = s->stride;                                        \
        const double *restrict from = s->from;                                                               \
        double *restrict to = s->to;                                                                         \
        for (int64_t p = 0; p < m; p++) {                                                                    \
            const int64_t first = (factor)*p;                                                                \
            roots;                                                                                           \
            RT_VECTOR for (int64_t q = 0; q < stride; q++) __VA_ARGS__                                       \
        }                                                                                                    \
    }

STAGE(stage_2, 2, ROOT(1), {
    INPUT(0);
    INPUT(1);
    OUTPUT_FIRST(r0 + r1, i0 + i1);
    OUTPUT(1, r0 - r1, i0 - i1);
})

/* sqrt(3) / 2 */
#define HALF_ROOT_3 0.86602540378443864676
STAGE(stage_3, 3, ROOT(1); ROOT(2), {
    INPUT(0);
    INPUT(1);
    INPUT(2);
    const double rs = r1 + r2, is = i1 + i2, rd = (r1 - r2) * HALF_ROOT_3, id = (i1 - i2) * HALF_ROOT_3;
    const double rm = r0 - 0.5 * rs, im = i0 - 0.5 * is;
    OUTPUT_FIRST(r0 + rs, i0 + is);
    OUTPUT(1, rm + id, im - rd);
    OUTPUT(2, rm - id, im + rd);
})

STAGE(stage_4, 4, ROOT(1); ROOT(2); ROOT(3), {
    INPUT(0);
    INPUT(1);
    INPUT(2);
    INPUT(3);
    const double ra = r0 + r2, ia = i0 + i2, rb = r0 - r2, ib = i0 - i2;
    const double rc = r1 + r3, ic = i1 + i3, rd = r1 - r3, id = i1 - i3;
    OUTPUT_FIRST(ra + rc, ia + ic);
    OUTPUT(1, rb + id, ib - rd);
    OUTPUT(2, ra - rc, ia - ic);
    OUTPUT(3, rb - id, ib + rd);
})

/* cos and sin of 2 pi / 5 and 4 pi / 5 */
#define COS_1 0.30901699437494742410
#define COS_2 (-0.80901699437494742410)
#define SIN_1 0.95105651629515357212
#define SIN_2 0.58778525229247312917
STAGE(stage_5, 5, ROOT(1); ROOT(2); ROOT(3); ROOT(4), {
    INPUT(0);
    INPUT(1);
    INPUT(2);
    INPUT(3);
    INPUT(4);
    const double ra = r1 + r4, ia = i1 + i4, rb = r1 - r4, ib = i1 - i4;
    const double rc = r2 + r3, ic = i2 + i3, rd = r2 - r3, id = i2 - i3;
    const double re = r0 + COS_1 * ra + COS_2 * rc, ie = i0 + COS_1 * ia + COS_2 * ic;
    const double rf = r0 + COS_2 * ra + COS_1 * rc, jf = i0 + COS_2 * ia + COS_1 * ic;
    const double rg = SIN_1 * rb + SIN_2 * rd, ig = SIN_1 * ib + SIN_2 * id;
    const double rh = SIN_2 * rb - SIN_1 * rd, ih = SIN_2 * ib - SIN_1 * id;
    OUTPUT_FIRST(r0 + ra + rc, i0 + ia + ic);
    OUTPUT(1, re + ig, ie - rg);
    OUTPUT(2, rf + ih, jf - rh);
    OUTPUT(3, rf - ih, jf + rh);
    OUTPUT(4, re - ig, ie + rg);
})

/* Any other factor r: r^2 products. The roots of unity of both kinds are those of the whole length. */
RT_CLONES static void stage_any(const stage *s, int64_t factor, int64_t length) {
    const int64_t plane = s->plane, m = s->m, stride = s->stride;
    const double *restrict from = s->from;
    double *restrict to = s->to;
    for (int64_t p = 0; p < m; p++) {
        for (int64_t k = 0; k < factor; k++) {
            double *const real = to + (factor * p + k) * stride, *const imaginary = real + plane;
            for (int64_t q = 0; q < stride; q++) real[q] = imaginary[q] = 0.0;
            for (int64_t j = 0; j < factor; j++) {
                const int64_t at = (p * k * s->turn + j * k % factor * (length / factor)) % length;
                const double c = s->cosines[at], d = s->sines[at];
                const double *const x = from + (p + m * j) * stride, *const y = x + plane;
                RT_VECTOR for (int64_t q = 0; q < stride; q++) {
                    real[q] += x[q] * c - y[q] * d;
                    imaginary[q] += x[q] * d + y[q] * c;
                }
            }
        }
    }
}

/* From `from` to `from` or `other`: where the result lies is returned. Both have planes of `plane` doubles. */
static double *run_stages(const rt_fourier *fourier, int64_t lines, double *from, double *other,
                          int64_t plane) {
    stage s = {.cosines = fourier->cosines, .sines = fourier->sines, .plane = plane, .stride = lines, .turn = 1};
    int64_t left = fourier->length;
    for (int f = 0; f < fourier->count; f++) {
        const int factor = fourier->factors[f];
        s.from = from;
        s.to = other;
        s.m = left / factor;
        if (factor == 2) stage_2(&s);
        else if (factor == 3) stage_3(&s);
        else if (factor == 4) stage_4(&s);
        else if (factor == 5) stage_5(&s);
        else stage_any(&s, factor, fourier->length);
        left = s.m;
        s.stride *= factor;
        s.turn *= factor;
        other = from;
        from = s.to;
    }
    return from;
}

/* a times b, or b times a number for all lines of an element. */
RT_CLONES static void times(double *real, double *imaginary, const double *cosines, const double *sines,
                            int64_t count, int64_t lines) {
    for (int64_t t = 0; t < count; t++) {
        const double c = cosines[t], s = sines[t];
        double *const x = real + t * lines, *const y = imaginary + t * lines;
        RT_VECTOR for (int64_t l = 0; l < lines; l++) {
            const double r = x[l] * c - y[l] * s, i = x[l] * s + y[l] * c;
            x[l] = r;
            y[l] = i;
        }
    }
}

static void exchange(double *real, double *imaginary, int64_t count) {
    RT_VECTOR for (int64_t t = 0; t < count; t++) {
        const double kept = real[t];
        real[t] = imaginary[t];
        imaginary[t] = kept;
    }
}

double *rt_fourier_run(const rt_fourier *fourier, int64_t lines, double *work) {
    const int64_t size = fourier->size, length = fourier->length, plane = size * lines;
    double *other = work + 2 * plane;
    if (!fourier->convolution) return run_stages(fourier, lines, work, other, plane);
    const int64_t rest = (size - length) * lines;
    times(work, work + plane, fourier->cosines, fourier->sines, length, lines);
    memset(work + length * lines, 0, (size_t)rest * sizeof *work);
    memset(work + plane + length * lines, 0, (size_t)rest * sizeof *work);
    double *made = run_stages(fourier->convolution, lines, work, other, plane);
    times(made, made + plane, fourier->spectrum, fourier->spectrum + size, size, lines);
    exchange(made, made + plane, plane);
    made = run_stages(fourier->convolution, lines, made, made == work ? other : work, plane);
    exchange(made, made + plane, plane);
    times(made, made + plane, fourier->cosines, fourier->sines, length, lines);
    return made;
}

int64_t rt_fourier_size(const rt_fourier *fourier) {
    return fourier->size;
}

/* ---- tables -------------------------------------------------------------------------------------------- */

/* The factors of a length, 4 before 2; false: one of them is too large. */
static bool find_factors(int64_t length, rt_fourier *fourier) {
    static const int order[] = {4, 2, 3, 5, 7, 11, LARGEST_FACTOR};
    for (size_t f = 0; f < sizeof order / sizeof *order; f++) {
        for (; length % order[f] == 0; length /= order[f]) fourier->factors[fourier->count++] = order[f];
    }
    return length == 1;
}

/* The least length of factors 2, 3 and 5 from `least` on, with at most one of the latter. */
static int64_t convolution_length(int64_t least) {
    int64_t power = 1, best;
    while (power < least) power *= 2;
    best = power;
    if (power % 4 == 0 && power / 4 * 3 >= least) best = power / 4 * 3;
    if (power % 8 == 0 && power / 8 * 5 >= least) best = power / 8 * 5;
    return best;
}

static double *take(int64_t doubles, base_arena *arena) {
    return rt_arena_aligned(arena, (size_t)doubles * sizeof(double));
}

rt_fourier *rt_fourier_new(int64_t length, base_arena *arena) {
    const double pi = 3.1415926535897932384626433832795;
    rt_fourier *fourier = BASE_NEW(arena, rt_fourier);
    double *table = take(2 * length, arena);
    if (!fourier || !table) return NULL;
    *fourier = (rt_fourier){.length = length, .size = length, .cosines = table, .sines = table + length};
    if (find_factors(length, fourier)) {
        for (int64_t t = 0; t < length; t++) {
            const double angle = 2.0 * pi * (double)t / (double)length;
            table[t] = cos(angle);
            table[length + t] = -sin(angle);
        }
        return fourier;
    }
    for (int64_t t = 0; t < length; t++) {
        const double angle = pi * (double)((uint64_t)t * (uint64_t)t % (uint64_t)(2 * length)) / (double)length;
        table[t] = cos(angle);
        table[length + t] = -sin(angle);
    }
    const int64_t size = fourier->size = convolution_length(2 * length - 1);
    rt_fourier *convolution = rt_fourier_new(size, arena);
    double *work = take(4 * size, arena); /* the half in which the spectrum lies is kept */
    if (!convolution || !work) return NULL;
    memset(work, 0, (size_t)(4 * size) * sizeof *work);
    for (int64_t t = 0; t < length; t++) {
        const int64_t mirrored = t ? size - t : 0;
        work[t] = work[mirrored] = table[t] / (double)size;
        work[size + t] = work[size + mirrored] = -table[length + t] / (double)size;
    }
    fourier->convolution = convolution;
    fourier->spectrum = rt_fourier_run(convolution, 1, work);
    return fourier;
}
