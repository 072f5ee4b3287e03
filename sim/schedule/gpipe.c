#include "sim/schedule/generators.h"

/* The GPipe schedule: all forwards, then all backwards. Backwards run in the order of the forwards,
 * as in Megatron and PyTorch, so that messages have one order in both directions. Figures in the
 * GPipe paper show the reverse order; it takes the same time. */
void gpipe_emit(const struct schedule_shape *shape, int stage, struct instrs *out)
{
    for (int microbatch = 0; microbatch < shape->num_microbatches; microbatch++)
        emit_forward(out, stage, microbatch);
    for (int microbatch = 0; microbatch < shape->num_microbatches; microbatch++)
        emit_backward(out, stage, microbatch);
}

int gpipe_in_flight(const struct schedule_shape *shape, int stage)
{
    (void)stage;
    return shape->num_microbatches;
}
