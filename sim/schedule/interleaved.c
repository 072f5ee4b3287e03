/* The interleaved schedule, in Megatron-LM's order (core/pipeline_parallel/schedules.py). If there
 * are as many microbatches as stages, old versions ran all forwards first. Newer versions and this
 * file do not, as that order only holds more activations. */
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

/* Size of a group: the number of consecutive microbatches that a stage runs on one chunk before it
 * goes on to its next chunk (Megatron's microbatch_group_size_per_vp_stage). A group of pp keeps
 * all stages busy. The last group may be smaller than the others, but must have at least pp
 * microbatches. So if the number of microbatches is no multiple of pp, this is the smallest group
 * size above pp that leaves no remainder or a remainder of at least pp. */
int interleaved_group(const struct schedule_shape *shape)
{
    int group = shape->group > 0 ? shape->group : shape->num_stages;
    while (group < shape->num_microbatches && shape->num_microbatches % group > 0 &&
           shape->num_microbatches % group < shape->num_stages)
        group++;
    return group;
}

/* Number of warm-up forwards: two for each later stage, for the way of the first microbatch there
 * and back, and a group for each chunk except the last. */
static int num_warmup(const struct schedule_shape *shape, int stage)
{
    int stages = shape->num_stages;
    int warmup =
        2 * (stages - stage - 1) + (shape->chunks_per_stage - 1) * interleaved_group(shape);
    int total = shape->num_microbatches * shape->chunks_per_stage;
    return warmup < total ? warmup : total;
}

/* Chunk and microbatch of the k-th forward of a stage. A group runs through all chunks of the stage
 * before the next group begins. Backwards run through the chunks from the last to the first. */
struct turn {
    int size;   /* size of its group; the last group may be smaller */
    int first;  /* first microbatch of the group */
    int within; /* number of passes of the group before this one */
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

/* How many of a stage's first `passes` forwards belong to its chunk number `round`. For backwards,
 * chunks are numbered from the last. */
static int passed(const struct schedule_shape *shape, int passes, int round)
{
    struct turn next = turn_of(shape, passes);
    int rest = next.within - round * next.size;
    if (rest < 0)
        rest = 0;
    return next.first + (rest < next.size ? rest : next.size);
}

/* The smallest number of forwards above `passes` at which the chunk has just completed a group. */
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

/* The largest number of microbatches that a chunk holds between the warm-up and the last forward.
 * The number does not fall during a group's forwards on this chunk and does not rise after them. So
 * it is enough to check the ends of groups and the two ends of the range. */
static int most_at_last(const struct schedule_shape *shape, int stage, int round)
{
    int chunks = shape->chunks_per_stage;
    int warmup = num_warmup(shape, stage);
    /* number of backwards before the last forward */
    int end = shape->num_microbatches * chunks - warmup;
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

/* How many of the microbatch-chunks that the stage holds belong to the chunk of this round. Those
 * held are consecutive in the order of forwards: a group on one chunk, then the same group on the
 * next. */
int interleaved_of_round(const struct schedule_shape *shape, int stage, int round)
{
    return passed(shape, interleaved_in_flight(shape, stage), round);
}

int interleaved_most_of_round(const struct schedule_shape *shape, int stage, int round)
{
    int held = interleaved_of_round(shape, stage, round);
    if (interleaved_group(shape) == shape->num_stages)
        return held; /* with this group size a chunk never holds more after the warm-up */
    int later = most_at_last(shape, stage, round);
    return later > held ? later : held;
}
