/* SPDX-License-Identifier: Apache-2.0 */
/* image_libraries.c: image formats that libraries read: libjpeg-turbo, libpng, libwebp, libtiff, OpenJPEG. Each is an option of the
 * build; what is absent stays in the table by name. */
#include "runtime/kernels/portable/image.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

base_status rt_image_fail(const char *format, const char *why, base_report *report) {
    return base_fail(report, BASE_INVALID, "the %s image: %.200s", format, why);
}

static bool begins(const uint8_t *data, size_t size, const char *with, size_t length) {
    return size >= length && memcmp(data, with, length) == 0;
}

static bool is_jpeg(const uint8_t *data, size_t size) {
    return begins(data, size, "\xff\xd8\xff", 3);
}

static bool is_png(const uint8_t *data, size_t size) {
    return begins(data, size, "\x89PNG\r\n\x1a\n", 8);
}

static bool is_webp(const uint8_t *data, size_t size) {
    return begins(data, size, "RIFF", 4) && size >= 12 && memcmp(data + 8, "WEBP", 4) == 0;
}

static bool is_tiff(const uint8_t *data, size_t size) {
    return begins(data, size, "II*\0", 4) || begins(data, size, "MM\0*", 4);
}

static bool is_code_stream(const uint8_t *data, size_t size) {
    return begins(data, size, "\xff\x4f\xff\x51", 4);
}

static bool is_jpeg_2000(const uint8_t *data, size_t size) {
    return is_code_stream(data, size) || begins(data, size, "\0\0\0\x0cjP  \r\n\x87\n", 12);
}

/* ---- JPEG ---------------------------------------------------------------------------------------------- */

#ifdef OURO_JPEG
#include <jpeglib.h>
#include <setjmp.h>

typedef struct jpeg_reader {
    struct jpeg_decompress_struct base;
    struct jpeg_error_mgr errors;
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
} jpeg_reader;

static void jpeg_give_up(j_common_ptr base) {
    jpeg_reader *reader = base->client_data;
    base->err->format_message(base, reader->message);
    longjmp(reader->back, 1);
}

static void jpeg_say_nothing(j_common_ptr base) {
    (void)base;
}

/* Without pixels: the size only. */
static base_status read_jpeg(const uint8_t *data, size_t size, int64_t *width, int64_t *height,
                             uint8_t *pixels, base_report *report) {
    jpeg_reader reader = {.message = ""};
    reader.base.err = jpeg_std_error(&reader.errors);
    reader.base.client_data = &reader;
    reader.errors.error_exit = jpeg_give_up;
    reader.errors.output_message = jpeg_say_nothing;
    if (setjmp(reader.back)) {
        jpeg_destroy_decompress(&reader.base);
        return rt_image_fail("JPEG", reader.message, report);
    }
    jpeg_create_decompress(&reader.base);
    reader.base.client_data = &reader;
    jpeg_mem_src(&reader.base, data, size);
    jpeg_read_header(&reader.base, TRUE);
    *width = reader.base.image_width;
    *height = reader.base.image_height;
    if (pixels) {
        reader.base.out_color_space = JCS_RGB;
        jpeg_start_decompress(&reader.base);
        while (reader.base.output_scanline < reader.base.output_height) {
            JSAMPROW row = pixels + (size_t)reader.base.output_scanline * reader.base.output_width * 3;
            jpeg_read_scanlines(&reader.base, &row, 1);
        }
    }
    jpeg_destroy_decompress(&reader.base);
    return BASE_OK;
}
#else
#define read_jpeg NULL
#endif

/* ---- PNG ----------------------------------------------------------------------------------------------- */

#ifdef OURO_PNG
#include <png.h>

/* Transparency is left out: the colors are those of the pixels after it. */
static base_status png_pixels(const uint8_t *data, size_t size, int64_t width, int64_t height,
                              uint8_t *pixels, base_report *report) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&image, data, size))
        return rt_image_fail("PNG", image.message, report);
    const bool transparent = image.format & PNG_FORMAT_FLAG_ALPHA;
    image.format = transparent ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    uint8_t *wide = transparent ? malloc((size_t)(width * height) * 4) : NULL;
    if (transparent && !wide) {
        png_image_free(&image);
        return base_fail_memory(report);
    }
    const bool read = png_image_finish_read(&image, NULL, transparent ? wide : pixels, 0, NULL);
    for (int64_t i = 0; read && transparent && i < width * height; i++)
        memcpy(pixels + 3 * i, wide + 4 * i, 3);
    free(wide);
    png_image_free(&image);
    return read ? BASE_OK : rt_image_fail("PNG", image.message, report);
}

