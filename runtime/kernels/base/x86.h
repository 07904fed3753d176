/* SPDX-License-Identifier: Apache-2.0 */
/* x86.h: whether this build has kernels for the instruction sets of x86-64 (AVX2, AVX-512, AMX and what belongs to them) beside those in C.
 * Each is chosen where the processor has what it needs. CMake's OURO_VECTORS=OFF leaves them out: a small program is less than half as large then.
 */
#ifndef OURO_X86_H
#define OURO_X86_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(OURO_NO_VECTORS)
#define RT_X86_KERNELS 1
#else
#define RT_X86_KERNELS 0
#endif

#endif
