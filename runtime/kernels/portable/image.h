/* SPDX-License-Identifier: Apache-2.0 */
/* image.h: formats of image files, for ImageDecoder. What a build lacks is named when it is met. */
#ifndef OURO_IMAGE_H
#define OURO_IMAGE_H

#include "runtime/kernels/portable/kernels.h"

typedef struct rt_image_format {
    const char *name;
    bool (*is)(const uint8_t *data, size_t size);
    /* Without `pixels` (NULL): width and height as the file says. With them: the pixels of an image of this width and height,
     * rows from the top, 3 bytes each: red, green, blue. Reports what is wrong with the file, which may be anything. NULL: this
     * build cannot read the format. */
    base_status (*read)(const uint8_t *data, size_t size, int64_t *width, int64_t *height, uint8_t *pixels,
                        base_report *report);
    const char *option; /* what the build is asked for it with */
} rt_image_format;

/* JPEG, PNG, WebP, TIFF, JPEG 2000 (image_libraries.c); ended by a format without a name. */
extern const rt_image_format rt_image_libraries[];

/* "the JPEG image: WHY" */
base_status rt_image_fail(const char *format, const char *why, base_report *report);

#endif
