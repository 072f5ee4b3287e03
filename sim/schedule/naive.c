#include "sim/schedule/generators.h"

/* Each stage runs each microbatch forward, then backward. The first stage's order ensures that the
 * next microbatch enters only when the last one is back. */
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
