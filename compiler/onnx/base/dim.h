/* SPDX-License-Identifier: Apache-2.0 */
/* dim.h: a symbolic dimension that the caller of an import fixes. */
#ifndef OURO_IMPORT_DIM_H
#define OURO_IMPORT_DIM_H

#include <stdint.h>

typedef struct import_dim {
    const char *name;
    int64_t extent;
} import_dim;

#endif
