/* search/space.h - candidate plans in a fixed order.
 *
 * A space is a base plan and a list of values for each searched axis. A candidate has one value of
 * each list, such that tp x cp x pp x dp is the number of GPUs. Candidates are ordered by rank
 * order, tp, cp, ep, further axes (sim/plan/axis.h), etp, sp, microbatch, pp, vpp, split, recompute
 * and zero, where the last varies fastest. No two candidates have the same layout. By default
 *
 *   order        the base's; with `placement` every order that changes the placement
 *   tp           divisors, up to 64, of the number of GPUs
 *   cp           1 2 4 8, if they divide the GPUs
 *   ep           divisors of the experts; 1 without experts
 *   etp          1, and tp where tp is over 1
 *   sp           off, and on where tp is over 1
 *   microbatch   1 2 4 8 16
 *   pp           divisors of the GPUs
 *   vpp, stages  the splits of search/splits.h (divisions of layers over chunks), or one even split
 *                if there is none
 *   recompute    none selective full; where full does not fit, full:K (the input of every K-th
 *                layer is kept) replaces it, as both take equally long; K is the least with which
 *                the plan fits, or else the K with the least memory
 *   zero         0 1 2 3
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

/* This value stands for an etp that equals tp. */
enum { ETP_IS_TP = 0 };

struct space {
    const struct model *model;
    int num_gpus;
    struct plan base; /* includes the fixed words */
    const char *name;
    struct rank_orders orders;
    union {
        struct values degree[MAX_AXES]; /* degrees per axis; dp has no list */
        struct {
            struct values tp, cp, ep, pp;
        };
    };
    struct values etp, sp, microbatch, recompute,
        zero;    /* values of the words; etp may hold ETP_IS_TP */
    int dp, vpp; /* fixed values; 0: not fixed */
    enum chunk_space chunks;
    double head_layers;    /* model_head_layers */
    struct splits *splits; /* [pp.count] */
    /* [combination of the degrees of all axes but pp][pp.count]: whether they divide the GPUs */
    bool *divides;
    size_t num_divides;      /* number of these combinations */
    const struct plan *also; /* a plan that the space also contains, whose split is listed under its
                                pp; NULL: none */
    bool sp_is_fixed, mtp_is_fixed;
    bool splits_attention; /* whether cp is searched */
    bool groups_layers;    /* whether full:K may replace full */
    /* selective recompute represents all sets of modules; the fastest set that fits is chosen
     * (search/parts.h) */
    bool picks_modules;
    struct forbidden forbidden;
    int pipeline_zero; /* highest ZeRO stage that is tried with a pipeline */
    /* false: no tp, cp and pp divide the GPUs, and only the first value of each list is examined */
    bool fits_gpus;
};

struct space_request {
    const struct model *model; /* its batch is that of the run */
    int num_gpus;
    const struct plan *base;
    const char *fix, *forbid; /* layout words, or NULL */
    bool placement;           /* all rank orders, unless one is fixed */
    /* If the system has no flash attention kernel, cp keeps the base's value. NULL: a flash kernel
     * is assumed. */
    const struct system *system;
    enum chunk_space chunks;
    bool recompute_modules; /* as in struct search_request */
    /* A plan whose values are added to the lists and splits. The space contains it if its remaining
     * words equal the base's. NULL: none. */
    const struct plan *also;
};

/* Lists live in the arena. False when a word is unknown: where = the word. */
bool space_new(const struct space_request *request, struct arena *arena, struct space *out,
               struct err *err);

/* Number of combinations of degrees of all axes except dp and the axes folded over others (such as
 * ep). They are in the order of `axes`, the last axis fastest. space_degrees sets one combination
 * and dp; false: the degrees do not divide the GPUs. */
size_t space_num_degrees(const struct space *space);
bool space_degrees(const struct space *space, size_t number, struct plan *out);

/* Lists the splits and divisors anew, after the space's model, pp, vpp or the base's chunks were
 * changed. */
void space_list_splits(struct space *space, struct arena *arena);

/* False when no candidate can keep the rules, because no degrees divide heads, layers and batch. It
 * visits no candidates. */
bool space_may_have_plans(const struct space *space);

/* Callbacks of a walk. */
struct visitor {
    /* Receives a candidate that keeps every rule; returns false to end the walk. */
    bool (*visit)(void *context, const struct plan *plan);
    /* Receives `count` consecutive candidates whose first broken rule is `rule`. */
    void (*exclude)(void *context, const struct plan_rule *rule, double count);
    void *context;
};

/* A block is the set of candidates with equal order, degrees of all axes, etp, sp and microbatch. A
 * block can be empty. False when the visitor ended the walk. */
size_t space_num_blocks(const struct space *space);
bool space_walk_block(const struct space *space, size_t block, const struct visitor *visitor);

/* The walk of a block family by family. A family is the set of candidates of a block with one
 * split; they differ only in recompute and zero. space_walk_families visits the first candidate of
 * each family, which may break rules of recompute or zero; families that break another rule are
 * excluded as a whole. space_walk_family (below) then visits the candidates of one family. */
bool space_walk_families(const struct space *space, size_t block, const struct visitor *visitor);
/* space_walk_families in two steps, between which a bound may leave out the whole block.
 * space_begin_block sets `first` to a plan of the block and returns the number of its families. 0:
 * there are none, and all candidates of the block were excluded. space_walk_begun then visits the
 * families. */
int space_begin_block(const struct space *space, size_t block, const struct visitor *visitor,
                      struct plan *first);
bool space_walk_begun(const struct space *space, size_t block, const struct plan *first,
                      const struct visitor *visitor);
double space_family_size(const struct space *space); /* candidates in each family */
/* A family's first candidate; false when the space has no such family. A block's number is made of
 * the indices into the lists of values in the order at the top of this file, with pp varying
 * fastest. `split` is a split_number. */
bool space_family(const struct space *space, size_t block, int split, struct plan *first);
bool space_walk_family(const struct space *space, const struct plan *first,
                       const struct visitor *visitor);

/* A site is a block of the first rank order. It represents all blocks that differ from it only in
 * the order, as no rule depends on the order. Blocks 0 to space_num_sites - 1 are the sites.
 * space_site_orders returns the number of a site's orders, at most MAX_RANK_ORDERS; 0: the site is
 * empty. */
size_t space_num_sites(const struct space *space);
int space_site_orders(const struct space *space, size_t site, int orders[][MAX_AXES]);

/* The number of a split among the splits of its pp. It rises with vpp. */
static inline int split_number(const struct split *split)
{
    return split->vpp * NUM_SPLIT_KINDS + (int)split->kind;
}
/* Whether the plan's chunks have the split's layers. Must not be called for a list given by the
 * user. */
bool split_is_of(const struct split *split, const struct plan *plan);
/* The split number of a visited family. */
int space_split_of(const struct space *space, const struct plan *plan);

/* For methods that pick single candidates: space_has_split checks that the pp at an index has a
 * split; space_check returns the first rule that a candidate breaks, or NULL. */
bool space_has_split(const struct space *space, int pp_index, int split);
const struct plan_rule *space_check(const struct space *space, const struct plan *plan);
/* Whether the plan's ZeRO stage keeps its rule and is supported with the plan's pipeline. The
 * result is the same for every recompute and every division into chunks. */
bool space_may_shard(const struct space *space, const struct plan *plan);

#endif
