/* sim/plan/local.h - the op lists (sequences of operations) that one rank runs for a layer, the
 * embedding and the head, with sizes divided by the axes and with marks (placeholders for
 * communication) replaced by collectives. The cost model and the executor both read these lists. */
#ifndef SIM_PLAN_LOCAL_H
#define SIM_PLAN_LOCAL_H

#include "models/layer.h"
#include "sim/plan/share.h"

struct local_ops {
    struct ops forward;
    struct ops backward; /* ops of input gradients (B) and weight gradients (W), in issue order */
};

/* The tokens and experts of a group of expert ranks, each of which has `tokens` tokens. */
struct routed expert_routed(struct rank_share share, const struct model *model, double tokens);

/* One rank's sizes for a microbatch of share.microbatch sequences of `seq` tokens. */
struct layer_dims local_dims(struct rank_share share, const struct model *model, double seq);

/* One rank's lists from a forward list with the rank's sizes and with marks. `overlap_tp` lets a
 * collective overlap the weight gradient that follows it. */
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
/* A module that predicts a later token, without embedding and head. */
struct local_ops local_later(struct rank_share share, const struct model *model, double seq,
                             const struct layer_options *options, bool overlap_tp,
                             struct arena *arena);

/* Number of parameters that one tensor rank holds. */
double local_layer_parameters(struct rank_share share, const struct model *model);
double local_embedding_parameters(struct rank_share share, const struct model *model);
/* Parameters of the final norm and the head. A tied head shares the embedding's table; if the last
 * chunk is on another stage than the first, that stage holds a copy of the table. Modules that
 * predict later tokens need a copy too. */
double local_head_parameters(struct rank_share share, const struct model *model);

#endif
