/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: ImageDecoder: the bytes of an image file become its pixels. BMP and PNM are read here, other formats by libraries
 * (image_libraries.c). */
#include "runtime/kernels/portable/image.h"
#include <string.h>

enum { LONGEST_SIDE = 1 << 20 };

/* ---- BMP: uncompressed, 8 bits with a palette, 24 or 32 bits ------------------------------------------- */

enum { BMP_HEADER = 54 };

static uint32_t little(const uint8_t *data, int bytes) {
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | data[i];
    return value;
}

static bool is_bmp(const uint8_t *data, size_t size) {
    return size >= 2 && data[0] == 'B' && data[1] == 'M';
}

static base_status bmp_pixels(const uint8_t *data, size_t size, int64_t width, int64_t height,
                              uint8_t *pixels, base_report *report) {
    const uint32_t start = little(data + 10, 4), header = little(data + 14, 4), bits = little(data + 28, 2),
                   packing = little(data + 30, 4);
    const bool downwards = (int32_t)little(data + 22, 4) < 0;
    if ((bits != 8 && bits != 24 && bits != 32) || (packing != 0 && !(packing == 3 && bits == 32)))
        return rt_image_fail("BMP", "only 8, 24 or 32 bits without compression are supported", report);
    const size_t row = ((size_t)width * bits + 31) / 32 * 4, palette = 14 + (size_t)header;
    if (start > size || row * (size_t)height > size - start)
        return rt_image_fail("BMP", "it ends in its pixels", report);
    for (int64_t y = 0; y < height; y++) {
        const uint8_t *from = data + start + row * (size_t)(downwards ? y : height - 1 - y);
        for (int64_t x = 0; x < width; x++) {
            const uint8_t *pixel = from + (size_t)x * (bits / 8);
            if (bits == 8) {
                const size_t at = palette + 4 * (size_t)*pixel;
                if (at + 4 > size)
                    return rt_image_fail("BMP", "it has a color that is not in its palette", report);
                pixel = data + at;
            }
            for (int k = 0; k < 3; k++) pixels[(y * width + x) * 3 + k] = pixel[2 - k];
        }
    }
    return BASE_OK;
}

static base_status read_bmp(const uint8_t *data, size_t size, int64_t *width, int64_t *height,
                            uint8_t *pixels, base_report *report) {
    if (pixels) return bmp_pixels(data, size, *width, *height, pixels, report);
    if (size < BMP_HEADER) return rt_image_fail("BMP", "it ends in its header", report);
    *width = (int32_t)little(data + 18, 4);
    const int64_t rows = (int32_t)little(data + 22, 4);
    *height = rows < 0 ? -rows : rows;
    return BASE_OK;
}

/* ---- PNM: P2, P3 (numbers), P5, P6 (bytes) -------------------------------------------------------------- */

typedef struct pnm_reader {
    const uint8_t *data;
    size_t size, at;
} pnm_reader;

/* The next number, after white space and comments; -1: there is none. */
static int64_t pnm_number(pnm_reader *r) {
    for (; r->at < r->size; r->at++) {
        const uint8_t letter = r->data[r->at];
        if (letter == '#') {
            while (r->at < r->size && r->data[r->at] != '\n') r->at++;
        } else if (letter != ' ' && (letter < '\t' || letter > '\r')) {
            break;
        }
        if (r->at == r->size) break;
    }
    int64_t value = -1;
    for (; r->at < r->size && r->data[r->at] >= '0' && r->data[r->at] <= '9' && value < INT32_MAX; r->at++)
        value = (value < 0 ? 0 : value * 10) + r->data[r->at] - '0';
    return value;
}

static bool is_pnm(const uint8_t *data, size_t size) {
    return size >= 3 && data[0] == 'P' &&
           (data[1] == '2' || data[1] == '3' || data[1] == '5' || data[1] == '6');
}

/* The reader stands after width and height. */
static base_status pnm_pixels(pnm_reader r, int64_t elements, uint8_t *pixels, base_report *report) {
    const uint8_t *data = r.data;
    const bool gray = data[1] == '2' || data[1] == '5', text = data[1] < '5';
    const int64_t most = pnm_number(&r), count = elements * (gray ? 1 : 3);
    if (most < 1 || most > 255) return rt_image_fail("PNM", "only values of up to 255 are supported", report);
    r.at++; /* one white space stands before the bytes */
    if (!text && (r.at > r.size || (uint64_t)count > r.size - r.at))
        return rt_image_fail("PNM", "it ends in its pixels", report);
    for (int64_t i = 0; i < count; i++) {
        const int64_t value = text ? pnm_number(&r) : data[r.at + (size_t)i];
        if (value < 0 || value > most)
            return rt_image_fail("PNM", "it has a value that is out of range", report);
        const uint8_t scaled = (uint8_t)((value * 255 + most / 2) / most);
        if (!gray) pixels[i] = scaled;
        else memset(pixels + 3 * i, scaled, 3);
    }
    return BASE_OK;
}

