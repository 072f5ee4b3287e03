/* The classes of costs whose errors search/robust.h studies. Each has a function that multiplies
 * the class's constants by a factor. */
#include "base/length.h"
#include "search/robust.h"

#include <math.h>
#include <string.h>

static void scale_products(struct system *system, double factor, struct arena *arena)
{
    (void)arena;
    /* this rate also scales products whose time is taken from a measured product of nearly the same
     * size */
    system->profile.sustained *= factor;
    system->profile.batched_gemm_efficiency *= factor;
}

static void scale_attention(struct system *system, double factor, struct arena *arena)
{
    (void)arena;
    for (int i = 0; i < NUM_ATTENTION_KERNELS; i++) {
        system->profile.attention[i].forward_efficiency *= factor;
        system->profile.attention[i].backward_efficiency *= factor;
    }
}

static void scale_memory_bandwidth(struct system *system, double factor, struct arena *arena)
{
    (void)arena;
    system->gpu.memory_bytes_per_s *= factor;
}

/* Scales the measured curves of collectives inside a node, or of those across nodes. */
static void scale_curves(struct profile *profile, bool in_node, double factor, struct arena *arena)
{
    if (profile->num_curves == 0)
        return;
    struct curve *curves = ARENA_ARRAY(arena, struct curve, (size_t)profile->num_curves);
    memcpy(curves, profile->curves, (size_t)profile->num_curves * sizeof *curves);
    for (int i = 0; i < profile->num_curves; i++)
        for (int j = 0; (curves[i].num_nodes == 1) == in_node && j < curves[i].num_points; j++) {
            curves[i].points[j].time_s /= factor;
            curves[i].points[j].log_s -= log(factor);
        }
    profile->curves = curves;
}

static void scale_node_links(struct system *system, double factor, struct arena *arena)
{
    system->profile.intra_bandwidth_factor *= factor;
    scale_curves(&system->profile, true, factor, arena);
}

static void scale_network(struct system *system, double factor, struct arena *arena)
{
    system->profile.inter_bandwidth_factor *= factor;
    scale_curves(&system->profile, false, factor, arena);
}

static void scale_latency(struct system *system, double factor, struct arena *arena)
{
    (void)arena;
    system->profile.intra_latency_factor *= factor;
    system->profile.inter_latency_factor *= factor;
}

static void scale_host(struct system *system, double factor, struct arena *arena)
{
    (void)arena;
    struct stack *stack = &system->stack;
    system->profile.kernel_s *= factor;
    stack->host.issue_s *= factor;
    stack->host.checkpoint_s *= factor;
    stack->host.microbatch_s *= factor;
    stack->host.step_s *= factor;
    stack->shards.message_per_rank_s *= factor;
}

static double scaled_excess(double slowdown, double factor)
{
    return slowdown + (slowdown - 1) * (factor - 1); /* factor 1 leaves every bit unchanged */
}

static void scale_interference(struct system *system, double factor, struct arena *arena)
{
    (void)arena;
    struct profile *profile = &system->profile;
    profile->overlap_compute_slowdown = scaled_excess(profile->overlap_compute_slowdown, factor);
    profile->overlap_comm_slowdown = scaled_excess(profile->overlap_comm_slowdown, factor);
}

static void scale_bytes(struct system *system, double factor, struct arena *arena)
{
    (void)arena;
    system->stack.memory.allocator_slack +=
        (1 + system->stack.memory.allocator_slack) * (factor - 1);
}

// clang-format off
const struct cost_class cost_classes[] = {
    { "products", "rate of matrix products", scale_products },
    { "attention", "rate of flash attention", scale_attention },
    { "memory", "memory bandwidth", scale_memory_bandwidth },
    { "node", "bandwidth inside a node", scale_node_links },
    { "network", "bandwidth between nodes", scale_network },
    { "latency", "latency of messages", scale_latency },
    { "host", "host time of launches, microbatches and steps", scale_host },
    { "interference", "slowdown of compute and communication that overlap", scale_interference },
    { "bytes", "allocated bytes", scale_bytes },
};
// clang-format on
const int num_cost_classes = LENGTH(cost_classes);
_Static_assert(LENGTH(cost_classes) <= MOST_COST_CLASSES,
               "MOST_COST_CLASSES is less than the number of classes");
