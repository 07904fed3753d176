/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_command.c: any words as a command line: one a line, the first is the command. They name files of a folder that has a
 * model, a plan, data and a problem; a status from 0 to 3 comes back. What measures times is left out. */
#include "compiler/command/command.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/programs_of_plans.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 24, MOST_BYTES = 1024 };

static const command *const commands[] = {&command_compile, &command_run, &command_test, &command_inspect,
                                          &command_verify,  &command_ops, &command_alloc};

/* What runs for long, or leads out of the folder. */
static const char *const forbidden[] = {"/",      "..",   "bench",  "tune",        "second", "times",
                                        "repeat", "time", "versus", "onnxruntime", "search", "work"};

static void make_folder(void) {
    /* A model that adds its inputs x and y: float32[2], written by hand. */
    static const char model[] = "\x08\x08\x3a\x46\x0a\x0c\x0a\x01x\x0a\x01y\x12\x01z\x22\x03"
                                "Add"
                                "\x12\x01g\x5a\x0f\x0a\x01x\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02"
                                "\x5a\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02"
                                "\x62\x0f\x0a\x01z\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02"
                                "\x42\x04\x0a\x00\x10\x0d";
    static const char problem[] = "id,lower,upper,size\na,0,3,4\nb,1,2,8\nc,2,4,4\n";
    size_t size;
    const unsigned char *bytes = support_shared_plan(1, &size);
    fuzz_file("plan", bytes, size);
    fuzz_file("model", model, sizeof model - 1);
    fuzz_file("problem", problem, sizeof problem - 1);
    if (chdir(fuzz_folder())) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char text[MOST_BYTES + 1], *words[MOST_WORDS + 1], *rest = text;
    int count = 0;
    static bool made;
    if (!made) make_folder();
    made = true;
    if (size > MOST_BYTES || memchr(data, 0, size)) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (strstr(text, forbidden[i])) return 0;
    while (count < MOST_WORDS && (words[count] = strsep(&rest, "\n"))) count++;
    words[count] = NULL;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!count || strcmp(words[0], commands[i]->name) != 0) continue;
        const int status = commands[i]->run(commands[i], count - 1, words + 1);
        if (status < 0 || status > 3) fuzz_found("no status of the command");
    }
    return 0;
}
