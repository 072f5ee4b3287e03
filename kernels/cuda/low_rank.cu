/* Modified Gram-Schmidt in double, like kernels/host/low_rank.c. A step is one kernel. It changes
 * one column, using a dot product from the step before, and computes each block's part of the dot
 * product for the next step. Every block of the next step adds these parts in a fixed order. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

enum { MOST_BLOCKS = THREADS, SUM_BYTES = MOST_WARPS_OF_A_BLOCK * sizeof(double) };

/* The change that a step makes to its column, given the sum of the step before. KEEP: nothing.
 * SCALE: divide by the root of the sum. SCALE_OR_DROP: divide by the root of the sum, or set to 0
 * if the column had length 1 and only rounding errors are left of it. TAKE_AWAY: subtract the sum
 * times the other column. */
enum change { KEEP, SCALE, SCALE_OR_DROP, TAKE_AWAY };

struct step {
    enum change change;
    int column, other;  /* column to change, and column that TAKE_AWAY subtracts */
    int next;           /* column whose dot product with the changed one the next step needs */
    const double *sums; /* sums of the step before, one per block */
    double *next_sums;
};

__device__ __forceinline__ float changed(const struct step &step, double sum, float value,
                                         float other)
{
    const double rounding = 1e-6;
    double length = sqrt(sum);
    switch (step.change) {
    case KEEP:
        break;
    case SCALE:
        return length > 0 ? (float)((double)value * (1 / length)) : value;
    case SCALE_OR_DROP:
        return (float)((double)value * (length <= rounding ? 0 : 1 / length));
    case TAKE_AWAY:
        return value - (float)(sum * (double)other);
    }
    return value;
}

__global__ void orthogonalise_step(struct orthogonalise_args a, struct step step)
{
    double *parts = (double *)shared_memory(), sum = 0, products = 0;
    if (step.change != KEEP && threadIdx.x < gridDim.x)
        sum = step.sums[threadIdx.x];
    sum = reduce_block(sum, 0.0, add(), parts);
    for (long row = own_element<1>(); row < a.rows; row += (long)gridDim.x * THREADS) {
        float *at = a.columns + row * a.rank;
        float value = changed(step, sum, at[step.column], at[step.other]);
        at[step.column] = value;
        products += (double)value * (double)at[step.next];
    }
    products = reduce_block(products, 0.0, add(), parts);
    if (threadIdx.x == 0)
        step.next_sums[blockIdx.x] = products;
}

/* State of the steps of a call. The sums alternate between two halves of the workspace. */
struct stepper {
    const struct launch *on;
    const struct orthogonalise_args *args;
    int half;
    cudaError_t error;
};

static void run_step(struct stepper *s, enum change change, int column, int other, int next)
{
    double *sums = (double *)s->on->workspace;
    struct step step = { change,
                         column,
                         other,
                         next,
                         sums + s->half * MOST_BLOCKS,
                         sums + (1 - s->half) * MOST_BLOCKS };
    struct grid grid = { .blocks = least(ceil_div(s->args->rows, THREADS), MOST_BLOCKS),
                         .threads = THREADS,
                         .shared_bytes = SUM_BYTES };
    s->half = 1 - s->half;
    if (s->error == cudaSuccess)
        s->error = run_grid(s->on, grid, orthogonalise_step, *s->args, step);
}

/* Subtracts all earlier columns twice: the second pass removes the rounding errors of the first. */
static void run_column(struct stepper *s, int column)
{
    int takings = 2 * column;
    run_step(s, KEEP, column, column, column);
    run_step(s, SCALE, column, column, column > 0 ? 0 : column);
    for (int i = 0; i < takings; i++)
        run_step(s, TAKE_AWAY, column, i % column, i + 1 < takings ? (i + 1) % column : column);
    run_step(s, SCALE_OR_DROP, column, column, column);
}

cudaError_t launch_orthogonalise(const struct launch *on, const struct orthogonalise_args *a)
{
    struct stepper stepper = { on, a, 0, cudaSuccess };
    for (int column = 0; column < a->rank; column++)
        run_column(&stepper, column);
    return stepper.error;
}
