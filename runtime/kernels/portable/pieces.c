/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.c: see pieces.h.
 *
 * |x|, limited, is n steps and a rest u of about half a step at most, which is exact; the n-th polynomial of u is the result. The polynomials are our own
 * minimax fits in double precision (Lawson's iteration on Chebyshev nodes, relative errors below 1e-9 for erf and 3e-7 for Gelu). All forms
 * multiply and add in the same order and round each time, so that they give the same bits. What differs is how each lane comes to the numbers of its
 * polynomial: AVX-512 picks each of them from two registers, AVX2 reads a row a lane and turns eight of them.
 */
#include "runtime/kernels/portable/pieces.h"
#include "runtime/kernels/base/x86.h"
#include "runtime/kernels/portable/kernels.h"
#include "runtime/kernels/portable/lanes.h"
#include "runtime/kernels/portable/vector_math.h"
#include "runtime/kernels/portable/vector_math_512.h"
#if RT_X86_KERNELS
#include <immintrin.h>
#endif
#include <stdbool.h>

enum { TERMS = 7, ROW = 8, PIECES = 32 };

/* Of erf, in steps of 1/8: the factors of 1, u, u^2, ..., that of u less 1. At 3.9374 it rounds to 1. */
#define ERF_PIECES(PIECE)                                                                                    \
    PIECE(0.0f, 1.28379166e-1f, 7.14220683e-9f, -3.76127213e-1f, 3.24956527e-5f, 1.12397961e-1f, 0.0f)       \
    PIECE(1.40316203e-1f, 1.10885270e-1f, -1.38860464e-1f, -3.58724743e-1f, 6.85755834e-2f, 1.04364477e-1f,  \
          0.0f)                                                                                              \
    PIECE(2.76326388e-1f, 6.00141324e-2f, -2.65003175e-1f, -3.09172005e-1f, 1.26744032e-1f, 8.02344084e-2f,  \
          0.0f)                                                                                              \
    PIECE(4.04116899e-1f, -1.96471885e-2f, -3.67631882e-1f, -2.34877258e-1f, 1.66290283e-1f, 4.56714630e-2f, \
          0.0f)                                                                                              \
    PIECE(5.20499885e-1f, -1.21217422e-1f, -4.39390868e-1f, -1.46464676e-1f, 1.82786837e-1f, 7.53087876e-3f, \
          0.0f)                                                                                              \
    PIECE(6.23240888e-1f, -2.36500457e-1f, -4.77186859e-1f, -5.56725748e-2f, 1.76217824e-1f,                 \
          -2.72060614e-2f, 0.0f)                                                                             \
    PIECE(7.11155653e-1f, -3.57068926e-1f, -4.82198060e-1f, 2.67882291e-2f, 1.50529608e-1f, -5.30514941e-2f, \
          0.0f)                                                                                              \
    PIECE(7.84075081e-1f, -4.75254953e-1f, -4.59151834e-1f, 9.29232016e-2f, 1.12335809e-1f, -6.70571476e-2f, \
          0.0f)                                                                                              \
    PIECE(8.42700779e-1f, -5.84892511e-1f, -4.15107548e-1f, 1.38368920e-1f, 6.92114457e-2f, -6.90708533e-2f, \
          0.0f)                                                                                              \
    PIECE(8.88388216e-1f, -6.81726038e-1f, -3.58058333e-1f, 1.62452206e-1f, 2.80641783e-2f, -6.12595305e-2f, \
          0.0f)                                                                                              \
    PIECE(9.22900140e-1f, -7.63478875e-1f, -2.95651585e-1f, 1.67535782e-1f, -6.03473652e-3f,                 \
          -4.71633449e-2f, 0.0f)                                                                             \
    PIECE(9.48170066e-1f, -8.29640210e-1f, -2.34244883e-1f, 1.57937765e-1f, -3.03708687e-2f,                 \
          -3.06247808e-2f, 0.0f)                                                                             \
    PIECE(9.66105163e-1f, -8.81069720e-1f, -1.78395599e-1f, 1.38752118e-1f, -4.44856808e-2f,                 \
          -1.49079179e-2f, 0.0f)                                                                             \
    PIECE(9.78443742e-1f, -9.19527769e-1f, -1.30767539e-1f, 1.14840746e-1f, -4.96344157e-2f,                 \
          -2.18546134e-3f, 0.0f)                                                                             \
    PIECE(9.86671686e-1f, -9.47224975e-1f, -9.23563168e-2f, 9.01573971e-2f, -4.80496734e-2f, 6.57614786e-3f, \
          0.0f)                                                                                              \
    PIECE(9.91990030e-1f, -9.66454148e-1f, -6.28984645e-2f, 6.74411803e-2f, -4.22357917e-2f, 1.14239007e-2f, \
          0.0f)                                                                                              \
    PIECE(9.95322287e-1f, -9.79333043e-1f, -4.13339734e-2f, 4.82230261e-2f, -3.44422609e-2f, 1.30628133e-2f, \
          0.0f)                                                                                              \
    PIECE(9.97345984e-1f, -9.87659156e-1f, -2.62242276e-2f, 3.30374390e-2f, -2.63714604e-2f, 1.24809230e-2f, \
          0.0f)                                                                                              \
    PIECE(9.98537302e-1f, -9.92857695e-1f, -1.60701927e-2f, 2.17245650e-2f, -1.91003736e-2f, 1.06524676e-2f, \
          0.0f)                                                                                              \
    PIECE(9.99217033e-1f, -9.95993495e-1f, -9.51535813e-3f, 1.37305316e-2f, -1.31514436e-2f, 8.35836306e-3f, \
          0.0f)                                                                                              \
    PIECE(9.99593019e-1f, -9.97821689e-1f, -5.44568664e-3f, 8.35007988e-3f, -8.63876473e-3f, 6.12158840e-3f, \
          0.0f)                                                                                              \
    PIECE(9.99794602e-1f, -9.98852134e-1f, -3.01315286e-3f, 4.89041395e-3f, -5.42745739e-3f, 4.22319910e-3f, \
          0.0f)                                                                                              \
    PIECE(9.99899387e-1f, -9.99413729e-1f, -1.61224825e-3f, 2.76037701e-3f, -3.26782674e-3f, 2.76085478e-3f, \
          0.0f)                                                                                              \
    PIECE(9.99952138e-1f, -9.99709785e-1f, -8.34396516e-4f, 1.50252646e-3f, -1.88844360e-3f, 1.71739329e-3f, \
          0.0f)                                                                                              \
    PIECE(9.99977887e-1f, -9.99860764e-1f, -4.17752803e-4f, 7.89093552e-4f, -1.04872591e-3f, 1.01959833e-3f, \
          0.0f)                                                                                              \
    PIECE(9.99990106e-1f, -9.99935269e-1f, -2.02366995e-4f, 4.00014949e-4f, -5.60227083e-4f, 5.79045736e-4f, \
          0.0f)                                                                                              \
    PIECE(9.99995709e-1f, -9.99970794e-1f, -9.48620654e-5f, 1.95806628e-4f, -2.88115582e-4f, 3.15125857e-4f, \
          0.0f)                                                                                              \
    PIECE(9.99998212e-1f, -9.99987245e-1f, -4.30358668e-5f, 9.25810964e-5f, -1.42747333e-4f, 1.64573983e-4f, \
          0.0f)                                                                                              \
    PIECE(9.99999285e-1f, -9.99994576e-1f, -1.88973245e-5f, 4.22944686e-5f, -6.81742604e-5f, 8.25683237e-5f, \
          0.0f)                                                                                              \
    PIECE(9.99999702e-1f, -9.99997795e-1f, -8.03237072e-6f, 1.86731741e-5f, -3.14007666e-5f, 3.98386510e-5f, \
          0.0f)                                                                                              \
    PIECE(9.99999881e-1f, -9.99999106e-1f, -3.30520447e-6f, 7.96932636e-6f, -1.39545164e-5f, 1.84968285e-5f, \
          0.0f)                                                                                              \
    PIECE(9.99999940e-1f, -9.99999642e-1f, -1.31673391e-6f, 3.28833971e-6f, -5.98556926e-6f, 8.27250915e-6f, \
          0.0f)

/* Of the probability that a normal number is above a, in steps of 1/4. The last one is 0, from 6.125 on. */
#define GELU_PIECES(PIECE)                                                                                   \
    PIECE(5.00000000e-1f, -3.98942292e-1f, 7.04033143e-9f, 6.64900467e-2f, 7.63132539e-6f, -1.00627923e-2f,  \
          5.18432469e-4f)                                                                                    \
    PIECE(4.01293665e-1f, -3.86668116e-1f, 4.83335145e-2f, 6.04166947e-2f, -1.18317129e-2f, -8.44532065e-3f, \
          1.92926906e-3f)                                                                                    \
    PIECE(3.08537543e-1f, -3.52065325e-1f, 8.80163312e-2f, 4.40080948e-2f, -2.01703384e-2f, -4.57527023e-3f, \
          3.06204008e-3f)                                                                                    \
    PIECE(2.26627350e-1f, -3.01137418e-1f, 1.12926535e-1f, 2.19580103e-2f, -2.29380038e-2f, 1.37717390e-4f,  \
          3.02619208e-3f)                                                                                    \
    PIECE(1.58655256e-1f, -2.41970718e-1f, 1.20985359e-1f, 1.62575148e-7f, -2.01639663e-2f, 4.01194161e-3f,  \
          2.00308231e-3f)                                                                                    \
    PIECE(1.05649777e-1f, -1.82649091e-1f, 1.14155680e-1f, -1.71231795e-2f, -1.36746680e-2f, 5.96502563e-3f, \
          5.67305367e-4f)                                                                                    \
    PIECE(6.68072030e-2f, -1.29517600e-1f, 9.71381962e-2f, -2.69827135e-2f, -6.07100967e-3f, 5.85357705e-3f, \
          -6.59980928e-4f)                                                                                   \
    PIECE(4.00591567e-2f, -8.62773210e-2f, 7.54926503e-2f, -2.96577886e-2f, 3.93192255e-4f, 4.30598296e-3f,  \
          -1.30658224e-3f)                                                                                   \
    PIECE(2.27501318e-2f, -5.39909676e-2f, 5.39909676e-2f, -2.69955080e-2f, 4.49915091e-3f, 2.25279620e-3f,  \
          -1.34355202e-3f)                                                                                   \
    PIECE(1.22244731e-2f, -3.17396522e-2f, 3.57071087e-2f, -2.14904435e-2f, 6.13702182e-3f, 4.68975544e-4f,  \
          -9.85019375e-4f)                                                                                   \
    PIECE(6.20966544e-3f, -1.75283011e-2f, 2.19103768e-2f, -1.53373182e-2f, 5.93393575e-3f, -6.59324171e-4f, \
          -5.08698926e-4f)                                                                                   \
    PIECE(2.97976332e-3f, -9.09356214e-3f, 1.25036491e-2f, -9.94612183e-3f, 4.75391047e-3f, -1.11789221e-3f, \
          -1.16697716e-4f)                                                                                   \
    PIECE(1.34989805e-3f, -4.43184841e-3f, 6.64777262e-3f, -5.90914907e-3f, 3.32385325e-3f, -1.10567268e-3f, \
          1.11424437e-4f)                                                                                    \
    PIECE(5.77025057e-4f, -2.02904805e-3f, 3.29720322e-3f, -3.23379831e-3f, 2.07792618e-3f, -8.65197566e-4f, \
          1.91261526e-4f)                                                                                    \
    PIECE(2.32629085e-4f, -8.72682722e-4f, 1.52719463e-3f, -1.63627567e-3f, 1.17723108e-3f, -5.79178450e-4f, \
          1.79582363e-4f)                                                                                    \
    PIECE(8.84172841e-5f, -3.52595700e-4f, 6.61116792e-4f, -7.67624006e-4f, 6.09489041e-4f, -3.42767162e-4f, \
          1.31519846e-4f)                                                                                    \
    PIECE(3.16712431e-5f, -1.33830239e-4f, 2.67660333e-4f, -3.34570359e-4f, 2.89983494e-4f, -1.82470423e-4f, \
          8.18264743e-5f)                                                                                    \
    PIECE(1.06885254e-5f, -4.77186440e-5f, 1.01402031e-4f, -1.35696420e-4f, 1.27292864e-4f, -8.82895692e-5f, \
          4.48006176e-5f)                                                                                    \
    PIECE(3.39767325e-6f, -1.59837455e-5f, 3.59633741e-5f, -5.12792140e-5f, 5.17044355e-5f, -3.90943023e-5f, \
          2.19869125e-5f)                                                                                    \
    PIECE(1.01708326e-6f, -5.02950888e-6f, 1.19450579e-5f, -1.80738189e-5f, 1.94765780e-5f, -1.59174615e-5f, \
          9.77995296e-6f)                                                                                    \
    PIECE(2.86651584e-7f, -1.48672029e-6f, 3.71678834e-6f, -5.94644371e-6f, 6.81579832e-6f, -5.98003680e-6f, \
          3.97144777e-6f)                                                                                    \
    PIECE(7.60496093e-8f, -4.12847413e-7f, 1.08371933e-6f, -1.82753286e-6f, 2.21894561e-6f, -2.07850326e-6f, \
          1.47979119e-6f)                                                                                    \
    PIECE(1.89895637e-8f, -1.07697716e-7f, 2.96166718e-7f, -5.24961081e-7f, 6.72816157e-7f, -6.69744963e-7f, \
          5.07825234e-7f)                                                                                    \
    PIECE(4.46217285e-9f, -2.63924704e-8f, 7.58776579e-8f, -1.41012691e-7f, 1.90184437e-7f, -2.00398290e-7f, \
          1.60957242e-7f)                                                                                    \
    PIECE(9.86587811e-10f, -6.07589490e-9f, 1.82274586e-8f, -3.54358534e-8f, 5.01562347e-8f,                 \
          -5.57551942e-8f, 4.72228443e-8f)                                                                   \
    PIECE(0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f)

/* The same as tanh approximates it, in steps of 3/16. The last one is 0; below -5.71875 it is computed otherwise. */
#define GELU_TANH_PIECES(PIECE)                                                                              \
    PIECE(5.00000000e-1f, -3.98942292e-1f, 1.74673143e-9f, 6.68193623e-2f, 3.37549341e-6f, -1.02542099e-2f,  \
          4.07757267e-4f)                                                                                    \
    PIECE(4.25636441e-1f, -3.91957581e-1f, 3.69195044e-2f, 6.32862598e-2f, -9.28063132e-3f, -9.28520598e-3f, \
          1.56765780e-3f)                                                                                    \
    PIECE(3.53845954e-1f, -3.71737719e-1f, 6.99813962e-2f, 5.33067808e-2f, -1.69412810e-2f, -6.80446951e-3f, \
          2.76211696e-3f)                                                                                    \
    PIECE(2.86934406e-1f, -3.40357274e-1f, 9.59979221e-2f, 3.85949612e-2f, -2.17425860e-2f, -3.32141412e-3f, \
          3.31272697e-3f)                                                                                    \
    PIECE(2.26719260e-1f, -3.00876677e-1f, 1.12963922e-1f, 2.15582438e-2f, -2.31089778e-2f, 3.66537832e-4f,  \
          3.12260096e-3f)                                                                                    \
    PIECE(1.74390033e-1f, -2.56844312e-1f, 1.20296121e-1f, 4.74876352e-3f, -2.12282166e-2f, 3.47456732e-3f,  \
          2.31301691e-3f)                                                                                    \
    PIECE(1.30466849e-1f, -2.11767629e-1f, 1.18758298e-1f, -9.67644993e-3f, -1.69281587e-2f, 5.45848906e-3f, \
          1.17718708e-3f)                                                                                    \
    PIECE(9.48521271e-2f, -1.68664992e-1f, 1.10122770e-1f, -2.03312971e-2f, -1.13782389e-2f, 6.14442397e-3f, \
          5.80891938e-5f)                                                                                    \
    PIECE(6.69522807e-2f, -1.29775390e-1f, 9.66896564e-2f, -2.67239921e-2f, -5.73859177e-3f, 5.70885884e-3f, \
          -7.82608928e-4f)                                                                                   \
    PIECE(4.58366796e-2f, -9.64525268e-2f, 8.08070377e-2f, -2.91403159e-2f, -8.89244082e-4f, 4.54077451e-3f, \
          -1.23454374e-3f)                                                                                   \
    PIECE(3.04005146e-2f, -6.92204088e-2f, 6.45038784e-2f, -2.83790901e-2f, 2.68809195e-3f, 3.07120569e-3f,  \
          -1.32753118e-3f)                                                                                   \
    PIECE(1.95063092e-2f, -4.79365401e-2f, 4.92857471e-2f, -2.54556593e-2f, 4.88430774e-3f, 1.64723128e-3f,  \
          -1.17065222e-3f)                                                                                   \
    PIECE(1.20894797e-2f, -3.20017859e-2f, 3.60848270e-2f, -2.13604588e-2f, 5.85347368e-3f, 4.80150717e-4f,  \
          -8.87651695e-4f)                                                                                   \
    PIECE(7.22425710e-3f, -2.05667131e-2f, 2.53203642e-2f, -1.69098955e-2f, 5.88558335e-3f, -3.45952954e-4f, \
          -5.76813822e-4f)                                                                                   \
    PIECE(4.15387098e-3f, -1.27027510e-2f, 1.70173701e-2f, -1.26852393e-2f, 5.30364970e-3f, -8.36788618e-4f, \
          -2.98974686e-4f)                                                                                   \
    PIECE(2.29310291e-3f, -7.52484053e-3f, 1.09406328e-2f, -9.03453957e-3f, 4.39884607e-3f, -1.04779110e-3f, \
          -8.29249620e-5f)                                                                                   \
    PIECE(1.21246406e-3f, -4.26554354e-3f, 6.71645766e-3f, -6.11005956e-3f, 3.39907990e-3f, -1.05399301e-3f, \
          6.38808779e-5f)                                                                                    \
    PIECE(6.12483826e-4f, -2.30807671e-3f, 3.92853841e-3f, -3.92008387e-3f, 2.46027904e-3f, -9.31307441e-4f, \
          1.46396225e-4f)                                                                                    \
    PIECE(2.94823258e-4f, -1.18899497e-3f, 2.18390906e-3f, -2.38176319e-3f, 1.67107920e-3f, -7.45931058e-4f, \
          1.76438392e-4f)                                                                                    \
    PIECE(1.34864866e-4f, -5.81532775e-4f, 1.15077104e-3f, -1.36736711e-3f, 1.06494338e-3f, -5.48647891e-4f, \
          1.69238527e-4f)                                                                                    \
    PIECE(5.84672198e-5f, -2.69287208e-4f, 5.73171361e-4f, -7.39879324e-4f, 6.35945937e-4f, -3.72579525e-4f, \
          1.40593693e-4f)                                                                                    \
    PIECE(2.39549390e-5f, -1.17726231e-4f, 2.69084412e-4f, -3.76328651e-4f, 3.55195050e-4f, -2.34035673e-4f, \
          1.04208899e-4f)                                                                                    \
    PIECE(9.24976484e-6f, -4.84517623e-5f, 1.18730248e-4f, -1.79439943e-4f, 1.85149926e-4f, -1.35998242e-4f, \
          6.98002114e-5f)                                                                                    \
    PIECE(3.35659092e-6f, -1.87191963e-5f, 4.90982202e-5f, -7.99881600e-5f, 8.98637009e-5f, -7.30520551e-5f, \
          4.25001344e-5f)                                                                                    \
    PIECE(1.14149725e-6f, -6.76972695e-6f, 1.89745333e-5f, -3.32430536e-5f, 4.05149767e-5f, -3.62266146e-5f, \
          2.35880816e-5f)                                                                                    \
    PIECE(3.62773307e-7f, -2.28522958e-6f, 6.83368171e-6f, -1.28459615e-5f, 1.69266750e-5f, -1.65593574e-5f, \
          1.19459783e-5f)                                                                                    \
    PIECE(1.07437174e-7f, -7.18018271e-7f, 2.28718727e-6f, -4.60312094e-6f, 6.53732741e-6f, -6.96503730e-6f, \
          5.52099982e-6f)                                                                                    \
    PIECE(2.95669906e-8f, -2.09393718e-7f, 7.09419794e-7f, -1.52543612e-6f, 2.32832531e-6f, -2.69062298e-6f, \
          2.32721482e-6f)                                                                                    \
    PIECE(7.53993135e-9f, -5.65187683e-8f, 2.03355413e-7f, -4.66263458e-7f, 7.62848344e-7f, -9.52732137e-7f, \
          8.93840934e-7f)                                                                                    \
    PIECE(1.77668236e-9f, -1.40800189e-8f, 5.37228502e-8f, -1.31101132e-7f, 2.29357823e-7f, -3.08587033e-7f, \
          3.12407792e-7f)                                                                                    \
    PIECE(3.85752374e-10f, -3.22832894e-9f, 1.30441489e-8f, -3.38190986e-8f, 6.31236290e-8f,                 \
          -9.12306462e-8f, 9.92102258e-8f)                                                                   \
    PIECE(0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f)

#define AS_ROW(a, b, c, d, e, f, g) {a, b, c, d, e, f, g, 0.0f},
#define TERM_0(a, b, c, d, e, f, g) a,
#define TERM_1(a, b, c, d, e, f, g) b,
#define TERM_2(a, b, c, d, e, f, g) c,
#define TERM_3(a, b, c, d, e, f, g) d,
#define TERM_4(a, b, c, d, e, f, g) e,
#define TERM_5(a, b, c, d, e, f, g) f,
#define TERM_6(a, b, c, d, e, f, g) g,
#define AS_COLUMNS(of)                                                                                       \
    {of(TERM_0)}, {of(TERM_1)}, {of(TERM_2)}, {of(TERM_3)}, {of(TERM_4)}, {of(TERM_5)}, {                    \
        of(TERM_6)                                                                                           \
    }

/* A function on [0, limit]: `terms` numbers for each piece; pieces are `step` long, of which `scale` is the reciprocal. */
typedef struct pieces {
    float limit, scale, step;
    bool exact; /* products with `scale` are */
    int terms;
    float rows[PIECES][ROW], columns[TERMS][PIECES];
} pieces;

static const pieces erf_pieces = {.limit = 3.9374f,
                                  .scale = 8,
                                  .step = 0.125f,
                                  .exact = true,
                                  .terms = 6,
                                  .rows = {ERF_PIECES(AS_ROW)},
                                  .columns = {AS_COLUMNS(ERF_PIECES)}};
static const pieces gelu_pieces = {.limit = 6.25f,
                                   .scale = 4,
                                   .step = 0.25f,
                                   .exact = true,
                                   .terms = 7,
                                   .rows = {GELU_PIECES(AS_ROW)},
                                   .columns = {AS_COLUMNS(GELU_PIECES)}};

static const pieces gelu_tanh_pieces = {.limit = 5.8125f,
                                        .scale = 16.0f / 3.0f,
                                        .step = 0.1875f,
                                        .terms = 7,
                                        .rows = {GELU_TANH_PIECES(AS_ROW)},
                                        .columns = {AS_COLUMNS(GELU_TANH_PIECES)}};
static const float least_gelu_tanh = -5.71875f;

#define NEAREST 12582912.0f /* 1.5 * 2^23: a number that is added to it is rounded, and is its last bits */

/* The function at t, which is limited; terms is a constant. `steep`: u is still to be added, so that it is not rounded with a factor near 1. */
RT_MATH float pieces_at(const pieces *of, int terms, bool steep, float t) {
    const rt_word near = {.real = t * of->scale + NEAREST};
    const float u = t - (near.real - NEAREST) * of->step, *row = of->rows[near.bits % PIECES];
    float p = row[terms - 1];
    for (int k = terms - 2; k > 0; k--) p = p * u + row[k];
    return p * u + (steep ? row[0] + u : row[0]);
}

static void erf_floats(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float a = rt_absolute(x[i]), t = a > erf_pieces.limit ? erf_pieces.limit : a;
        y[i] = rt_sign_of(rt_absolute(pieces_at(&erf_pieces, 6, true, t)), x[i]);
    }
}

