#include "sim/schedule/generators.h"

/* The naive schedule. Each stage runs each microbatch forward, then backward. On the first stage
 * the next forward follows the backward of the microbatch before, so only one microbatch is in the
 * pipeline. */
void naive_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    for (int microbatch = 0; microbatch < shape->num_microbatches; microbatch++) {
        emit_forward(out, stage, microbatch);
        emit_backward(out, stage, microbatch);
    }
}

int naive_in_flight(const struct schedule_shape *shape, int stage)
{
    (void)shape;
    (void)stage;
    return 1;
}
