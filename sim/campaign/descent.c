/* The loss of a training run by step, at given learning rates. */
#include "sim/campaign/descent.h"

#include <math.h>

struct descent_run descent_run_of(const struct exchange_use *use, double heterogeneity, double rate,
                                  double fades)
{
    const struct convergence convergence = { .heterogeneity = heterogeneity };
    return (struct descent_run){ .rate = rate,
                                 .fades = fades,
                                 .num_ranks = use->num_ranks,
                                 .noise_factor = convergence_noise_factor(&convergence, use),
                                 .apart = convergence_apart(&convergence, use),
                                 .is_memory = exchange_keeps_replicas_equal(use->exchange) };
}

/* The integral of the learning rate over the steps t: of rate / (1 + t / fades), or of the constant
 * `rate` if `fades` is 0. */
static double sum_of_rates(const struct descent_run *run, double step)
{
    if (run->fades <= 0)
        return run->rate * step;
    return run->rate * run->fades * log1p(step / run->fades);
}

static double rate_at(const struct descent_run *run, double step)
{
    return run->fades > 0 ? run->rate / (1 + step / run->fades) : run->rate;
}

double descent_loss(const struct descent *descent, const struct descent_run *run, double step)
{
    double rate = rate_at(run, step);
    double covered = sum_of_rates(run, step) / (descent->power * descent->reach);
    double left = descent->gap * exp(-descent->power * log1p(covered));
    double noise =
        descent->noise > 0 ? rate * descent->noise * run->noise_factor / run->num_ranks : 0;
    double scale = run->is_memory ? descent->memory : descent->mixing;
    return descent->least + left + noise + rate * rate * scale * run->apart;
}

/* Bisection is valid because no term of the loss grows with the steps. */
double descent_steps_to(const struct descent *descent, const struct descent_run *run, double loss)
{
    static const double most = 0x1p40;
    double above = 0, below = most;
    if (!(descent_loss(descent, run, most) <= loss))
        return HUGE_VAL;
    while (below - above > 0.5) {
        double middle = (above + below) / 2;
        if (descent_loss(descent, run, middle) <= loss)
            below = middle;
        else
            above = middle;
    }
    /* `above` may lie just before the last whole step whose loss is still above `loss` */
    double steps = ceil(above);
    return descent_loss(descent, run, steps) <= loss ? steps : steps + 1;
}

static double scale_of(const struct descent *descent, double apart)
{
    if (apart <= 0)
        return 0;
    if (descent->noise <= 0)
        return HUGE_VAL;
    return descent->gap * descent->reach * apart * apart / pow(descent->noise, 3);
}

struct convergence descent_convergence(const struct descent *descent, double heterogeneity)
{
    return (struct convergence){ .mixing_scale = scale_of(descent, descent->mixing),
                                 .memory_scale = scale_of(descent, descent->memory),
                                 .heterogeneity = heterogeneity };
}
