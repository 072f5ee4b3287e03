/* The 1F1B schedule. */
#include "sim/schedule/generators.h"

/* Number of warm-up forwards, which a stage runs before its first gradient can arrive: one per
 * later stage. */
static int num_warmup(const struct schedule_shape *shape, int stage)
{
    int behind = shape->num_stages - stage - 1;
    return behind < shape->num_microbatches ? behind : shape->num_microbatches;
}

void one_f_one_b_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    int total = shape->num_microbatches;
    int warmup = num_warmup(shape, stage);
    for (int i = 0; i < warmup; i++)
        emit_forward(out, stage, i);
    for (int i = 0; i < total - warmup; i++) {
        emit_forward(out, stage, warmup + i);
        emit_backward(out, stage, i);
    }
    for (int i = total - warmup; i < total; i++)
        emit_backward(out, stage, i);
}

/* The warm-up forwards plus the current one: min(m, pp - stage) for m microbatches. */
int one_f_one_b_in_flight(const struct schedule_shape *shape, int stage)
{
    int held = num_warmup(shape, stage) + 1;
    return held < shape->num_microbatches ? held : shape->num_microbatches;
}
