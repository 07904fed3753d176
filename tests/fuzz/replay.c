/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c: a fuzz target as a program without libFuzzer:
 *
 *     fuzz_NAME [ROUNDS] PATH...
 *
 * runs each file, and each file of a folder, as it is; then ROUNDS times (0) a file of these, changed at random, always the same
 * way: bytes drawn, flipped, left out, doubled, or taken from another file. What a test can do in seconds, with any compiler. */
#include "ir/base/base.h"
#include "tests/fuzz/fuzz.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LARGEST = 1 << 24, LARGEST_CHANGED = 1 << 16 };

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

static input *inputs;
static size_t input_count;

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* A file, or all files of a folder, in the order of their names. False, with a message, where there is none. */
static bool read_path(const char *path) {
    struct stat status;
    if (stat(path, &status)) return perror(path), false;
    if (S_ISDIR(status.st_mode)) {
        struct dirent **entries;
        const int count = scandir(path, &entries, NULL, by_name);
        bool done = count >= 0;
        for (int i = 0; i < count; i++) {
            char name[4096];
            snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
            if (entries[i]->d_name[0] != '.') done = read_path(name) && done;
            free(entries[i]);
        }
        if (count >= 0) free(entries);
        return done;
    }
    FILE *file = fopen(path, "rb");
    const size_t size = status.st_size > LARGEST ? LARGEST : (size_t)status.st_size;
    uint8_t *data = malloc(size ? size : 1);
    input *more = realloc(inputs, (input_count + 1) * sizeof *inputs);
    if (more) inputs = more;
    const bool done = file && data && more && fread(data, 1, size, file) == size;
    if (done) inputs[input_count++] = (input){data, size};
    else perror(path), free(data);
    if (file) fclose(file);
    return done;
}

/* One change of `size` bytes, of which there may be LARGEST_CHANGED; their new number. */
static size_t change(uint8_t *data, size_t size, uint64_t *random) {
    const uint64_t drawn = base_random(random);
    const size_t at = size ? (size_t)(drawn >> 8) % size : 0;
    size_t length = 1 + (size_t)(base_random(random) % 16);
    if (length > size - at) length = size - at;
    switch (drawn % 6) {
    case 0:
        if (size) data[at] = (uint8_t)(drawn >> 48);
        return size;
    case 1:
        if (size) data[at] ^= (uint8_t)(1u << (drawn >> 48 & 7));
        return size;
    case 2: /* left out */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 3: /* doubled */
        if (size + length > LARGEST_CHANGED) return size;
        memmove(data + at + length, data + at, size - at);
        return size + length;
    case 4: /* cut off */
        return drawn >> 60 ? size : at;
    default: { /* from another file, or another place of this one */
        const input *other = &inputs[(drawn >> 40) % input_count];
        if (other->size <= length) return size;
        memcpy(data + at, other->data + (drawn >> 12) % (other->size - length), length);
        return size;
    }
    }
}

static void run_changed(uint64_t round) {
    static uint8_t changed[LARGEST_CHANGED];
    uint64_t random = round;
    const input *of = &inputs[round % input_count];
    size_t size = of->size < LARGEST_CHANGED ? of->size : LARGEST_CHANGED;
    memcpy(changed, of->data, size);
    for (uint64_t i = 0; i < 1 + round % 4; i++) size = change(changed, size, &random);
    uint8_t *exact = malloc(size ? size : 1); /* so that sanitizers see reads after its end */
    if (!exact) abort();
    memcpy(exact, changed, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

int main(int count, char **arguments) {
    char *end = NULL;
    const uint64_t rounds = count > 1 ? strtoull(arguments[1], &end, 10) : 0;
    const int first = end && end != arguments[1] && !*end ? 2 : 1;
    bool done = true;
    for (int i = first; i < count; i++) done = read_path(arguments[i]) && done;
    if (!input_count) return fprintf(stderr, "usage: %s [ROUNDS] PATH...\n", arguments[0]), 2;
    for (size_t i = 0; i < input_count; i++) LLVMFuzzerTestOneInput(inputs[i].data, inputs[i].size);
    for (uint64_t round = 0; first == 2 && round < rounds; round++) run_changed(round);
    printf("%zu inputs, %llu changed\n", input_count, (unsigned long long)(first == 2 ? rounds : 0));
    for (size_t i = 0; i < input_count; i++) free(inputs[i].data);
    free(inputs);
    return done ? 0 : 1;
}