static void gelu_floats(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float a = rt_absolute(x[i]), t = a < gelu_pieces.limit ? a : gelu_pieces.limit;
        const float above = pieces_at(&gelu_pieces, 7, false, t);
        y[i] = x[i] * (x[i] < 0.0f ? above : 1.0f - above);
    }
}

static void gelu_tanh_floats(float *y, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float a = rt_absolute(x[i]), t = a < gelu_tanh_pieces.limit ? a : gelu_tanh_pieces.limit,
                    lost = t * pieces_at(&gelu_tanh_pieces, 7, false, t);
        y[i] = x[i] < least_gelu_tanh ? rt_gelu_by_tanh(x[i]) : (x[i] < 0.0f ? 0.0f : x[i]) - lost;
    }
}

#if RT_X86_KERNELS
#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))
#define INLINE static inline __attribute__((always_inline))

/* Numbers `at` to `at` + 3 of the rows of eight pieces, one number a vector. */
AVX2 INLINE void turn_rows(const pieces *of, const uint32_t *piece, int at, __m256 *numbers) {
    __m256 four[4];
    _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) four[i] =
        _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(of->rows[piece[i]] + at)),
                             _mm_loadu_ps(of->rows[piece[i + 4]] + at), 1);
    const __m256 low_ab = _mm256_unpacklo_ps(four[0], four[1]),
                 high_ab = _mm256_unpackhi_ps(four[0], four[1]),
                 low_cd = _mm256_unpacklo_ps(four[2], four[3]),
                 high_cd = _mm256_unpackhi_ps(four[2], four[3]);
    numbers[0] = _mm256_shuffle_ps(low_ab, low_cd, _MM_SHUFFLE(1, 0, 1, 0));
    numbers[1] = _mm256_shuffle_ps(low_ab, low_cd, _MM_SHUFFLE(3, 2, 3, 2));
    numbers[2] = _mm256_shuffle_ps(high_ab, high_cd, _MM_SHUFFLE(1, 0, 1, 0));
    numbers[3] = _mm256_shuffle_ps(high_ab, high_cd, _MM_SHUFFLE(3, 2, 3, 2));
}

