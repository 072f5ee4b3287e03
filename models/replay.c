/* Which ops selective recompute replays, that is runs again in the backward, and how much memory
 * this frees. */
#include "models/replay.h"

#include <math.h>

const char *const replay_names[NUM_REPLAYS + 1] = { "core_attn",   "mlp",     "layernorm",
                                                    "moe",         "moe_act", "shared_experts",
                                                    "mla_up_proj", "op",      NULL };

/* --- parts ----------------------------------------------------------------------------------- */

#define IN(region) (1u << (region))

/* A part of a block that selective recompute handles as a whole. */
struct part {
    unsigned regions; /* bit set of IN(enum op_region) */
    bool drops_output;
    bool keeps_inputs; /* the part keeps its inputs for its replay if no other op keeps them */
};

static const struct part parts[NUM_REPLAYS] = {
    [REPLAY_CORE] = { IN(REGION_ATTENTION_CORE), false, false },
    [REPLAY_MLP] = { IN(REGION_FEED_FORWARD), false, true },
    [REPLAY_NORM] = { IN(REGION_NORM), true, false },
    [REPLAY_EXPERTS] = { IN(REGION_EXPERTS) | IN(REGION_EXPERT_ACTIVATION) |
                             IN(REGION_SHARED_EXPERT),
                         false, true },
    [REPLAY_EXPERT_ACTIVATION] = { IN(REGION_EXPERT_ACTIVATION), true, false },
    [REPLAY_SHARED_EXPERT] = { IN(REGION_SHARED_EXPERT), false, true },
    [REPLAY_LATENT_UP] = { IN(REGION_LATENT_UP), true, false },
};

/* The part in the set `replays` that contains the region; if several parts do, the largest. NULL:
 * the region is not recomputed. */
static const struct part *part_with(enum op_region region, unsigned replays)
{
    const struct part *found = NULL;
    for (int i = 0; i < NUM_REPLAYS; i++) {
        bool is_here = (replays >> i & 1) != 0 && (parts[i].regions & IN(region)) != 0;
        if (is_here && (!found || (found->regions & ~parts[i].regions) == 0))
            found = &parts[i];
    }
    return found;
}

/* The part that replays an op. Quantising what a part drops belongs to that part. */
static const struct part *part_of_op(const struct op *op, unsigned replays)
{
    const struct part *part = part_with(op->region, replays);
    const struct part *source = part_with(op->source_region, replays);
    return !part && source && source->drops_output ? source : part;
}

/* Bytes of a part's inputs that no op keeps, so that they must be kept for the replay. For example,
 * fp8 products keep the quantised value, not its source. */
static double inputs_bytes(const struct ops *forward, const struct op *op, unsigned replays)
{
    const struct part *part = part_with(op->region, replays);
    double bytes = 0;
    for (int i = 0; part && part->keeps_inputs && i < op->in.count; i++) {
        int maker = ops_maker(forward, op->in.at[i]);
        bool is_of_other = maker < 0 || (IN(forward->at[maker].region) & part->regions) == 0;
        if (is_of_other && !ops_keep(forward, op->in.at[i]))
            bytes += value_kept_bytes(&forward->operands->values[op->in.at[i]]);
    }
    return bytes;
}

/* Whether the replay makes a value that `op` keeps, so that the forward may free it. */
static bool is_freed(const struct ops *forward, const struct op *op, int value, unsigned replays)
{
    int maker = ops_maker(forward, value);
    const struct part *part = maker < 0 ? NULL : part_of_op(&forward->at[maker], replays);
    return part && op_keeps_last(forward, op, value) &&
           (part->drops_output || (part->regions & IN(op->region)) != 0);
}

static double parts_freed_bytes(const struct ops *forward, const struct op *op, unsigned replays)
{
    double bytes = part_with(op->region, replays) ? op->kept_bytes : 0;
    for (int i = 0; i < op->saved.count; i++) {
        int value = op->saved.at[i];
        if (is_freed(forward, op, value, replays))
            bytes += value_kept_bytes(&forward->operands->values[value]);
    }
    return bytes;
}

/* --- per op ---------------------------------------------------------------------------------- */

