/* SPDX-License-Identifier: Apache-2.0 */
/* command.c: see command.h. */
#include "tests/support/command.h"
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void give_up(const char *what) {
    perror(what);
    exit(99);
}

/* Everything that was written to an unlinked temporary file. */
static char *read_back(FILE *file) {
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = malloc((size_t)size + 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size) give_up("reading output");
    text[size] = 0;
    fclose(file);
    return text;
}

command_outcome command_execute(const char *directory, const char *const *arguments) {
    const char *vector[64] = {TEST_COMMAND};
    size_t count = 1;
    while (arguments[count - 1] && count < 63) {
        vector[count] = arguments[count - 1];
        count++;
    }
    FILE *out = tmpfile(), *err = tmpfile();
    if (!out || !err) give_up("tmpfile");
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) give_up("fork");
    if (child == 0) {
        if (chdir(directory) != 0 || dup2(fileno(out), 1) < 0 || dup2(fileno(err), 2) < 0) _exit(98);
        execv(TEST_COMMAND, (char *const *)vector);
        _exit(97);
    }
    int status;
    if (waitpid(child, &status, 0) < 0) give_up("waitpid");
    return (command_outcome){.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                             .out = read_back(out),
                             .err = read_back(err)};
}

void command_outcome_free(command_outcome *outcome) {
    free(outcome->out);
    free(outcome->err);
}

static FILE *open_in(const char *directory, const char *name, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return fopen(path, mode);
}

char *command_file(const char *directory, const char *name, size_t *size) {
    FILE *file = open_in(directory, name, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    if (size) *size = (size_t)ftell(file);
    return read_back(file);
}

bool command_file_exists(const char *directory, const char *name) {
    FILE *file = open_in(directory, name, "rb");
    if (file) fclose(file);
    return file != NULL;
}

void command_file_put(const char *directory, const char *name, const void *bytes, size_t size) {
    FILE *file = open_in(directory, name, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) give_up(name);
}

/* ---- XML ----------------------------------------------------------------------------------------------- */

static bool valid_utf8(const unsigned char *at) {
    while (*at) {
        int more = *at < 0x80 ? 0 : *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC2 ? 1 : -1;
        if (more < 0 || *at > 0xF4 || (*at < ' ' && *at != '\n' && *at != '\t') || *at == 127) return false;
        for (at++; more; more--, at++) {
            if ((*at & 0xC0) != 0x80) return false;
        }
    }
    return true;
}

/* The length of a name; 0 where none stands. */
static size_t name_length(const char *at) {
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || strchr("_:-.", at[length])) {
        if (!at[length]) break;
        length++;
    }
    return length;
}

/* The length of "&name;" or "&#1;"; 0 where it is none. */
static size_t entity_length(const char *at) {
    static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(at, known[i], strlen(known[i])) == 0) return strlen(known[i]);
    }
    if (strncmp(at, "&#", 2) != 0) return 0;
    size_t digits =
        at[2] == 'x' ? strspn(at + 3, "0123456789abcdefABCDEF") + 1 : strspn(at + 2, "0123456789");
    return digits && at[2 + digits] == ';' ? digits + 3 : 0;
}

static bool check_tag(const char **at, const char *names[], size_t lengths[], size_t *depth) {
    const char *p = *at + 1;
    bool closing = *p == '/';
    if (closing) p++;
    size_t length = name_length(p);
    if (!length) return false;
    const char *name = p;
    p += length;
    if (closing) {
        if (!*depth || lengths[*depth - 1] != length || memcmp(names[*depth - 1], name, length) != 0)
            return false;
        --*depth;
        *at = p + 1;
        return *p == '>';
    }
    const char *seen[32];
    size_t seen_lengths[32], seen_count = 0;
    for (;;) {
        size_t blanks = strspn(p, " \n\t");
        p += blanks;
        if (*p == '>' || (*p == '/' && p[1] == '>')) break;
        size_t attribute = name_length(p);
        if (!attribute || !blanks || seen_count == 32) return false;
        for (size_t i = 0; i < seen_count; i++) {
            if (seen_lengths[i] == attribute && memcmp(seen[i], p, attribute) == 0) return false;
        }
        seen[seen_count] = p;
        seen_lengths[seen_count++] = attribute;
        p += attribute;
        if (*p != '=' || (p[1] != '"' && p[1] != '\'')) return false;
        char quote = p[1];
        for (p += 2; *p != quote;) {
            size_t step = *p == '&' ? entity_length(p) : *p && *p != '<' ? 1 : 0;
            if (!step) return false;
            p += step;
        }
        p++;
    }
    if (*p == '/') {
        *at = p + 2;
        return true;
    }
    if (*depth == 64) return false;
    names[*depth] = name;
    lengths[(*depth)++] = length;
    *at = p + 1;
    return true;
}

bool command_xml_check(const char *text, const char **reason) {
    const char *names[64];
    size_t lengths[64], depth = 0, roots = 0;
    *reason = text;
    if (!valid_utf8((const unsigned char *)text)) return false;
    for (const char *at = text; *at;) {
        *reason = at;
        if (strncmp(at, "<!--", 4) == 0) {
            at = strstr(at + 4, "-->");
            if (!at) return false;
            at += 3;
        } else if (strncmp(at, "<?", 2) == 0 || strncmp(at, "<!", 2) == 0) {
            at = strchr(at, '>');
            if (!at) return false;
            at++;
        } else if (*at == '<') {
            if (depth == 0 && at[1] != '/') roots++;
            if (!check_tag(&at, names, lengths, &depth)) return false;
        } else if (*at == '&') {
            size_t step = entity_length(at);
            if (!step) return false;
            at += step;
        } else {
            if (depth == 0 && !isspace((unsigned char)*at)) return false;
            at++;
        }
    }
    return depth == 0 && roots == 1;
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *at) {
    return at + strspn(at, " \n\r\t");
}

static const char *json_value(const char *at, int depth);

static const char *json_string(const char *at) {
    if (*at++ != '"') return NULL;
    while (*at && *at != '"') {
        if ((unsigned char)*at < ' ') return NULL;
        if (*at == '\\' && !strchr("\"\\/bfnrtu", *++at)) return NULL;
        if (!*at) return NULL;
        at++;
    }
    return *at ? at + 1 : NULL;
}

/* After "[" or "{": elements up to the closing bracket. */
static const char *json_elements(const char *at, char close, int depth) {
    at = skip_blanks(at);
    if (*at == close) return at + 1;
    for (;;) {
        at = skip_blanks(at);
        if (close == '}') {
            at = json_string(at);
            if (!at || *(at = skip_blanks(at)) != ':') return NULL;
            at++;
        }
        at = json_value(at, depth + 1);
        if (!at) return NULL;
        at = skip_blanks(at);
        if (*at == close) return at + 1;
        if (*at++ != ',') return NULL;
    }
}

static const char *json_value(const char *at, int depth) {
    static const char *const words[] = {"true", "false", "null"};
    if (depth > 32) return NULL;
    at = skip_blanks(at);
    if (*at == '{') return json_elements(at + 1, '}', depth);
    if (*at == '[') return json_elements(at + 1, ']', depth);
    if (*at == '"') return json_string(at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0) return at + strlen(words[i]);
    }
    size_t length = strspn(at, "+-0123456789.eE");
    char *end;
    strtod(at, &end);
    return length && end == at + length ? end : NULL;
}

bool command_json_check(const char *text) {
    const char *end = json_value(text, 0);
    return end && !*skip_blanks(end);
}
