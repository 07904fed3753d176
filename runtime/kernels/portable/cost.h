/* SPDX-License-Identifier: Apache-2.0 */
/* cost.h: how long would a kernel take? A prediction from shapes alone, for choices between kernels at compile time.
 *
 * There is a table for each width of vectors, and for wide ones another rate of memory where they are multiplied by halves: plans are the
 * same on all machines of a kind. Portable plans go by one table, as they do not depend on the machine that makes them. Choices depend on
 * ratios only, which vary less from machine to machine than times do.
 */
#ifndef OURO_COST_H
#define OURO_COST_H

#include "runtime/kernels/base/kernel.h"

/* Which table it is: plans of this environment run on vectors of 16 floats. */
bool rt_has_wide_vectors(const rt_environment *environment);

/* How many products of numbers of this type take as long as one of floats: more than one of bfloat16, where the machine multiplies it. */
double rt_products_at_once(op_dtype dtype, const rt_environment *environment);

/* rt_kernel.estimate of direct convolutions: their products at the rate of the table. */
bool rt_direct_convolution_estimate(const op_call *call, const rt_environment *environment,
                                    size_t scratch_limit, rt_cost *cost);

/* The same of the portable kernel, which takes longer on single points. */
bool rt_gathering_convolution_estimate(const op_call *call, const rt_environment *environment,
                                       size_t scratch_limit, rt_cost *cost);
/* Convolutions of single points with weights in tiles. */
double rt_pointwise_seconds(op_dtype dtype, double products, const rt_environment *environment);

/* A product with weights in panels of so many bytes. */
double rt_packed_product_seconds(double rows, double depth, double columns, double weight_bytes,
                                 const rt_environment *environment);

/* What a convolution by Winograd's transform does. */
typedef struct rt_winograd_work {
    double products;          /* multiplications at all points */
    double transformed_bytes; /* of both transformed tensors, which are written once and read once */
    double block_bytes;       /* of those, what is in use at a time: the caches hold it or do not */
    double weight_bytes;      /* transformed weights, which every block reads */
    double each_bytes;        /* that each thread reads for a block from beyond its own cache; 0: little */
    double windows;           /* of weights that are transformed in each run; 0: at compile time */
    double blocks;
} rt_winograd_work;
/* Whether rt_winograd_seconds knows convolutions of so many channels. */
bool rt_winograd_is_predicted(double channels, double filters, const rt_environment *environment);
double rt_winograd_seconds(const rt_winograd_work *work, const rt_environment *environment);

/* What a product in fixed point does (fixed_product.c). */
typedef struct rt_fixed_work {
    double steps;        /* of a tile of rows by one of columns, of all threads */
    double sums;         /* tiles of them, over all blocks of the depth */
    double products;     /* of digits for one of numbers */
    double rows;         /* of a tile */
    double split;        /* numbers that become digits, of all threads */
    double left;         /* numbers of the result */
    bool apart;          /* their activation is computed apart from all else */
    double band_bytes;   /* of digits that are in use at a time */
    double weight_bytes; /* which every band reads */
    double bands;        /* of a thread */
    bool shared;         /* threads share out rows: each reads all weights; else each makes the sums of all rows */
    bool distant;        /* weights come from memory in each run */
} rt_fixed_work;
double rt_fixed_seconds(const rt_fixed_work *work, const rt_environment *environment);

/* What a convolution in fixed point does (window_convolution.c). */
typedef struct rt_window_work {
    double products;    /* of digits for one of numbers */
    double steps;       /* of a tile of points by one of filters, of all threads */
    double rows;        /* of a tile */
    double sums;        /* tiles of them, over all parts of the steps */
    double split_bytes; /* of digits, of all threads */
    double band_bytes;  /* of these that are in use at a time */
    double image_bytes; /* which are read to find the largest number */
    double weight_bytes; /* which every band reads */
    double bands;        /* of a thread */
} rt_window_work;
double rt_window_seconds(const rt_window_work *work, const rt_environment *environment);

/* Whether the weights of such a product, so many bytes, are more than a near cache holds. */
bool rt_fixed_weights_are_far(double bytes);

/* What a product in seven products of halves does (strassen_product.c). */
typedef struct rt_strassen_work {
    double rows, depth, columns;
    double parts;        /* of the depth */
    double passes;       /* of a thread over all weights */
    double weight_bytes; /* which each pass reads */
    bool shared;         /* threads share out rows: each reads all weights; else each makes the sums of all rows */
} rt_strassen_work;
double rt_strassen_seconds(const rt_strassen_work *work, const rt_environment *environment);

/* What it takes to read weights that come from memory in each run. */
double rt_distant_seconds(double bytes, const rt_environment *environment);

#endif
