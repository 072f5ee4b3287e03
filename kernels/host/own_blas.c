/* This program's own fp32 matrix product, for machines without OpenBLAS. */
#include "kernels/host/blas.h"

#include "kernels/host/vector.h"

/* A tile of TILE_M x TILE_N sums stays in registers over a depth of at most DEPTH. Both operands
 * are packed in the order in which they are read (Goto and van de Geijn, "Anatomy of
 * high-performance matrix multiplication", 2008). */
enum { TILE_M = 6, TILE_N = NUM_LANES_F32, DEPTH = 128, WIDTH = 128 };

static long least(long a, long b)
{
    return a < b ? a : b;
}

/* Packs rows [row, row + TILE_M) of a, from column `from` on, as [depth][TILE_M]; zeros past the
 * end. */
static void pack_a(const struct product *p, long row, long from, long depth, float *out)
{
    long rows = least(TILE_M, p->m - row);
    for (long k = 0; k < depth; k++)
        for (long i = 0; i < TILE_M; i++) {
            long at = p->a_is_transposed ? (from + k) * p->a_stride + row + i
                                         : (row + i) * p->a_stride + from + k;
            out[k * TILE_M + i] = i < rows ? p->a[at] : 0;
        }
}

/* Packs columns [column, column + TILE_N) of b as [depth][TILE_N]. */
static void pack_b(const struct product *p, long column, long from, long depth, float *out)
{
    long columns = least(TILE_N, p->n - column);
    for (long k = 0; k < depth; k++)
        for (long j = 0; j < TILE_N; j++) {
            long at = p->b_is_transposed ? (column + j) * p->b_stride + from + k
                                         : (from + k) * p->b_stride + column + j;
            out[k * TILE_N + j] = j < columns ? p->b[at] : 0;
        }
}

EACH_MACHINE
static void tile_product(long depth, const float *a, const float *b, float sums[TILE_M * TILE_N])
{
    lanes_f32 row0 = { 0 }, row1 = row0, row2 = row0, row3 = row0, row4 = row0, row5 = row0, value;
    for (long k = 0; k < depth; k++, a += TILE_M, b += TILE_N) {
        lanes_load(b, &value);
        row0 += value * a[0];
        row1 += value * a[1];
        row2 += value * a[2];
        row3 += value * a[3];
        row4 += value * a[4];
        row5 += value * a[5];
    }
    const lanes_f32 rows[TILE_M] = { row0, row1, row2, row3, row4, row5 };
    memcpy(sums, rows, sizeof rows);
}

static void add_tile(const struct product *p, long row, long column, const float *sums)
{
    for (long i = 0; i < least(TILE_M, p->m - row); i++)
        for (long j = 0; j < least(TILE_N, p->n - column); j++)
            p->c[(row + i) * p->c_stride + column + j] += p->alpha * sums[i * TILE_N + j];
}

static void scale_output(const struct product *p)
{
    for (long i = 0; i < p->m; i++)
        for (long j = 0; j < p->n; j++) {
            float *c = &p->c[i * p->c_stride + j];
            *c = p->beta == 0 ? 0 : p->beta * *c;
        }
}

/* Adds the products over the depth [from, from + DEPTH) to the result's columns [column, column +
 * WIDTH). */
static void add_block(const struct product *p, long column, long from)
{
    float a[DEPTH * TILE_M], b[DEPTH * WIDTH], sums[TILE_M * TILE_N];
    long depth = least(DEPTH, p->k - from), width = least(WIDTH, p->n - column);
    for (long j = 0; j < width; j += TILE_N)
        pack_b(p, column + j, from, depth, b + j * depth);
    for (long row = 0; row < p->m; row += TILE_M) {
        pack_a(p, row, from, depth, a);
        for (long j = 0; j < width; j += TILE_N) {
            tile_product(depth, a, b + j * depth, sums);
            add_tile(p, row, column + j, sums);
        }
    }
}

static void own_product(const struct blas *blas, const struct product *p)
{
    (void)blas;
    scale_output(p);
    for (long column = 0; column < p->n; column += WIDTH)
        for (long from = 0; from < p->k; from += DEPTH)
            add_block(p, column, from);
}

const struct blas own_blas = { .name = "own", .product = own_product };
