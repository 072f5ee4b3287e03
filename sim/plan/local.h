/* sim/plan/local.h - what one rank runs: the op lists of a layer, the embedding and the head, their
 * sizes divided by the axes and their marks replaced by collectives. Cost model and executor both
 * read these lists. */
#ifndef SIM_PLAN_LOCAL_H
#define SIM_PLAN_LOCAL_H

#include "models/layer.h"
#include "sim/plan/share.h"

struct local_ops {
    struct ops forward;
    struct ops backward; /* B and W ops, in issue order */
};

/* One rank's sizes for a microbatch of share.microbatch sequences of `seq` tokens. */
struct layer_dims local_dims(struct rank_share share, const struct model *model, double seq);

/* The lists of one rank from a forward list of its sizes, which still has its marks. `overlap_tp`
 * lets a collective run beside the weight gradient that follows it. */
struct local_ops local_lists(struct rank_share share, struct ops forward,
                             const struct layer_options *options, bool overlap_tp,
                             struct arena *arena);
struct local_ops local_layer(struct rank_share share, const struct model *model, double seq,
                             const struct layer_options *options, bool overlap_tp,
                             struct arena *arena);
struct local_ops local_embedding(struct rank_share share, const struct model *model, double seq,
                                 const struct layer_options *options, bool overlap_tp,
                                 struct arena *arena);
struct local_ops local_head(struct rank_share share, const struct model *model, double seq,
                            const struct layer_options *options, bool overlap_tp,
                            struct arena *arena);

/* Parameters one tensor rank holds. */
double local_layer_parameters(struct rank_share share, const struct model *model);
double local_embedding_parameters(struct rank_share share, const struct model *model);
/* Final norm and head; a tied head shares the embedding's table, which the last chunk's
 * stage holds a copy of when it is not the first's. */
double local_head_parameters(struct rank_share share, const struct model *model);

#endif
