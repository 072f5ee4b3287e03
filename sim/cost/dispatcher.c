#include "sim/cost/dispatcher.h"

#include "base/length.h"
#include "base/units.h"

#include <math.h>

/* Rates of a library's kernels, per rank, of the rows that it sends, in 16 bits: a token once for
 * each rank within NVLink, or for each node over the network, its own included. */
struct dispatch_rate {
    enum dispatcher_kind of;
    enum gpu_arch arch;
    bool over_nodes;
    int ranks;
    double dispatch_gb_per_s, combine_gb_per_s;
    double link_gb_per_s; /* NVLink of the GPU that it was measured on */
};

/* DeepEP@dd758ca docs/legacy.md (V1, 4,096 tokens of 7168, the dispatch in fp8): on H800, whose
 * NVLink has 200 GB/s one way; and hybrid-ep@94a9f8f docs/README_Hybrid-EP.md (8 SMs with H100 and
 * InfiniBand; 24 and 32 with B200 and GB200, of 900 GB/s). Within NVLink rates are in proportion to
 * its own. */
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

/* Until all ranks know what comes, and have met: 20 to 60 us (an estimate, not measured). */
static const double notify_s = 40e-6;

static bool is_alike(const struct dispatch_rate *rate, enum dispatcher_kind kind,
                     const struct comm_group *group)
{
    return rate->of == kind && rate->over_nodes == (group->num_nodes > 1) &&
           (rate->arch == ARCH_BLACKWELL) == (group->arch >= ARCH_BLACKWELL);
}

static double gb_per_s(const struct dispatch_rate *rate, const struct comm_group *group,
                       bool is_combine)
{
    double measured = is_combine ? rate->combine_gb_per_s : rate->dispatch_gb_per_s;
    return rate->over_nodes ? measured
                            : measured * group->link_bytes_per_s / (1e9 * rate->link_gb_per_s);
}

/* Between two measured numbers of ranks in the logarithm, beyond them as at the end; 0: no curve.
 */
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
    return all_to_all_s(group, dispatch->rows * dispatch->row_bytes);
}

/* Every rank gets all tokens, and keeps what is its own; back, all ranks' parts are summed. */
static double all_gather_cost_s(const struct comm_group *group, const struct dispatch *dispatch)
{
    double tokens = dispatch->rows / dispatch->choice.topk;
    double bytes = tokens * dispatch->row_bytes * group->num_ranks;
    return collective_s(
        group, dispatch->is_combine ? COLLECTIVE_REDUCE_SCATTER : COLLECTIVE_ALL_GATHER, bytes);
}

/* A token once for each distinct rank, or each distinct node and from there by NVLink to the ranks,
 * which is faster. Without a curve of the GPU: NCCL's rate for as many bytes. */
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
 * estimate, not measured). DeepEP's transfers take 20 of an H800's multiprocessors (DeepSeek's
 * profile-data@4496024: grids of 20); hybrid-EP's 8 over the network. */
const struct dispatcher dispatchers[NUM_DISPATCHERS] = {
    { "alltoall", "NCCL's all-to-all: a row for each of a token's choices",
      "Megatron Core, moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher", all_to_all_cost_s,
      .sms = 0, .sync_s = 20e-6 },
    { "allgather", "every rank gathers all tokens, and parts of the sums are scattered back",
      "Megatron Core, moe/token_dispatcher.py, MoEAllGatherTokenDispatcher", all_gather_cost_s,
      .sms = 0, .sync_s = 20e-6 },
    { "deepep", "a token once for each node, then by NVLink to the ranks that want it",
      "DeepEP@dd758ca, docs/legacy.md", deepep_cost_s, .sends_tokens = true, .sms = 20,
      .sync_s = 20e-6 },
    { "hybridep", "the same, or all within one NVLink domain; rows arrive in the experts' order",
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
