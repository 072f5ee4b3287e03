/* Runs a pass over a chunk: the steps of sim/plan/pass.h on its pieces (layers, embedding, head). A
 * replay recomputes a piece's forward. */
#include "exec/chunk.h"

#include <string.h>

static void give_back(struct machine *m, char **at)
{
    machine_give_back(m, *at);
    *at = NULL;
}

static void *copy_of_checkpoint(struct machine *m, const struct piece *piece,
                                const struct record *record)
{
    void *copy = machine_take(m, machine_stream_bytes(m));
    if (copy)
        m->device_api->copy(m->compute, copy, record->saved.kept + piece->saved.checkpoint,
                            machine_stream_bytes(m));
    return copy;
}

static void *forward_piece(struct machine *m, const struct piece *piece,
                           const struct microbatch *microbatch, struct record *record, void *input)
{
    memset(record, 0, sizeof *record);
    record->saved.kept = machine_take(m, piece->saved.kept_bytes);
    record->saved.replayed = machine_take(m, piece->saved.replayed_bytes);
    if (piece->keeping == KEEP_INPUT && record->saved.kept)
        m->device_api->copy(m->compute, record->saved.kept + piece->saved.checkpoint, input,
                            machine_stream_bytes(m));
    if (m->err.code != ERR_NONE)
        return NULL;
    void *output = machine_forward(m, piece, microbatch, record, input);
    give_back(m, &record->saved.replayed);
    return output;
}

/* Recomputes one layer between a kept input and the layer whose backward is next. `flow` is the
 * output of the previous layer, NULL for the first layer. */
static void *replay_layer(struct machine *m, const struct piece *piece,
                          const struct microbatch *microbatch, struct record *record, void *flow)
{
    if (!flow)
        flow = copy_of_checkpoint(m, piece, record);
    record->saved.replayed = machine_take(m, piece->saved.replayed_bytes);
    return m->err.code == ERR_NONE ? machine_forward(m, piece, microbatch, record, flow) : NULL;
}

static void replay_some(struct machine *m, const struct piece *piece,
                        const struct microbatch *microbatch, struct record *record)
{
    struct saved *saved = &record->saved;
    if (piece->keeping != KEEP_SOME || piece->saved.replayed_bytes == 0 || saved->replayed)
        return;
    saved->replayed = machine_take(m, piece->saved.replayed_bytes);
    if (saved->replayed)
        machine_replay(m, piece, microbatch, record);
}

static void *backward_piece(struct machine *m, const struct piece *piece,
                            const struct microbatch *microbatch, struct record *record,
                            void *output_gradient, enum gradients gradients)
{
    replay_some(m, piece, microbatch, record);
    if (m->err.code != ERR_NONE)
        return NULL;
    void *input_gradient =
        machine_backward(m, piece, microbatch, record, output_gradient, gradients);
    if (gradients != GRADIENTS_OF_INPUTS) {
        give_back(m, &record->saved.kept);
        give_back(m, &record->saved.replayed);
    }
    return input_gradient;
}

/* --- passes ------------------------------------------------------------------------------- */

struct pass {
    struct machine *machine;
    const struct chunk *chunk;
    const struct chunk_record *record;
    enum opcode op;
    const struct data_lane *data;
    void *flow;
    void *replayed; /* output of the latest replay */
};

static enum gradients gradients_of(enum opcode op)
{
    return op == INSTR_BACKWARD_INPUT    ? GRADIENTS_OF_INPUTS
           : op == INSTR_BACKWARD_WEIGHT ? GRADIENTS_OF_WEIGHTS
                                         : GRADIENTS_ALL;
}

static void await(struct pass *pass, const struct store *store)
{
    if (store && store_cuts(store, STATE_PARAMETERS))
        data_lane_await_values(pass->machine, store);
}

/* Recomputes the forward of piece i. If it is the last of a group of recomputed layers, its output
 * is not needed and is freed. */
static void replay_piece(struct pass *pass, int i)
{
    const struct piece *pieces = pass->chunk->pieces;
    bool is_last = i + 1 == pass->chunk->num_pieces || pieces[i + 1].keeping != KEEP_NOTHING;
    pass->replayed = replay_layer(pass->machine, &pieces[i], pass->record->microbatch,
                                  &pass->record->pieces[i], pass->replayed);
    if (!is_last)
        return;
    machine_give_back(pass->machine, pass->replayed);
    pass->replayed = NULL;
}

static void run_piece(struct pass *pass, enum step_op op, int i)
{
    struct machine *m = pass->machine;
    const struct piece *piece = &pass->chunk->pieces[i];
    const struct microbatch *microbatch = pass->record->microbatch;
    struct record *record = &pass->record->pieces[i];
    await(pass, piece->own);
    await(pass, piece->vocabulary);
    if (op == STEP_FORWARD)
        pass->flow = forward_piece(m, piece, microbatch, record, pass->flow);
    else if (op == STEP_REPLAY)
        replay_piece(pass, i);
    else
        pass->flow =
            backward_piece(m, piece, microbatch, record, pass->flow, gradients_of(pass->op));
}

static void run_step(struct pass *pass, const struct pass_step *step)
{
    struct machine *m = pass->machine;
    bool is_of_piece = step->op >= STEP_FORWARD;
    struct store *store = is_of_piece ? NULL : pass->chunk->units[step->index];
    if (!is_of_piece && !store)
        return;
    switch (step->op) {
    case STEP_GATHER:
        data_lane_gather(pass->data, m, store);
        break;
    case STEP_DROP:
        store_drop_values(m, store);
        break;
    case STEP_OPEN:
        store_open_gradients(m, store);
        break;
    case STEP_REDUCE:
        data_lane_reduce(pass->data, m, store);
        break;
    case STEP_SETTLE:
        data_lane_settle(m, store);
        break;
    case STEP_FORWARD:
    case STEP_REPLAY:
    case STEP_BACKWARD:
        run_piece(pass, step->op, step->index);
        break;
    }
}

void *chunk_pass(struct machine *m, const struct chunk_call *call)
{
    struct pass pass = { .machine = m,
                         .chunk = call->chunk,
                         .record = call->record,
                         .op = call->op,
                         .data = call->data,
                         .flow = call->flow };
    const struct pass_steps *steps =
        chunk_reduces_whole(call) ? &call->chunk->last[call->op] : &call->chunk->passes[call->op];
    for (int i = 0; i < steps->count && m->err.code == ERR_NONE; i++)
        run_step(&pass, &steps->at[i]);
    return pass.flow;
}
