/* fuzz_plan.c: damaged plans are refused, or run without harm. With clang, build it with -fsanitize=fuzzer,address; here it
 * is a program that damages plan files at random:  fuzz_plan ROUNDS PLAN...  Build it with sanitizers. */
#include "runtime/executor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LARGEST_ARENA = 1 << 28, ROOM = 1 << 18 };

static uint64_t room[ROOM / sizeof(uint64_t)]; /* zeros: what inputs are made of */

/* Something of the input's kind; false where it would be too large. */
static bool bind(ouro_session *session, const ouro_plan *handle, size_t index) {
    ouro_tensor_info info;
    ouro_error error;
    if (ouro_plan_input(handle, index, &info) != OURO_OK) return false;
    const size_t size = op_dtype_bytes((op_dtype)info.dtype);
    ouro_value tensor = {.kind = OURO_TENSOR, .dtype = info.dtype, .rank = 1, .dims = {2}, .data = room};
    if (info.kind != OURO_TENSOR) {
        tensor.bytes = 2 * size;
        const ouro_value sequence = {.kind = OURO_SEQUENCE, .elements = &tensor, .count = 1},
                         optional = {.kind = OURO_OPTIONAL,
                                     .elements = info.element == OURO_SEQUENCE ? &sequence : &tensor,
                                     .count = 1};
        return ouro_session_bind_value(session, index, info.kind == OURO_SEQUENCE ? &sequence : &optional,
                                       &error) == OURO_OK;
    }
    tensor.rank = info.rank;
    tensor.bytes = size;
    for (int d = 0; d < info.rank; d++) {
        tensor.dims[d] = info.dims[d] < 0 ? 2 : info.dims[d];
        if (!base_size_multiply(tensor.bytes, (size_t)tensor.dims[d], &tensor.bytes)) return false;
    }
    return tensor.bytes <= sizeof room && ouro_session_bind_value(session, index, &tensor, &error) == OURO_OK;
}

static bool run(ouro_plan *handle) {
    ouro_session *session;
    ouro_error error;
    bool bound = ouro_session_new(handle, NULL, &session, &error) == OURO_OK, ran = false;
    if (!bound) return false;
    for (size_t i = 0; i < ouro_plan_input_count(handle) && bound; i++) bound = bind(session, handle, i);
    if (bound) ran = ouro_session_run(session, &error) == OURO_OK;
    for (size_t i = 0; i < ouro_plan_output_count(handle) && ran; i++) {
        ouro_value value;
        if (ouro_session_output_value(session, i, &value, &error) != OURO_OK) abort();
    }
    ouro_session_free(session);
    return ran;
}

/* The checksum is made right, so that what is behind it is reached. */
static int try_plan(const uint8_t *data, size_t size) {
    ouro_plan *handle;
    ouro_error error;
    if (size < sizeof(plan_header)) return 0;
    uint8_t *bytes =
        aligned_alloc(PLAN_ALIGNMENT, (size + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT);
    if (!bytes) return 0;
    memcpy(bytes, data, size);
    plan_header *header = (plan_header *)(void *)bytes;
    header->checksum = 0;
    header->checksum = plan_checksum(bytes, size);
    int reached = 0;
    if (ouro_plan_open(bytes, size, &handle, &error) == OURO_OK) {
        reached = 1;
        if (ouro_plan_arena_bytes(handle) <= LARGEST_ARENA && run(handle)) reached = 2;
        ouro_plan_free(handle);
    } else if (!error.message[0]) {
        abort();
    }
    free(bytes);
    return reached;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)try_plan(data, size);
    return 0;
}

#ifndef OURO_LIBFUZZER
int main(int count, char **arguments) {
    const long rounds = count > 2 ? strtol(arguments[1], NULL, 10) : 0;
    uint64_t random = 88172645463325252u;
    long reached[3] = {0};
    for (int i = 2; i < count; i++) {
        FILE *file = fopen(arguments[i], "rb");
        static uint8_t whole[1 << 20], damaged[1 << 20];
        const size_t size = file ? fread(whole, 1, sizeof whole, file) : 0;
        if (file) fclose(file);
        for (long round = 0; round < rounds && size > sizeof(plan_header); round++) {
            memcpy(damaged, whole, size);
            for (int k = 0; k < 1 + (int)(round % 3); k++) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                const size_t at = sizeof(((plan_header *)0)->magic) + (random >> 16) % (size - 8);
                if (random & 1) damaged[at] = (uint8_t)(random >> 8);
                else damaged[at] ^= (uint8_t)(1u << (random >> 1 & 7));
            }
            reached[try_plan(damaged, size)]++;
        }
    }
    printf("%ld refused, %ld opened, %ld of these ran\n", reached[0], reached[1] + reached[2], reached[2]);
    return 0;
}
#endif