/* Columns of a product that are recomputed. Matrices that a framework keeps separate count as
 * separate products. Of a block's products the first, third ... are kept. */
static double columns_again(const struct op *op, bool in_place, int *products)
{
    double again = 0;
    double left = op->n;
    for (int i = 0; i < MAX_MATRICES && left > 0; i++) {
        double columns = op->matrices[i] > 0 && !in_place ? op->matrices[i] : left;
        again += *products % 2 == 1 ? columns : 0;
        left -= columns;
        ++*products;
    }
    return again;
}

/* The fraction of an op that is recomputed if another op reads it; `products` counts the products
 * so far. */
static double share_again(const struct op *op, bool in_place, int *products)
{
    if (op->kind == OP_FLASH_ATTENTION || op->kind == OP_REDUCE_SCATTER)
        return 0;
    return op->kind == OP_GEMM ? columns_again(op, in_place, products) / op->n : 1;
}

static bool is_asked_for(const struct ops *forward, int i, const double *shares)
{
    for (int k = 0; k < forward->at[i].out.count; k++) {
        int value = forward->at[i].out.at[k];
        if (ops_keep(forward, value))
            return true;
        for (int j = i + 1; j < forward->count; j++)
            if (shares[j] > 0 && op_reads(&forward->at[j], value))
                return true;
    }
    return false;
}

/* A copy of the op, reduced to a fraction of its matrices. */
static struct op part_of(const struct op *op, double share)
{
    struct op part = *op;
    double input = op->m * op->k;
    double own = op->k * op->n + op->m * op->n;
    if (op->kind != OP_GEMM || share == 1)
        return part;
    part.n *= share;
    part.flops *= share;
    part.model_flops *= share;
    part.bytes *= (input + share * own) / (input + own);
    return part;
}

/* PyTorch keeps every output of a kept op, and the block's input. */
static void keep_outputs(const struct ops *forward, const double *shares, double *kept_of)
{
    for (int i = 0; i < forward->operands->num_values; i++)
        kept_of[i] = ops_keep(forward, i) && ops_maker(forward, i) < 0;
    for (int i = 0; i < forward->count; i++)
        for (int k = 0; k < forward->at[i].out.count; k++)
            kept_of[forward->at[i].out.at[k]] = 1 - shares[i];
}

static double kept_bytes(const struct ops *forward, const double *shares, const double *kept_of)
{
    double bytes = 0;
    for (int i = 0; i < forward->operands->num_values; i++)
        bytes += kept_of[i] * value_kept_bytes(&forward->operands->values[i]);
    for (int i = 0; i < forward->count; i++)
        bytes += (1 - shares[i]) * forward->at[i].kept_bytes;
    return bytes;
}

static double all_saved_bytes(const struct ops *forward)
{
    double bytes = 0;
    for (int i = 0; i < forward->count; i++)
        bytes += op_saved_bytes(forward, &forward->at[i]);
    return bytes;
}

/* --- in place -------------------------------------------------------------------------------- */

/* Whether an op writes over a value whose maker is not replayed. Then memory holds only the
 * result. */
static bool writes_over_kept(const struct ops *forward, int i, const double *shares)
{
    if (!op_is_in_place(forward, &forward->at[i]))
        return false;
    int maker = ops_maker(forward, forward->at[i].in.at[0]);
    return maker < 0 || shares[maker] == 0;
}

static bool is_read_again(const struct ops *forward, int value, const double *shares)
{
    for (int i = 0; i < forward->count; i++)
        if (shares[i] > 0 && op_reads(&forward->at[i], value))
            return true;
    return false;
}

/* Keeps the values that the backward or the replay reads and that the replay does not make. */
static void keep_what_is_read(const struct ops *forward, const double *shares, double *kept_of)
{
    for (int i = 0; i < forward->operands->num_values; i++) {
        int maker = ops_maker(forward, i);
        bool is_made = maker >= 0 && shares[maker] > 0;
        kept_of[i] = !is_made && (ops_keep(forward, i) || is_read_again(forward, i, shares));
    }
}

/* --- the result ------------------------------------------------------------------------------ */

/* The recomputed ops as a list. Each op waits for the last op of the new list that is no later than
 * its original `after`. In this list no collective overlaps compute. */