AVX2 INLINE __m256 pieces_8(const pieces *of, int terms, bool steep, __m256 t) {
    const __m256 nearest = _mm256_set1_ps(NEAREST),
                 near = _mm256_add_ps(_mm256_mul_ps(t, _mm256_set1_ps(of->scale)), nearest),
                 u = _mm256_sub_ps(t, _mm256_mul_ps(_mm256_sub_ps(near, nearest), _mm256_set1_ps(of->step)));
    uint32_t piece[8];
    __m256 numbers[ROW];
    _mm256_storeu_si256((__m256i *)(void *)piece,
                        _mm256_and_si256(_mm256_castps_si256(near), _mm256_set1_epi32(PIECES - 1)));
    turn_rows(of, piece, 0, numbers);
    turn_rows(of, piece, 4, numbers + 4);
    __m256 p = numbers[terms - 1];
    _Pragma("GCC unroll 8") for (int k = terms - 2; k > 0; k--) p =
        _mm256_add_ps(_mm256_mul_ps(p, u), numbers[k]);
    if (steep) numbers[0] = _mm256_add_ps(numbers[0], u);
    p = _mm256_add_ps(_mm256_mul_ps(p, u), numbers[0]);
    return p;
}

AVX2 INLINE __m256 erf_8(__m256 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f), a = _mm256_andnot_ps(sign, x),
                 t = _mm256_min_ps(_mm256_set1_ps(erf_pieces.limit), a); /* a, if it is a NaN */
    return _mm256_or_ps(_mm256_and_ps(sign, x), _mm256_andnot_ps(sign, pieces_8(&erf_pieces, 6, true, t)));
}

