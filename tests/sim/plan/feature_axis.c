#include "tests/sim/plan/feature_axis.h"

#include "base/length.h"

static void shard(struct rank_share share, const struct model *model, struct layer_dims *dims)
{
    (void)model;
    dims->ffn /= share.degree[AXIS_FEATURE];
}

/* After each activation, adds an all-reduce of its rows over the feature ranks. */
static bool lower(struct rank_share share, struct ops span, struct ops *out, short *same_as)
{
    (void)same_as;
    struct op op = span.at[0];
    op.after = out->count - 1;
    out->at[out->count++] = op;
    if (share.degree[AXIS_FEATURE] == 1)
        return true;
    struct op sum = { .kind = OP_ALL_REDUCE,
                      .pass = op.pass,
                      .stream = axis_stream(AXIS_FEATURE),
                      .dtype = op.dtype,
                      .name = "feature_sum",
                      .variant = "",
                      .sum = { NO_ID, NO_ID, NO_ID },
                      .kernels = 1,
                      .comm_bytes = op.m * op.n * dtype_bytes(op.dtype),
                      .after = out->count - 1 };
    out->at[out->count++] = sum;
    return true;
}

static bool divides_ffn(const struct plan_case *of, struct err *err)
{
    int ranks = of->plan->degree[AXIS_FEATURE];
    return of->model->ffn % ranks == 0 ||
           err_set(err, ERR_INFEASIBLE, "xp", "ffn %d is not a multiple of xp %d", of->model->ffn,
                   ranks);
}

static int next_degree(const struct axis_case *of, int degree)
{
    return degree == 0 ? 1 : degree == 1 && of->num_gpus % 2 == 0 ? 2 : 0;
}

static const struct plan_token words[] = {
    { "xp", "xpN", "Feature ranks: each holds a slice of the feed-forward.", TOKEN_NUMBER,
      TOKEN_MEMBER(further_degrees[0]), .min = 1, .fallback = 1 },
};

static const struct plan_rule rules[] = {
    { "feature", "xp divides the feed-forward's width.", divides_ffn },
};

const struct axis feature_axis = {
    .name = "xp",
    .summary = "Each rank holds a slice of the feed-forward; activations are summed.",
    .source = "none",
    .place = 15, /* the axis is between those of tensor and context ranks */
    .words = words,
    .num_words = LENGTH(words),
    .rules = rules,
    .num_rules = LENGTH(rules),
    .next_degree = next_degree,
    .shard = shard,
    .marks = MARK(OP_ACTIVATION),
    .lower = lower,
};
