/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: plans from files: read into memory of their own or of the host's, or mapped where the caller wants to share them. */
#include "runtime/plan/plan.h"
#include "ir/base/file_error.h"
#include "ir/base/pages.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct file_memory {
    void *start;
    size_t bytes;
    bool mapped;                /* else from `host` */
    const base_allocator *host; /* of this structure, too */
} file_memory;

static void release_memory(void *owner) {
    file_memory *memory = owner;
    const base_allocator *host = memory->host;
    if (memory->mapped) munmap(memory->start, memory->bytes);
    else host->release(host->user, memory->start);
    host->release(host->user, memory);
}

static base_status map_shared(int file, const char *path, file_memory *memory, base_report *report) {
    memory->mapped = true;
    memory->start = mmap(NULL, memory->bytes, PROT_READ, MAP_PRIVATE, file, 0);
    return memory->start == MAP_FAILED ? base_fail_file(report, path, "cannot be mapped", errno) : BASE_OK;
}

/* All bytes of the range, unless the file ends before: then it has been cut meanwhile. */
static base_status read_range(int file, const char *path, unsigned char *to, size_t first, size_t last,
                              base_report *report) {
    while (first < last) {
        const ssize_t count = pread(file, to + first, last - first, (off_t)first);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base_fail_file(report, path, "cannot be read", errno);
        if (count == 0)
            return base_fail(report, BASE_INVALID, "%s: is cut off: it ends after %zu bytes", path, first);
        first += (size_t)count;
    }
    return BASE_OK;
}

/* Memory for the whole file: pages of their own, which can be protected, or of the host's allocator. */
static bool take_memory(file_memory *memory) {
    memory->mapped = memory->host == &base_allocator_heap;
    if (!memory->mapped) {
        memory->start = memory->host->allocate(memory->host->user, memory->bytes);
        return memory->start != NULL;
    }
    memory->start = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory->start == MAP_FAILED) return false;
    base_pages_request(memory->start, memory->bytes);
    return true;
}

/* What is not a plan at all is refused before memory is taken for it. */
static base_status read_private(int file, const char *path, file_memory *memory, base_report *report) {
    plan_header header;
    base_status status = read_range(file, path, (unsigned char *)&header, 0, sizeof header, report);
    if (status != BASE_OK) return status;
    if (memcmp(header.magic, PLAN_MAGIC, sizeof header.magic) != 0)
        return base_fail(report, BASE_INVALID, "%s: is not a plan", path);
    if (!take_memory(memory)) {
        return base_fail(report, BASE_SYSTEM_ERROR, "%s: out of memory: the plan has %zu bytes", path,
                         memory->bytes);
    }
    status = read_range(file, path, memory->start, 0, memory->bytes, report);
    /* Nobody writes to a plan, so nobody may. */
    if (status == BASE_OK && memory->mapped && mprotect(memory->start, memory->bytes, PROT_READ) != 0)
        status = base_fail_file(report, path, "cannot be protected", errno);
    if (status == BASE_OK) return BASE_OK;
    if (memory->mapped) munmap(memory->start, memory->bytes);
    else memory->host->release(memory->host->user, memory->start);
    return status;
}

static base_status take_file(int file, const char *path, bool share, file_memory *memory,
                             base_report *report) {
    struct stat status;
    if (fstat(file, &status) != 0) return base_fail_file(report, path, "cannot be read", errno);
    if (!S_ISREG(status.st_mode)) return base_fail(report, BASE_INVALID, "%s: is no file", path);
    if (status.st_size < (off_t)sizeof(plan_header))
        return base_fail(report, BASE_INVALID, "%s: is not a plan", path);
    memory->bytes = (size_t)status.st_size;
    return share ? map_shared(file, path, memory, report) : read_private(file, path, memory, report);
}

base_status plan_load(const char *path, bool share, const plan_host *host, plan *loaded,
                      base_report *report) {
    *loaded = (plan){0};
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* what is no file must not keep us waiting */
    if (file < 0) return base_fail_file(report, path, "cannot be opened", errno);
    const base_allocator *from = host && host->memory ? host->memory : &base_allocator_heap;
    file_memory *memory = from->allocate(from->user, sizeof *memory);
    if (memory) *memory = (file_memory){.host = from};
    base_status status = memory ? take_file(file, path, share, memory, report)
                                : base_fail(report, BASE_SYSTEM_ERROR, "%s: out of memory", path);
    close(file);
    if (status != BASE_OK) {
        if (memory) from->release(from->user, memory);
        return status;
    }
    return (share ? plan_open_mapped : plan_open)(memory->start, memory->bytes, path, host, release_memory,
                                                  memory, loaded, report);
}
