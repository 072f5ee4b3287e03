/* tests/kernels/ptx/ptx_matrix.h - matrices in a warp's registers: PTX ISA 9.0, section 9.7.14,
 * "Matrix Fragments for mma.m16n8k16 with floating point type" and "ldmatrix". */
#ifndef TESTS_KERNELS_PTX_PTX_MATRIX_H
#define TESTS_KERNELS_PTX_PTX_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

enum { PTX_M = 16, PTX_N = 8, PTX_K = 16 };

struct ptx_place {
    int row, column;
};

/* The place of a lane's value i in matrix a (16 x 16, 8 values per lane), in b (16 x 8, 4 per
 * lane), and in the sums c and d (16 x 8, 4 per lane). Two 16-bit values share a register, the
 * first one low. */
struct ptx_place ptx_place_of_a(int lane, int i);
struct ptx_place ptx_place_of_b(int lane, int i);
struct ptx_place ptx_place_of_sum(int lane, int i);

/* The place of value i, 0 or 1, that ldmatrix gives a lane of an 8 x 8 matrix. */
struct ptx_place ptx_place_of_loaded(int lane, int i, bool is_transposed);

/* The arithmetic of a tensor core. It adds `block` exact products and the sum so far at once. Each
 * term is truncated `extra_bits` bits below the last float bit of the largest term, and the total
 * is truncated to a float. block 0: products are added one after the other in fp32, rounded to
 * nearest. */
struct ptx_numerics {
    int block, extra_bits;
};

/* Returns sum + a[0] b[0] + ... + a[15] b[15]. */
float ptx_dot(struct ptx_numerics numerics, float sum, const float a[PTX_K], const float b[PTX_K]);

#endif