/* The limit, if x is a NaN. */
AVX2 INLINE __m256 limited_8(const pieces *of, __m256 x) {
    return _mm256_min_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x), _mm256_set1_ps(of->limit));
}

AVX2 INLINE __m256 gelu_8(__m256 x) {
    const __m256 above = pieces_8(&gelu_pieces, 7, false, limited_8(&gelu_pieces, x)),
                 below = _mm256_sub_ps(_mm256_set1_ps(1.0f), above),
                 negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_mul_ps(x, _mm256_blendv_ps(below, above, negative));
}

AVX2 INLINE __m256 gelu_tanh_8(__m256 x) {
    const __m256 t = limited_8(&gelu_tanh_pieces, x),
                 lost = _mm256_mul_ps(t, pieces_8(&gelu_tanh_pieces, 7, false, t)),
                 y = _mm256_sub_ps(_mm256_max_ps(_mm256_setzero_ps(), x), lost),
                 low = _mm256_cmp_ps(x, _mm256_set1_ps(least_gelu_tanh), _CMP_LT_OQ);
    if (_mm256_testz_ps(low, low)) return y;
    float few[8];
    _mm256_storeu_ps(few, x);
    for (int i = 0; i < 8; i++) few[i] = rt_gelu_by_tanh(few[i]);
    return _mm256_blendv_ps(y, _mm256_loadu_ps(few), low);
}

