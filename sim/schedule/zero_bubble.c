/* ZB-H1 and ZB-H2 split the backward: other stages wait only for input gradients, so weight
 * gradients can fill the bubble. ZB-H1 is 1F1B in which stage s delays its weight gradients by s
 * microbatches, so that s weight gradients are left when the last gradient has arrived. ZB-H2
 * doubles the warm-up and the delay: if forward, input gradient and weight gradient take equal
 * times, no stage waits between its first forward and its last weight gradient. With fewer
 * microbatches than the warm-up, the order is valid but has bubbles. */
#include "sim/schedule/generators.h"

/* Warm-up and delay, in units of those of ZB-H1. */
enum depth { H1 = 1, H2 = 2 };

bool zero_bubble_accepts(const struct schedule_shape *shape, struct err *err)
{
    if (shape->num_stages < 2)
        return err_set(err, ERR_INFEASIBLE, "schedule",
                       "zero-bubble schedules need 2 or more pipeline stages, not %d",
                       shape->num_stages);
    return accepts_one_chunk(shape, err);
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int num_warmup(const struct schedule_shape *shape, int stage, enum depth depth)
{
    return smaller((int)depth * (shape->num_stages - stage - 1), shape->num_microbatches);
}

/* Number of rounds at the start of the steady state that end without a weight gradient. */
static int num_put_off(int stage, enum depth depth)
{
    return (int)depth * stage;
}

static void emit_stage(const struct schedule_shape *shape, int stage, enum depth depth,
                       struct instrs *out)
{
    int total = shape->num_microbatches;
    int warmup = num_warmup(shape, stage, depth);
    int put_off = num_put_off(stage, depth);
    int weights = 0;
    for (int i = 0; i < warmup; i++)
        emit_forward(out, stage, i);
    for (int i = 0; i < total - warmup; i++) {
        emit_forward(out, stage, warmup + i);
        emit_backward_input(out, stage, i);
        if (i >= put_off)
            emit_backward_weight(out, stage, weights++);
    }
    for (int i = total - warmup; i < total; i++) {
        emit_backward_input(out, stage, i);
        emit_backward_weight(out, stage, weights++);
    }
    while (weights < total)
        emit_backward_weight(out, stage, weights++);
}

/* Number of microbatches that wait for their weight gradient at the stage's peak. The peak is after
 * the forward of the first round that ends with a weight gradient, or of the last round if none
 * does. It is 0 if all microbatches belong to the warm-up; the peak is then at the end of the
 * warm-up. */
static int waiting_at_peak(const struct schedule_shape *shape, int stage, enum depth depth)
{
    int rounds = shape->num_microbatches - num_warmup(shape, stage, depth);
    return rounds > 0 ? smaller(num_put_off(stage, depth), rounds - 1) : 0;
}

static int held_at_peak(const struct schedule_shape *shape, int stage, enum depth depth)
{
    int started = num_warmup(shape, stage, depth) + 1 + waiting_at_peak(shape, stage, depth);
    return smaller(started, shape->num_microbatches);
}

void zb_h1_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    emit_stage(shape, stage, H1, out);
}

int zb_h1_in_flight(const struct schedule_shape *shape, int stage)
{
    return held_at_peak(shape, stage, H1);
}

int zb_h1_waiting(const struct schedule_shape *shape, int stage)
{
    return waiting_at_peak(shape, stage, H1);
}

void zb_h2_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    emit_stage(shape, stage, H2, out);
}

int zb_h2_in_flight(const struct schedule_shape *shape, int stage)
{
    return held_at_peak(shape, stage, H2);
}

int zb_h2_waiting(const struct schedule_shape *shape, int stage)
{
    return waiting_at_peak(shape, stage, H2);
}
