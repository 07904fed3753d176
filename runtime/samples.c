/* SPDX-License-Identifier: Apache-2.0 */
/* samples.c: plans for one sample of a batch: a run repeats them for each. Samples lie one after another in the caller's buffers, so the next
 * one is another address.
 */
#include "runtime/executor.h"
#include <inttypes.h>

/* Takes all addresses of inputs and outputs to sample `number` of the run. */
static void point(ouro_session *session, int64_t number) {
    const plan_header *header = session->of->header;
    for (uint64_t i = 0; i < header->inputs.count + header->outputs.count; i++) {
        const bool is_input = i < header->inputs.count;
        rt_binding *binding =
            is_input ? &session->bound.inputs[i] : &session->bound.outputs[i - header->inputs.count];
        if (!binding->is_sample) continue;
        const size_t bytes = (size_t)session->of->tensors[binding->tensor].bytes;
        rt_binding_point(session, binding,
                         binding->whole ? (char *)binding->whole + (size_t)number * bytes : NULL);
    }
}

base_status rt_samples_count(const ouro_session *session, int64_t *count, base_report *report) {
    const plan *of = session->of;
    const plan_interface *first = NULL;
    const int64_t bound = of->header->bounds.count ? of->bounds[of->header->batch] : 0;
    *count = 1;
    for (uint64_t i = 0; of->header->batch && i < of->header->inputs.count; i++) {
        const rt_binding *binding = &session->bound.inputs[i];
        if (!binding->is_sample) continue;
        if (first && binding->samples != *count)
            return rt_binding_differ(of, first, &of->inputs[i], (int64_t)of->header->batch, *count,
                                     binding->samples, report);
        if (bound && binding->samples > bound)
            return rt_binding_exceeds(of, &of->inputs[i], of->header->batch, binding->samples, report);
        first = &of->inputs[i];
        *count = binding->samples;
    }
    return BASE_OK;
}

/* The output has memory for all samples: the caller's, or our own. */
static base_status take_output(ouro_session *session, uint64_t index, int64_t count, base_report *report) {
    rt_binding *binding = &session->bound.outputs[index];
    const char *name = session->of->texts + session->of->outputs[index].name;
    size_t bytes;
    if (!base_size_multiply((size_t)session->of->tensors[binding->tensor].bytes, (size_t)count, &bytes))
        return base_fail(report, BASE_INVALID, "output '%s' is too large", name);
    if (bytes <= binding->bytes) return BASE_OK;
    if (binding->bound)
        return base_fail(report, BASE_USAGE, "output '%s' was given %zu bytes, this run makes %zu", name,
                         binding->bytes, bytes);
    if (rt_binding_grow(session, binding, bytes)) return BASE_OK;
    return base_fail(report, BASE_SYSTEM_ERROR, "out of memory: output '%s' needs %zu bytes", name, bytes);
}

base_status rt_samples_before_run(ouro_session *session, base_report *report) {
    base_status status = rt_samples_count(session, &session->run.samples, report);
    for (uint64_t i = 0; i < session->of->header->outputs.count && status == BASE_OK; i++)
        if (session->bound.outputs[i].is_sample)
            status = take_output(session, i, session->run.samples, report);
    return status;
}

void rt_samples_next(ouro_session *session, int64_t number) {
    if (!session->of->header->batch) return;
    point(session, number);
    if (number) rt_executions_reset(session); /* each sample as the first one */
    for (rt_observer *observer = session->observers; observer; observer = observer->next)
        if (observer->sample) observer->sample(observer, session);
}

void rt_samples_after_run(ouro_session *session) {
    if (session->of->header->batch) point(session, 0);
}
