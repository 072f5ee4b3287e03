/* kernels/cuda/head.cuh - offsets of heads in the packed arrays of kernels/host/attention.h, and
 * indices of their probabilities in dropout's random numbers. */
#ifndef KERNELS_CUDA_HEAD_CUH
#define KERNELS_CUDA_HEAD_CUH

#include "kernels/cuda/philox.cuh"

extern "C" {
#include "kernels/host/attention.h"
}

/* Offsets of the first token, and the distance to the next token. */
struct head_place {
    long query, key, value, qkv_stride;
    long context, context_stride;
    long row; /* offset in [sequences, heads, seq] */
};

__host__ __device__ inline long qkv_stride(const struct attention &a)
{
    return (a.heads + 2 * a.kv_heads) * a.head_dim;
}
__host__ __device__ inline long context_stride(const struct attention &a)
{
    return a.heads * a.head_dim;
}

__host__ __device__ inline head_place head_at(const struct attention &a, long sequence, long head)
{
    long queries = a.heads / a.kv_heads, group = head / queries;
    long heads_of_token = a.heads + 2 * a.kv_heads, first_token = sequence * a.seq;
    long first = first_token * heads_of_token + group * (queries + 2);
    return {
        (first + head % queries) * a.head_dim,       (first + queries) * a.head_dim,
        (first + queries + 1) * a.head_dim,          qkv_stride(a),
        (first_token * a.heads + head) * a.head_dim, context_stride(a),
        (sequence * a.heads + head) * a.seq,
    };
}

/* The index of a query's first probability, counted over the whole model and global batch. */
__device__ __forceinline__ uint64_t first_probability(const struct attention &a, long sequence,
                                                      long head, long query)
{
    const struct attention_dropout &d = a.dropout;
    long before = (d.draw.place ? (long)d.draw.place->first_sequence : 0) + d.first_sequence;
    long matrix = (before + sequence) * d.model_heads + d.first_head + head;
    return (uint64_t)((matrix * a.seq + query) * a.seq);
}

inline float score_scale(const struct attention &a)
{
    return (float)(1 / sqrt((double)a.head_dim));
}

#endif
