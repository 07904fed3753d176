/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h: scaled dot product attention: the engine of every operator that computes softmax(Q K' + mask) V.
 *
 * The scores of all queries are never held. Queries are taken in chunks, keys and values in blocks; each query keeps the largest
 * score that it has met, the sum of its exponentials and the sum of its weighted values, which are scaled down when a larger score
 * comes. Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al., "FlashAttention" (2022).
 *
 * Float and 16-bit floats are computed in float, doubles in double. Results do not depend on the number of threads.
 */
#ifndef OURO_ATTENTION_H
#define OURO_ATTENTION_H

#include "runtime/kernels/portable/kernels.h"

/* Where the rows of an operand lie, in elements. The elements of a row lie side by side. */
typedef struct rt_attention_rows {
    int64_t batch, head, row;
} rt_attention_rows;

/* What the scores are given out as, if they are. */
typedef enum rt_attention_scores {
    RT_SCORES_NONE = -1,
    RT_SCORES_SCALED = 0, /* scaled products */
    RT_SCORES_CAPPED,    /* after softcap */
    RT_SCORES_MASKED,    /* after softcap and mask */
    RT_SCORES_WEIGHTS    /* after the softmax */
} rt_attention_scores;

typedef struct rt_attention {
    op_dtype dtype;                 /* of queries and results: any float */
    op_dtype stored;                /* of keys and values: the same, or half precision beside float */
    int64_t batches, heads, shared; /* heads of queries; so many in a row share one head of keys and values */
    int64_t queries, keys;
    int64_t depth, width; /* elements of a query or key; of a value or result */
    rt_attention_rows q, k, v, y;
    double scale, softcap; /* softcap 0: none */
    bool causal;           /* query i sees keys up to i + its batch's offset */
    int64_t window;        /* and not more than so many of them, the last ones; 0: all */
    op_dtype mask;         /* OP_BOOL: which keys are seen; OP_NONE: there is none; other numbers are added */
    int64_t mask_strides[4]; /* batch, head, query, key; 0 where broadcast */
    int64_t mask_keys;       /* keys from here on are not seen */
    rt_attention_scores scores;
    int64_t offset_stride; /* 0: one offset for all batches, 1: one each */
    bool unseen_zeros;     /* a query that sees no key gives zeros */
} rt_attention;

typedef struct rt_attention_data {
    const void *q, *k, *v;
    const void *mask;       /* NULL where there is none */
    const int64_t *lengths; /* of each batch: keys from here on are not seen; NULL: all are */
    const int64_t *offsets; /* see `causal`; NULL: 0 */
    const void *sinks;      /* of each head the score of one more key, whose value is zero; NULL: none */
    void *y;
    void *scores; /* [batches, heads, queries, keys], dense; NULL with RT_SCORES_NONE */
} rt_attention_data;

size_t rt_attention_scratch(const rt_attention *attention, int threads); /* 0: too large to be counted */
/* y may be q, where both have the same rows. A query that sees no key gives NaN, unless there are sinks or `unseen_zeros`. */
void rt_attention_run(const rt_attention *attention, int threads, const rt_attention_data *data,
                      void *scratch);

#endif
