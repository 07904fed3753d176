/* kernels.h: what the portable kernels share. One operator family a file. */
#ifndef OURO_KERNELS_H
#define OURO_KERNELS_H

#include "runtime/kernel.h"

/* Work, in simple element operations, from which a loop is worth more than one thread. */
enum { RT_PARALLEL_WORK = 32768 };

#endif
