/* DualPipe and DualPipeV. Every stage runs passes of two phases: those of phase 0 arrive from the
 * nearer end of the pipeline, those of phase 1 from the farther end. In the middle of a step a
 * forward of one phase and a backward of the other run as a pair, so that the messages of one
 * overlap the compute of the other. DualPipe has two copies of the model, and each copy's
 * microbatches are a phase. DualPipeV has one copy, placed as a V (down the stages and back up),
 * and its two halves are the phases. Stages s and pp - 1 - s of DualPipe run the same order as
 * stage s of a V over pp / 2 stages. The order and the numbering of steps are those of DeepSeek's
 * dualpipe.py and dualpipev.py. */
#include "sim/schedule/generators.h"

/* One stage of the V, and the passes that it has emitted so far, by phase. */
struct emitted {
    int half; /* number of stages of the V */
    int near; /* number of stages between this one and its nearer end */
    int num_microbatches;
    int chunk[2];
    struct instrs *out;
    int forwards[2], backwards[2];
    /* index in `out` from which to search for the next input gradient without a weight gradient */
    int weighed;
};

static void add_forward(struct emitted *to, int phase)
{
    emit_forward(to->out, to->chunk[phase], to->forwards[phase]++);
}

static void add_backward(struct emitted *to, int phase)
{
    emit_backward(to->out, to->chunk[phase], to->backwards[phase]++);
}

static void add_input(struct emitted *to, int phase)
{
    emit_backward_input(to->out, to->chunk[phase], to->backwards[phase]++);
}

/* Adds the weight gradient that has waited longest. */
static void add_weight(struct emitted *to)
{
    while (to->out->at[to->weighed].op != INSTR_BACKWARD_INPUT)
        to->weighed++;
    const struct instr *input = &to->out->at[to->weighed++];
    emit_backward_weight(to->out, input->chunk, input->microbatch);
}

static void add_pair(struct emitted *to, int phase)
{
    emit_pair(to->out, to->chunk[phase], to->forwards[phase]++, to->chunk[1 - phase],
              to->backwards[1 - phase]++);
}

/* Steps 1 to 3: the warm-up, until both phases have forwards and phase 1 has backwards. */
static void add_warmup(struct emitted *to)
{
    int behind = to->half - to->near - 1;
    for (int i = 0; i < 2 * behind; i++)
        add_forward(to, 0);
    for (int i = 0; i < to->near + 1; i++) {
        add_forward(to, 0);
        add_forward(to, 1);
    }
    for (int i = 0; i < behind; i++) {
        add_input(to, 1);
        add_weight(to);
        add_forward(to, 1);
    }
}

/* Step 4. On the stage at the bottom of the V the first forward and backward do not form a pair, as
 * the backward is that of the microbatch whose forward has just run. */
static void add_steady(struct emitted *to)
{
    int rounds = to->num_microbatches - 2 * to->half + to->near + 1;
    for (int i = 0; i < rounds; i++) {
        if (i == 0 && to->near == to->half - 1) {
            add_forward(to, 0);
            add_backward(to, 1);
        } else {
            add_pair(to, 0);
        }
        add_pair(to, 1);
    }
}

/* Steps 5 to 8. From the middle of step 6 on, input gradients are computed first and their weight
 * gradients later. */
static void add_cooldown(struct emitted *to)
{
    int behind = to->half - to->near - 1;
    int passes = 2 * (to->near + 1);
    for (int i = 0; i < behind; i++) {
        add_backward(to, 1);
        add_pair(to, 1);
    }
    for (int i = 0; i < passes; i++)
        (i < passes / 2 ? add_backward : add_input)(to, 1 - i % 2);
    for (int i = 0; i < behind; i++) {
        add_weight(to);
        add_input(to, 0);
    }
    for (int i = 0; i < to->near + 1; i++)
        add_weight(to);
}

static void emit_stage(struct emitted *to)
{
    add_warmup(to);
    add_steady(to);
    add_cooldown(to);
}

/* --- closed forms for a stage of the V ------------------------------------------------------ */

