/* SPDX-License-Identifier: Apache-2.0 */
/* spill.c: the spill file: where values are put for which the arena has no place, and read back from.
 *
 * Each session has a file of its own. It is made anew, never opened where something is; it loses its name at once, so that nobody else
 * finds it, and so that it is gone when the process ends, however it ends. All its bytes are taken when it is made: a disk that is full
 * is told then, and not in the middle of a run.
 */
#include "runtime/executor.h"
#include "ir/base/file_error.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CUT_OFF = -1 }; /* as a number of errno: the file has fewer bytes than it had */

/* ---- a file -------------------------------------------------------------------------------------------- */

/* What exists is not touched. Another session may have made its file and not yet removed the name: that takes no time. */
static int make_file(const char *path, int *file) {
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        *file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
        if (*file >= 0) return unlink(path) == 0 ? 0 : errno;
        if (errno != EEXIST && errno != EINTR) return errno;
        if (errno == EEXIST && i % 10 == 9) usleep(1000);
    }
    return EEXIST;
}

static int open_file(void *user, uint64_t bytes, void **place) {
    rt_spill *spill = *place = user;
    spill->file = -1;
    int number = make_file(spill->path, &spill->file);
    while (!number && (number = posix_fallocate(spill->file, 0, (off_t)bytes)) == EINTR) number = 0;
    /* A file system that cannot reserve bytes tells when they are written. */
    if (number == EOPNOTSUPP || number == EINVAL || number == ENOSYS)
        number = ftruncate(spill->file, (off_t)bytes) == 0 ? 0 : errno;
    if (number && spill->file >= 0) close(spill->file);
    return number;
}

static void close_file(void *place) {
    close(((rt_spill *)place)->file);
}

static int write_file(void *place, uint64_t offset, const void *data, size_t bytes) {
    const char *from = data;
    while (bytes) {
        const ssize_t count = pwrite(((rt_spill *)place)->file, from, bytes, (off_t)offset);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count ? errno : ENOSPC;
        from += count;
        offset += (uint64_t)count;
        bytes -= (size_t)count;
    }
    return 0;
}

static int read_file(void *place, uint64_t offset, void *data, size_t bytes) {
    char *to = data;
    while (bytes) {
        const ssize_t count = pread(((rt_spill *)place)->file, to, bytes, (off_t)offset);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return count ? errno : CUT_OFF;
        to += count;
        offset += (uint64_t)count;
        bytes -= (size_t)count;
    }
    return 0;
}

static const ouro_spill files = {open_file, write_file, read_file, close_file, NULL};

/* ---- nothing ------------------------------------------------------------------------------------------- */

static int open_none(void *user, uint64_t bytes, void **place) {
    (void)user;
    (void)bytes;
    *place = NULL;
    return 0;
}

static int write_none(void *place, uint64_t offset, const void *data, size_t bytes) {
    (void)place;
    (void)offset;
    (void)data;
    (void)bytes;
    return EIO;
}

static int read_none(void *place, uint64_t offset, void *data, size_t bytes) {
    (void)place;
    (void)offset;
    (void)data;
    (void)bytes;
    return EIO;
}

static void close_none(void *place) {
    (void)place;
}

const ouro_spill rt_spill_none = {open_none, write_none, read_none, close_none, NULL};

/* ---- of a session -------------------------------------------------------------------------------------- */

static base_status fail(const rt_spill *spill, const char *what, int number, base_report *report) {
    char text[BASE_ERROR_TEXT];
    if (!spill->path)
        return base_fail(report, BASE_SYSTEM_ERROR, "what the session was given to spill to %s: error %d",
                         what, number);
    if (number == CUT_OFF)
        return base_fail(report, BASE_SYSTEM_ERROR, "spill file %s %s: it was cut", spill->path, what);
    return base_fail(report, number == EEXIST ? BASE_INVALID : base_file_status(number),
                     "spill file %s %s: %s%s", spill->path, what, base_error_text(number, text),
                     number == EEXIST ? "; expected a name that is free" : "");
}

base_status rt_spill_open(ouro_session *session, const ouro_session_options *options, base_report *report) {
    const plan_header *header = session->of->header;
    rt_spill *spill = &session->spill;
    if (!header->spill_bytes || session->code.unshared) return BASE_OK;
    const ouro_spill *given = options ? options->spill : NULL;
    if (given && given->open != open_none) {
        spill->calls = *given;
    } else { /* what keeps nothing takes as much memory as what a file needs: it tells how much that is */
        const char *path =
            options && options->spill_path ? options->spill_path : session->of->texts + header->spill_path;
        if (!*path && !given)
            return base_fail(report, BASE_USAGE, "the plan spills %llu bytes, and nobody says to which file",
                             (unsigned long long)header->spill_bytes);
        spill->path = base_arena_text(&session->code.tables, path, strlen(path));
        if (!spill->path) return base_fail_memory(report);
        spill->calls = given ? *given : files;
        spill->calls.user = spill;
    }
    const int number = spill->calls.open(spill->calls.user, header->spill_bytes, &spill->place);
    spill->open = number == 0;
    return spill->open ? BASE_OK : fail(spill, "cannot be made", number, report);
}

void rt_spill_close(ouro_session *session) {
    if (session->spill.open) session->spill.calls.close(session->spill.place);
    session->spill.open = false;
}

static uint64_t place_of(const ouro_session *session, uint64_t id) {
    return session->of->tensors[session->of->tensor_ids[id]].address.offset;
}

static base_status put(ouro_session *session, const rt_step *step) {
    const rt_spill *spill = &session->spill;
    const uint64_t offset = place_of(session, session->of->nodes[step->node].outputs);
    const op_tensor *from = &step->inputs[0];
    const int number = from->bytes ? spill->calls.write(spill->place, offset, from->data, from->bytes) : 0;
    return number ? fail(spill, "cannot be written", number, &session->run.report) : BASE_OK;
}

static base_status get(ouro_session *session, const rt_step *step) {
    const rt_spill *spill = &session->spill;
    const uint64_t offset = place_of(session, session->of->nodes[step->node].inputs);
    const op_tensor *to = &step->outputs[0];
    const int number = to->bytes ? spill->calls.read(spill->place, offset, to->data, to->bytes) : 0;
    return number ? fail(spill, "cannot be read", number, &session->run.report) : BASE_OK;
}

void rt_spill_make(ouro_session *session, const plan_node *node, rt_step *step) {
    step->kind = RT_STEP_SPILL;
    step->special = plan_node_code(session->of, node) == OP_SPILL ? put : get;
}
