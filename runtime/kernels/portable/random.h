/* SPDX-License-Identifier: Apache-2.0 */
/* random.h: random numbers by their position: number i of a stream is a function of the stream and of i, so that
 * results depend neither on the number of threads nor on the order in which they are made.
 *
 * The function is that of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014)
 * at its state after i + 1 steps. A stream is
 *
 *   - of a node with attribute seed: the same for equal seeds
 *   - of any other: that of attribute ouro.stream, which the importer makes from the path of the node's graph
 *     and the name of its first output
 *
 * and another one each time that the node runs again within one run of the model (in a loop). A second run of the
 * model gives the same numbers as the first.
 */
#ifndef OURO_RANDOM_H
#define OURO_RANDOM_H

#include "runtime/kernels/portable/kernels.h"

/* Number `index` of a stream. */
static inline uint64_t rt_random_number(uint64_t stream, uint64_t index) {
    return base_mix(stream + (index + 1) * BASE_RANDOM_STEP);
}

/* The same as a uniform number of `bits` (up to 53) binary digits in [0, 1). */
static inline double rt_random_uniform(uint64_t stream, uint64_t index, int bits) {
    return (double)(rt_random_number(stream, index) >> (64 - bits)) / (double)((uint64_t)1 << bits);
}

/* Where a node's streams come from. */
typedef struct rt_random_source {
    uint64_t stream;
    const uint64_t *execution; /* see rt_environment; NULL: always the first */
} rt_random_source;

rt_random_source rt_random_read(const op_call *call, const rt_environment *environment);
/* The stream of this execution. */
uint64_t rt_random_stream(const rt_random_source *source);

#endif
