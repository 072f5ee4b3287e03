/* The peak of one pass, found by following its steps (sim/plan/pass.h). A piece is a layer, the
 * embedding or the head. */
#include "sim/memory/executor_pass_memory.h"

#include "models/blocks.h"
#include "sim/plan/pass.h"

#include <math.h>

static double working_bytes(const struct memory_input *in, const struct piece_cost *layer)
{
    return layer->working_bytes + (in->plan->pp > 1 ? 3 : 1) * layer->input_bytes;
}

double pass_working_bytes(const struct memory_input *in)
{
    double most_bytes = 0;
    for (int kind = 0; kind < in->pieces->num_kinds; kind++)
        most_bytes = fmax(most_bytes, working_bytes(in, &in->pieces->at[kind]));
    return most_bytes;
}

/* State while the steps of a pass are followed one by one. */
struct walk {
    const struct memory_input *in;
    struct pass_chunk chunk;
    int first_layer;          /* index in the model of the chunk's first layer */
    struct state_bytes state; /* bytes per parameter */
    double logits_bytes;
    double shared_bytes;   /* gathered parameters and whole gradients */
    double replayed_bytes; /* activations of recomputed layers */
    double most_bytes;
};

/* The kind of a piece, by its index in the chunk. */
static int kind_of(const struct walk *walk, int piece)
{
    const struct pass_chunk *chunk = &walk->chunk;
    if (chunk->has_embedding && piece == 0)
        return PIECE_EMBEDDING;
    if (chunk->has_head && piece == pass_pieces(chunk) - 1)
        return PIECE_HEAD;
    return model_kind_of(walk->in->model, walk->first_layer + piece - chunk->has_embedding);
}

/* Parameters of one rank's vocabulary rows: one row per logit of a token. */
static double vocabulary_parameters(const struct memory_input *in)
{
    return in->pieces->logits / in->pieces->tokens * in->model->hidden;
}

static double unit_parameters(const struct walk *walk, int unit)
{
    const struct pieces *pieces = walk->in->pieces;
    int piece = unit / 2;
    bool is_vocabulary = unit % 2 == 1;
    double table = vocabulary_parameters(walk->in);
    if (is_vocabulary)
        return table;
    int kind = kind_of(walk, piece);
    bool has_table = kind == PIECE_EMBEDDING || (kind == PIECE_HEAD && !walk->chunk.is_tied);
    return pieces->at[kind].parameters - (has_table ? table : 0);
}

/* Bytes kept from a piece's forward to its backward. */
static double kept_bytes(const struct walk *walk, int piece)
{
    int i = piece - walk->chunk.has_embedding;
    int kind = kind_of(walk, piece);
    const struct piece_cost *cost = &walk->in->pieces->at[kind];
    if (!piece_is_layer(kind))
        return cost->saved_bytes;
    if (plan_offloads(walk->in->plan, OFFLOAD_ACTIVATIONS))
        return 0;
    if (i < walk->chunk.recomputed)
        return i % walk->chunk.every == 0 ? cost->input_bytes : 0;
    bool is_selective = walk->in->plan->recompute == RECOMPUTE_SELECTIVE;
    return cost->saved_bytes - (is_selective ? cost->replayed_bytes : 0);
}

/* Kept bytes of the pieces after `piece`. In a forward they have not run yet, in a backward they
 * are already freed. */
static double absent_bytes(const struct walk *walk, int piece)
{
    double bytes = 0;
    for (int i = piece + 1; i < pass_pieces(&walk->chunk); i++)
        bytes += kept_bytes(walk, i);
    return bytes;
}

static double moment_bytes(const struct walk *walk, const struct pass_step *run)
{
    bool is_selective = walk->in->plan->recompute == RECOMPUTE_SELECTIVE;
    int kind = kind_of(walk, run->index);
    if (kind == PIECE_HEAD)
        return walk->logits_bytes;
    if (kind == PIECE_EMBEDDING || run->op != STEP_BACKWARD)
        return walk->in->pieces->at[0].input_bytes;
    const struct piece_cost *layer = &walk->in->pieces->at[kind];
    return working_bytes(walk->in, layer) + (is_selective ? layer->replayed_bytes : 0);
}

static void run_piece(struct walk *walk, const struct pass_step *run)
{
    int kind = kind_of(walk, run->index);
    bool is_layer = piece_is_layer(kind);
    bool is_recomputed =
        is_layer && run->index - walk->chunk.has_embedding < walk->chunk.recomputed;
    double saved_bytes = is_layer ? walk->in->pieces->at[kind].saved_bytes : 0;
    walk->replayed_bytes += run->op == STEP_REPLAY ? saved_bytes : 0;
    double bytes = walk->shared_bytes + walk->replayed_bytes + moment_bytes(walk, run) -
                   absent_bytes(walk, run->index);
    walk->most_bytes = fmax(walk->most_bytes, bytes);
    walk->replayed_bytes -= run->op == STEP_BACKWARD && is_recomputed ? saved_bytes : 0;
}

static void take_step(struct walk *walk, const struct pass_step *step)
{
    switch (step->op) {
    case STEP_GATHER:
        walk->shared_bytes += walk->state.weights * unit_parameters(walk, step->index);
        break;
    case STEP_DROP:
        walk->shared_bytes -= walk->state.weights * unit_parameters(walk, step->index);
        break;
    case STEP_OPEN: /* gradients that are kept for the whole step are counted with the state */
        walk->shared_bytes +=
            walk->chunk.keeps ? 0 : walk->state.gradients * unit_parameters(walk, step->index);
        break;
    case STEP_SETTLE:
        walk->shared_bytes -= walk->state.gradients * unit_parameters(walk, step->index);
        break;
    case STEP_REDUCE:
        break;
    case STEP_FORWARD:
    case STEP_REPLAY:
    case STEP_BACKWARD:
        run_piece(walk, step);
        break;
    }
}

double pass_most_bytes(const struct memory_input *in, int chunk, double logits_bytes)
{
    struct arena arena = { 0 };
    struct walk walk = {
        .in = in,
        .chunk = pass_chunk_of(in->plan, in->model, chunk, in->system->stack.shards.prefetch),
        .first_layer =
            in->model->blocks.num_runs > 0 ? chunk_first_layer(in->plan, in->model, chunk) : 0,
        .state = plan_state_bytes(in->plan, in->model),
        .logits_bytes = logits_bytes,
    };
    for (int i = 0; i < 2; i++) {
        struct pass_steps steps =
            pass_steps(&walk.chunk, i == 0 ? INSTR_FORWARD : INSTR_BACKWARD, &arena);
        for (int s = 0; s < steps.count; s++)
            take_step(&walk, &steps.at[s]);
    }
    arena_release(&arena);
    return walk.most_bytes;
}