static struct ops some_of(const struct ops *forward, const double *shares, struct arena *arena)
{
    struct ops some = { .at = ARENA_ARRAY(arena, struct op, (size_t)forward->count + 1),
                        .operands = forward->operands,
                        .input = NO_ID,
                        .output = NO_ID };
    int *num_up_to = ARENA_ARRAY(arena, int, (size_t)forward->count + 1);
    for (int i = 0; i < forward->count; i++) {
        int after = forward->at[i].after;
        if (shares[i] > 0) {
            some.at[some.count] = part_of(&forward->at[i], shares[i]);
            some.at[some.count].after = after < 0 ? -1 : num_up_to[after] - 1;
            some.count++;
        }
        num_up_to[i] = some.count;
    }
    return some;
}

static const bool *ops_again(const struct ops *forward, const double *shares, struct arena *arena)
{
    bool *is_again = ARENA_ARRAY(arena, bool, (size_t)forward->count + 1);
    for (int i = 0; i < forward->count; i++)
        is_again[i] = shares[i] > 0;
    return is_again;
}

static void leave_out_unasked(const struct ops *forward, double *shares)
{
    for (int i = forward->count - 1; i >= 0; i--)
        if (!is_asked_for(forward, i, shares))
            shares[i] = 0;
}

static struct replay replay_per_op(const struct ops *forward, bool in_place, struct arena *arena)
{
    double *shares = ARENA_ARRAY(arena, double, (size_t)forward->count + 1);
    double *kept_of = ARENA_ARRAY(arena, double, (size_t)forward->operands->num_values);
    int products = 0;
    for (int i = 0; i < forward->count; i++) {
        shares[i] = share_again(&forward->at[i], in_place, &products);
        if (in_place && writes_over_kept(forward, i, shares))
            shares[i] = 0;
    }
    keep_outputs(forward, shares, kept_of);
    double freed_bytes = all_saved_bytes(forward) - kept_bytes(forward, shares, kept_of);
    leave_out_unasked(forward, shares);
    if (in_place) {
        keep_what_is_read(forward, shares, kept_of);
        freed_bytes = all_saved_bytes(forward) - kept_bytes(forward, shares, kept_of);
    }
    freed_bytes = fmax(0, freed_bytes);
    return (struct replay){ .ops = some_of(forward, shares, arena),
                            .is_again = ops_again(forward, shares, arena),
                            .kept_of = kept_of,
                            .freed_bytes = freed_bytes,
                            .freed_of = { freed_bytes } };
}

/* Keeps values that the backward or the replay reads. A value that only replayed parts save is not
 * kept, because the replay computes it again. */
static void keep_outside(const struct ops *forward, const double *shares, unsigned replays,
                         double *kept_of)
{
    keep_what_is_read(forward, shares, kept_of);
    for (int i = 0; i < forward->count; i++) {
        const struct op *op = &forward->at[i];
        for (int k = 0; k < op->saved.count; k++)
            if (op_keeps_last(forward, op, op->saved.at[k]))
                kept_of[op->saved.at[k]] = !is_freed(forward, op, op->saved.at[k], replays);
    }
}

struct replay ops_replay(const struct ops *forward, unsigned replays, bool in_place,
                         struct arena *arena)
{
    if (replays == REPLAYS_PER_OP)
        return replay_per_op(forward, in_place, arena);
    double *shares = ARENA_ARRAY(arena, double, (size_t)forward->count + 1);
    double *kept_of = ARENA_ARRAY(arena, double, (size_t)forward->operands->num_values);
    struct replay replay = { .kept_of = kept_of };
    for (int i = 0; i < forward->count; i++) {
        const struct op *op = &forward->at[i];
        double bytes = parts_freed_bytes(forward, op, replays) - inputs_bytes(forward, op, replays);
        bool is_replayed = part_of_op(op, replays) != NULL;
        shares[i] = is_replayed;
        replay.freed_bytes += bytes;
        replay.freed_of[is_replayed ? op->region : REGION_REST] += bytes;
    }
    keep_outside(forward, shares, replays, kept_of);
    replay.ops = some_of(forward, shares, arena);
    replay.is_again = ops_again(forward, shares, arena);
    return replay;
}
