/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: the command line as a table of options; see command.h. */
#include "compiler/command/command.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The number of single-character edits between two short words, up to `limit`. */
static size_t edit_distance(const char *a, const char *b, size_t limit) {
    size_t row[64], length = strlen(b);
    if (length >= 63 || strlen(a) >= 63) return limit;
    for (size_t j = 0; j <= length; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t kept = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
            diagonal = kept;
        }
    }
    return row[length];
}

const char *command_nearest(const char *text, const char *const *names) {
    const char *nearest = NULL;
    /* A third of the letters may be wrong: words that share less are other words. */
    size_t least = strlen(text) / 3 + 1;
    if (least > 4) least = 4;
    for (size_t i = 0; names[i]; i++) {
        size_t distance = edit_distance(text, names[i], least);
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest && least < strlen(text) ? nearest : NULL;
}

static int fail_unknown(const command *self, const char *name) {
    const char *names[64] = {0};
    size_t count = 0;
    for (const command_option *option = self->options; option && option->name && count < 62; option++) {
        names[count++] = option->name;
    }
    names[count] = "--help";
    const char *nearest = command_nearest(name, names);
    return nearest ? command_fail_usage(self, "unknown option '%s', did you mean '%s'?", name, nearest)
                   : command_fail_usage(self, "unknown option '%s'", name);
}

static bool parse_integer(const char *text, int64_t minimum, int64_t *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || text[0] == ' ' || value < minimum) return false;
    *number = value;
    return true;
}

static int set_option(const command *self, const command_option *option, const char *value, void *options,
                      base_arena *arena) {
    char *at = (char *)options + option->offset;
    switch (option->kind) {
    case COMMAND_FLAG:
        *(bool *)at = true;
        return 0;
    case COMMAND_TEXT:
        *(const char **)at = value;
        return 0;
    case COMMAND_COUNT:
    case COMMAND_THREADS:
    case COMMAND_NUMBER: {
        int64_t minimum = option->kind == COMMAND_NUMBER ? 0 : 1;
        int64_t maximum = option->kind == COMMAND_THREADS ? COMMAND_MOST_THREADS : INT64_MAX, number;
        if (parse_integer(value, minimum, &number) && number <= maximum) {
            *(int64_t *)at = number;
            return 0;
        }
        char limit[48] = "";
        if (maximum != INT64_MAX) snprintf(limit, sizeof limit, " and at most %lld", (long long)maximum);
        return command_fail_usage(self, "%s '%s': expected a whole number of at least %d%s", option->name,
                                  value, (int)minimum, limit);
    }
    case COMMAND_REAL: {
        char *end;
        double number = strtod(value, &end);
        if (end == value || *end || !isfinite(number) || number < 0) {
            return command_fail_usage(self, "%s '%s': expected a number of at least 0", option->name, value);
        }
        *(double *)at = number;
        return 0;
    }
    case COMMAND_LIST: {
        command_list *list = (command_list *)at;
        size_t capacity = list->count;
        const char **items = base_arena_grow(arena, list->items, &capacity, list->count + 1, sizeof *items);
        if (!items) return command_fail_memory();
        list->items = items;
        list->items[list->count++] = value;
        return 0;
    }
    }
    return 0;
}

int command_parse(const command *self, int count, char **arguments, void *options, command_list *operands,
                  base_arena *arena) {
    bool only_operands = false;
    operands->items = BASE_ARRAY(arena, const char *, (size_t)count + 1);
    operands->count = 0;
    if (!operands->items) return command_fail_memory();
    for (int i = 0; i < count; i++) {
        const char *argument = arguments[i];
        if (only_operands || argument[0] != '-' || argument[1] == 0) {
            if (operands->count == self->operand_maximum) {
                return command_fail_usage(self, "unexpected argument '%s'", argument);
            }
            operands->items[operands->count++] = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            only_operands = true;
            continue;
        }
        const char *equals = argument[1] == '-' ? strchr(argument, '=') : NULL;
        size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
        const command_option *option = self->options;
        while (option && option->name &&
               !(strlen(option->name) == length && strncmp(option->name, argument, length) == 0) &&
               !(option->shorter && strcmp(option->shorter, argument) == 0)) {
            option++;
        }
        if (!option || !option->name) {
            const char *name = base_arena_text(arena, argument, length);
            return name ? fail_unknown(self, name) : command_fail_memory();
        }
        const char *value = equals ? equals + 1 : NULL;
        if (option->kind == COMMAND_FLAG && value) {
            return command_fail_usage(self, "option '%s' takes no value", option->name);
        }
        if (option->kind != COMMAND_FLAG && !value) {
            if (i + 1 == count) {
                return command_fail_usage(self, "option '%s' needs a value: %s", option->name,
                                          option->argument);
            }
            value = arguments[++i];
        }
        int status = set_option(self, option, value, options, arena);
        if (status) return status;
    }
    if (operands->count < self->operand_minimum) {
        return command_fail_usage(self, "missing argument: %s", self->operand);
    }
    return 0;
}

