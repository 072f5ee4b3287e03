#include "kernels/host/loss_scale.h"

struct loss_scale loss_scale_new(void)
{
    return (
        struct loss_scale){ .scale = 65536, .growth_steps = 2000, .minimum = 1, .maximum = 0x1p24 };
}

static bool shrink(struct loss_scale *loss_scale)
{
    bool can = loss_scale->scale > loss_scale->minimum;
    loss_scale->scale /= can ? 2 : 1;
    loss_scale->steps_since = 0;
    return can;
}

bool loss_scale_update(struct loss_scale *loss_scale, bool is_finite)
{
    if (!is_finite)
        return shrink(loss_scale);
    if (++loss_scale->steps_since < loss_scale->growth_steps)
        return true;
    loss_scale->steps_since = 0;
    if (loss_scale->scale < loss_scale->maximum)
        loss_scale->scale *= 2;
    return true;
}
