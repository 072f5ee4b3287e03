#include "sim/exchange/methods.h"

#include "base/length.h"

const char *const exchange_combine_words[NUM_COMBINES + 1] = {
    [COMBINE_UPDATED] = "updated",
    [COMBINE_BESIDE] = "beside",
};
const char *const exchange_memory_words[NUM_MEMORIES + 1] = {
    [MEMORY_ON] = "on",
    [MEMORY_OFF] = "off",
};

// clang-format off
#define AT(name)       .member = offsetof(struct exchange, name)
#define COUNT(name)    .kind = PARAMETER_COUNT, AT(name)
#define SHARE(name)    .kind = PARAMETER_SHARE, AT(name)
#define WORD(name)     .kind = PARAMETER_WORD, AT(name)
#define OPTIONAL(what) .is_optional = true, .fallback = (what)

#define PERIOD  { "H", "Steps from one average of all ranks to the next.", COUNT(period), .min = 1, .max = 1 << 24 }
#define KEPT    { "R", "Share of the elements that are sent, above 0 and up to 1.", SHARE(share) }
#define GRAPH   .doc = "Graph of the ranks that average with each other.", WORD(graph), .words = mixing_graph_words
#define COMBINE { "combine", "Which weights are averaged: the updated ones, or those at the start of the " \
                  "step, which can overlap with the passes.", WORD(combine), .words = exchange_combine_words, \
                  OPTIONAL(COMBINE_UPDATED) }
#define MEMORY  { "memory", "Whether elements that are left out are added to the next message (error feedback).", \
                  WORD(memory), .words = exchange_memory_words, OPTIONAL(MEMORY_ON) }
#define GROUP(absent) { "group", "Number of neighbouring ranks that sum by all-reduce and act as one; 0: the " \
                  "ranks of a node.", COUNT(group), .max = 1 << 24, OPTIONAL(absent) }

/* A row of a robust method: its name, its rule and its texts. */
#define ROBUST(word, its_rule, what, from, differs) \
    { .name = word, .tried = word, .form = word "[:F]", .summary = what, .source = from, .changes = differs, \
      .parameters = { { "F", "Number of hostile ranks that the rule must tolerate; absent: the " \
                             "largest possible.", COUNT(hostile), \
                        .max = 1 << 24, OPTIONAL(-1), .is_bare = true } }, \
      .accepts = robust_accepts, .phases = robust_phases, .rule = &(its_rule) }

