/* Time to send tokens to the ranks of their experts (dispatch) and the results back (combine), by
 * NCCL's all-to-all, an all-gather, DeepEP or hybrid-EP. */
#include "sim/cost/dispatcher.h"

#include "base/length.h"
#include "base/units.h"

#include <math.h>

/* Measured rates of a library's kernels, in GB/s sent by one rank. Bytes are counted as if values
 * had 16 bits. Within NVLink a token counts once for each rank to which it is sent; over the
 * network it counts once for each node. The sender's own rank or node is included. */
struct dispatch_rate {
    enum dispatcher_kind of;
    enum gpu_arch arch;
    bool over_nodes;
    int ranks;
    double dispatch_gb_per_s, combine_gb_per_s;
    double link_gb_per_s; /* NVLink bandwidth of the GPU on which the rate was measured */
};

/* DeepEP's Hopper rows are from DeepEP@dd758ca docs/legacy.md (V1; 4,096 tokens of 7168 values;
 * dispatch in fp8), measured on H800, whose NVLink moves 200 GB/s in one direction. All other rows
 * are from hybrid-ep@94a9f8f docs/README_Hybrid-EP.md, measured on H100 over InfiniBand (8 SMs),
 * and within the NVLink of B200 (DeepEP, 24 SMs) and GB200 (hybrid-EP, 32 SMs), which moves 900
 * GB/s. Hybrid-EP was not measured within an H100's NVLink, so its Hopper row is that of B200 with
 * 16 SMs. Rates within NVLink are multiplied by the NVLink bandwidth of the group's GPU and divided
 * by that of the measured GPU. */
static const struct dispatch_rate rates[] = {
    { DISPATCHER_DEEPEP, ARCH_HOPPER, false, 8, 153, 158, 200 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, true, 16, 43, 43, 0 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, true, 32, 58, 57, 0 },
    { DISPATCHER_DEEPEP, ARCH_HOPPER, true, 64, 51, 50, 0 },
    { DISPATCHER_DEEPEP, ARCH_BLACKWELL, false, 8, 494, 420, 900 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, false, 8, 536, 531, 900 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, true, 16, 58, 57, 0 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, true, 32, 47, 51, 0 },
    { DISPATCHER_HYBRIDEP, ARCH_HOPPER, true, 64, 41, 48, 0 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, false, 8, 546, 569, 900 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, false, 16, 523, 522, 900 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, false, 24, 507, 484, 900 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, false, 32, 484, 465, 900 },
    { DISPATCHER_HYBRIDEP, ARCH_BLACKWELL, false, 36, 479, 448, 900 },
};

/* Time until all ranks have exchanged counts of tokens and synchronised. It lies between 20 and 60
 * us; 40 us is an estimate, not measured. */
static const double notify_s = 40e-6;

static bool is_alike(const struct dispatch_rate *rate, enum dispatcher_kind kind,
                     const struct comm_group *group)
{
    return rate->of == kind && rate->over_nodes == (group->num_nodes > 1) &&
           rate->arch == generations[group->arch].dispatches_as;
}

static double gb_per_s(const struct dispatch_rate *rate, const struct comm_group *group,
                       bool is_combine)
{
    double measured = is_combine ? rate->combine_gb_per_s : rate->dispatch_gb_per_s;
    return rate->over_nodes ? measured
                            : measured * group->link_bytes_per_s / (1e9 * rate->link_gb_per_s);
}

/* The rate for the group's size: interpolated linearly in log(ranks) between two measured sizes,
 * and the nearest measured rate outside them. 0: nothing was measured on such a GPU and network. */
static double rate_bytes_per_s(enum dispatcher_kind kind, const struct comm_group *group,
                               bool is_combine)
{
    const struct dispatch_rate *below = NULL;
    for (size_t i = 0; i < LENGTH(rates); i++) {
        const struct dispatch_rate *at = &rates[i];
        if (!is_alike(at, kind, group))
            continue;
        if (at->ranks >= group->num_ranks && !below)
            return 1e9 * gb_per_s(at, group, is_combine);
        if (at->ranks >= group->num_ranks) {
            double share = log2((double)group->num_ranks / below->ranks) /
                           log2((double)at->ranks / below->ranks);
            double low = gb_per_s(below, group, is_combine), high = gb_per_s(at, group, is_combine);
            return 1e9 * (low + share * (high - low));
        }
        below = at;
    }
    return below ? 1e9 * gb_per_s(below, group, is_combine) : 0;
}

