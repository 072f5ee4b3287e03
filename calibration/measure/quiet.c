/* Waits until other programs leave the cores idle. */
#include "calibration/measure/quiet.h"

#include "base/core_share.h"

#include <math.h>

static const double rest_s = 1;

bool quiet_wait(const struct quiet_machine *machine, double most_s, double *waited_s,
                struct err *err)
{
    double first_s, now_s, share;
    *waited_s = 0;
    if (!machine->core_share(machine->context, &share, &first_s, err))
        return false;
    while (share < quiet_core_share && *waited_s < most_s) {
        double left_s = most_s - *waited_s;
        if (machine->tell)
            machine->tell(machine->context, share, left_s);
        machine->rest(machine->context, fmin(rest_s, left_s));
        if (!machine->core_share(machine->context, &share, &now_s, err))
            return false;
        *waited_s = now_s - first_s;
    }
    return true;
}
