#include "sim/engine/chances.h"

#include "base/arena.h"
#include "base/random.h"
#include "sim/engine/interval.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* Of normal errors nine in ten lie within this many standard deviations. */
static const double normal_90 = 1.6448536269514722;
static const double in_common = 0.25; /* share of an error's variance */
static const double pi = 3.14159265358979323846;

/* Box and Muller 1958. */
static double normal(struct random *rng)
{
    double radius = sqrt(-2 * log(1 - random_unit(rng)));
    return radius * cos(2 * pi * random_unit(rng));
}

/* What of a rival's time each class has, and the half width of the rest of its error. */
struct shares {
    double of[NUM_ERROR_PARTS];
    double own;
};

enum { COMPUTE = offsetof(struct error_widths, compute) / sizeof(double) };

/* One factor a class. */
static void draw_factors(const struct system *system, struct random *rng,
                         double factor[NUM_ERROR_PARTS])
{
    double shift = fmax(system->stack.source_error, system->profile.source_error);
    for (int k = 1; k < NUM_ERROR_PARTS; k++) {
        double width = sqrt(in_common) * error_width(&system->stack.widths, k);
        double all = k == COMPUTE ? hypot(width, shift) : width;
        factor[k] = exp(normal(rng) * all / normal_90);
    }
}

static double own_width(const struct stack *stack, const struct shares *shares)
{
    double squares = pow(error_width(&stack->widths, 0), 2);
    for (int k = 1; k < NUM_ERROR_PARTS; k++)
        squares += (1 - in_common) * pow(shares->of[k] * error_width(&stack->widths, k), 2);
    return sqrt(squares);
}

/* The first of the fastest in one draw. */
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
        double step_s = rivals[i].step_s * scale * exp(normal(&rng) * shares[i].own / normal_90);
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
        shares[i].own = own_width(&system->stack, &shares[i]);
        out[i] = 0;
    }
    for (int draw = 0; draw < CHANCE_DRAWS && count > 0; draw++)
        out[fastest(system, rivals, shares, count, draw)]++;
    for (int i = 0; i < count; i++)
        out[i] /= CHANCE_DRAWS;
    free(shares);
}