static base_status read_png(const uint8_t *data, size_t size, int64_t *width, int64_t *height,
                            uint8_t *pixels, base_report *report) {
    if (pixels) return png_pixels(data, size, *width, *height, pixels, report);
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_memory(&image, data, size))
        return rt_image_fail("PNG", image.message, report);
    *width = image.width;
    *height = image.height;
    png_image_free(&image);
    return BASE_OK;
}
#else
#define read_png NULL
#endif

/* ---- WebP ---------------------------------------------------------------------------------------------- */

#ifdef OURO_WEBP
#include <webp/decode.h>

static base_status webp_pixels(const uint8_t *data, size_t size, int64_t width, int64_t height,
                               uint8_t *pixels, base_report *report) {
    if (WebPDecodeRGBInto(data, size, pixels, (size_t)(width * height * 3), (int)(width * 3))) return BASE_OK;
    return rt_image_fail("WebP", "its pixels are damaged", report);
}

static base_status read_webp(const uint8_t *data, size_t size, int64_t *width, int64_t *height,
                             uint8_t *pixels, base_report *report) {
    if (pixels) return webp_pixels(data, size, *width, *height, pixels, report);
    int w, h;
    if (!WebPGetInfo(data, size, &w, &h)) return rt_image_fail("WebP", "its header is damaged", report);
    *width = w;
    *height = h;
    return BASE_OK;
}
#else
#define read_webp NULL
#endif

/* ---- bytes in memory as a file, for the two that want one ---------------------------------------------- */

#if defined(OURO_TIFF) || defined(OURO_OPENJPEG)
typedef struct memory_file {
    const uint8_t *data;
    size_t size, at;
    char message[200];
} memory_file;

static size_t memory_read(memory_file *file, void *to, size_t count) {
    const size_t rest = file->at < file->size ? file->size - file->at : 0;
    if (count > rest) count = rest;
    memcpy(to, file->data + (count ? file->at : 0), count);
    file->at += count;
    return count;
}
#endif

/* ---- TIFF ---------------------------------------------------------------------------------------------- */

#ifdef OURO_TIFF
#include <tiffio.h>

static tmsize_t tiff_read(thandle_t file, void *to, tmsize_t count) {
    return (tmsize_t)memory_read(file, to, count > 0 ? (size_t)count : 0);
}

static tmsize_t tiff_write(thandle_t file, void *from, tmsize_t count) {
    (void)file;
    (void)from;
    (void)count;
    return -1;
}

static toff_t tiff_seek(thandle_t handle, toff_t offset, int whence) {
    memory_file *file = handle;
    const toff_t base = whence == SEEK_CUR ? file->at : whence == SEEK_END ? file->size : 0;
    file->at = (size_t)(base + offset);
    return file->at;
}

static int tiff_close(thandle_t file) {
    (void)file;
    return 0;
}

static toff_t tiff_size(thandle_t file) {
    return ((memory_file *)file)->size;
}

static int tiff_error(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments) {
    (void)tiff;
    (void)module;
    vsnprintf(((memory_file *)user)->message, sizeof((memory_file *)user)->message, format, arguments);
    return 1;
}

static int tiff_warning(TIFF *tiff, void *user, const char *module, const char *format, va_list arguments) {
    (void)tiff;
    (void)user;
    (void)module;
    (void)format;
    (void)arguments;
    return 1;
}

static TIFF *open_tiff(memory_file *file) {
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options) return NULL;
    TIFFOpenOptionsSetErrorHandlerExtR(options, tiff_error, file);
    TIFFOpenOptionsSetWarningHandlerExtR(options, tiff_warning, file);
    TIFF *tiff = TIFFClientOpenExt("image", "rm", file, tiff_read, tiff_write, tiff_seek, tiff_close,
                                   tiff_size, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return tiff;
}

static base_status tiff_pixels(const uint8_t *data, size_t size, int64_t width, int64_t height,
                               uint8_t *pixels, base_report *report) {
    memory_file file = {data, size, 0, "it is damaged"};
    TIFF *tiff = open_tiff(&file);
    uint32_t *raster = malloc((size_t)(width * height) * sizeof *raster);
    const bool read =
        tiff && raster &&
        TIFFReadRGBAImageOriented(tiff, (uint32_t)width, (uint32_t)height, raster, ORIENTATION_TOPLEFT, 1);
    for (int64_t i = 0; read && i < width * height; i++) {
        pixels[3 * i] = (uint8_t)TIFFGetR(raster[i]);
        pixels[3 * i + 1] = (uint8_t)TIFFGetG(raster[i]);
        pixels[3 * i + 2] = (uint8_t)TIFFGetB(raster[i]);
    }
    if (tiff) TIFFClose(tiff);
    const bool exhausted = !raster;
    free(raster);
    if (exhausted) return base_fail_memory(report);
    return read ? BASE_OK : rt_image_fail("TIFF", file.message, report);
}

