/* Which layers each chunk of a plan holds, and whether it holds the embedding or the head. */
#include "sim/plan/holding.h"

#include "models/blocks.h"
#include "models/trained_weights.h"
#include "sim/plan/fold.h"

#include <string.h>

int chunk_first_layer(const struct plan *plan, const struct model *model, int chunk)
{
    if (!plan->chunk_layers)
        return chunk * (model->layers / plan_chunks(plan));
    int layers = 0;
    for (int i = 0; i < chunk; i++)
        layers += plan->chunk_layers[i];
    return layers;
}

/* Whether the backward runs through the blocks, for a model with one kind of block. */
static bool has_backward(const struct model *model)
{
    return model_kind(model, 0).gradient != GRADIENT_NONE;
}

bool plan_recomputes_later(const struct plan *plan)
{
    return plan->recompute == RECOMPUTE_FULL || plan->recompute == RECOMPUTE_EVERY;
}

/* Whether the chunk has the modules that predict later tokens. */
static bool has_later(const struct plan *plan, struct placement placement, int chunk)
{
    return plan->mtp_place == MTP_BESIDE ? placement_has_head(placement, chunk)
                                         : chunk == plan_later_chunk(plan);
}

struct holding chunk_holding(const struct plan *plan, const struct model *model, int chunk)
{
    struct placement placement = plan_placement(plan);
    int later = has_later(plan, placement, chunk) ? model->mtp : 0;
    struct holding held = {
        .count[PIECE_LATER] = later,
        .count[PIECE_LATER_EMBEDDING] = later,
        .count[PIECE_LATER_HEAD] = placement_has_head(placement, chunk) ? model->mtp : 0,
        .count[PIECE_EMBEDDING] = placement_has_embedding(placement, chunk),
        .count[PIECE_HEAD] = placement_has_head(placement, chunk),
        .layers = plan_chunk_layers(plan, model, chunk),
    };
    int recomputed = plan_recomputed_layers(plan, chunk, held.layers);
    if (model_num_kinds(model) == 1) {
        held.count[0] = held.layers;
        held.recomputed[0] = has_backward(model) ? recomputed : 0;
        return held;
    }
    int first = chunk_first_layer(plan, model, chunk);
    held.first_kind = model_kind_of(model, first);
    model_count_kinds(model, first, held.layers, held.count);
    if (recomputed == held.layers)
        memcpy(held.recomputed, held.count, sizeof held.recomputed);
    else if (recomputed > 0)
        model_count_kinds(model, first, recomputed, held.recomputed);
    for (int kind = 0; kind < model->blocks.num_kinds; kind++)
        if (model->blocks.kinds[kind].gradient == GRADIENT_NONE)
            held.recomputed[kind] = 0;
    return held;
}

/* Even chunks of a model with one kind of block are equal, except the first and the last. */
static bool are_all_alike(const struct plan *plan, const struct model *model)
{
    return plan_is_even(plan) && model_num_kinds(model) == 1;
}

static void add(struct holding *to, const struct holding *chunk)
{
    to->layers += chunk->layers;
    for (int piece = 0; piece < NUM_PIECES; piece++)
        to->count[piece] += chunk->count[piece];
    for (int kind = 0; kind < MAX_BLOCK_KINDS; kind++)
        to->recomputed[kind] += chunk->recomputed[kind];
}

/* Adds the blocks of a chunk, without embedding and head, for a model with one kind of block. */
static void add_layers(struct holding *to, const struct plan *plan, const struct model *model,
                       int chunk)
{
    int layers = plan_chunk_layers(plan, model, chunk);
    to->layers += layers;
    to->count[0] += layers;
    if (has_backward(model))
        to->recomputed[0] += plan_recomputed_layers(plan, chunk, layers);
}

struct holding stage_holding(const struct plan *plan, const struct model *model, int stage)
{
    struct placement placement = plan_placement(plan);
    struct holding held = chunk_holding(plan, model, placement_chunk(placement, stage, 0));
    bool is_one_kind = model_num_kinds(model) == 1, is_sum = !are_all_alike(plan, model);
    if (!is_sum) {
        held.layers *= plan->vpp;
        held.count[0] *= plan->vpp;
        held.recomputed[0] *= plan->vpp;
    }
    for (int round = 1; is_sum && round < plan->vpp; round++) {
        int chunk = placement_chunk(placement, stage, round);
        if (is_one_kind) {
            add_layers(&held, plan, model, chunk);
        } else {
            struct holding next = chunk_holding(plan, model, chunk);
            add(&held, &next);
        }
    }
    if (is_one_kind) {
        held.count[PIECE_HEAD] = stage == placement_head_stage(placement);
        held.count[PIECE_LATER_HEAD] = held.count[PIECE_HEAD] * model->mtp;
        held.count[PIECE_LATER] = stage == plan_later_stage(plan) ? model->mtp : 0;
        held.count[PIECE_LATER_EMBEDDING] = held.count[PIECE_LATER];
    }
    return held;
}

