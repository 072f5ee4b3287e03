/* Properties of a gradient exchange, such as when it begins and how often it averages over all
 * ranks. */
#include "sim/exchange/exchange.h"

#include <limits.h>
#include <math.h>
#include <string.h>

const struct exchange_method *exchange_method_of(const struct exchange *exchange)
{
    return &exchange_methods[exchange->method];
}

bool exchange_is_default(const struct exchange *exchange)
{
    return exchange->method == 0;
}

bool exchange_keeps_replicas_equal(const struct exchange *exchange)
{
    return exchange_method_of(exchange)->object == EXCHANGE_GRADIENTS;
}

bool exchange_sums_in_groups(const struct exchange *exchange)
{
    const struct exchange_method *method = exchange_method_of(exchange);
    bool has_group = false;
    for (int i = 0; i < MAX_EXCHANGE_PARAMETERS && method->parameters[i].name; i++)
        if (method->parameters[i].member == offsetof(struct exchange, group))
            has_group = true;
    return has_group && exchange->group != 1;
}

bool exchange_is_late(const struct exchange *exchange)
{
    return exchange->staleness > 0;
}

enum exchange_start exchange_start(const struct exchange *exchange)
{
    if (exchange_is_late(exchange))
        return START_STEP;
    if (exchange_keeps_replicas_equal(exchange))
        return START_GRADIENTS;
    return exchange->combine == COMBINE_BESIDE ? START_STEP : START_UPDATED;
}

bool exchange_averages(const struct exchange *exchange, int step)
{
    return exchange->period <= 1 || step % exchange->period == exchange->period - 1;
}

int exchange_cycle(const struct exchange *exchange)
{
    return exchange->period > 1 ? exchange->period : 1;
}

/* Each part of the run has the period that follows from the loss of the part. The exact period
 * follows from the loss at its own start; the difference is small, as a run has many periods. */
double exchange_averaging_share(const struct exchange *exchange, double first_loss,
                                const double *losses, int num_losses)
{
    double averages = 0;
    if (!exchange_method_of(exchange)->adapts)
        return 1.0 / exchange_cycle(exchange);
    for (int i = 0; i < num_losses; i++)
        averages += 1.0 / exchange_adapted_period(exchange, first_loss, losses[i]);
    return averages / num_losses;
}

int exchange_adapted_period(const struct exchange *exchange, double first_loss, double loss)
{
    double period = ceil(exchange->period * fmax(1, first_loss / loss));
    return period < INT_MAX ? (int)period : INT_MAX;
}
