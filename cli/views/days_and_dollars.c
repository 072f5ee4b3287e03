#include "cli/views/days_and_dollars.h"

#include "base/units.h"

#include <math.h>

double days_to_train(const struct setup *setup, const struct prediction *prediction)
{
    return setup->model.tokens / prediction->tokens_per_s / DAY_S;
}

double dollars_of(const struct setup *setup, double run_s)
{
    return run_s / 3600 * setup->system.num_gpus * setup->system.cluster.price_per_gpu_h;
}

double dollars_to_train(const struct setup *setup, const struct prediction *prediction)
{
    return dollars_of(setup, days_to_train(setup, prediction) * DAY_S);
}

json_t *number_json(double value)
{
    if (value == floor(value) && fabs(value) <= 1e18)
        return json_integer((json_int_t)value);
    return json_real(value);
}

json_t *finite_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
