/* SPDX-License-Identifier: Apache-2.0 */
/* argument_pool.h: between these two, C++ allocations of the calling thread come from a fixed pool. Thread-safe. A program
 * that does not link argument_pool.c has neither: who calls them refers to them weakly.
 */
#ifndef OURO_ARGUMENT_POOL_H
#define OURO_ARGUMENT_POOL_H

__attribute__((visibility("default"))) void ouro_argument_pool_enter(void);
__attribute__((visibility("default"))) void ouro_argument_pool_leave(void);

#endif
