/* SPDX-License-Identifier: Apache-2.0 */
/* ouro-models DIRECTORY [NAME...]: writes the example models, all or those named, as DIRECTORY/NAME.onnx.
 * The files are the same on every machine. Exit status: 0; 1 a file could not be written; 2 wrong usage. */
#include "models/models.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    model *(*build)(void);
} models[] = {
    {"mobilenet_v2", model_mobilenet_v2},
    {"resnet18", model_resnet18},
    {"branches", model_branches},
    {"way_back", model_way_back},
    {"convolution_recurrence", model_convolution_recurrence},
    {"newton", model_newton},
    {"swap", model_swap},
    {"switch", model_switch},
    {"counter", model_counter},
    {"rnn_cell", model_rnn_cell},
    {"rotation", model_rotation},
    {"delay", model_delay},
    {"nested", model_nested},
    {"branching_loop", model_branching_loop},
    {"counted_swap", model_counted_swap},
    {"counted_rotation", model_counted_rotation},
    {"counted_branches", model_counted_branches},
    {"counted_best", model_counted_best},
    {"reverse_scan", model_reverse_scan},
    {"beam_search", model_beam_search},
    {"growing_cache", model_growing_cache},
    {"attention_decoding", model_attention_decoding},
    {"greedy_decoding", model_greedy_decoding},
    {"decoder", model_decoder},
};
enum { MODEL_COUNT = sizeof models / sizeof *models };

static int build(size_t index, const char *directory) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s.onnx", directory, models[index].name) >= (int)sizeof path) {
        fprintf(stderr, "ouro-models: the path of %s is too long\n", models[index].name);
        return 1;
    }
    model *m = models[index].build();
    int status = model_write(m, path);
    model_free(m);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr, "usage: ouro-models DIRECTORY [NAME...]\nnames:");
        for (size_t i = 0; i < MODEL_COUNT; i++) fprintf(stderr, " %s", models[i].name);
        fprintf(stderr, "\n");
        return 2;
    }
    int status = 0;
    for (size_t i = 0; argc == 2 && i < MODEL_COUNT; i++) status |= build(i, argv[1]);
    for (int k = 2; k < argc; k++) {
        size_t i = 0;
        while (i < MODEL_COUNT && strcmp(models[i].name, argv[k]) != 0) i++;
        if (i == MODEL_COUNT) {
            fprintf(stderr, "ouro-models: there is no model '%s'\n", argv[k]);
            return 2;
        }
        status |= build(i, argv[1]);
    }
    return status;
}
