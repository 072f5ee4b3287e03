/* Checks the instructions that gather parameters, reduce gradients and update weights. A schedule
 * does not state which of these instructions it must have, so an instruction that any stage has is
 * required of every stage. */
#include "sim/schedule/proof.h"

struct indices {
    int *at;
    int count;
};

/* The instructions with one opcode, in list order. */
static struct indices all_of(const struct proof *proof, enum opcode op, struct arena *scratch)
{
    struct indices out = { .at = ARENA_ARRAY(scratch, int, (size_t)proof->list->count) };
    for (int i = 0; i < proof->list->count; i++)
        if (proof->list->at[i].op == op)
            out.at[out.count++] = i;
    return out;
}

/* The instructions whose opcode satisfies `is`. */
static struct indices all_that(const struct proof *proof, bool (*is)(enum opcode op),
                               struct arena *scratch)
{
    struct indices out = { .at = ARENA_ARRAY(scratch, int, (size_t)proof->list->count) };
    for (int i = 0; i < proof->list->count; i++)
        if (is(proof->list->at[i].op))
            out.at[out.count++] = i;
    return out;
}

static int chunk_at(const struct proof *proof, int instr)
{
    return proof->list->at[instr].chunk;
}

/* Gathers distribute updated parameters, once per chunk. */
bool proof_parameters(const struct proof *proof, struct arena *scratch)
{
    struct indices gathers = all_of(proof, INSTR_GATHER_PARAM, scratch);
    struct indices updates = all_of(proof, INSTR_OPTIMIZER, scratch);
    const struct schedule_shape *shape = &proof->schedule->shape;
    int wanted = proof->totals[INSTR_GATHER_PARAM] > 0 ? shape->chunks_per_stage : 0;
    if (gathers.count != wanted)
        return proof_fail(proof, NO_INSTR, "expected %d gathers after the update, found %d", wanted,
                          gathers.count);
    for (int i = 0; i < gathers.count; i++) {
        int chunk = placement_chunk(schedule_placement(proof->schedule), proof->stage, i);
        if (chunk_at(proof, gathers.at[i]) != chunk)
            return proof_fail(proof, gathers.at[i], "expected GP%d, found %s", chunk,
                              proof_text(proof, gathers.at[i]).at);
        if (updates.count > 0 && !proof_ordered(proof, updates.at[0], gathers.at[i]))
            return false;
    }
    return true;
}

/* For each chunk of the stage, the instructions that compute its weight gradients, in order. */
static int *backwards_by_chunk(const struct proof *proof, struct arena *scratch)
{
    const struct schedule_shape *shape = &proof->schedule->shape;
    struct indices backwards = all_that(proof, instr_ends_backward, scratch);
    int *out = ARENA_ARRAY(scratch, int, (size_t)backwards.count);
    int *done = ARENA_ARRAY(scratch, int, (size_t)shape->chunks_per_stage);
    for (int i = 0; i < backwards.count; i++) {
        int round =
            placement_round(schedule_placement(proof->schedule), chunk_at(proof, backwards.at[i]));
        out[round * shape->num_microbatches + done[round]++] = backwards.at[i];
    }
    return out;
}

/* Each chunk's gradients are reduced once, after all its backwards, or never. */
bool proof_reductions(const struct proof *proof, struct arena *scratch)
{
    const struct schedule_shape *shape = &proof->schedule->shape;
    const int *backwards = backwards_by_chunk(proof, scratch);
    struct indices reductions = all_of(proof, INSTR_REDUCE_GRAD, scratch);
    int *done = ARENA_ARRAY(scratch, int, (size_t)shape->chunks_per_stage);
    int wanted = proof->totals[INSTR_REDUCE_GRAD] > 0 ? 1 : 0;
    for (int i = 0; i < reductions.count; i++) {
        int reduction = reductions.at[i];
        int round =
            placement_round(schedule_placement(proof->schedule), chunk_at(proof, reduction));
        if (done[round]++ == wanted)
            return proof_fail(proof, reduction, "%s is one more than the %d expected",
                              proof_text(proof, reduction).at, wanted);
        int last = backwards[(round + 1) * shape->num_microbatches - 1];
        if (!proof_ordered(proof, last, reduction))
            return false;
    }
    for (int i = 0; i < shape->chunks_per_stage; i++)
        if (done[i] != wanted)
            return proof_fail(proof, NO_INSTR, "expected %d DG of chunk %d, found %d", wanted,
                              placement_chunk(schedule_placement(proof->schedule), proof->stage, i),
                              done[i]);
    return true;
}

/* With tied embeddings the first stage and another one add their gradients. Both must already be
 * summed over the data group, or the results would differ. */
static bool check_tied_order(const struct proof *proof, int tied, bool is_first,
                             struct arena *scratch)
{
    const struct schedule_shape *shape = &proof->schedule->shape;
    int round = is_first ? 0 : shape->chunks_per_stage - 1;
    const int *backwards = backwards_by_chunk(proof, scratch);
    struct indices reductions = all_of(proof, INSTR_REDUCE_GRAD, scratch);
    for (int i = 0; i < reductions.count; i++)
        if (!proof_ordered(proof, reductions.at[i], tied))
            return false;
    return proof_ordered(proof, backwards[(round + 1) * shape->num_microbatches - 1], tied);
}

/* The stage with which the first stage adds gradients. It is the stage of the last chunk, or that
 * of the chunk before it if the first stage's instruction names it. */