const struct exchange_method exchange_methods[] = {
    { .name = "allreduce", .tried = "allreduce", .form = "allreduce",
      .summary = "The mean of all ranks' gradients on every rank, by the library's fastest "
                 "algorithm.",
      .source = "Patarasuk and Yuan 2009; the default",
      .phases = all_reduce_phases },
    { .name = "ring", .tried = "ring", .form = "ring",
      .summary = "All-reduce by a ring: bandwidth does not depend on n, latency is 2(n-1) hops.",
      .source = "Patarasuk and Yuan 2009",
      .phases = ring_phases },
    { .name = "tree", .tried = "tree", .form = "tree",
      .summary = "All-reduce up and down a binary tree: 2 log2 n hops, each with the whole buffer.",
      .source = "Thakur, Rabenseifner and Gropp 2005, section 4.5 (reduce and broadcast)",
      .phases = tree_phases },
    { .name = "hierarchical", .tried = "hierarchical", .form = "hierarchical",
      .summary = "All-reduce inside each node, between nodes and inside again.",
      .source = "Goyal et al. 2017, section 4",
      .parameters = { GROUP(0) }, .accepts = hierarchical_accepts, .phases = hierarchical_phases },
    { .name = "ps", .tried = "ps:1", .form = "ps:K",
      .summary = "K of the ranks are servers: each sums an equal part of the gradients and sends "
                 "it back; the servers' links are the bottleneck.",
      .source = "Li et al. 2014, Parameter Server",
      .parameters = { { "K", "Number of ranks that also are servers.", COUNT(servers), .min = 1, .max = 1 << 24 } },
      .accepts = server_accepts, .phases = server_phases },
    { .name = "async", .tried = "async", .form = "async[:S]",
      .summary = "A parameter server for which no step waits: gradients are applied S steps late.",
      .source = "Agarwal and Duchi 2011, delayed gradients; bounded as in Ho et al. 2013 (SSP)",
      .changes = "each step applies the gradients that were computed S steps earlier",
      .parameters = { { "S", "Steps by which gradients are late; 1 when absent.", COUNT(staleness),
                        .min = 1, .max = 64, OPTIONAL(1), .is_bare = true },
                      { "servers", "Number of ranks that also are servers.", COUNT(servers), .min = 1,
                        .max = 1 << 24, OPTIONAL(1) } },
      .accepts = server_accepts, .phases = server_phases },
    { .name = "gossip", .tried = "gossip:one-peer:combine=beside", .form = "gossip:ring|grid|exp|one-peer",
      .summary = "Each rank averages its weights with those of a few neighbours: decentralised SGD.",
      .source = "Lian et al. 2017; one-peer: Assran et al. 2019, Ying et al. 2021",
      .changes = "ranks average their weights only with neighbours, so their weights differ",
      .object = EXCHANGE_WEIGHTS,
      .parameters = { { "GRAPH", GRAPH }, COMBINE, GROUP(1) },
      .accepts = gossip_accepts, .phases = gossip_phases },
    { .name = "local", .tried = "local:8", .form = "local:H",
      .summary = "Each rank trains by itself, and all ranks average their weights every H steps: "
                 "Local SGD, FedAvg.",
      .source = "McMahan et al. 2017; Stich 2019",
      .changes = "ranks train separately and average their weights only every H steps",
      .object = EXCHANGE_WEIGHTS, .parameters = { PERIOD }, .phases = local_phases },
    { .name = "pga", .tried = "pga:6", .form = "pga:H",
      .summary = "Gossip that averages over all ranks in every H-th step.",
      .source = "Chen et al. 2021, Gossip-PGA, algorithm 1",
      .changes = "ranks average their weights with neighbours, and with all ranks only every H steps",
      .object = EXCHANGE_WEIGHTS,
      .parameters = { PERIOD, { "graph", GRAPH, OPTIONAL(MIXING_ONE_PEER) }, COMBINE, GROUP(1) },
      .accepts = gossip_accepts, .phases = periodic_phases },
    { .name = "aga", .tried = "aga:4", .form = "aga:H",
      .summary = "As pga, with an H that grows in inverse proportion to the loss.",
      .source = "Chen et al. 2021, Gossip-AGA, algorithm 2",
      .changes = "ranks average their weights with neighbours, and with all ranks less and less often",
      .object = EXCHANGE_WEIGHTS,
      .parameters = { PERIOD, { "graph", GRAPH, OPTIONAL(MIXING_ONE_PEER) }, COMBINE, GROUP(1) },
      .accepts = gossip_accepts, .phases = periodic_phases, .adapts = true },
    { .name = "qsgd", .tried = "qsgd:8", .form = "qsgd:BITS",
      .summary = "Gradients rounded at random to 2^(BITS-1) - 1 levels of each sign, unbiased.",
      .source = "Alistarh et al. 2017, QSGD",
      .changes = "gradients are rounded at random to few levels, which adds to their noise",
      .parameters = { { "BITS", "Bits of each element that is sent, its sign included.", COUNT(bits),
                        .min = 2, .max = 16 } },
      .phases = gathered_phases, .compressor = &quantiser },
    { .name = "topk", .tried = "topk:0.01", .form = "topk:R",
      .summary = "Only the largest gradient elements, a share R of all, are sent; the others are "
                 "added to later messages.",
      .source = "Stich, Cordonnier and Jaggi 2018, MEM-SGD",
      .changes = "only the largest gradients are sent, the others later or never",
      .parameters = { KEPT, MEMORY }, .phases = gathered_phases, .compressor = &largest_elements },
    { .name = "ef21", .tried = "ef21:0.01", .form = "ef21:R",
      .summary = "Only the largest changes of the gradient since the last message are sent: EF21 with top-k.",
      .source = "Richtarik, Sokolov and Fatkhullin 2021, EF21",
      .changes = "only the largest changes of gradients are sent, so the mean is late",
      .parameters = { KEPT }, .phases = gathered_phases, .compressor = &largest_changes },
    { .name = "neolithic", .tried = "neolithic:0.01", .form = "neolithic:R",
      .summary = "Top-k in several rounds; each round sends the largest elements that the earlier "
                 "rounds left out.",
      .source = "Huang et al. 2022, NEOLITHIC, algorithm 2 (fast compressed communication)",
      .changes = "only the largest gradients are sent, in rounds that leave out less and less",
      .parameters = { KEPT, { "rounds", "Messages in a step.", COUNT(rounds), .min = 1,
                              .max = MAX_EXCHANGE_PHASES, OPTIONAL(2) }, MEMORY },
      .phases = gathered_phases, .compressor = &largest_in_rounds },
    { .name = "powersgd", .tried = "powersgd:4", .form = "powersgd:R",
      .summary = "Two factors of rank R instead of each gradient matrix, summed by all-reduce.",
      .source = "Vogels, Karimireddy and Jaggi 2019, PowerSGD, algorithm 1",
      .changes = "gradient matrices are sent as products of rank R, the rest later",
      .parameters = { { "R", "Rank of the factors.", COUNT(rank), .min = 1, .max = 1 << 14 }, MEMORY },
      .phases = power_phases, .compressor = &low_rank },
    ROBUST("median", coordinate_median,
           "The median of each gradient element over the ranks; F < n/2 ranks may be hostile.",
           "Yin et al. 2018, algorithm 1, option I",
           "the median of each gradient element replaces the mean"),
    ROBUST("trimmed", trimmed_mean,
           "The mean of each gradient element without the F largest and the F smallest, F < n/2.",
           "Yin et al. 2018, algorithm 1, option II",
           "each gradient element's F largest and F smallest values are left out of the mean"),
    ROBUST("krum", krum,
           "The one gradient that is closest to its n - F - 2 nearest neighbours; n > 2 F + 2.",
           "Blanchard et al. 2017, section 4",
           "one rank's gradient, the one closest to its neighbours, replaces the mean"),
    ROBUST("geomedian", geometric_median,
           "The point with the least sum of distances to all gradients; F < n/2.",
           "Chen, Su and Xu 2017; Pillutla, Kakade and Harchaoui 2022, RFA (smoothed Weiszfeld)",
           "the geometric median of the ranks' gradients replaces their mean"),
};
// clang-format on
const int num_exchange_methods = LENGTH(exchange_methods);