#define MAP_8(name)                                                                                          \
    AVX2 static void name##_floats_avx2(float *y, const float *x, int64_t count) {                           \
        enum { LANES = 8 };                                                                                  \
        const int64_t rest = count % LANES, whole = count - rest;                                            \
        for (int64_t i = 0; i < whole; i += LANES)                                                           \
            _mm256_storeu_ps(y + i, name##_8(_mm256_loadu_ps(x + i)));                                       \
        if (rest == 0) return;                                                                               \
        float few[LANES] = {0};                                                                              \
        memcpy(few, x + whole, (size_t)rest * sizeof *few);                                                  \
        _mm256_storeu_ps(few, name##_8(_mm256_loadu_ps(few)));                                               \
        memcpy(y + whole, few, (size_t)rest * sizeof *few);                                                  \
    }
MAP_8(erf)
MAP_8(gelu)
MAP_8(gelu_tanh)

/* Four vectors, or fewer: step by step for all of them, so that each pair of registers with numbers is loaded once. */
enum { TOGETHER = 4 };
#define EACH _Pragma("GCC unroll 4") for (int v = 0; v < count; v++)

AVX512 INLINE void pieces_16(const pieces *of, int terms, bool steep, const __m512 *t, int count, __m512 *p) {
    const __m512 nearest = _mm512_set1_ps(NEAREST), scale = _mm512_set1_ps(of->scale),
                 step = _mm512_set1_ps(of->step);
    __m512 near[TOGETHER], u[TOGETHER];
    /* Exact products: to round them or not is the same. */
    EACH near[v] = of->exact ? _mm512_fmadd_ps(t[v], scale, nearest)
                             : _mm512_add_ps(_mm512_mul_ps(t[v], scale), nearest);
    EACH u[v] = _mm512_fnmadd_ps(_mm512_sub_ps(near[v], nearest), step, t[v]);
    _Pragma("GCC unroll 8") for (int k = terms - 1; k >= 0; k--) {
        const __m512 low = _mm512_loadu_ps(of->columns[k]),
                     high = _mm512_loadu_ps(of->columns[k] + PIECES / 2);
        EACH {
            __m512 number = _mm512_permutex2var_ps(low, _mm512_castps_si512(near[v]), high);
            if (k == 0 && steep) number = _mm512_add_ps(number, u[v]);
            p[v] = k == terms - 1 ? number : _mm512_add_ps(_mm512_mul_ps(p[v], u[v]), number);
            __asm__(""
                    : "+v"(near[v]),
                      "+v"(p[v])); /* or GCC picks all numbers at once, and has no registers for them */
        }
    }
}

AVX512 INLINE void erf_16(__m512 *x, int count) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const __m512 limit = _mm512_set1_ps(erf_pieces.limit);
    __m512 t[TOGETHER], p[TOGETHER];
    EACH t[v] = _mm512_min_ps(limit, rt_absolute_16(x[v])); /* of a NaN, it */
    pieces_16(&erf_pieces, 6, true, t, count, p);
    EACH x[v] = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        sign, _mm512_castps_si512(x[v]), _mm512_castps_si512(p[v]), 0xca)); /* sign ? x : p */
}

