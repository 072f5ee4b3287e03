/* search/space.h - candidate plans in a fixed order.
 *
 * A space is a base plan and a list of values for each searched axis. A candidate is one value of
 * each such that tp x cp x pp x dp is the number of GPUs; candidates are ordered by rank order, tp,
 * cp, ep, further axes (sim/plan/axis.h), etp, sp, microbatch, pp, vpp, split, recompute and zero,
 * the last fastest, and no two have the same layout. By default
 *
 *   order       the base's; with `placement` every order that moves ranks
 *   tp          divisors of the GPUs up to 64
 *   cp          of 1 2 4 8 those that divide the GPUs
 *   ep          divisors of the experts; 1 without experts
 *   etp         1, and tp where that is over 1
 *   sp          off, and on where tp is over 1
 *   microbatch  1 2 4 8 16
 *   pp          divisors of the GPUs
 *   vpp, stages the splits of search/splits.h; one even chunk where there is none
 *   recompute   none selective full; where full does not fit, full:K stands for it, as both take
 *               as long: with the least K that fits, or else that up to which memory falls
 *   zero        0 1 2 3
 *
 * and dp takes the remaining GPUs. A fixed word replaces its list by its one value, which the list
 * need not contain; forbidden values are removed. */
#ifndef SEARCH_SPACE_H
#define SEARCH_SPACE_H

#include "search/orders.h"
#include "search/splits.h"
#include "search/words.h"
#include "sim/cost/hardware.h"
#include "sim/engine/simulate.h"
#include "sim/plan/state_share.h"

struct values {
    int *at;
    int count;
};

/* Stands among the values of etp for that of tp. */
enum { ETP_IS_TP = 0 };

struct space {
    const struct model *model;
    int num_gpus;
    struct plan base; /* the fixed words are in it */
    const char *name; /* in words */
    struct rank_orders orders;
    union {
        struct values degree[MAX_AXES]; /* as in struct plan; none of dp */
        struct {
            struct values tp, cp, ep, pp;
        };
    };
    struct values etp, sp, microbatch, recompute, zero; /* etp: or ETP_IS_TP */
    int dp, vpp;                                        /* 0: not fixed */
    enum chunk_space chunks;
    struct splits *splits;   /* [pp.count] */
    const struct plan *also; /* its split is one of its pp; NULL: none */
    bool sp_is_fixed;
    bool splits_attention; /* cp is searched */
    bool groups_layers;    /* full:K may stand for full */
    struct forbidden forbidden;
    int pipeline_zero; /* highest ZeRO stage with a pipeline */
    bool fits_gpus; /* false: no tp, cp and pp divide the GPUs; the first of each stand for all */
};

struct space_request {
    const struct model *model; /* its batch is that of the run */
    int num_gpus;
    const struct plan *base;
    const char *fix, *forbid; /* layout words, or NULL */
    bool placement;           /* all rank orders, unless one is fixed */
    /* Without a flash kernel for attention, cp stays at the base's value. NULL: a flash kernel is
     * assumed. */
    const struct system *system;
    enum chunk_space chunks;
    /* A plan whose own values join the lists and the splits, so that the space has it where its
     * other words are the base's; NULL: none. */
    const struct plan *also;
};

/* Lists live in the arena. False when a word is unknown: where = the word. */
bool space_new(const struct space_request *request, struct arena *arena, struct space *out,
               struct err *err);

/* All choices of a degree for each axis but data with ranks of its own, in the order of `axes`, the
 * last fastest. space_degrees sets them and dp; false: they do not divide the GPUs. */
size_t space_num_degrees(const struct space *space);
bool space_degrees(const struct space *space, size_t number, struct plan *out);

/* Lists the splits anew, after the space's model, pp, vpp or the base's chunks were changed. */
void space_list_splits(struct space *space, struct arena *arena);

/* False when no candidate can keep the rules, because no degrees divide heads, layers and batch. It
 * walks no candidates. */
bool space_may_have_plans(const struct space *space);

/* The peak of a candidate's memory in bytes. When it is over `most_bytes`, the candidate may become
 * its full:K. */
double space_peak_bytes(const struct space *space, struct evaluator *evaluator, double most_bytes,
                        struct plan *plan);
/* A lower bound of it in any rank order. */
double space_least_bytes(const struct space *space, struct evaluator *evaluator, double most_bytes,
                         const struct plan *plan);

/* Lower bounds of the peaks of one block's candidates, by zero, in any rank order. Begin with 0. */
struct block_floors {
    double bytes[NUM_ZERO_STAGES]; /* 0: not known yet */
};
/* The floor of a candidate, which must keep the rules. */
double space_floor_bytes(struct block_floors *floors, struct evaluator *evaluator,
                         const struct plan *plan);

/* What a walk calls. */
struct visitor {
    /* Gets a candidate that keeps every rule; returns false to end the walk. */
    bool (*visit)(void *context, const struct plan *plan);
    /* Gets `count` consecutive candidates whose first broken rule is `rule`. */
    void (*exclude)(void *context, const struct plan_rule *rule, double count);
    void *context;
};

/* A block is all candidates that share order, the degrees of all axes, etp, sp and microbatch; some
 * are empty. False when the visitor ended the walk. */
size_t space_num_blocks(const struct space *space);
bool space_walk_block(const struct space *space, size_t block, const struct visitor *visitor);

/* The same in two steps. A family is the candidates of a block with one split: they differ in
 * recompute and zero alone, and a visitor meets its first, whether or not that one keeps rules of
 * recompute or zero. Families that break another rule are excluded as a whole. */
bool space_walk_families(const struct space *space, size_t block, const struct visitor *visitor);
double space_family_size(const struct space *space); /* candidates in each */
/* A family's first candidate; false when the space has no such family. A block's number is made of
 * indices into the lists in the order above, pp's the fastest; a split's is split_number. */
bool space_family(const struct space *space, size_t block, int split, struct plan *first);
bool space_walk_family(const struct space *space, const struct plan *first,
                       const struct visitor *visitor);

/* The blocks of the first order come first: space_num_sites of them. Each represents the blocks
 * that differ from it only in order, as no rule depends on the order. space_site_orders returns the
 * number of its orders, at most MAX_RANK_ORDERS; 0: the site is empty. */
size_t space_num_sites(const struct space *space);
int space_site_orders(const struct space *space, size_t site, int orders[][MAX_AXES]);

/* A split among those of its pp; rises with vpp. */
static inline int split_number(const struct split *split)
{
    return split->vpp * NUM_SPLIT_KINDS + (int)split->kind;
}
/* Whether the plan's chunks have these layers; not asked of a given list. */
bool split_is_of(const struct split *split, const struct plan *plan);
/* Of a visited family. */
int space_split_of(const struct space *space, const struct plan *plan);

/* For methods that pick candidates one by one: whether the pp at this index has such a split;
 * and the first rule that a candidate breaks, or NULL. */
bool space_has_split(const struct space *space, int pp_index, int split);
const struct plan_rule *space_check(const struct space *space, const struct plan *plan);

#endif
