/* sim/memory/memory.h - bytes that one rank of each pipeline stage holds at its peak.
 *
 * The peak is that of the second step, when the optimizer's moments exist. It has the state, the
 * activations of the microbatches in flight, and the largest transient allocation. */
#ifndef SIM_MEMORY_MEMORY_H
#define SIM_MEMORY_MEMORY_H

#include "sim/memory/memory_input.h"
#include "sim/memory/stage_memory.h"

struct stage_memory stage_memory(const struct memory_input *input, int stage);
/* stage_memory in two steps, for many stages of one plan: common_memory computes what is the same
 * for all stages. */
struct stage_memory common_memory(const struct memory_input *input);
struct stage_memory stage_memory_with(const struct memory_input *of, int stage,
                                      const struct stage_memory *common);
/* The memory of all stages at once, which is cheaper than one by one. `stages` has room for pp. */
void plan_memory(const struct memory_input *input, struct stage_memory *stages);
/* The largest total_bytes of any stage. */
double plan_peak_bytes(const struct memory_input *input);
/* plan_peak_bytes without communicator buffers, the only part that depends on the rank order. */
double plan_unplaced_bytes(const struct memory_input *input);
/* A lower bound of plan_unplaced_bytes for every plan with the same tp, cp, ep, etp, pp, dp and
 * zero. It is the state averaged over stages; the fullest stage holds at least as much. */
double plan_state_floor_bytes(const struct memory_input *input);

/* For a plan that recomputes all layers in full and takes `*bytes`: returns a K with which full:K
 * (one checkpoint per K layers) takes less, or 1 if `*bytes` is at most `most_bytes` or no K was
 * found. From 1, K rises by 1 as long as the memory falls and exceeds `most_bytes`. `*bytes`
 * becomes the memory with the returned K. */
int plan_lean_interval(const struct memory_input *input, double most_bytes, double *bytes);
/* A lower bound of plan_unplaced_bytes for full:K with every K. */
double plan_least_grouped_bytes(const struct memory_input *input);
/* A lower bound of plan_unplaced_bytes, from the first stage alone. For full recompute it holds for
 * full:K with every K. */
double plan_first_stage_bytes(const struct memory_input *input);

/* The memory of a stage with selective recompute that does not depend on the set of recomputed
 * modules. */
struct sets_stage {
    double fixed_bytes; /* state, buffers, and the activations if no set freed any */
    double logits_bytes;
    double heads_bytes; /* values that heads keep; they are freed before the layers run backward */
    /* numbers of layers by kind, and of modules for later tokens, whose activations are held; a
     * layer counts once for each microbatch in flight */
    double layers[MAX_BLOCK_KINDS], laters;
    bool has_laters;
};
/* Lower bounds of plan_peak_bytes for every set of modules that selective recompute may repeat. The
 * sets differ only in the bytes that they free and in the peak of a layer's backward; everything
 * else is computed once for all sets. */
struct sets_memory {
    const struct pieces *pieces;
    const struct pieces_sets *sets;
    double factor, further_bytes; /* peak = held x factor + further_bytes */
    int num_modules;              /* for later tokens */
    int num_stages;               /* 0: the bounds are 0 */
    struct sets_stage *at;        /* has room for pp */
};
/* Fills all members except `at`. The input's plan must recompute attention's core. */
void plan_sets_memory(const struct memory_input *input, const struct pieces_sets *sets,
                      struct sets_memory *out);
/* The bound for one set. If it exceeds `most_bytes`, the result may be lower, but it exceeds
 * `most_bytes` too. */
double sets_least_bytes(const struct sets_memory *memory, unsigned set, double most_bytes);

#endif
