/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h: the kernels that run on oneDNN; without it (OURO_ONEDNN=OFF) there are none. */
#ifndef OURO_ONEDNN_H
#define OURO_ONEDNN_H

#include "runtime/kernels/base/kernel.h"

#ifdef OURO_ONEDNN

/* The kernel that runs this operator on oneDNN, or NULL. */
const rt_kernel *rt_onednn_kernel(op_code code);
/* How often oneDNN did not make something for want of memory so far, in this thread: then a kernel of it did not accept what it
 * accepts otherwise. */
size_t rt_onednn_exhaustions(void);
/* "onednn-2.6.3 avx512_core": version and instruction set, on which packed weights depend. False where memory runs out. */
bool rt_onednn_describe(char *text, size_t capacity);

#else

static inline const rt_kernel *rt_onednn_kernel(op_code code) {
    (void)code;
    return NULL;
}
static inline size_t rt_onednn_exhaustions(void) {
    return 0;
}
static inline bool rt_onednn_describe(char *text, size_t capacity) {
    if (capacity) text[0] = 0;
    return true;
}

#endif
#endif
