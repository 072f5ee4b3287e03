#include "sim/cost/pass_memory.h"

#include "sim/schedule/pass.h"

#include <math.h>

static double working_bytes(const struct memory_input *in, const struct piece_cost *layer)
{
    return layer->working_bytes + (in->plan->pp > 1 ? 3 : 1) * layer->input_bytes;
}

double pass_working_bytes(const struct memory_input *in)
{
    double most_bytes = 0;
    for (int kind = 0; kind < in->pieces->num_kinds; kind++)
        most_bytes = fmax(most_bytes, working_bytes(in, &in->pieces->blocks[kind]));
    return most_bytes;
}

/* A pass on its way through its steps. */
struct walk {
    const struct memory_input *in;
    struct pass_chunk chunk;
    int first_layer;          /* of the chunk, in the model */
    struct state_bytes state; /* of a parameter */
    double logits_bytes;
    double shared_bytes;   /* gathered parameters and whole gradients */
    double replayed_bytes; /* of layers that ran again */
    double most_bytes;
};

static enum part_kind kind_of(const struct pass_chunk *chunk, int part)
{
    if (chunk->has_embedding && part == 0)
        return PART_EMBEDDING;
    return chunk->has_head && part == pass_parts(chunk) - 1 ? PART_HEAD : PART_LAYER;
}

/* The cost of a part that is a layer. */
static const struct piece_cost *layer_at(const struct walk *walk, int part)
{
    int layer = walk->first_layer + part - walk->chunk.has_embedding;
    return &walk->in->pieces->blocks[model_kind_of(walk->in->model, layer)];
}

/* One rank's rows of the vocabulary: as many as it has logits of a token. */
static double vocabulary_parameters(const struct memory_input *in)
{
    double tokens = in->plan->microbatch * (double)in->model->seq / in->plan->cp;
    return in->pieces->logits / tokens * in->model->hidden;
}

static double unit_parameters(const struct walk *walk, int unit)
{
    const struct pieces *pieces = walk->in->pieces;
    int part = unit / 2;
    bool is_vocabulary = unit % 2 == 1;
    double table = vocabulary_parameters(walk->in);
    if (is_vocabulary)
        return table;
    switch (kind_of(&walk->chunk, part)) {
    case PART_EMBEDDING:
        return pieces->embedding.parameters - table;
    case PART_LAYER:
        return layer_at(walk, part)->parameters;
    case PART_HEAD:
        return pieces->head.parameters - (walk->chunk.is_tied ? 0 : table);
    }
    return 0;
}

/* From a part's forward to its backward. */
static double kept_bytes(const struct walk *walk, int part)
{
    const struct pieces *pieces = walk->in->pieces;
    int i = part - walk->chunk.has_embedding;
    enum part_kind kind = kind_of(&walk->chunk, part);
    if (kind != PART_LAYER)
        return kind == PART_HEAD ? pieces->head.saved_bytes : pieces->embedding.saved_bytes;
    const struct piece_cost *layer = layer_at(walk, part);
    if (i < walk->chunk.recomputed)
        return i % walk->chunk.every == 0 ? layer->input_bytes : 0;
    bool is_selective = walk->in->plan->recompute == RECOMPUTE_SELECTIVE;
    return layer->saved_bytes - (is_selective ? layer->core_bytes : 0);
}

/* Of parts that a forward has not come to, or a backward has behind it. */
static double absent_bytes(const struct walk *walk, int part)
{
    double bytes = 0;
    for (int i = part + 1; i < pass_parts(&walk->chunk); i++)
        bytes += kept_bytes(walk, i);
    return bytes;
}

static double moment_bytes(const struct walk *walk, const struct pass_step *run)
{
    bool is_selective = walk->in->plan->recompute == RECOMPUTE_SELECTIVE;
    enum part_kind kind = kind_of(&walk->chunk, run->index);
    if (kind == PART_HEAD)
        return walk->logits_bytes;
    if (kind == PART_EMBEDDING || run->op != STEP_BACKWARD)
        return walk->in->pieces->blocks[0].input_bytes;
    const struct piece_cost *layer = layer_at(walk, run->index);
    return working_bytes(walk->in, layer) + (is_selective ? layer->core_bytes : 0);
}

static void run_part(struct walk *walk, const struct pass_step *run)
{
    bool is_layer = kind_of(&walk->chunk, run->index) == PART_LAYER;
    bool is_recomputed =
        is_layer && run->index - walk->chunk.has_embedding < walk->chunk.recomputed;
    double saved_bytes = is_layer ? layer_at(walk, run->index)->saved_bytes : 0;
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
    case STEP_OPEN:
        walk->shared_bytes += walk->state.gradients * unit_parameters(walk, step->index);
        break;
    case STEP_SETTLE:
        walk->shared_bytes -= walk->state.gradients * unit_parameters(walk, step->index);
        break;
    case STEP_REDUCE:
        break;
    case STEP_FORWARD:
    case STEP_REPLAY:
    case STEP_BACKWARD:
        run_part(walk, step);
        break;
    }
}

double pass_most_bytes(const struct memory_input *in, int chunk, double logits_bytes)
{
    struct arena arena = { 0 };
    struct walk walk = {
        .in = in,
        .chunk = pass_chunk_of(in->plan, in->model, chunk, in->system->stack.prefetch),
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
