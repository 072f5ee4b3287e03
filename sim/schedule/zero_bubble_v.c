/* ZB-V: each stage has two chunks, placed as a V, down the stages and back up. So stage 0 has the
 * embedding and the head, and a microbatch's backward starts there right after its loss. The order
 * assumes passes of equal length. With at least 2 pp - 1 microbatches no stage waits between its
 * first forward and its last weight gradient; with fewer, the passes of the missing microbatches
 * are left out. */
#include "sim/schedule/generators.h"

/* Passes that a stage has emitted so far, by round. */
struct emitted {
    const struct schedule_shape *shape;
    int stage;
    struct instrs *out;
    int forwards[2], inputs[2], weights[2];
};

static struct placement placement_of_v(const struct schedule_shape *shape)
{
    return (struct placement){ shape->num_stages, shape->chunks_per_stage, &placement_v };
}

static void add(struct emitted *to, int round, int *count,
                void (*emit)(struct instrs *out, int chunk, int microbatch))
{
    int chunk = placement_chunk(placement_of_v(to->shape), to->stage, round);
    if (*count < to->shape->num_microbatches)
        emit(to->out, chunk, *count);
    ++*count;
}

static void add_forward(struct emitted *to, int round)
{
    add(to, round, &to->forwards[round], emit_forward);
}

static void add_input(struct emitted *to, int round)
{
    add(to, round, &to->inputs[round], emit_backward_input);
}

static void add_weight(struct emitted *to, int round)
{
    add(to, round, &to->weights[round], emit_backward_weight);
}

static void add_backward(struct emitted *to, int round)
{
    add_input(to, round);
    add_weight(to, round);
}

/* Adds the warm-up: the forwards until the gradient of the first loss arrives at this stage. */
static void add_warmup(struct emitted *to)
{
    int behind = to->shape->num_stages - to->stage;
    for (int i = 0; i < 2 * behind - 1; i++)
        add_forward(to, 0);
    for (int i = 0; i < to->stage; i++) {
        add_forward(to, 1);
        add_forward(to, 0);
    }
    for (int i = 0; i < behind; i++) {
        add_forward(to, 1);
        add_backward(to, 1);
    }
}

static void add_steady(struct emitted *to, int num_microbatches)
{
    while (to->forwards[1] < num_microbatches) {
        if (to->forwards[0] < num_microbatches)
            add_forward(to, 0);
        add_backward(to, 0);
        add_forward(to, 1);
        add_backward(to, 1);
    }
}

/* Adds the cool-down: input gradients first, weight gradients while the stage waits for others. */
static void add_cooldown(struct emitted *to, int num_microbatches)
{
    for (int i = 0; i < to->stage; i++) {
        add_input(to, 0);
        add_input(to, 1);
    }
    for (int i = to->stage; i < to->shape->num_stages; i++) {
        add_input(to, 0);
        add_weight(to, 0);
    }
    for (int round = 1; round >= 0; round--)
        while (to->weights[round] < num_microbatches)
            add_weight(to, round);
}

void zb_v_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    struct emitted to = { .shape = shape, .stage = stage, .out = out };
    int least = 2 * shape->num_stages - 1;
    int num_microbatches = shape->num_microbatches > least ? shape->num_microbatches : least;
    add_warmup(&to);
    add_steady(&to, num_microbatches);
    add_cooldown(&to, num_microbatches);
}

bool v_accepts(const struct schedule_shape *shape, struct err *err)
{
    if (shape->num_stages < 2)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "a V-shaped schedule needs 2 or more pipeline stages, not %d",
                       shape->num_stages);
    return shape->chunks_per_stage == 2 ||
           err_set(err, ERR_INFEASIBLE, "schedule",
                   "a V-shaped schedule has 2 chunks on each stage (vpp2), not %d",
                   shape->chunks_per_stage);
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* The stage's peak begins at the last forward before its first backward. That backward is of the
 * second chunk. From then on, each forward of the first chunk follows a backward that has freed as
 * much. */
int zb_v_of_round(const struct schedule_shape *shape, int stage, int round)
{
    int held = round == 0 ? 2 * shape->num_stages - stage - 1 : stage + 1;
    return smaller(held, shape->num_microbatches);
}

int zb_v_most_of_round(const struct schedule_shape *shape, int stage, int round)
{
    int held = round == 0 ? 2 * shape->num_stages - stage : stage + 1;
    return smaller(held, shape->num_microbatches);
}

int zb_v_in_flight(const struct schedule_shape *shape, int stage)
{
    return zb_v_of_round(shape, stage, 0) + zb_v_of_round(shape, stage, 1);
}

/* Returns 0: before the cool-down each weight gradient directly follows its input gradient. */
int v_waiting(const struct schedule_shape *shape, int stage)
{
    (void)shape, (void)stage;
    return 0;
}
