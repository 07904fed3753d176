/* SPDX-License-Identifier: Apache-2.0 */
/* bands.h: the pass that computes regions of spatial operators band by band. */
#ifndef OURO_PASSES_BANDS_H
#define OURO_PASSES_BANDS_H

#include "passes/base/pass.h"

base_status pass_make_bands(pass_context *context); /* make_bands.c */

#endif
