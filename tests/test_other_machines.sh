#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test_other_machines.sh COMPILER: the runtime's sources, and what they stand on, are C without warnings for another machine, whose COMPILER looks at them (aarch64-linux-gnu-gcc):
# vectors of x86-64 are only used where the machine has them. `./test.sh cross` also builds programs for such machines, and runs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compiler=$1
warnings=(-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings)
find runtime ir -name '*.c' -not -path 'runtime/kernels/onednn/*' | xargs -P "$(nproc)" -n 8 "$compiler" -std=c11 -D_GNU_SOURCE -fsyntax-only -fopenmp -I. -Iruntime "${warnings[@]}"
