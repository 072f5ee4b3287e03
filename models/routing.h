/* models/routing.h - how unevenly a router spreads tokens over experts.
 *
 * A load is the number of rows (tokens times chosen experts) that a rank or expert gets. All ranks
 * of an expert group wait for the one with most rows. So a layer's time and messages are those of
 * the mean load times the rank factor: the largest load of a rank divided by the mean load. Memory
 * follows the largest load in any layer. The factors are expected values. */
#ifndef MODELS_ROUTING_H
#define MODELS_ROUTING_H

#include <stdbool.h>

/* The kinds in order: equal loads, of experts that a token chooses at random; tokens choose at
 * random among equally popular experts; experts differ in popularity; the rank factor is given;
 * equal loads, of experts that tokens get in turn: the i-th token of a rank gets the experts i k to
 * i k + k - 1, modulo their number. With ROUTING_IN_TURN no router runs. */
enum routing_kind {
    ROUTING_BALANCED,
    ROUTING_RANDOM,
    ROUTING_SKEWED,
    ROUTING_FACTOR,
    ROUTING_IN_TURN
};
extern const char *const routing_names[]; /* NULL-terminated */

/* All 0: balanced. */
struct routing {
    int kind;  /* enum routing_kind */
    double cv; /* skewed: the experts' lognormal popularity has this standard deviation, divided by
                  its mean */
    double factor; /* factor: the largest load of a rank divided by the mean load; >= 1 */
};

/* Whether all experts get the same number of rows. */
bool routing_is_even(const struct routing *routing);

/* A token chooses topk experts, all within topk_groups groups; 0 groups: any experts. */
struct expert_choice {
    int experts, topk, groups, topk_groups;
    bool in_turn; /* tokens get neighbouring experts in turn, without regard to groups */
};

/* Mean number of parts that a token reaches when the experts are divided into `parts` equal
 * parts. */
double routing_distinct(const struct expert_choice *choice, double parts);

/* The tokens of a layer and the experts they are spread over; each rank holds experts / ranks. */
struct routed {
    double tokens; /* tokens of one microbatch over all ranks */
    double experts, topk, ranks;
};

/* The largest load of a rank divided by the mean load; 1 or more. */
double routing_rank_factor(const struct routing *routing, const struct routed *routed);
/* The largest load of a single expert divided by the mean load of an expert. */
double routing_expert_factor(const struct routing *routing, const struct routed *routed);
/* The largest load that a rank has in any of `layers` layers, divided by the mean load. Layers'
 * loads are taken as independent. */
double routing_peak_factor(const struct routing *routing, const struct routed *routed,
                           double layers);

/* Largest number of rows that each expert takes from one rank's `tokens` tokens when its capacity
 * factor is `capacity`, that is `capacity` times the mean (Megatron Core, moe/moe_utils.py:
 * get_capacity). */
double routing_capacity_rows(double tokens, double experts, double topk, double capacity);
/* The share of rows that are dropped because their expert is full; `routed` describes one rank's
 * tokens. */
double routing_dropped_share(const struct routing *routing, const struct routed *routed,
                             double capacity);

#endif
