/* SPDX-License-Identifier: Apache-2.0 */
/* verify.c: `ouro verify`: the independent checker alone, for anyone who is handed a plan. */
#include "compiler/command/command.h"
#include "compiler/report/emit.h"

static const command_option verify_table[] = {{0}};

/* The plan of any machine is accepted: whether it is right does not depend on where it runs. */
static int verify_one(const char *path, command_progress *progress) {
    base_report report = {0};
    file_bytes file;
    plan opened = {0};
    const bool there = file_read(path, &file, &report) == BASE_OK;
    const bool valid =
        there && plan_open(file.data, file.size, path, NULL, NULL, NULL, &opened, &report) == BASE_OK;
    command_progress_end(progress);
    if (!there) return command_fail_report(&report);
    int status = 0;
    if (!valid) {
        status = command_fail_report(&report);
    } else {
        char arena[32];
        printf("%s: valid: %zu step%s in %zu graph%s, arena %s (%zu bytes)\n", path,
               (size_t)opened.header->nodes.count, emit_plural(opened.header->nodes.count),
               (size_t)opened.header->graphs.count, emit_plural(opened.header->graphs.count),
               emit_size_print(opened.header->arena_bytes, arena, sizeof arena),
               (size_t)opened.header->arena_bytes);
        plan_close(&opened);
    }
    file_release(&file);
    return status;
}

static int verify_main(const command *self, int count, char **arguments) {
    base_arena arena;
    base_arena_init(&arena, NULL);
    command_list plans;
    int status = command_parse(self, count, arguments, NULL, &plans, &arena);
    for (size_t i = 0; i < plans.count && status != BASE_USAGE; i++) {
        command_progress progress;
        command_progress_begin(&progress, "verifying");
        command_progress_say(&progress, "verifying %s", plans.items[i]);
        int one = verify_one(plans.items[i], &progress);
        if (one > status) status = one;
    }
    base_arena_free(&arena);
    return status;
}

const command command_verify = {
    .name = "verify",
    .usage = "verify PLAN...",
    .summary = "check plans: structure, checksum, and a replay of every step",
    .details = "The replay tags every byte of the arena with the value written there and follows each step: "
               "what is read\n"
               "must be what was meant. Plans of other machines are checked alike. Every plan is checked, "
               "also after one\n"
               "that is invalid.",
    .options = verify_table,
    .operand_minimum = 1,
    .operand_maximum = SIZE_MAX,
    .operand = "a plan",
    .run = verify_main,
};