/* The limit, if x is a NaN. */
AVX512 INLINE __m512 limited_16(const pieces *of, __m512 x) {
    return _mm512_min_ps(rt_absolute_16(x), _mm512_set1_ps(of->limit));
}

AVX512 INLINE void gelu_16(__m512 *x, int count) {
    __m512 t[TOGETHER], p[TOGETHER];
    EACH t[v] = limited_16(&gelu_pieces, x[v]);
    pieces_16(&gelu_pieces, 7, false, t, count, p);
    EACH {
        const __mmask16 negative = _mm512_cmp_ps_mask(x[v], _mm512_setzero_ps(), _CMP_LT_OQ);
        const __m512 below = _mm512_sub_ps(_mm512_set1_ps(1.0f), p[v]);
        x[v] = _mm512_mul_ps(x[v], _mm512_mask_mov_ps(below, negative, p[v]));
    }
}

AVX512 INLINE void gelu_tanh_16(__m512 *x, int count) {
    /* The bits of what is below the least piece are larger than its own, without a sign. */
    const __m512 least = _mm512_set1_ps(least_gelu_tanh);
    __m512i largest = _mm512_castps_si512(least);
    __m512 t[TOGETHER], y[TOGETHER];
    EACH largest = _mm512_max_epu32(largest, _mm512_castps_si512(x[v]));
    EACH t[v] = limited_16(&gelu_tanh_pieces, x[v]);
    pieces_16(&gelu_tanh_pieces, 7, false, t, count, y);
    EACH y[v] = _mm512_sub_ps(_mm512_max_ps(_mm512_setzero_ps(), x[v]), _mm512_mul_ps(t[v], y[v]));
    if (_mm512_cmpgt_epu32_mask(largest, _mm512_castps_si512(least))) {
        EACH y[v] =
            _mm512_mask_mov_ps(y[v], _mm512_cmp_ps_mask(x[v], least, _CMP_LT_OQ), rt_gelu_by_tanh_16(x[v]));
    }
    EACH x[v] = y[v];
}
#undef EACH

