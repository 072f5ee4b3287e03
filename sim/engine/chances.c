/* How likely each of several plans is the fastest, by random draws of the errors of their predicted
 * times. */
#include "sim/engine/chances.h"

#include "base/arena.h"
#include "base/normal.h"
#include "base/random.h"
#include "sim/engine/interval.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Share of an error's variance that all plans have in common. */
static const double in_common = 0.25;

/* Each class's share of a plan's time, and the half width of the plan's own error. */
struct shares {
    double of[NUM_ERROR_PARTS];
    double own;
};

enum { COMPUTE = offsetof(struct error_widths, compute) / sizeof(double) };

double chance_class_width(const struct system *system, int k)
{
    double shift = fmax(system->stack.errors.source, system->profile.source_error);
    double width = sqrt(in_common) * error_width(&system->stack.errors.widths, k);
    return k == COMPUTE ? hypot(width, shift) : width;
}

double chance_own_width(const struct error_widths *widths, const double shares[NUM_ERROR_PARTS])
{
    double squares = pow(error_width(widths, 0), 2);
    for (int k = 1; k < NUM_ERROR_PARTS; k++)
        squares += (1 - in_common) * pow(shares[k] * error_width(widths, k), 2);
    return sqrt(squares);
}

/* Draws one factor per class. */
static void draw_factors(const struct system *system, struct random *rng,
                         double factor[NUM_ERROR_PARTS])
{
    for (int k = 1; k < NUM_ERROR_PARTS; k++)
        factor[k] = exp(random_normal(rng) * chance_class_width(system, k) / normal_90);
}

/* The fastest plan in one draw; the first of equally fast ones. */
static int fastest(const struct system *system, const struct rival_time *rivals,
                   const struct shares *shares, int count, int draw)
{
    struct random rng = random_new(0, (uint64_t)draw);
    double factor[NUM_ERROR_PARTS];
    double least_s = HUGE_VAL;
    int best = 0;
    draw_factors(system, &rng, factor);
    for (int i = 0; i < count; i++) {
        double scale = 0;
        for (int k = 1; k < NUM_ERROR_PARTS; k++)
            scale += shares[i].of[k] * factor[k];
        double step_s =
            rivals[i].step_s * scale * exp(random_normal(&rng) * shares[i].own / normal_90);
        if (step_s < least_s) {
            least_s = step_s;
            best = i;
        }
    }
    return best;
}

void chances_of_best(const struct system *system, const struct rival_time *rivals, int count,
                     double *out)
{
    struct shares *shares = arena_grow(NULL, (size_t)(count > 0 ? count : 1) * sizeof *shares);
    for (int i = 0; i < count; i++) {
        interval_shares(rivals[i].parts, shares[i].of);
        shares[i].own = chance_own_width(&system->stack.errors.widths, shares[i].of);
        out[i] = 0;
    }
    for (int draw = 0; draw < CHANCE_DRAWS && count > 0; draw++)
        out[fastest(system, rivals, shares, count, draw)]++;
    for (int i = 0; i < count; i++)
        out[i] /= CHANCE_DRAWS;
    free(shares);
}
