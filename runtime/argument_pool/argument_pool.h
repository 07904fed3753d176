/* SPDX-License-Identifier: Apache-2.0 */
/* argument_pool.h: what the runtime tells the library that stands between oneDNN and the heap. Thread-safe. A program
 * that does not link argument_pool.c has none of these: who calls them refers to them weakly.
 */
#ifndef OURO_ARGUMENT_POOL_H
#define OURO_ARGUMENT_POOL_H

#ifdef __cplusplus
extern "C" {
#endif
/* Between these two, C++ allocations of the calling thread come from a fixed pool. */
__attribute__((visibility("default"))) void ouro_argument_pool_enter(void);
__attribute__((visibility("default"))) void ouro_argument_pool_leave(void);
/* While `on`, posix_memalign throws std::bad_alloc in the calling thread where there is no memory, instead of returning ENOMEM. The
 * caller is C++ and catches it. */
__attribute__((visibility("default"))) void ouro_argument_pool_throw(int on);
#ifdef __cplusplus
}
#endif

#endif