#define MAP_16(name)                                                                                         \
    AVX512 static void name##_floats_avx512(float *y, const float *x, int64_t count) {                       \
        enum { LANES = 16 };                                                                                 \
        int64_t i = 0;                                                                                       \
        for (; i + TOGETHER * LANES <= count; i += TOGETHER * LANES) {                                       \
            __m512 four[TOGETHER];                                                                           \
            for (int v = 0; v < TOGETHER; v++) four[v] = _mm512_loadu_ps(x + i + v * LANES);                 \
            name##_16(four, TOGETHER);                                                                       \
            for (int v = 0; v < TOGETHER; v++) _mm512_storeu_ps(y + i + v * LANES, four[v]);                 \
        }                                                                                                    \
        for (; i < count; i += LANES) {                                                                      \
            const __mmask16 some = rt_first_lanes_16(count - i);                                             \
            __m512 one = _mm512_maskz_loadu_ps(some, x + i);                                                 \
            name##_16(&one, 1);                                                                              \
            _mm512_mask_storeu_ps(y + i, some, one);                                                         \
        }                                                                                                    \
    }
MAP_16(erf)
MAP_16(gelu)
MAP_16(gelu_tanh)
#define FORMS(name)                                                                                          \
    { name##_floats, name##_floats_avx2, name##_floats_avx512 }
#else
#define FORMS(name)                                                                                          \
    { name##_floats }
#endif

rt_pieces_function *rt_pieces_form(rt_pieces_code code, rt_pieces_width width) {
    static rt_pieces_function *const forms[][3] = {[RT_PIECES_ERF] = FORMS(erf),
                                                   [RT_PIECES_GELU] = FORMS(gelu),
                                                   [RT_PIECES_GELU_TANH] = FORMS(gelu_tanh)};
#if RT_X86_KERNELS
    if (width == RT_PIECES_AVX512 && !__builtin_cpu_supports("avx512f")) return NULL;
    if (width == RT_PIECES_AVX2 && !__builtin_cpu_supports("avx2")) return NULL;
#endif
    return forms[code][width];
}

static rt_pieces_function *widest(rt_pieces_code code) {
    rt_pieces_function *wide = rt_pieces_form(code, RT_PIECES_AVX512);
    if (!wide) wide = rt_pieces_form(code, RT_PIECES_AVX2);
    return wide ? wide : rt_pieces_form(code, RT_PIECES_PORTABLE);
}

void rt_erf_floats(float *y, const float *x, int64_t count) {
    widest(RT_PIECES_ERF)(y, x, count);
}

void rt_gelu_floats(float *y, const float *x, int64_t count) {
    widest(RT_PIECES_GELU)(y, x, count);
}

void rt_gelu_tanh_floats(float *y, const float *x, int64_t count) {
    widest(RT_PIECES_GELU_TANH)(y, x, count);
}
