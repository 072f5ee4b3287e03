/* The times of messages between pipeline stages. A boundary is the place between two neighbouring
 * stages, which all messages between them cross. */
#include "sim/engine/evaluation.h"

#include "sim/cost/group_links.h"

/* Time of a message of `rows` rows for each token. It is a whole activation, or each tensor rank
 * sends its share and the receivers gather the shares within their node. */
static double message_s(const struct evaluation *w, const struct rank_group *stages, bool crosses,
                        double rows)
{
    const struct plan *plan = w->plan;
    double element_bytes = precision_bytes(plan->precision);
    double bytes = rows * element_bytes * w->pieces->tokens * w->model->hidden;
    struct comm_group pair = network_pair(w->system, stages, crosses);
    if (plan->sp)
        return point_to_point_s(&pair, bytes / plan->tp);
    if (!w->system->stack.pipeline.scatter_gather_p2p || plan->tp == 1)
        return point_to_point_s(&pair, bytes);
    struct comm_group tensor = network_plan_group(w->system, plan, TENSOR_RANKS);
    return point_to_point_s(&pair, bytes / plan->tp) +
           collective_s(&tensor, COLLECTIVE_ALL_GATHER, bytes);
}

/* If modules for later tokens are not in the head's chunk, their message to the head contains the
 * blocks' rows and then their own (Megatron Core, gpt_model.py). With several chunks per stage
 * other messages cross that boundary too. Returns how much longer the modules' message takes than
 * those other messages. */
static double widen_last_message(const struct evaluation *w, struct boundary *boundaries)
{
    struct placement placement = plan_placement(w->plan);
    int last = w->plan->mtp_place == MTP_BESIDE
                   ? NO_BOUNDARY
                   : placement_boundary(placement, plan_later_chunk(w->plan));
    if (last == NO_BOUNDARY)
        return 0;
    struct rank_group stages = plan_group(w->given, PIPELINE_RANKS);
    double last_s =
        message_s(w, &stages, boundaries[last].wire == WIRE_NETWORK, 1.0 + w->model->mtp);
    double more_s = last_s - boundaries[last].message_s;
    if (w->plan->vpp > 1)
        return more_s;
    boundaries[last].message_s = last_s;
    return 0;
}

/* There are at most two kinds of boundaries, inside a node and across nodes. Each kind is timed
 * once; larger messages are timed separately. */
void evaluation_given_boundaries(const struct evaluation *w, struct boundary *boundaries)
{
    struct boundary sorts[2] = { { -1, WIRE_NODE }, { -1, WIRE_NETWORK } };
    struct rank_group stages = plan_group(w->given, PIPELINE_RANKS);
    boundaries[0] = (struct boundary){ 0, WIRE_NODE };
    for (int stage = 0; w->given->pp > 1 && stage < w->given->pp; stage++) {
        bool crosses = network_boundary_crosses(w->system, &stages, stage);
        if (sorts[crosses].message_s < 0)
            sorts[crosses].message_s = message_s(w, &stages, crosses, 1);
        boundaries[stage] = sorts[crosses];
    }
}

/* A folded plan replaces a mirrored one (DualPipe) by half as many stages. Its stage s stands for
 * stages s and pp - 1 - s of the given plan, so its boundary is the slower one of the boundaries
 * after these two stages. The boundary between the two middle stages is already at its index. */
static void fold_boundaries(const struct evaluation *w, struct boundary *boundaries)
{
    for (int stage = 0; stage < evaluation_turn(w); stage++) {
        struct boundary far = boundaries[w->given->pp - 2 - stage];
        if (far.message_s > boundaries[stage].message_s)
            boundaries[stage] = far;
    }
}

double fill_boundaries(const struct evaluation *w, struct boundary *boundaries)
{
    evaluation_given_boundaries(w, boundaries);
    if (evaluation_is_folded(w))
        fold_boundaries(w, boundaries);
    return widen_last_message(w, boundaries);
}

double evaluation_lag_s(const struct evaluation *w, int stage)
{
    return w->blocking ? 0 : w->boundaries[stage].message_s;
}

/* Time of a message between a chunk and the next. */
static inline double message_behind_s(const struct evaluation *w, struct placement placement,
                                      int chunk)
{
    int boundary = placement_boundary(placement, chunk);
    if (boundary == NO_BOUNDARY && evaluation_is_folded(w))
        boundary = evaluation_turn(w);
    double more_s = placement_is_last_message(placement, chunk) ? w->last_more_s : 0;
    return boundary == NO_BOUNDARY ? 0 : w->boundaries[boundary].message_s + more_s;
}

struct chunk_messages evaluation_messages(const struct evaluation *w, int chunk)
{
    struct placement placement = plan_placement(w->plan);
    struct chunk_messages messages = { 0 };
    if (!placement_has_head(placement, chunk))
        messages.down_s = message_behind_s(w, placement, chunk);
    if (!placement_has_embedding(placement, chunk))
        messages.up_s = message_behind_s(w, placement, chunk - 1);
    return messages;
}
