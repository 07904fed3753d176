/* SPDX-License-Identifier: Apache-2.0 */
/* problems.h: allocation problems made from a kind, a number of buffers and a seed.
 *
 * Most kinds are cut from a full rectangle of PROBLEMS_CAPACITY bytes, so that a placement within that
 * capacity exists however hard it is to find; the others are drawn at random, and nobody knows the best
 * height beforehand. The same arguments give the same problem on every machine.
 *
 *     cut        cuts through time and memory, also pinwheels; as many steps as half the buffers; no slack
 *     fine       the same with a step of its own for nearly every cut: few lives begin or end together
 *     dense      cut, then a twentieth of the area given up: buffers dropped, lives shortened, sizes reduced
 *     sparse     the same with an eighth
 *     waves      short lives and sizes of 3 % to 11 % of the capacity; what is live swells and falls
 *     crowded    long lives of small buffers, fifty to a hundred of them at a time; an eighth given up
 *     heavy      random lives, sizes with a heavy tail
 *     staircase  lives begin one after the other and overlap a few neighbours
 *     nested     lives lie within lives, as those of a network's training do
 *     random     random lives and sizes, few sizes equal
 *     equal      random lives, five different sizes
 *     aligned    dense, with alignments up to 16 KiB
 *     pinned     dense, with a tenth of the buffers fixed where the cut had them
 */
#ifndef OURO_SUPPORT_PROBLEMS_H
#define OURO_SUPPORT_PROBLEMS_H

#include "passes/planners/planners.h"

#define PROBLEMS_CAPACITY ((size_t)1 << 20)

/* The name of a kind; NULL after the last. */
const char *problems_kind(size_t index);
/* A placement within PROBLEMS_CAPACITY exists for problems of this kind. */
bool problems_fit(const char *kind);

/* Makes a problem with about `count` buffers in `arena`; its capacity is PROBLEMS_CAPACITY where
 * problems_fit says so, else 0. False: no such kind, or no memory. */
bool problems_make(const char *kind, size_t count, uint64_t seed, base_arena *arena,
                   planner_problem *problem);

#endif
