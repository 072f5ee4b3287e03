/* Megatron-LM's order (core/pipeline_parallel/schedules.py). The old special case (all forwards
 * first when there are as many microbatches as stages) is left out, as in newer versions: it only
 * held more activations. */
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
    if (microbatches < stages)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "%d microbatches are fewer than %d pipeline stages", microbatches, stages);
    return true;
}

/* Microbatches that pass a chunk of a stage in a row, before the stage turns to its next chunk. A
 * group of pp keeps all stages busy; the last group may be smaller, but not than pp, so where the
 * microbatches are no multiple of pp the least larger group that leaves none, or pp and more, takes
 * its place (microbatch_group_size_per_vp_stage). */
int interleaved_group(const struct schedule_shape *shape)
{
    int group = shape->group > 0 ? shape->group : shape->num_stages;
    while (group < shape->num_microbatches && shape->num_microbatches % group > 0 &&
           shape->num_microbatches % group < shape->num_stages)
        group++;
    return group;
}

/* Two for each stage behind, one for each way of its first microbatch, and a group for every chunk
 * that runs before the last. */
static int num_warmup(const struct schedule_shape *shape, int stage)
{
    int stages = shape->num_stages;
    int warmup =
        2 * (stages - stage - 1) + (shape->chunks_per_stage - 1) * interleaved_group(shape);
    int total = shape->num_microbatches * shape->chunks_per_stage;
    return warmup < total ? warmup : total;
}

/* Where the k-th forward of every stage is: a group goes through all chunks of the stage before the
 * next group enters. Backwards take the chunks from the last to the first. */
struct turn {
    int size;   /* of its group: the last may be smaller */
    int first;  /* microbatch of the group */
    int within; /* passes of the group before this one */
};

static struct turn turn_of(const struct schedule_shape *shape, int k)
{
    int size = interleaved_group(shape);
    int whole = shape->num_microbatches / size;
    int group = k / (size * shape->chunks_per_stage);
    group = group < whole ? group : whole;
    return (struct turn){ .size = group < whole ? size : shape->num_microbatches % size,
                          .first = group * size,
                          .within = k - group * size * shape->chunks_per_stage };
}

static int round_of(const struct schedule_shape *shape, int k)
{
    struct turn turn = turn_of(shape, k);
    return turn.within / turn.size;
}

static int microbatch_of(const struct schedule_shape *shape, int k)
{
    struct turn turn = turn_of(shape, k);
    return turn.first + turn.within % turn.size;
}

int schedule_lead(const struct schedule *schedule, int stage, const struct instr *pass)
{
    const struct schedule_shape *shape = &schedule->shape;
    bool from_last = pass->op == INSTR_FORWARD && stage == 0;
    bool from_first = instr_starts_backward(pass->op) && stage == shape->num_stages - 1;
    if (!(from_last || from_first) || schedule->rule || shape->chunks_per_stage == 1 ||
        shape->num_microbatches < shape->num_stages)
        return 0;
    int group = interleaved_group(shape);
    int whole = shape->num_microbatches / group * group;
    int size = pass->microbatch < whole ? group : shape->num_microbatches - whole;
    return size - shape->num_stages;
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

/* The number of a stage's first `passes` forwards that belong to one chunk. Among its first
 * backwards it is the number for the chunk as far from the last. */
static int passed(const struct schedule_shape *shape, int passes, int round)
{
    struct turn next = turn_of(shape, passes);
    int rest = next.within - round * next.size;
    if (rest < 0)
        rest = 0;
    return next.first + (rest < next.size ? rest : next.size);
}

/* The number of forwards, more than `passes`, at which a chunk has next done a group's. */
static int next_end(const struct schedule_shape *shape, int passes, int round)
{
    struct turn turn = turn_of(shape, passes);
    int begin = passes - turn.within;
    if (begin + (round + 1) * turn.size <= passes) {
        begin += turn.size * shape->chunks_per_stage;
        turn = turn_of(shape, begin);
    }
    return begin + (round + 1) * turn.size;
}

/* Later than at first, while one group follows another, a chunk may hold more. It holds the most
 * when it has done a group's forwards, or at the two ends: during them it holds no less with each,
 * and after them no more. */
static int most_at_last(const struct schedule_shape *shape, int stage, int round)
{
    int chunks = shape->chunks_per_stage;
    int warmup = num_warmup(shape, stage);
    int end = shape->num_microbatches * chunks - warmup; /* backwards before the last forward */
    int first = end - 2 * interleaved_group(shape) * chunks;
    int most = 0, last = end - 1;
    for (int done = first > 0 ? first : 0; done <= last;) {
        int forwards = warmup + done + 1;
        int held = passed(shape, forwards, round) - passed(shape, done, chunks - 1 - round);
        most = held > most ? held : most;
        if (done == last)
            break;
        int next = next_end(shape, forwards, round) - warmup - 1;
        done = next < last ? next : last;
    }
    return most;
}

/* The number of held forwards that belong to one chunk. Held forwards follow each other: a group of
 * a chunk, then the same group of the next. */
int interleaved_of_round(const struct schedule_shape *shape, int stage, int round)
{
    return passed(shape, interleaved_in_flight(shape, stage), round);
}

int interleaved_most_of_round(const struct schedule_shape *shape, int stage, int round)
{
    int held = interleaved_of_round(shape, stage, round);
    if (interleaved_group(shape) == shape->num_stages)
        return held; /* one less, of the first chunk */
    int later = most_at_last(shape, stage, round);
    return later > held ? later : held;
}
