/* SPDX-License-Identifier: Apache-2.0 */
/* simulate.h: what one iteration of a region has live, and how much more time its bands take than its nodes one by one. */
#ifndef OURO_BANDS_SIMULATE_H
#define OURO_BANDS_SIMULATE_H

#include "passes/bands/steps.h"

/* Steps [first, last] in bands of `height` rows, an iteration in the middle. False: they cannot go in such bands. `made->rows` is 0 where more than `most`
 * bytes are live whatever the iteration does. `fast`: with faster kernels where these are worth it. */
bool band_simulate(band_steps *s, size_t first, size_t last, int64_t height, bool fast, double most,
                   band_choice *made);

#endif
