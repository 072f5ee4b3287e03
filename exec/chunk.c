#include "exec/chunk.h"

#include <string.h>

void chunk_show_stores(struct chunk *chunk)
{
    for (int i = 0; i < chunk->num_parts; i++) {
        struct part *part = &chunk->parts[i];
        part->values = part->own ? part->own->values : NULL;
        part->gradients = part->own ? part->own->gradients : NULL;
        part->vocabulary_values = part->vocabulary ? part->vocabulary->values : NULL;
        part->vocabulary_gradients = part->vocabulary ? part->vocabulary->gradients : NULL;
    }
}

static void give_back(struct machine *m, char **at)
{
    machine_give_back(m, *at);
    *at = NULL;
}

static void *copy_of_checkpoint(struct machine *m, const struct part *part,
                                const struct record *record)
{
    void *copy = machine_take(m, machine_stream_bytes(m));
    if (copy)
        m->device_api->copy(m->compute, copy, record->saved.kept + part->saved.checkpoint,
                            machine_stream_bytes(m));
    return copy;
}

static void *forward_part(struct machine *m, const struct part *part,
                          const struct microbatch *microbatch, struct record *record, void *input)
{
    memset(record, 0, sizeof *record);
    record->saved.kept = machine_take(m, part->saved.kept_bytes);
    record->saved.replayed = machine_take(m, part->saved.replayed_bytes);
    if (part->keeping == KEEP_INPUT && record->saved.kept)
        m->device_api->copy(m->compute, record->saved.kept + part->saved.checkpoint, input,
                            machine_stream_bytes(m));
    if (m->err.code != ERR_NONE)
        return NULL;
    void *output = machine_forward(m, part, microbatch, record, input);
    give_back(m, &record->saved.replayed);
    return output;
}

void *chunk_forward(struct machine *m, const struct chunk *chunk, const struct chunk_record *record,
                    void *input)
{
    for (int i = 0; i < chunk->num_parts && m->err.code == ERR_NONE; i++)
        input = forward_part(m, &chunk->parts[i], record->microbatch, &record->parts[i], input);
    return input;
}

/* The layers from the latest kept input to the one at `last`. */
static void replay_layers(struct machine *m, const struct chunk *chunk,
                          const struct chunk_record *record, int last)
{
    int i = last;
    while (chunk->parts[i].keeping == KEEP_NOTHING)
        i--;
    void *flow = copy_of_checkpoint(m, &chunk->parts[i], &record->parts[i]);
    for (; i <= last && m->err.code == ERR_NONE; i++) {
        struct saved *saved = &record->parts[i].saved;
        saved->replayed = machine_take(m, chunk->parts[i].saved.replayed_bytes);
        if (saved->replayed)
            flow =
                machine_forward(m, &chunk->parts[i], record->microbatch, &record->parts[i], flow);
    }
    if (m->err.code == ERR_NONE)
        m->device_api->free(m->device, m->compute, flow);
}

/* What recompute dropped of the part at `i`, made again. */
static void replay(struct machine *m, const struct chunk *chunk, const struct chunk_record *record,
                   int i)
{
    const struct part *part = &chunk->parts[i];
    struct saved *saved = &record->parts[i].saved;
    if (part->saved.replayed_bytes == 0 || saved->replayed)
        return;
    if (part->keeping != KEEP_ALL_BUT_CORE) {
        replay_layers(m, chunk, record, i);
        return;
    }
    saved->replayed = machine_take(m, part->saved.replayed_bytes);
    if (saved->replayed)
        machine_replay_core(m, part, record->microbatch, &record->parts[i]);
}

static void *backward_part(struct machine *m, const struct part *part,
                           const struct microbatch *microbatch, struct record *record,
                           void *output_gradient, enum gradients gradients)
{
    void *input_gradient =
        machine_backward(m, part, microbatch, record, output_gradient, gradients);
    if (gradients != GRADIENTS_OF_INPUTS) {
        give_back(m, &record->saved.kept);
        give_back(m, &record->saved.replayed);
    }
    return input_gradient;
}

void *chunk_backward(struct machine *m, const struct chunk *chunk,
                     const struct chunk_record *record, void *gradient, enum gradients gradients)
{
    for (int i = chunk->num_parts - 1; i >= 0; i--) {
        replay(m, chunk, record, i);
        if (m->err.code != ERR_NONE)
            return NULL;
        gradient = backward_part(m, &chunk->parts[i], record->microbatch, &record->parts[i],
                                 gradient, gradients);
    }
    return gradient;
}