/* Activations that a stage of the V holds at its peak, which lasts from the first pair after the
 * warm-up on. */
static int held_of_phase(int half, int near, int phase)
{
    return phase == 0 ? 2 * half - near : near + 1;
}

/* Number of pairs with a backward of this phase. For phase 0 there is one in each round of step 4
 * and of step 5; for phase 1 one in each round of step 4, except the first on the stage at the
 * bottom of the V. */
static int pairs_of_phase(int half, int near, int num_microbatches, int phase)
{
    int apart = near == half - 1;
    return phase == 0 ? num_microbatches - half : num_microbatches - 2 * half + near + 1 - apart;
}

static bool has_enough(int num_microbatches, int least, const char *what, struct err *err)
{
    return num_microbatches >= least ||
           err_set(err, ERR_INFEASIBLE, "schedule",
                   "%s needs %d or more microbatches, twice its stages, not %d", what, least,
                   num_microbatches);
}

/* --- DualPipeV ----------------------------------------------------------------------------- */

bool dualpipev_accepts(const struct schedule_shape *shape, struct err *err)
{
    return v_accepts(shape, err) &&
           has_enough(shape->num_microbatches, 2 * shape->num_stages, "DualPipeV", err);
}

void dualpipev_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    struct emitted to = {
        .half = shape->num_stages,
        .near = stage,
        .num_microbatches = shape->num_microbatches,
        .chunk = { stage, 2 * shape->num_stages - 1 - stage },
        .out = out,
    };
    emit_stage(&to);
}

int dualpipev_of_round(const struct schedule_shape *shape, int stage, int round)
{
    return held_of_phase(shape->num_stages, stage, round);
}

int dualpipev_in_flight(const struct schedule_shape *shape, int stage)
{
    (void)stage;
    return 2 * shape->num_stages + 1;
}

int dualpipev_pairs(const struct schedule_shape *shape, int stage, int round)
{
    return pairs_of_phase(shape->num_stages, stage, shape->num_microbatches, round);
}

/* --- DualPipe ------------------------------------------------------------------------------ */

/* A stage of DualPipe as a stage of the V. Phase 0 is the copy of the model whose microbatches
 * enter at the nearer end. */
struct folded {
    int half, near;
    bool is_far; /* nearer to the last stage */
};

static struct folded fold(const struct schedule_shape *shape, int stage)
{
    int half = shape->num_stages / 2;
    bool is_far = stage >= half;
    return (struct folded){ half, is_far ? shape->num_stages - 1 - stage : stage, is_far };
}

bool dualpipe_accepts(const struct schedule_shape *shape, struct err *err)
{
    int stages = shape->num_stages;
    if (stages < 4 || stages % 2 != 0)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "DualPipe needs an even number of 4 or more pipeline stages, not %d",
                       stages);
    if (shape->chunks_per_stage != 2)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "DualPipe has one chunk of each direction on a stage (vpp1), not %d",
                       shape->chunks_per_stage / 2);
    return has_enough(2 * shape->num_microbatches, 2 * stages, "DualPipe", err);
}

void dualpipe_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    struct folded at = fold(shape, stage);
    struct placement placement = { shape->num_stages, 2, &placement_mirrored };
    struct emitted to = {
        .half = at.half,
        .near = at.near,
        .num_microbatches = shape->num_microbatches,
        .chunk = { placement_chunk(placement, stage, at.is_far),
                   placement_chunk(placement, stage, !at.is_far) },
        .out = out,
    };
    emit_stage(&to);
}

int dualpipe_of_round(const struct schedule_shape *shape, int stage, int round)
{
    struct folded at = fold(shape, stage);
    return held_of_phase(at.half, at.near, round != (int)at.is_far);
}

int dualpipe_in_flight(const struct schedule_shape *shape, int stage)
{
    (void)stage;
    return shape->num_stages + 1;
}

int dualpipe_pairs(const struct schedule_shape *shape, int stage, int round)
{
    struct folded at = fold(shape, stage);
    return pairs_of_phase(at.half, at.near, shape->num_microbatches, round != (int)at.is_far);
}
