/* Extracts the k elements of largest magnitude, in the same order as kernels/host/top_k.c. The k-th
 * largest magnitude is found digit by digit, from counts of each digit's values. Then each part of
 * the array learns how many elements the parts before it take, and takes its own elements. Counts
 * use atomics, whose order does not matter. */
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/reduce.cuh"

/* The 31 bits of a magnitude are three digits of 11, 10 and 10 bits, the highest first. */
enum { NUM_DIGITS = 3, NUM_VALUES = 1 << 11, VALUES_OF_A_THREAD = NUM_VALUES / THREADS };
enum { MOST_PARTS = 1024, LEAST_PART = 16 * THREADS, COUNT_BLOCKS = 1024 };

/* The digits of the k-th largest magnitude that are known so far, and how many of the k elements
 * have these digits. */
struct threshold {
    uint32_t bits, num_equal;
};

/* The layout of the workspace. */
struct selection {
    uint32_t counts[NUM_DIGITS][NUM_VALUES];
    struct threshold thresholds[NUM_DIGITS + 1];    /* before each digit, and after the last */
    uint32_t larger[MOST_PARTS], equal[MOST_PARTS]; /* counts of elements in each part; later, of
                                                       those in the parts before it */
};
static_assert(sizeof(struct selection) <= WORKSPACE_BYTES, "a workspace has room for it");

struct digit {
    int shift, width;
};

__device__ __forceinline__ struct digit digit_of(int turn)
{
    return { 20 - 10 * turn, turn == 0 ? 11 : 10 };
}

