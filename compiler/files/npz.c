/* SPDX-License-Identifier: Apache-2.0 */
/* npz.c: see npz.h. Source of the format: PKWARE's "APPNOTE.TXT - .ZIP File Format Specification", 6.3: the directory at the end of the
 * file (4.3.12, 4.3.16), its form for large files (4.3.14, 4.3.15, 4.5.3), the header before each member (4.3.7). */
#include "compiler/files/npz.h"
#include "compiler/files/npy.h"
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum {
    LOCAL_BYTES = 30,
    ENTRY_BYTES = 46,
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    LARGE_END_BYTES = 56,
    MOST_COMMENT = 65535,
    STORED = 0,
    DEFLATED = 8,
    ENCRYPTED = 1,
    MOST_GROWTH = 1032, /* what one byte of deflate can become */
    CHUNK = 1 << 30     /* zlib counts in unsigned int */
};

static const unsigned char local_magic[] = {'P', 'K', 3, 4}, entry_magic[] = {'P', 'K', 1, 2},
                           end_magic[] = {'P', 'K', 5, 6}, locator_magic[] = {'P', 'K', 6, 7},
                           large_end_magic[] = {'P', 'K', 6, 6};

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | at[i];
    return value;
}

bool file_is_npz(const unsigned char *bytes, size_t size) {
    return size >= 4 && (memcmp(bytes, local_magic, 4) == 0 || memcmp(bytes, end_magic, 4) == 0);
}

static base_status fail(const file_npz *archive, const char *what, base_report *report) {
    return base_fail(report, BASE_INVALID, "%s: malformed zip archive: %s", archive->path, what);
}

/* `length` bytes at `offset` lie in the file. */
static bool within(const file_npz *archive, uint64_t offset, uint64_t length) {
    return offset <= archive->size && length <= archive->size - offset;
}

/* Where the directory begins, and how many entries it has. */
static bool find_directory(const file_npz *archive, uint64_t *offset, uint64_t *count) {
    const unsigned char *bytes = archive->bytes;
    if (archive->size < END_BYTES) return false;
    size_t at = archive->size - END_BYTES;
    const size_t last = at > MOST_COMMENT ? at - MOST_COMMENT : 0;
    while (memcmp(bytes + at, end_magic, 4) != 0)
        if (at-- == last) return false;
    *count = number(bytes + at + 10, 2);
    *offset = number(bytes + at + 16, 4);
    if (*offset != UINT32_MAX && *count != UINT16_MAX) return true;
    if (at < LOCATOR_BYTES || memcmp(bytes + at - LOCATOR_BYTES, locator_magic, 4) != 0) return true;
    const uint64_t large = number(bytes + at - LOCATOR_BYTES + 8, 8);
    if (!within(archive, large, LARGE_END_BYTES) || memcmp(bytes + large, large_end_magic, 4) != 0)
        return false;
    *count = number(bytes + large + 32, 8);
    *offset = number(bytes + large + 48, 8);
    return true;
}

/* Sizes that do not fit into 32 bits stand in the extra field 1, in this order, those that fit left out. */
static bool read_large_sizes(const unsigned char *extra, size_t length, uint64_t *values[3]) {
    while (length >= 4) {
        const size_t bytes = (size_t)number(extra + 2, 2);
        if (bytes > length - 4) return false;
        if (number(extra, 2) == 1) {
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                if (*values[i] != UINT32_MAX) continue;
                if (bytes - used < 8) return false;
                *values[i] = number(extra + 4 + used, 8);
                used += 8;
            }
            return true;
        }
        extra += 4 + bytes;
        length -= 4 + bytes;
    }
    return true;
}

static base_status read_entry(const file_npz *archive, uint64_t *at, file_npz_member *member,
                              base_arena *arena, base_report *report) {
    if (!within(archive, *at, ENTRY_BYTES) || memcmp(archive->bytes + *at, entry_magic, 4) != 0)
        return fail(archive, "an entry of its directory is not there", report);
    const unsigned char *entry = archive->bytes + *at;
    const size_t name = (size_t)number(entry + 28, 2), extra = (size_t)number(entry + 30, 2),
                 comment = (size_t)number(entry + 32, 2);
    uint64_t stored = number(entry + 20, 4), size = number(entry + 24, 4), offset = number(entry + 42, 4);
    if (!within(archive, *at + ENTRY_BYTES, name + extra + comment))
        return fail(archive, "its directory is cut off", report);
    uint64_t *large[3] = {&size, &stored, &offset};
    if (!read_large_sizes(entry + ENTRY_BYTES + name, extra, large) ||
        !within(archive, offset, LOCAL_BYTES) || !within(archive, offset, stored) || size > SIZE_MAX)
        return fail(archive, "an entry of its directory lies outside of the file", report);
    const char *text = (const char *)entry + ENTRY_BYTES;
    const bool named = name > 4 && memcmp(text + name - 4, ".npy", 4) == 0;
    *member = (file_npz_member){.name = base_arena_text(arena, text, named ? name - 4 : name),
                                .offset = (size_t)offset,
                                .stored = (size_t)stored,
                                .size = (size_t)size,
                                .checksum = (uint32_t)number(entry + 16, 4),
                                .method = (uint16_t)number(entry + 10, 2),
                                .flags = (uint16_t)number(entry + 8, 2)};
    *at += ENTRY_BYTES + name + extra + comment;
    return member->name ? BASE_OK : base_fail_memory(report);
}

