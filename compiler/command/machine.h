/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h: what this machine can do at most, measured: what a profile holds the times of nodes against. */
#ifndef OURO_MACHINE_H
#define OURO_MACHINE_H

#include "ir/base/base.h"

typedef struct machine_peak {
    /* A second: float32 additions and multiplications of the library's own matrix product. */
    double operations;
    double bytes; /* a second: read from memory and written to it while a large block is copied */
} machine_peak;

/* On so many threads; takes about a tenth of a second and 128 MiB. */
base_status command_machine_measure(int threads, machine_peak *peak, base_report *report);

#endif
