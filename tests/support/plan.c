/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: see plan.h. */
#include "tests/support/plan.h"
#include "compiler/report/loop.h"
#include "runtime/kernels/base/x86.h"
#include "tests/support/support.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int open_memory(void *user, uint64_t bytes, void **place) {
    enum { MOST = 8 << 20 };
    (void)user;
    *place = bytes <= MOST ? calloc(1, (size_t)bytes + 1) : NULL;
    return *place ? 0 : 12;
}

static int write_memory(void *place, uint64_t offset, const void *data, size_t bytes) {
    memcpy((char *)place + offset, data, bytes);
    return 0;
}

static int read_memory(void *place, uint64_t offset, void *data, size_t bytes) {
    memcpy(data, (const char *)place + offset, bytes);
    return 0;
}

const ouro_spill support_spill = {open_memory, write_memory, read_memory, free, NULL};

unsigned char *support_plan(const char *text, bool portable, size_t *size) {
    const pass_options options = {.max_unroll = 16,
                                  .spill_path = "ouro-test.spill",
                                  .environment = {.threads = 1, .portable_only = portable}};
    return support_plan_with(text, &options, size);
}

unsigned char *support_plan_with(const char *text, const pass_options *options, size_t *size) {
    ir_module *module = support_module(text, true);
    base_arena arena;
    base_report report = {0};
    pass_memory *memory;
    void *bytes = NULL;
    base_arena_init(&arena, NULL);
    if (pass_pipeline_run(module, options, &arena, &memory, &report) != BASE_OK ||
        compile_write_plan(module, memory, options, &bytes, size, &report) != BASE_OK) {
        fail_msg("%s", report.text);
    }
    base_arena_free(&arena);
    ir_module_free(module);
    return bytes;
}

void support_plan_seal(unsigned char *bytes, size_t size) {
    plan_header header;
    memcpy(&header, bytes, sizeof header);
    header.checksum = plan_checksum(bytes, size);
    memcpy(bytes, &header, sizeof header);
}

static void open_session(support_session *opened, size_t size, int threads) {
    ouro_error error;
    ouro_session_options options = {.threads = threads};
    if (ouro_plan_open(opened->bytes, size, &opened->plan, &error) != OURO_OK ||
        ouro_session_new(opened->plan, &options, &opened->session, &error) != OURO_OK) {
        fail_msg("%s", error.message);
    }
}

void support_session_open(support_session *opened, const char *text, int threads) {
    support_session_open_on(opened, text, true, threads);
}

void support_session_open_on(support_session *opened, const char *text, bool portable, int threads) {
    const pass_options options = {.max_unroll = 16,
                                  .spill_path = "ouro-test.spill",
                                  .environment = {.threads = 1, .portable_only = portable}};
    size_t size;
    *opened = (support_session){.bytes = support_plan_with(text, &options, &size)};
    open_session(opened, size, threads);
}

void support_session_open_with(support_session *opened, const char *text, const pass_options *options) {
    size_t size;
    *opened = (support_session){.bytes = support_plan_with(text, options, &size)};
    open_session(opened, size, options->environment.threads);
}

void support_session_close(support_session *opened) {
    ouro_session_free(opened->session);
    ouro_plan_free(opened->plan);
    free(opened->bytes);
    *opened = (support_session){0};
}

void support_bind(const support_session *on, size_t index, const void *data, size_t bytes) {
    ouro_error error;
    if (ouro_session_bind_input(on->session, index, data, bytes, NULL, &error) != OURO_OK) {
        fail_msg("%s", error.message);
    }
}

void support_run(const support_session *on) {
    ouro_error error;
    base_report report = {0};
    if (rt_session_check(on->session, &report) != BASE_OK) fail_msg("%s", report.text);
    if (ouro_session_run(on->session, &error) != OURO_OK) fail_msg("%s", error.message);
}

const void *support_output(const support_session *on, size_t index, size_t bytes) {
    ouro_error error;
    ouro_tensor_info info;
    const void *data;
    if (ouro_session_output(on->session, index, &info, &data, &error) != OURO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(info.bytes, bytes);
    return data;
}

size_t support_count_kernel(const plan *of, const char *kernel) {
    size_t count = 0;
    for (uint64_t n = 0; n < of->header->nodes.count; n++)
        count += strcmp(of->texts + of->nodes[n].kernel, kernel) == 0;
    return count;
}

bool support_wants_panels(void) {
#if RT_X86_KERNELS
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

const plan_tensor *support_find_tensor(const plan *of, const char *name) {
    for (uint64_t i = 0; i < of->header->tensors.count; i++) {
        if (strcmp(of->texts + of->tensors[i].name, name) == 0) return &of->tensors[i];
    }
    fail_msg("there is no tensor \"%s\"", name);
    return NULL;
}

void support_check_no_copies(const plan *of, const char *name) {
    for (uint64_t n = 0; n < of->header->nodes.count; n++) {
        plan_loop_form form;
        if (emit_loop_copied(of, &of->nodes[n])) fail_msg("%s: something is copied", name);
        if (plan_node_code(of, &of->nodes[n]) != OP_LOOP) continue;
        emit_loop loop;
        assert_true(emit_loop_measure(of, (uint32_t)n, &loop));
        if (loop.entry_bytes || loop.iteration_bytes)
            fail_msg("%s: %llu bytes are copied when a loop is entered or left, %llu in each iteration", name,
                     (unsigned long long)loop.entry_bytes, (unsigned long long)loop.iteration_bytes);
        assert_true(plan_loop_form_read(of, &of->nodes[n], &form));
        for (uint32_t i = 0; i < form.carried; i++) {
            const plan_address *from = &of->tensors[form.results[1 + i]].address,
                               *to = &of->tensors[form.parameters[2 + i]].address;
            if (to->space == MEMORY_MULTIVIEW) continue;
            if (from->space == to->space && from->index == to->index && from->offset == to->offset) continue;
            fail_msg("%s: carried value %u is copied", name, i);
        }
    }
}