struct holding model_counts(const struct plan *plan, const struct model *model)
{
    struct holding held = {
        .count[PIECE_EMBEDDING] = 1,
        .count[PIECE_HEAD] = 1,
        .count[PIECE_LATER] = model->mtp,
        .count[PIECE_LATER_EMBEDDING] = model->mtp,
        .count[PIECE_LATER_HEAD] = model->mtp,
        .layers = model->layers,
    };
    int counts[MAX_BLOCK_KINDS];
    if (plan_is_mirrored(plan))
        return model_holding(plan, model);
    model_count_kinds(model, 0, model->layers, counts);
    memcpy(held.count, counts, sizeof counts);
    return held;
}

struct holding model_holding(const struct plan *plan, const struct model *model)
{
    struct holding held = stage_holding(plan, model, 0);
    for (int stage = 1; stage < plan->pp; stage++) {
        struct holding next = stage_holding(plan, model, stage);
        add(&held, &next);
    }
    return held;
}

/* Whether `layers` layers from `first` on have the same number of each kind as those from
 * `other_first` on. */
static bool are_same_kinds(const struct model *model, int layers, int first, int other_first)
{
    int counts[MAX_BLOCK_KINDS], others[MAX_BLOCK_KINDS];
    model_count_kinds(model, first, layers, counts);
    model_count_kinds(model, other_first, layers, others);
    return memcmp(counts, others, sizeof counts) == 0;
}

/* The first layer of the chunk before `chunk`, from the first layer of `chunk`. */
static int first_before(const struct plan *plan, const struct model *model, int first, int chunk)
{
    return first - plan_chunk_layers(plan, model, chunk - 1);
}

/* Whether selective recompute repeats the same modules on the stages of two chunks. */
static bool repeat_alike(const struct plan *plan, int a, int b)
{
    struct placement placement = plan_placement(plan);
    return !plan_mixes_parts(plan) || plan->stage_replays[placement_stage(placement, a)] ==
                                          plan->stage_replays[placement_stage(placement, b)];
}

/* Whether chunks `a` and `b` hold the same blocks and recompute the same; embedding and head are
 * not compared. */
static bool are_alike(const struct plan *plan, const struct model *model, int a, int b)
{
    int layers = plan_chunk_layers(plan, model, a);
    int recomputed = plan_recomputed_layers(plan, a, layers);
    if (layers != plan_chunk_layers(plan, model, b) ||
        recomputed != plan_recomputed_layers(plan, b, layers) || !repeat_alike(plan, a, b))
        return false;
    if (model_num_kinds(model) == 1)
        return true;
    int first = chunk_first_layer(plan, model, a);
    int other_first =
        b == a - 1 ? first_before(plan, model, first, a) : chunk_first_layer(plan, model, b);
    if (model_blocks_repeat(model, first, other_first, layers))
        return true;
    return model_kind_of(model, first) == model_kind_of(model, other_first) &&
           are_same_kinds(model, layers, first, other_first) &&
           (recomputed == 0 || recomputed == layers ||
            are_same_kinds(model, recomputed, first, other_first));
}

bool chunk_is_as_before(const struct plan *plan, const struct model *model, int chunk)
{
    if (plan_has_end(plan, chunk) || plan_has_end(plan, chunk - 1))
        return false;
    if (are_all_alike(plan, model))
        return true;
    return are_alike(plan, model, chunk, chunk - 1);
}

bool chunks_repeat(const struct plan *plan, const struct model *model, int a, int b)
{
    int layers = plan_chunk_layers(plan, model, a);
    if (layers != plan_chunk_layers(plan, model, b) ||
        plan_recomputed_layers(plan, a, layers) != plan_recomputed_layers(plan, b, layers))
        return false;
    return model_num_kinds(model) == 1 ||
           model_blocks_repeat(model, chunk_first_layer(plan, model, a),
                               chunk_first_layer(plan, model, b), layers);
}

/* Whether all chunks of a stage are like those of the stage before. */
static bool stage_is_like(const struct plan *plan, const struct model *model, int stage,
                          bool (*are_like)(const struct plan *plan, const struct model *model,
                                           int a, int b))
{
    struct placement placement = plan_placement(plan);
    if (stage == 0 || placement_is_end_stage(placement, stage) ||
        placement_is_end_stage(placement, stage - 1))
        return false;
    if (plan->mtp_place == MTP_APART &&
        (stage == plan_later_stage(plan) || stage - 1 == plan_later_stage(plan)))
        return false;
    if (are_all_alike(plan, model))
        return true;
    for (int round = 0; round < plan->vpp; round++)
        if (!are_like(plan, model, placement_chunk(placement, stage, round),
                      placement_chunk(placement, stage - 1, round)))
            return false;
    return true;
}

bool stage_is_as_before(const struct plan *plan, const struct model *model, int stage)
{
    return stage_is_like(plan, model, stage, are_alike);
}

bool stage_repeats(const struct plan *plan, const struct model *model, int stage)
{
    return stage_is_like(plan, model, stage, chunks_repeat);
}