static base_status read_pnm(const uint8_t *data, size_t size, int64_t *width, int64_t *height,
                            uint8_t *pixels, base_report *report) {
    pnm_reader r = {data, size, 2};
    *width = pnm_number(&r);
    *height = pnm_number(&r);
    if (*width < 0 || *height < 0) return rt_image_fail("PNM", "it has no size", report);
    return pixels ? pnm_pixels(r, *width * *height, pixels, report) : BASE_OK;
}

static const rt_image_format own_formats[] = {
    {"BMP", is_bmp, read_bmp, NULL}, {"PNM", is_pnm, read_pnm, NULL}, {0}};

/* ---- the operator --------------------------------------------------------------------------------------- */

typedef struct decoder_state {
    size_t size;
    bool gray, reversed;
    const base_allocator *memory;
} decoder_state;

static const rt_image_format *find(const rt_image_format *formats, const uint8_t *data, size_t size) {
    for (; formats->name; formats++) {
        if (formats->is(data, size)) return formats;
    }
    return NULL;
}

static base_status format_of(const uint8_t *data, size_t size, const rt_image_format **format,
                             base_report *report) {
    *format = find(own_formats, data, size);
    if (!*format) *format = find(rt_image_libraries, data, size);
    if (!*format)
        return base_fail(
            report, BASE_INVALID,
            "the bytes are no image of a known format: BMP, JPEG, JPEG 2000, PNG, PNM, TIFF, WebP");
    if ((*format)->read) return BASE_OK;
    return base_fail_unsupported(report, "this build cannot read %s images (%s)", (*format)->name,
                                 (*format)->option);
}

static base_status measure(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                           void *scratch, base_report *report) {
    (void)scratch;
    const decoder_state *state = prepared->state;
    const rt_image_format *format;
    int64_t width = 0, height = 0;
    base_status status = format_of(inputs[0].data, state->size, &format, report);
    if (status == BASE_OK) status = format->read(inputs[0].data, state->size, &width, &height, NULL, report);
    if (status != BASE_OK) return status;
    if (width < 1 || height < 1 || width > LONGEST_SIDE || height > LONGEST_SIDE)
        return rt_image_fail(format->name, "its width or height is none that an image can have", report);
    outputs[0].type.shape.dims[0] = height;
    outputs[0].type.shape.dims[1] = width;
    return BASE_OK;
}

/* Scratch has nothing: where pixels are gray, three bytes each are made beside and become one. */
static base_status run(const rt_prepared *prepared, const op_tensor *inputs, op_tensor *outputs,
                       void *scratch, base_report *report) {
    (void)scratch;
    const decoder_state *state = prepared->state;
    int64_t height = outputs[0].type.shape.dims[0], width = outputs[0].type.shape.dims[1];
    const rt_image_format *format;
    uint8_t *y = outputs[0].data, *pixels = y;
    base_arena arena;
    base_arena_init(&arena, state->memory);
    base_status status = format_of(inputs[0].data, state->size, &format, report);
    if (state->gray) pixels = base_arena_alloc(&arena, (size_t)(width * height), 3);
    if (status == BASE_OK && !pixels) status = base_fail_memory(report);
    if (status == BASE_OK)
        status = format->read(inputs[0].data, state->size, &width, &height, pixels, report);
    for (int64_t i = 0; status == BASE_OK && i < width * height; i++) {
        uint8_t *pixel = pixels + 3 * i;
        /* ITU-R 601-2, in units of 1 / 65536. */
        if (state->gray)
            y[i] = (uint8_t)((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
        else if (state->reversed) {
            const uint8_t red = pixel[0];
            pixel[0] = pixel[2];
            pixel[2] = red;
        }
    }
    base_arena_free(&arena);
    return status;
}

static base_status prepare(const op_call *call, const rt_environment *environment, base_arena *arena,
                           rt_prepared *prepared, base_report *report) {
    decoder_state *state = BASE_NEW(arena, decoder_state);
    if (!state) return base_fail_memory(report);
    state->memory = environment->memory;
    state->size = (size_t)call->inputs[0].type.shape.dims[0];
    state->gray = op_attribute_is(&call->attributes, "pixel_format", "Grayscale", "RGB");
    state->reversed = op_attribute_is(&call->attributes, "pixel_format", "BGR", "RGB");
    prepared->state = state;
    prepared->run = run;
    return BASE_OK;
}

const rt_kernel rt_kernel_image_decoder = {.name = "portable.image_decoder",
                                           .accepts = rt_accepts_any_row_major,
                                           .prepare = prepare,
                                           .measure = measure};
