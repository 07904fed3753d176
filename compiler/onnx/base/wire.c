/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c: files and bytes of the importer: blocks of memory, reading, the check of the wire format
 * that comes before protobuf-c, unpacking.
 *
 * protobuf-c unpacks by recursion without a limit and makes a structure of some hundred bytes out of two
 * bytes of file. So the bytes are walked first, by the same descriptors: every length must lie within its
 * message, messages nest to a limit, and there are not absurdly many of them.
 */
#include "compiler/onnx/base/importer.h"

#include "ir/base/file_error.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* Stands immediately before the data. */
struct import_block {
    import_block *previous, *next;
    const base_allocator *allocator;
    void *memory; /* as the allocator gave it */
};

enum { BLOCK_ALIGNMENT = 64, BLOCK_SMALL_ALIGNMENT = 16 };

static import_block *block_of(void *data) {
    return (import_block *)data - 1;
}

void import_blocks_init(import_blocks *blocks, const base_allocator *allocator) {
    *blocks = (import_blocks){.allocator = allocator ? allocator : &base_allocator_heap};
}

void import_blocks_free(import_blocks *blocks) {
    while (blocks->first) {
        import_block *block = blocks->first;
        blocks->first = block->next;
        block->allocator->release(block->allocator->user, block->memory);
    }
}

void *import_block_new(import_blocks *blocks, size_t bytes) {
    size_t alignment = bytes >= BLOCK_ALIGNMENT ? BLOCK_ALIGNMENT : BLOCK_SMALL_ALIGNMENT;
    size_t total;
    char *memory = NULL;
    if (base_size_add(bytes, sizeof(import_block) + alignment, &total)) {
        memory = blocks->allocator->allocate(blocks->allocator->user, total);
    }
    if (!memory) {
        blocks->exhausted = true;
        return NULL;
    }
    char *data = memory + sizeof(import_block);
    data += (alignment - (uintptr_t)data % alignment) % alignment;
    import_block *block = block_of(data);
    *block = (import_block){.next = blocks->first, .allocator = blocks->allocator, .memory = memory};
    if (blocks->first) blocks->first->previous = block;
    blocks->first = block;
    return data;
}

void import_block_detach(import_blocks *blocks, void *data) {
    import_block *block = block_of(data);
    if (block->previous) block->previous->next = block->next;
    else blocks->first = block->next;
    if (block->next) block->next->previous = block->previous;
    block->previous = block->next = NULL;
}

void import_block_release(void *data) {
    import_block *block = block_of(data);
    block->allocator->release(block->allocator->user, block->memory);
}

static void *unpack_allocate(void *blocks, size_t bytes) {
    return import_block_new(blocks, bytes);
}

static void unpack_release(void *blocks, void *data) {
    if (!data) return;
    import_block_detach(blocks, data);
    import_block_release(data);
}

/* ---- files --------------------------------------------------------------------------------------------- */