static base_status read_tiff(const uint8_t *data, size_t size, int64_t *width, int64_t *height,
                             uint8_t *pixels, base_report *report) {
    if (pixels) return tiff_pixels(data, size, *width, *height, pixels, report);
    memory_file file = {data, size, 0, "it is damaged"};
    TIFF *tiff = open_tiff(&file);
    uint32_t w = 0, h = 0;
    const bool known =
        tiff && TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &w) && TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &h);
    if (tiff) TIFFClose(tiff);
    *width = w;
    *height = h;
    return known ? BASE_OK : rt_image_fail("TIFF", file.message, report);
}
#else
#define read_tiff NULL
#endif

/* ---- JPEG 2000 ----------------------------------------------------------------------------------------- */

#ifdef OURO_OPENJPEG
#include <openjpeg.h>

static OPJ_SIZE_T jp2_read(void *to, OPJ_SIZE_T count, void *file) {
    const size_t read = memory_read(file, to, count);
    return read ? read : (OPJ_SIZE_T)-1;
}

static OPJ_OFF_T jp2_skip(OPJ_OFF_T count, void *user) {
    memory_file *file = user;
    if (count < 0 || (uint64_t)count > file->size - file->at) return -1;
    file->at += (size_t)count;
    return count;
}

static OPJ_BOOL jp2_seek(OPJ_OFF_T offset, void *user) {
    memory_file *file = user;
    if (offset < 0 || (uint64_t)offset > file->size) return OPJ_FALSE;
    file->at = (size_t)offset;
    return OPJ_TRUE;
}

static void jp2_message(const char *message, void *user) {
    memory_file *file = user;
    snprintf(file->message, sizeof file->message, "%.*s", (int)strcspn(message, "\n"), message);
}

/* 8 bits of a sample of any precision. */
static uint8_t jp2_sample(const opj_image_comp_t *component, int64_t index) {
    int64_t value = component->data[index] + (component->sgnd ? (int64_t)1 << (component->prec - 1) : 0);
    value = component->prec > 8 ? value >> (component->prec - 8) : value << (8 - component->prec);
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static bool copy_jp2(const opj_image_t *image, int64_t width, int64_t height, uint8_t *pixels) {
    const uint32_t count = image->numcomps < 3 ? 1 : 3;
    for (uint32_t k = 0; k < count; k++) {
        const opj_image_comp_t *own = &image->comps[k];
        if (own->w != width || own->h != height || !own->data || own->prec < 1 || own->prec > 31)
            return false;
    }
    for (int64_t i = 0; i < width * height; i++) {
        for (uint32_t k = 0; k < 3; k++) pixels[3 * i + k] = jp2_sample(&image->comps[count == 1 ? 0 : k], i);
    }
    return true;
}

/* Without pixels: the size only. */
static base_status read_jp2(const uint8_t *data, size_t size, int64_t *width, int64_t *height,
                            uint8_t *pixels, base_report *report) {
    memory_file file = {data, size, 0, "it is damaged"};
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    opj_codec_t *codec = opj_create_decompress(is_code_stream(data, size) ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    opj_stream_t *stream = opj_stream_create(1 << 16, OPJ_TRUE);
    opj_image_t *image = NULL;
    bool read = codec && stream;
    if (read) {
        opj_set_error_handler(codec, jp2_message, &file);
        opj_stream_set_user_data(stream, &file, NULL);
        opj_stream_set_user_data_length(stream, size);
        opj_stream_set_read_function(stream, jp2_read);
        opj_stream_set_skip_function(stream, jp2_skip);
        opj_stream_set_seek_function(stream, jp2_seek);
        read = opj_setup_decoder(codec, &parameters) && opj_read_header(stream, codec, &image) && image;
    }
    if (read && !pixels) {
        *width = (int64_t)image->x1 - image->x0;
        *height = (int64_t)image->y1 - image->y0;
    }
    if (read && pixels)
        read = opj_decode(codec, stream, image) && opj_end_decompress(codec, stream) &&
               copy_jp2(image, *width, *height, pixels);
    if (image) opj_image_destroy(image);
    if (stream) opj_stream_destroy(stream);
    if (codec) opj_destroy_codec(codec);
    return read ? BASE_OK : rt_image_fail("JPEG 2000", file.message, report);
}
#else
#define read_jp2 NULL
#endif

const rt_image_format rt_image_libraries[] = {{"JPEG", is_jpeg, read_jpeg, "OURO_JPEG"},
                                              {"PNG", is_png, read_png, "OURO_PNG"},
                                              {"WebP", is_webp, read_webp, "OURO_WEBP"},
                                              {"TIFF", is_tiff, read_tiff, "OURO_TIFF"},
                                              {"JPEG 2000", is_jpeg_2000, read_jp2, "OURO_OPENJPEG"},
                                              {0}};
