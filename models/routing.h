/* models/routing.h - how unevenly a router spreads tokens over experts.
 *
 * All ranks of an expert group wait for the one with most rows, so work and messages of a layer are
 * the mean's times the rank factor: the largest load of a rank over the mean. Memory follows the
 * largest load that any layer ever has. The factors are expectations. */
#ifndef MODELS_ROUTING_H
#define MODELS_ROUTING_H

/* Equal loads; tokens that choose at random among equal experts; experts whose popularity differs;
 * a given rank factor. */
enum routing_kind { ROUTING_BALANCED, ROUTING_RANDOM, ROUTING_SKEWED, ROUTING_FACTOR };
extern const char *const routing_names[]; /* NULL-terminated */

/* All 0: balanced. */
struct routing {
    int kind;      /* enum routing_kind */
    double cv;     /* skewed: standard deviation of popularity over its mean, lognormal */
    double factor; /* factor: the largest load of a rank over the mean; >= 1 */
};

/* A token chooses topk experts, all within topk_groups groups; 0 groups: any experts. */
struct expert_choice {
    int experts, topk, groups, topk_groups;
};

/* Mean number of parts that a token reaches when the experts are divided into `parts` equal parts
 * and it chooses at random. */
double routing_distinct(const struct expert_choice *choice, double parts);

/* The tokens of a layer and the experts they are spread over; each rank holds experts / ranks. */
struct routed {
    double tokens; /* of one layer's microbatch, of all ranks together */
    double experts, topk, ranks;
};

/* The largest load of a rank over the mean; 1 or more. */
double routing_rank_factor(const struct routing *routing, const struct routed *routed);
/* The largest load of a single expert over the mean. */
double routing_expert_factor(const struct routing *routing, const struct routed *routed);
/* The largest load that a rank has in any of `layers` layers, whose loads are independent. */
double routing_peak_factor(const struct routing *routing, const struct routed *routed,
                           double layers);

/* Rows that each expert takes from `tokens` tokens of one rank when it takes no more than
 * `capacity` times the mean (Megatron Core, moe/moe_utils.py: get_capacity). */
double routing_capacity_rows(double tokens, double experts, double topk, double capacity);
/* The share of rows that find their expert full; `routed` is one rank's tokens. */
double routing_dropped_share(const struct routing *routing, const struct routed *routed,
                             double capacity);

#endif