/* Reads `size` bytes; false with a message where they cannot be had. */
static base_status read_all(int file, uint8_t *data, size_t size, base_report *report) {
    for (size_t done = 0; done < size;) {
        ssize_t got = read(file, data + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return base_fail(report, BASE_SYSTEM_ERROR, "cannot be read: %s", strerror(errno));
        if (got == 0)
            return base_fail(report, BASE_SYSTEM_ERROR, "cannot be read: it became shorter meanwhile");
        done += (size_t)got;
    }
    return BASE_OK;
}

base_status import_file_read(const char *path, import_blocks *blocks, uint8_t **data, size_t *size,
                             base_report *report) {
    /* Without O_NONBLOCK the opening of a named pipe would wait for a writer. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return base_fail(report, base_file_status(errno), "cannot be opened: %s", strerror(errno));
    struct stat status;
    base_status result = BASE_OK;
    if (fstat(file, &status) != 0) {
        result = base_fail(report, BASE_SYSTEM_ERROR, "cannot be read: %s", strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        result = base_fail(report, BASE_INVALID, "is a directory, a file is wanted");
    } else if (!S_ISREG(status.st_mode)) {
        result = base_fail(report, BASE_INVALID, "is not a regular file");
    } else if (status.st_size > INT32_MAX) {
        result = base_fail(
            report, BASE_INVALID,
            "the file has %lld bytes, at most %d are possible; larger weights go into external data",
            (long long)status.st_size, INT32_MAX);
    }
    if (result == BASE_OK) {
        *size = (size_t)status.st_size;
        *data = import_block_new(blocks, *size);
        result = *data ? read_all(file, *data, *size, report) : base_fail_memory(report);
    }
    close(file);
    return result;
}

const char *import_folder(const char *path, base_arena *arena) {
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    return base_arena_text(arena, path, slash == path ? 1 : (size_t)(slash - path));
}

/* ---- the wire format ----------------------------------------------------------------------------------- */

typedef struct wire {
    const uint8_t *data;
    size_t messages;
    base_report *report;
} wire;

static base_status malformed(const wire *w, size_t at, const char *what) {
    return base_fail(w->report, BASE_INVALID, "not a valid ONNX file: byte %zu: %s", at, what);
}

/* A varint of at most ten bytes at *at, before end. */
static bool read_varint(const wire *w, size_t *at, size_t end, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
        uint8_t byte = w->data[(*at)++];
        if (shift < 64) *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static unsigned wire_type_of(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return 5;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 1;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return 2;
    default:
        return 0;
    }
}

static base_status scan(wire *w, const ProtobufCMessageDescriptor *descriptor, size_t at, size_t end,
                        unsigned depth) {
    if (depth > IMPORT_MESSAGE_DEPTH) return malformed(w, at, "graphs or types are nested too deeply");
    if (++w->messages > IMPORT_MESSAGE_COUNT)
        return malformed(w, at, "too many nodes, attributes and tensors");
    uint32_t once[64]; /* singular sub-messages that were there: none of ONNX's messages has as many */
    size_t once_count = 0;
    while (at < end) {
        size_t start = at;
        uint64_t tag, value;
        if (!read_varint(w, &at, end, &tag))
            return malformed(w, start, "the file is cut off or not protobuf");
        uint64_t number = tag >> 3;
        unsigned type = tag & 7;
        if (number == 0 || number > 0x1fffffff) return malformed(w, start, "no such field in protobuf");
        const ProtobufCFieldDescriptor *field =
            protobuf_c_message_descriptor_get_field(descriptor, (unsigned)number);
        if (field && type != wire_type_of(field) &&
            !(type == 2 && field->label == PROTOBUF_C_LABEL_REPEATED)) {
            return base_fail(w->report, BASE_INVALID,
                             "not a valid ONNX file: byte %zu: %s of %s is of a wrong kind", start,
                             field->name, descriptor->short_name);
        }
        switch (type) {
        case 0:
            if (!read_varint(w, &at, end, &value))
                return malformed(w, start, "the file is cut off or not protobuf");
            break;
        case 1:
        case 5: {
            size_t bytes = type == 1 ? 8 : 4;
            if (end - at < bytes) return malformed(w, start, "the file is cut off");
            at += bytes;
            break;
        }
        case 2:
            if (!read_varint(w, &at, end, &value))
                return malformed(w, start, "the file is cut off or not protobuf");
            if (value > end - at) return malformed(w, start, "the file is cut off");
            if (field && field->type == PROTOBUF_C_TYPE_MESSAGE) {
                if (field->label != PROTOBUF_C_LABEL_REPEATED) {
                    /* Protobuf would merge the two; no writer of models makes use of that. */
                    for (size_t i = 0; i < once_count; i++) {
                        if (once[i] == field->id)
                            return malformed(w, start, "a part of a message is given twice");
                    }
                    if (once_count < sizeof once / sizeof *once) once[once_count++] = field->id;
                }
                base_status status = scan(w, field->descriptor, at, at + (size_t)value, depth + 1);
                if (status != BASE_OK) return status;
            }
            at += (size_t)value;
            break;
        default:
            return malformed(w, start, "not protobuf");
        }
    }
    return BASE_OK;
}

/* What begins as files of other kinds do is told by its kind: NULL where it is none of these. */
static const char *other_kind(const uint8_t *data, size_t size) {
    static const struct {
        const char *begins, *is;
    } kinds[] = {{"OUROPLAN", "a plan of ouro"},
                 {"\x93NUMPY", "an array of numpy (.npy)"},
                 {"PK\3\4", "a zip archive (an .npz of numpy, or a model that is still to be unpacked)"},
                 {"\x1f\x8b", "a gzip archive, still to be unpacked"},
                 {"\x89HDF", "an HDF5 file (Keras): tf2onnx converts it"},
                 {"version https://git-lfs", "a pointer of Git LFS in place of the file: git lfs pull"},
                 {"<!DOCTYPE", "a page of the web"},
                 {"<html", "a page of the web"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t length = strlen(kinds[i].begins);
        if (size >= length && memcmp(data, kinds[i].begins, length) == 0) return kinds[i].is;
    }
    return size > 8 && memcmp(data + 4, "TFL3", 4) == 0 ? "a TensorFlow Lite model: tf2onnx converts it"
                                                        : NULL;
}

base_status import_unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t size,
                          import_blocks *blocks, ProtobufCMessage **message, base_report *report) {
    wire w = {.data = data, .report = report};
    const char *other = other_kind(data, size);
    if (other) return base_fail(report, BASE_INVALID, "not an ONNX file, but %s", other);
    base_status status = scan(&w, descriptor, 0, size, 0);
    if (status != BASE_OK) return status;
    ProtobufCAllocator allocator = {unpack_allocate, unpack_release, blocks};
    blocks->exhausted = false;
    *message = protobuf_c_message_unpack(descriptor, &allocator, size, data);
    if (*message) return BASE_OK;
    return blocks->exhausted
               ? base_fail_memory(report)
               : base_fail(report, BASE_INVALID, "not a valid ONNX file: its protobuf is malformed");
}
