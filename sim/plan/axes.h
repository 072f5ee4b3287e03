/* sim/plan/axes.h - what the axis files provide to the tables in axes.c and rules.c; nothing else
 * includes it. */
#ifndef SIM_PLAN_AXES_H
#define SIM_PLAN_AXES_H

#include "sim/plan/axis.h"

int tensor_degree(const struct plan *plan);
void tensor_shard(struct rank_share share, const struct model *model, struct layer_dims *dims);
bool tensor_lower(struct rank_share share, struct ops span, struct ops *out, short *same_as);
bool tensor_divides_heads(const struct plan_case *of, struct err *err);
bool tensor_fits_kv_heads(const struct plan_case *of, struct err *err);
bool tensor_divides_ffn(const struct plan_case *of, struct err *err);
bool tensor_divides_hidden(const struct plan_case *of, struct err *err);
bool tensor_divides_sequence(const struct plan_case *of, struct err *err);

int context_degree(const struct plan *plan);
void context_shard(struct rank_share share, const struct model *model, struct layer_dims *dims);
int context_span(struct rank_share share, const struct ops *ops, int i);
bool context_lower(struct rank_share share, struct ops core, struct ops *out, short *same_as);
bool context_divides_sequence(const struct plan_case *of, struct err *err);

int expert_degree(const struct plan *plan);
void expert_shard(struct rank_share share, const struct model *model, struct layer_dims *dims);
bool expert_lower(struct rank_share share, struct ops span, struct ops *out, short *same_as);
bool expert_divides(const struct plan_case *of, struct err *err);
bool expert_fits_ranks(const struct plan_case *of, struct err *err);
bool expert_sees_all_rows(const struct plan_case *of, struct err *err);

int data_degree(const struct plan *plan);
bool data_divides_batch(const struct plan_case *of, struct err *err);
bool data_can_shard(const struct plan_case *of, struct err *err);
bool data_can_exchange(const struct plan_case *of, struct err *err);

int pipeline_degree(const struct plan *plan);
bool pipeline_holds_all_layers(const struct plan_case *of, struct err *err);
bool pipeline_can_interleave(const struct plan_case *of, struct err *err);
bool pipeline_has_schedule(const struct plan_case *of, struct err *err);

/* "tp16", for the `where` of an error. */
struct token_text {
    char at[32];
};
struct token_text token_text(const char *name, int value);

#endif
