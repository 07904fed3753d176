/* SPDX-License-Identifier: Apache-2.0 */
/* row_panels.c: see row_panels.h. What some positions see of a channel, padding included, is copied once for all window elements: then
 * each sees a run of floats at these positions, whole panels of which are copied.
 */
#include "runtime/kernels/portable/row_panels.h"
#include <string.h>

enum { ROW_FLOATS = 2048 /* of the copy, which is on the stack */ };

static int64_t in_whole_panels(int64_t count) {
    return (count + RT_PANEL - 1) / RT_PANEL * RT_PANEL;
}

bool rt_row_panels_fit(const rt_seen_rows *rows, int64_t count) {
    return rows->taps <= ROW_FLOATS && rows->dilation <= ROW_FLOATS && count <= ROW_FLOATS &&
           in_whole_panels(count) + (rows->taps - 1) * rows->dilation <= ROW_FLOATS;
}

void rt_row_panels(const rt_seen_rows *rows, const float *x, int64_t from, int64_t depth, int64_t position,
                   int64_t count, float *panels) {
    float row[ROW_FLOATS];
    const int64_t first = position - rows->before,
                  span = in_whole_panels(count) + (rows->taps - 1) * rows->dilation,
                  low = first >= 0      ? 0
                        : -first < span ? -first
                                        : span,
                  seen = rows->width - first,
                  high = seen > span  ? span
                         : seen < low ? low
                                      : seen;
    memset(row, 0, (size_t)low * sizeof *row);
    memset(row + high, 0, (size_t)(span - high) * sizeof *row);
    for (int64_t k = 0; k < depth; k++) {
        const int64_t channel = (from + k) / rows->taps, tap = (from + k) % rows->taps;
        if ((k == 0 || tap == 0) && high > low)
            memcpy(row + low, x + channel * rows->width + first + low, (size_t)(high - low) * sizeof *row);
        const float *at = row + tap * rows->dilation;
        float *to = panels + k * RT_PANEL;
        for (int64_t column = 0; column < count; column += RT_PANEL)
            memcpy(to + column * depth, at + column, RT_PANEL * sizeof *row);
    }
}