static int tied_stage(const struct proof *proof, struct placement placement, int first)
{
    const struct instrs *list = &proof->schedule->ranks[first];
    int chunks = placement_chunks(placement);
    int before = chunks > 1 ? placement_stage(placement, chunks - 2) : first;
    for (int i = 0; i < list->count; i++)
        if (list->at[i].op == INSTR_REDUCE_TIED && list->at[i].peer == before && before != first)
            return before;
    return placement_head_stage(placement);
}

/* With two mirrored copies, the first and the last stage each have the embedding of one copy and
 * the head of the other. If another chunk has the embedding table too, it is the chunk before the
 * head's, on the neighbouring stage. */
static bool check_mirrored_tied(const struct proof *proof, struct indices tied,
                                struct arena *scratch)
{
    int last = proof->schedule->shape.num_stages - 1, stage = proof->stage;
    bool is_low = stage <= 1, is_end = stage <= 1 || stage >= last - 1;
    int wanted = is_end && proof->totals[INSTR_REDUCE_TIED] > 0 ? 1 : 0;
    if (tied.count != wanted)
        return proof_fail(proof, tied.count > 0 ? tied.at[0] : NO_INSTR, "expected %d DT, found %d",
                          wanted, tied.count);
    int peer = is_low ? 1 - stage : 2 * last - 1 - stage;
    if (wanted > 0 && proof->list->at[tied.at[0]].peer != peer)
        return proof_fail(proof, tied.at[0], "%s should name stage %d",
                          proof_text(proof, tied.at[0]).at, peer);
    /* the first copy's embedding is on stage 0 and its table before the head on stage last - 1, the
     * second copy's are on stages last and 1 */
    return wanted == 0 ||
           check_tied_order(proof, tied.at[0], stage == 0 || stage == last - 1, scratch);
}

static bool check_tied(const struct proof *proof, struct arena *scratch)
{
    struct placement placement = schedule_placement(proof->schedule);
    if (placement_is_mirrored(placement))
        return check_mirrored_tied(proof, all_of(proof, INSTR_REDUCE_TIED, scratch), scratch);
    int first = placement_embedding_stage(placement), last = tied_stage(proof, placement, first);
    bool is_end = first != last && (proof->stage == first || proof->stage == last);
    struct indices tied = all_of(proof, INSTR_REDUCE_TIED, scratch);
    int wanted = is_end && proof->totals[INSTR_REDUCE_TIED] > 0 ? 1 : 0;
    if (tied.count != wanted)
        return proof_fail(proof, tied.count > 0 ? tied.at[0] : NO_INSTR, "expected %d DT, found %d",
                          wanted, tied.count);
    if (wanted == 0)
        return true;
    int peer = proof->stage == first ? last : first;
    if (proof->list->at[tied.at[0]].peer != peer)
        return proof_fail(proof, tied.at[0], "%s should name stage %d",
                          proof_text(proof, tied.at[0]).at, peer);
    return check_tied_order(proof, tied.at[0], proof->stage == first, scratch);
}

/* Each chunk's parameters are averaged once. Either all averages precede the end of the update,
 * which adds its changes to them, or all follow it. */
static bool check_mixes(const struct proof *proof, int update, struct arena *scratch)
{
    const struct schedule_shape *shape = &proof->schedule->shape;
    struct indices mixes = all_of(proof, INSTR_MIX_PARAM, scratch);
    int wanted = proof->totals[INSTR_MIX_PARAM] > 0 ? shape->chunks_per_stage : 0;
    if (mixes.count != wanted)
        return proof_fail(proof, NO_INSTR, "expected %d MP, found %d", wanted, mixes.count);
    for (int i = 0; i < mixes.count; i++) {
        int mix = mixes.at[i];
        int chunk = placement_chunk(schedule_placement(proof->schedule), proof->stage, i);
        if (chunk_at(proof, mix) != chunk)
            return proof_fail(proof, mix, "expected MP%d, found %s", chunk,
                              proof_text(proof, mix).at);
        bool is_before = mixes.at[0] < update;
        if (!proof_ordered(proof, is_before ? mix : update, is_before ? update : mix))
            return false;
    }
    return true;
}

/* The only instruction with this opcode; NO_INSTR and an error if there is none or more than
 * one. */
static int find_one(const struct proof *proof, enum opcode op, struct arena *scratch)
{
    struct indices found = all_of(proof, op, scratch);
    if (found.count == 1)
        return found.at[0];
    proof_fail(proof, found.count > 1 ? found.at[1] : NO_INSTR, "expected 1 %s, found %d",
               opcode_infos[op].text, found.count);
    return NO_INSTR;
}

bool proof_update(const struct proof *proof, struct arena *scratch)
{
    int norm = find_one(proof, INSTR_NORM_GRAD, scratch);
    int update = find_one(proof, INSTR_OPTIMIZER, scratch);
    if (norm == NO_INSTR || update == NO_INSTR || !check_tied(proof, scratch))
        return false;
    for (int i = 0; i < proof->list->count; i++) {
        enum opcode op = proof->list->at[i].op;
        bool counts = instr_ends_backward(op) || op == INSTR_REDUCE_GRAD || op == INSTR_REDUCE_TIED;
        if (counts && !proof_ordered(proof, i, norm))
            return false;
    }
    return proof_ordered(proof, norm, update) && check_mixes(proof, update, scratch);
}