__device__ __forceinline__ uint32_t magnitude(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

/* --- the threshold ------------------------------------------------------------------------ */

__global__ void begin_selection(struct selection *s, uint32_t k)
{
    long i = own_element<1>();
    if (i < (long)NUM_DIGITS * NUM_VALUES)
        s->counts[i / NUM_VALUES][i % NUM_VALUES] = 0;
    if (i == 0)
        s->thresholds[0] = { 0, k };
}

/* Counts how often each value of the digit occurs, among elements with the threshold's higher
 * digits. */
__global__ void count_digit(long n, const float *x, int turn, struct selection *s)
{
    uint32_t *counts = (uint32_t *)shared_memory();
    for (int i = (int)threadIdx.x; i < NUM_VALUES; i += THREADS)
        counts[i] = 0;
    __syncthreads();
    struct digit digit = digit_of(turn);
    int above = digit.shift + digit.width;
    uint32_t mask = (1u << digit.width) - 1, prefix = s->thresholds[turn].bits >> above;
    for (long i = own_element<1>(); i < n; i += (long)gridDim.x * THREADS) {
        uint32_t bits = magnitude(x[i]);
        if (bits >> above == prefix)
            atomicAdd(&counts[bits >> digit.shift & mask], 1u);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < NUM_VALUES; i += THREADS)
        if (counts[i] > 0)
            atomicAdd(&s->counts[turn][i], counts[i]);
}

/* Runs in one block; a thread examines neighbouring values of the digit, the first thread the
 * largest values. */
__global__ void choose_digit(int turn, struct selection *s)
{
    struct threshold threshold = s->thresholds[turn];
    int value = NUM_VALUES - 1 - (int)threadIdx.x * VALUES_OF_A_THREAD;
    uint32_t own = 0;
    for (int i = 0; i < VALUES_OF_A_THREAD; i++)
        own += s->counts[turn][value - i];
    uint32_t before = scan_block(own, (uint32_t *)shared_memory()).before;
    if (before >= threshold.num_equal || before + own < threshold.num_equal)
        return;
    uint32_t wanted = threshold.num_equal - before;
    while (s->counts[turn][value] < wanted)
        wanted -= s->counts[turn][value--];
    s->thresholds[turn + 1] = { threshold.bits | (uint32_t)value << digit_of(turn).shift, wanted };
}

/* --- parts -------------------------------------------------------------------------------- */

struct part {
    long first, end;
};

__device__ __forceinline__ struct part own_part(long n)
{
    long tiles = (n + THREADS - 1) / THREADS;
    long length = (tiles + gridDim.x - 1) / gridDim.x * THREADS, first = blockIdx.x * length;
    return { first, first + length < n ? first + length : n };
}

/* An element larger than the threshold counts 1, an equal one 1 << EQUAL_SHIFT, so that one sum
 * counts both; a block's threads have at most 256 of each. */
enum { EQUAL_SHIFT = 16, LARGER_MASK = (1 << EQUAL_SHIFT) - 1 };

__device__ __forceinline__ uint32_t rank_of(uint32_t bits, const struct threshold &threshold)
{
    return (bits > threshold.bits ? 1u : 0u) | (bits == threshold.bits ? 1u << EQUAL_SHIFT : 0u);
}

__global__ void count_parts(long n, const float *x, struct selection *s)
{
    uint32_t *parts = (uint32_t *)shared_memory();
    struct threshold threshold = s->thresholds[NUM_DIGITS];
    struct part part = own_part(n);
    uint32_t larger = 0, equal = 0;
    for (long i = part.first + threadIdx.x; i < part.end; i += THREADS) {
        uint32_t rank = rank_of(magnitude(x[i]), threshold);
        larger += rank & LARGER_MASK;
        equal += rank >> EQUAL_SHIFT;
    }
    larger = reduce_block(larger, 0u, add(), parts);
    equal = reduce_block(equal, 0u, add(), parts);
    if (threadIdx.x == 0) {
        s->larger[blockIdx.x] = larger;
        s->equal[blockIdx.x] = equal;
    }
}

/* Runs in one block of MOST_PARTS threads. */
__global__ void place_parts(int num_parts, struct selection *s)
{
    uint32_t *parts = (uint32_t *)shared_memory();
    int part = (int)threadIdx.x;
    uint32_t larger = scan_block(part < num_parts ? s->larger[part] : 0, parts).before;
    uint32_t equal = scan_block(part < num_parts ? s->equal[part] : 0, parts).before;
    s->larger[part] = larger;
    s->equal[part] = equal;
}

__global__ void take_parts(struct top_k_args a, const struct selection *s)
{
    uint32_t *parts = (uint32_t *)shared_memory();
    struct threshold threshold = s->thresholds[NUM_DIGITS];
    struct part part = own_part(a.n);
    uint32_t larger = s->larger[blockIdx.x], equal = s->equal[blockIdx.x];
    for (long tile = part.first; tile < part.end; tile += THREADS) {
        long i = tile + threadIdx.x;
        float x = i < part.end ? a.x[i] : 0;
        uint32_t rank = i < part.end ? rank_of(magnitude(x), threshold) : 0;
        struct scan scan = scan_block(rank, parts);
        uint32_t larger_before = larger + (scan.before & LARGER_MASK);
        uint32_t equal_before = equal + (scan.before >> EQUAL_SHIFT);
        bool is_larger = (rank & LARGER_MASK) != 0;
        if (is_larger || (rank != 0 && equal_before < threshold.num_equal)) {
            uint32_t equals =
                equal_before < threshold.num_equal ? equal_before : threshold.num_equal;
            a.indices[larger_before + equals] = (uint32_t)i;
            a.values[larger_before + equals] = x;
            a.x[i] = 0;
        }
        larger += scan.all & LARGER_MASK;
        equal += scan.all >> EQUAL_SHIFT;
    }
}

/* --- launching ---------------------------------------------------------------------------- */

enum { SCAN_BYTES = MOST_WARPS_OF_A_BLOCK * sizeof(uint32_t) };

static cudaError_t find_threshold(const struct launch *on, const struct top_k_args *a,
                                  struct selection *s)
{
    cudaError_t error = run_grid(on, grid_of_elements((long)NUM_DIGITS * NUM_VALUES, 1),
                                 begin_selection, s, (uint32_t)a->k);
    struct grid all = { .blocks = least(ceil_div(a->n, LEAST_PART), COUNT_BLOCKS),
                        .threads = THREADS,
                        .shared_bytes = NUM_VALUES * sizeof(uint32_t) };
    struct grid one = { .blocks = 1, .threads = THREADS, .shared_bytes = SCAN_BYTES };
    for (int turn = 0; turn < NUM_DIGITS && error == cudaSuccess; turn++) {
        error = run_grid(on, all, count_digit, a->n, (const float *)a->x, turn, s);
        if (error == cudaSuccess)
            error = run_grid(on, one, choose_digit, turn, s);
    }
    return error;
}

cudaError_t launch_top_k_take(const struct launch *on, const struct top_k_args *a)
{
    struct selection *s = (struct selection *)on->workspace;
    struct grid all = { .blocks = least(ceil_div(a->n, LEAST_PART), MOST_PARTS),
                        .threads = THREADS,
                        .shared_bytes = SCAN_BYTES };
    struct grid one = { .blocks = 1, .threads = MOST_PARTS, .shared_bytes = SCAN_BYTES };
    if (a->k == 0)
        return cudaSuccess;
    cudaError_t error = find_threshold(on, a, s);
    if (error == cudaSuccess)
        error = run_grid(on, all, count_parts, a->n, (const float *)a->x, s);
    if (error == cudaSuccess)
        error = run_grid(on, one, place_parts, (int)all.blocks, s);
    return error == cudaSuccess ? run_grid(on, all, take_parts, *a, (const struct selection *)s)
                                : error;
}

/* No index occurs twice among the taken elements. */
__global__ void add_taken(struct top_k_args a)
{
    long i = own_element<1>();
    if (i < a.k && a.indices[i] < (uint64_t)a.n)
        a.x[a.indices[i]] += a.values[i];
}

cudaError_t launch_top_k_add(const struct launch *on, const struct top_k_args *a)
{
    return run_grid(on, grid_of_elements(a->k, 1), add_taken, *a);
}
