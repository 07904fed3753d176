/* models.h: the example models. Each function builds one; the caller frees it. */
#ifndef MODELS_MODELS_H
#define MODELS_MODELS_H

#include "models/builder.h"

/* ---- convolutional networks (convolutional.c) ---------------------------------------------------------- */
model *
model_mobilenet_v2(void); /* 1x3x224x224 -> 1000 classes; 53 convolutions, depthwise, residuals, Clip 6 */
model *
model_resnet18(void); /* 1x3x224x224 -> 1000 classes; BatchNormalization left to the compiler to fold */
model *model_branches(void); /* a small Inception- and DenseNet-like net: Concat, Split, pooling */

/* ---- control (control.c) ------------------------------------------------------------------------------- */
model *model_convolution_recurrence(void); /* Loop of 8: x <= relu(conv(x)) */
model *model_newton(void);                 /* data-dependent while: square roots by Newton's method */
model *model_swap(void);                   /* Loop: (a, b) <= (b, a + b) */
model *model_switch(void);                 /* If whose branches are convolutions of different depth */

#endif