/* What an option does, in lines that fit a terminal, each below the first. */
static void print_wrapped(FILE *file, const char *text) {
    enum { INDENT = 33, COLUMNS = 100 };
    size_t column = INDENT;
    for (bool first = true; *text; first = false) {
        const size_t length = strcspn(text, " ");
        if (!first && column + 1 + length > COLUMNS) {
            fprintf(file, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (!first) {
            fputc(' ', file);
            column++;
        }
        fwrite(text, 1, length, file);
        column += length;
        text += length + (text[length] == ' ');
    }
    fputc('\n', file);
}

void command_print_help(const command *self, FILE *file) {
    fprintf(file, "usage: ouro %s\n\n%s\n", self->usage, self->summary);
    if (self->details) fprintf(file, "\n%s\n", self->details);
    fprintf(file, "\noptions:\n");
    for (const command_option *option = self->options; option && option->name; option++) {
        char left[80];
        snprintf(left, sizeof left, "%s%s%s%s%s", option->shorter ? option->shorter : "",
                 option->shorter ? ", " : "", option->name, option->argument ? " " : "",
                 option->argument ? option->argument : "");
        /* Where the name is long, what it does begins below. */
        if (strlen(left) <= 30) fprintf(file, "  %-30s ", left);
        else fprintf(file, "  %s\n%33s", left, "");
        print_wrapped(file, option->help);
    }
    fprintf(file, "  %-30s %s\n", "--help", "this text");
}

bool command_split(const command *self, const char *option, const char *text, base_arena *arena,
                   const char **name, const char **value) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) {
        command_fail_usage(self, "%s '%s': expected NAME=VALUE", option, text);
        return false;
    }
    /* Names of tensors may hold '=' themselves; files seldom do: the last one divides. */
    for (const char *next = equals; (next = strchr(next + 1, '='));) equals = next;
    *name = base_arena_text(arena, text, (size_t)(equals - text));
    *value = equals + 1;
    if (!*name) command_fail_memory();
    return *name != NULL;
}

int command_dims(const command *self, const command_list *list, base_arena *arena, const ouro_dim **dims) {
    ouro_dim *made = BASE_ARRAY(arena, ouro_dim, list->count);
    if (!made) return command_fail_memory();
    for (size_t i = 0; i < list->count; i++) {
        const char *value;
        if (!command_split(self, "--dim", list->items[i], arena, &made[i].name, &value)) return BASE_USAGE;
        if (!parse_integer(value, 0, &made[i].extent)) {
            return command_fail_usage(self, "--dim '%s': expected NAME=N, N a whole number of at least 0",
                                      list->items[i]);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(made[k].name, made[i].name) == 0 && made[k].extent != made[i].extent) {
                return command_fail_usage(self, "--dim '%s': '%s' is bound to %lld already", list->items[i],
                                          made[i].name, (long long)made[k].extent);
            }
        }
    }
    *dims = made;
    return 0;
}

/* "1x3x?x80", "scalar". */
static bool parse_shape(const char *text, ouro_shape *shape) {
    shape->rank = 0;
    if (strcmp(text, "scalar") == 0) return true;
    for (;;) {
        char *end = NULL;
        int64_t extent = -1;
        errno = 0;
        if (*text == '?') text++;
        else if (*text >= '0' && *text <= '9') {
            extent = strtoll(text, &end, 10);
            text = end;
        } else {
            return false;
        }
        if (errno || shape->rank == OURO_MAX_RANK) return false;
        shape->dims[shape->rank++] = extent;
        if (!*text) return true;
        if (*text != 'x' && *text != ',') return false;
        text++;
    }
}

int command_shapes(const command *self, const command_list *list, base_arena *arena,
                   const ouro_shape **shapes) {
    ouro_shape *made = BASE_ARRAY(arena, ouro_shape, list->count);
    if (!made) return command_fail_memory();
    for (size_t i = 0; i < list->count; i++) {
        const char *value;
        if (!command_split(self, "--shape", list->items[i], arena, &made[i].input, &value)) return BASE_USAGE;
        if (!parse_shape(value, &made[i])) {
            return command_fail_usage(
                self,
                "--shape '%s': expected INPUT=AxBxC, each extent a whole number or '?', or INPUT=scalar",
                list->items[i]);
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(made[k].input, made[i].input) == 0)
                return command_fail_usage(self, "--shape '%s': the shape of '%s' is given already",
                                          list->items[i], made[i].input);
        }
    }
    *shapes = made;
    return 0;
}