static double all_to_all_cost_s(const struct comm_group *group, const struct dispatch *dispatch)
{
    return group->expert_wait_s + all_to_all_s(group, dispatch->rows * dispatch->row_bytes);
}

/* Dispatch all-gathers the tokens, and each rank keeps those of its experts. Combine is a
 * reduce-scatter of all ranks' partial sums. */
static double all_gather_cost_s(const struct comm_group *group, const struct dispatch *dispatch)
{
    double tokens = dispatch->rows / dispatch->choice.topk;
    double bytes = tokens * dispatch->row_bytes * group->num_ranks;
    return collective_s(
        group, dispatch->is_combine ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_GATHER, bytes);
}

/* Each token is sent once to each distinct rank or, over nodes, once to each distinct node. NVLink
 * then forwards it to the node's ranks; that is faster than the network and costs nothing here.
 * Without measured rates for the GPU, the time of NCCL's all-to-all for the same bytes is used. */
static double tokens_cost_s(enum dispatcher_kind kind, const struct comm_group *group,
                            const struct dispatch *dispatch)
{
    bool over_nodes = group->num_nodes > 1;
    double parts = over_nodes ? group->num_nodes : group->num_ranks;
    double distinct = routing_distinct(&dispatch->choice, parts);
    double bytes = dispatch->rows / dispatch->choice.topk * dispatch->row_bytes * distinct;
    double bytes_per_s = rate_bytes_per_s(kind, group, dispatch->is_combine);
    return bytes_per_s > 0 ? notify_s + bytes / bytes_per_s : all_to_all_s(group, bytes);
}

static double deepep_cost_s(const struct comm_group *group, const struct dispatch *dispatch)
{
    return tokens_cost_s(DISPATCHER_DEEPEP, group, dispatch);
}

static double hybridep_cost_s(const struct comm_group *group, const struct dispatch *dispatch)
{
    return tokens_cost_s(DISPATCHER_HYBRIDEP, group, dispatch);
}

/* Indexed by enum dispatcher_kind. A host that waits for counts of rows loses about 20 us (an
 * estimate, not measured). DeepEP's transfers occupy 20 of an H800's multiprocessors (DeepSeek's
 * profile-data@4496024: grids of 20), hybrid-EP's transfers over the network 8; 16 are assumed for
 * NCCL. */
const struct dispatcher dispatchers[NUM_DISPATCHERS] = {
    { "alltoall", "NCCL's all-to-all: each token is sent once per chosen expert",
      "Megatron Core, moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher", all_to_all_cost_s,
      .sms = 16, .sync_s = 20e-6 },
    { "allgather", "every rank gathers all tokens, and partial sums are reduce-scattered",
      "Megatron Core, moe/token_dispatcher.py, MoEAllGatherTokenDispatcher", all_gather_cost_s,
      .sms = 16, .sync_s = 20e-6 },
    { "deepep", "each token is sent once per node, then over NVLink to the ranks that need it",
      "DeepEP@dd758ca, docs/legacy.md", deepep_cost_s, .sends_tokens = true, .sms = 20,
      .sync_s = 20e-6 },
    { "hybridep",
      "as deepep, but within one NVLink domain each token is sent once per rank, and tokens arrive "
      "in the experts' order",
      "DeepEP hybrid-ep@94a9f8f, docs/README_Hybrid-EP.md", hybridep_cost_s, .sends_tokens = true,
      .sorts = true, .sms = 8, .sync_s = 20e-6 },
};
const char *const dispatcher_names[NUM_DISPATCHERS + 1] = { "alltoall", "allgather", "deepep",
                                                            "hybridep", NULL };

double dispatch_s(enum dispatcher_kind kind, const struct comm_group *group,
                  const struct dispatch *dispatch)
{
    const struct dispatcher *dispatcher = &dispatchers[kind];
    if (group->num_ranks == 1 || dispatch->rows <= 0)
        return 0;
    return dispatcher->cost_s(group, dispatch) + (dispatch->waits ? dispatcher->sync_s : 0);
}