base_status file_npz_open(const unsigned char *bytes, size_t size, const char *path, base_arena *arena,
                          file_npz *archive, base_report *report) {
    uint64_t at, count;
    *archive = (file_npz){.bytes = bytes, .size = size, .path = path};
    if (!find_directory(archive, &at, &count)) return fail(archive, "it has no directory", report);
    if (count > size / ENTRY_BYTES) return fail(archive, "its directory is larger than the file", report);
    archive->members = BASE_ARRAY(arena, file_npz_member, (size_t)count + 1);
    if (!archive->members) return base_fail_memory(report);
    for (; archive->count < count; archive->count++) {
        base_status status = read_entry(archive, &at, &archive->members[archive->count], arena, report);
        if (status != BASE_OK) return status;
    }
    return BASE_OK;
}

const file_npz_member *file_npz_find(const file_npz *archive, const char *name) {
    for (size_t i = archive->count; i-- > 0;)
        if (strcmp(archive->members[i].name, name) == 0) return &archive->members[i];
    return NULL;
}

/* Exactly `size` bytes; false: the data say otherwise. */
static bool inflate_all(const unsigned char *from, size_t stored, unsigned char *to, size_t size) {
    z_stream stream = {0};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
    size_t read = 0, written = 0;
    int result = Z_OK;
    while (result == Z_OK) {
        const size_t in = stored - read < CHUNK ? stored - read : CHUNK,
                     out = size - written < CHUNK ? size - written : CHUNK;
        stream.next_in = (unsigned char *)(uintptr_t)(from + read);
        stream.avail_in = (uInt)in;
        stream.next_out = to + written;
        stream.avail_out = (uInt)out;
        result = inflate(&stream, Z_NO_FLUSH);
        read += in - stream.avail_in;
        written += out - stream.avail_out;
        if (result == Z_OK && in == stream.avail_in && out == stream.avail_out) break; /* no way on */
    }
    inflateEnd(&stream);
    return result == Z_STREAM_END && written == size;
}

static bool is_checksum(const file_npz_member *member, const unsigned char *data) {
    uLong checksum = crc32(0, NULL, 0);
    for (size_t at = 0; at < member->size; at += CHUNK)
        checksum = crc32(checksum, data + at, (uInt)(member->size - at < CHUNK ? member->size - at : CHUNK));
    return (uint32_t)checksum == member->checksum;
}

base_status file_npz_read(const file_npz *archive, const file_npz_member *member, base_arena *arena,
                          op_tensor *tensor, base_report *report) {
    const unsigned char *local = archive->bytes + member->offset;
    if (member->flags & ENCRYPTED)
        return base_fail(report, BASE_INVALID, "%s: '%s' is encrypted", archive->path, member->name);
    if (member->method != STORED && member->method != DEFLATED)
        return base_fail(report, BASE_INVALID,
                         "%s: '%s' is compressed by method %d, expected 0 (stored) or 8 (deflate)",
                         archive->path, member->name, (int)member->method);
    if (memcmp(local, local_magic, 4) != 0) return fail(archive, "a member has no header", report);
    const uint64_t start = member->offset + LOCAL_BYTES + number(local + 26, 2) + number(local + 28, 2);
    if (!within(archive, start, member->stored) ||
        (member->method == STORED ? member->size != member->stored
                                  : member->size / MOST_GROWTH > member->stored))
        return fail(archive, "the size of a member cannot be right", report);
    const unsigned char *data = archive->bytes + start;
    unsigned char *inflated = NULL;
    if (member->method == DEFLATED) {
        data = inflated = base_arena_alloc(arena, member->size ? member->size : 1, 1);
        if (!inflated) return base_fail_memory(report);
        if (!inflate_all(archive->bytes + start, member->stored, inflated, member->size))
            return base_fail(report, BASE_INVALID, "%s: '%s' is damaged: it cannot be inflated",
                             archive->path, member->name);
    }
    if (!is_checksum(member, data))
        return base_fail(report, BASE_INVALID, "%s: '%s' is damaged: its checksum is wrong", archive->path,
                         member->name);
    char name[512];
    snprintf(name, sizeof name, "%s: '%s'", archive->path, member->name);
    return file_npy_decode(data, member->size, name, arena, tensor, report);
}
