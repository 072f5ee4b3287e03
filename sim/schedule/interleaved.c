/* Megatron-LM's order (core/pipeline_parallel/schedules.py). Its older special case, all forwards
 * first when there are as many microbatches as stages, is left out, as it is from newer versions:
 * it only held more activations. */
#include "sim/schedule/generators.h"

bool interleaved_accepts(const struct schedule_shape *shape, struct err *err)
{
    int stages = shape->num_stages;
    int microbatches = shape->num_microbatches;
    if (stages < 2)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "interleaving needs 2 or more pipeline stages, not %d", stages);
    if (shape->chunks_per_stage < 2)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "interleaving needs 2 or more chunks on each stage, not %d",
                       shape->chunks_per_stage);
    if (microbatches % stages != 0)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "%d microbatches are not a multiple of %d pipeline stages", microbatches,
                       stages);
    return true;
}

/* Two for each stage behind, one for each way of its first microbatch, and pp for every chunk that
 * runs before the last. */
static int num_warmup(const struct schedule_shape *shape, int stage)
{
    int stages = shape->num_stages;
    int warmup = 2 * (stages - stage - 1) + (shape->chunks_per_stage - 1) * stages;
    int total = shape->num_microbatches * shape->chunks_per_stage;
    return warmup < total ? warmup : total;
}

/* The k-th forward of every stage: microbatches in groups of pp, each group through all chunks of
 * the stage before the next group enters. Backwards take the chunks from the last to the first. */
static int round_of(const struct schedule_shape *shape, int k)
{
    return k % (shape->num_stages * shape->chunks_per_stage) / shape->num_stages;
}

static int microbatch_of(const struct schedule_shape *shape, int k)
{
    int group = k / (shape->num_stages * shape->chunks_per_stage);
    return group * shape->num_stages + k % shape->num_stages;
}

static struct placement placement_of_all(const struct schedule_shape *shape)
{
    return (struct placement){ shape->num_stages, shape->chunks_per_stage, NULL };
}

static inline void emit_kth_forward(const struct schedule_shape *shape, int stage, int k,
                                    struct instrs *out)
{
    int round = round_of(shape, k);
    emit_forward(out, placement_chunk(placement_of_all(shape), stage, round),
                 microbatch_of(shape, k));
}

static inline void emit_kth_backward(const struct schedule_shape *shape, int stage, int k,
                                     struct instrs *out)
{
    int round = shape->chunks_per_stage - 1 - round_of(shape, k);
    emit_backward(out, placement_chunk(placement_of_all(shape), stage, round),
                  microbatch_of(shape, k));
}

void interleaved_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    int total = shape->num_microbatches * shape->chunks_per_stage;
    int warmup = num_warmup(shape, stage);
    for (int k = 0; k < warmup; k++)
        emit_kth_forward(shape, stage, k, out);
    for (int k = 0; k < total - warmup; k++) {
        emit_kth_forward(shape, stage, warmup + k, out);
        emit_kth_backward(shape, stage, k, out);
    }
    for (int k = total - warmup; k < total; k++)
        emit_kth_backward(shape, stage, k, out);
}

int interleaved_in_flight(const struct schedule_shape *shape, int stage)
{
    int total = shape->num_microbatches * shape->chunks_per_stage;
    int held = num_warmup(shape, stage) + 1;
    return held < total ? held : total;
}

/* Of the forwards that are held, which are in a row, those of one chunk: pp microbatches of a
 * chunk, then as many of the next. */
int interleaved_of_round(const struct schedule_shape *shape, int stage, int round)
{
    int stages = shape->num_stages;
    int group = stages * shape->chunks_per_stage;
    int held = interleaved_in_flight(shape, stage);
    int rest = held % group - round * stages;
    if (rest < 0)
        rest = 0;
    return held / group * stages + (rest < stages ? rest : stages);
}
