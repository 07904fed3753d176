#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# planner_shuffles.sh [OPTION...] PROBLEM.csv...: judges the planners that go by the order in which buffers that start
# together are taken (chunk-simulation, bfc) over many such orders: mean and spread of height / lower bound for each
# problem and over all of them. The seed is printed; the same one gives the same shuffles.
#
#     planner_shuffles.sh -n 100 -s 1 -a chunk-simulation,bfc FOLDER/*.csv
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cmake --build "$root/build" --target bench_shuffles >/dev/null
exec "$root/build/tests/bench_shuffles" "$@"
