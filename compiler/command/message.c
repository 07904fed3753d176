/* SPDX-License-Identifier: Apache-2.0 */
/* message.c: messages, the end of stdout, the clock and progress; see command.h. */
#include "compiler/command/command.h"
#include "ir/base/file_error.h"
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Names come from files: whatever is in them, a message stays one line of a terminal. There it takes the line of the progress. */
static void print_line(const char *kind, const char *text) {
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
    fprintf(stderr, "%s: ", kind);
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        fputc(c < ' ' || c == 127 ? '?' : c, stderr);
    }
    fputc('\n', stderr);
}

static void fail_va(const char *format, va_list arguments, const char *ending) {
    char text[BASE_REPORT_TEXT + 256];
    vsnprintf(text, sizeof text - 200, format, arguments);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s", ending);
    print_line("error", text);
}

int command_fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fail_va(format, arguments, "");
    va_end(arguments);
    return status;
}

int command_fail_usage(const command *self, const char *format, ...) {
    char ending[80];
    snprintf(ending, sizeof ending, " (see 'ouro%s%s --help')", self ? " " : "", self ? self->name : "");
    va_list arguments;
    va_start(arguments, format);
    fail_va(format, arguments, ending);
    va_end(arguments);
    return BASE_USAGE;
}

int command_fail_report(const base_report *report) {
    const char *end = memchr(report->text, '\n', report->length);
    int length = (int)(end ? (size_t)(end - report->text) : report->length);
    base_status status = report->status == BASE_OK ? BASE_INVALID : report->status;
    if (length == 0) return command_fail(status, "failed without a message");
    if (report->count <= 1) return command_fail(status, "%.*s", length, report->text);
    return command_fail(status, "%.*s (and %u more)", length, report->text, report->count - 1);
}

int command_fail_error(const ouro_error *error) {
    return command_fail((int)error->status, "%s", error->message);
}

void command_warn(const compile_result *result) {
    char text[BASE_REPORT_TEXT];
    if (!result->module->warning) return;
    snprintf(text, sizeof text, "%s: %s", result->model_path, result->module->warning);
    print_line("warning", text);
}

int command_fail_memory(void) {
    return command_fail(BASE_SYSTEM_ERROR, "out of memory");
}

void command_note(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line("note", text);
}

int command_finish(int status) {
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        int number = errno;
        char text[BASE_ERROR_TEXT];
        return command_fail(BASE_SYSTEM_ERROR, "standard output: cannot write: %s",
                            number ? base_error_text(number, text) : "an earlier write failed");
    }
    return status;
}

double command_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void erase_line(command_progress *progress) {
    if (!progress->shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    progress->shown = false;
}

/* One line of the terminal, however narrow: of a longer one only the last part could be erased. What is too long is cut in front,
 * where a path begins with folders. */
static void show_line(command_progress *progress, double passed) {
    char time[32];
    struct winsize window = {0};
    const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
    const int time_length = snprintf(time, sizeof time, " (%.0f s)", passed);
    const int most = columns - 1 - time_length; /* the cursor wants a column too */
    const char *text = progress->text;
    size_t length = strlen(text);
    if (most < 4) return;
    const bool cut = length > (size_t)most;
    if (cut) {
        text += length - (size_t)(most - 3);
        while ((*text & 0xC0) == 0x80) text++; /* not within a character */
    }
    fprintf(stderr, "\r\033[K%s%s%s", cut ? "..." : "", text, time);
    fflush(stderr);
    progress->shown = true;
}

static void *progress_thread(void *user) {
    command_progress *progress = user;
    pthread_mutex_lock(&progress->lock);
    while (!progress->stop) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200000000;
        if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
        pthread_cond_timedwait(&progress->wake, &progress->lock, &until);
        double passed = command_seconds() - progress->started;
        if (progress->stop || passed < 1) continue;
        show_line(progress, passed);
    }
    erase_line(progress);
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

void command_progress_begin(command_progress *progress, const char *text) {
    *progress = (command_progress){.started = command_seconds()};
    if (!text || !isatty(STDERR_FILENO)) return;
    snprintf(progress->text, sizeof progress->text, "%s", text);
    pthread_mutex_init(&progress->lock, NULL);
    pthread_cond_init(&progress->wake, NULL);
    /* Without the thread there is no progress to see, and nothing else is lost. */
    progress->active = pthread_create(&progress->thread, NULL, progress_thread, progress) == 0;
}

void command_progress_say(command_progress *progress, const char *format, ...) {
    if (!progress->active) return;
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&progress->lock);
    vsnprintf(progress->text, sizeof progress->text, format, arguments);
    for (char *at = progress->text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 127) *at = '?';
    }
    pthread_mutex_unlock(&progress->lock);
    va_end(arguments);
}

void command_progress_pass(void *user, const char *pass) {
    command_progress *progress = user;
    command_progress_say(progress, "compiling %s: %s", progress->subject, pass);
}

void command_progress_clear(command_progress *progress) {
    if (!progress->active) return;
    pthread_mutex_lock(&progress->lock);
    erase_line(progress);
    pthread_mutex_unlock(&progress->lock);
}

void command_progress_end(command_progress *progress) {
    if (!progress->active) return;
    pthread_mutex_lock(&progress->lock);
    progress->stop = true;
    pthread_cond_signal(&progress->wake);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    pthread_cond_destroy(&progress->wake);
    pthread_mutex_destroy(&progress->lock);
    progress->active = false;
}
