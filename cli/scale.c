#include "cli/scale.h"

struct time_scale time_scale_of(double step_s)
{
    double per_s = step_s >= 0.9995 ? 1 : step_s >= 0.9995e-3 ? 1e3 : 1e6;
    double shown = step_s * per_s;
    return (struct time_scale){
        .per_s = per_s,
        .unit = per_s > 1e3 ? "us"
                : per_s > 1 ? "ms"
                            : "s",
        .decimals = shown < 9.995   ? 2
                    : shown < 999.5 ? 1
                                    : 0,
    };
}
