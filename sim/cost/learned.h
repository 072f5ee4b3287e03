/* sim/cost/learned.h - corrections to a stack (training software), learned from the user's own runs
 * by `learn -o mine.json`.
 *
 * They change two shipped constants: the factor on all times of a stack, and the half width of the
 * shift. A shift is the error that all runs of a stack or GPU have in common; learning makes it
 * smaller.
 *
 * A factor is applied only if it is likely to lower the error. With mean m and standard deviation s
 * of its logarithm, the factor is better than none if the true logarithm is beyond m / 2. Its
 * probability is Phi(|m| / (2 s)).
 *
 * `--learned mine.json` applies them to a system after its stack is loaded. */
#ifndef SIM_COST_LEARNED_H
#define SIM_COST_LEARNED_H

#include "base/arena.h"
#include "sim/cost/hardware.h"

enum { MOST_LEARNED = 256, MOST_LEARNED_GPUS = 16, MOST_RATIOS = 100000 };

/* Least probability that a factor lowers the error, for it to be applied. Measured by
 * tests/calibration/test_learn.c on sources left out of the fit: when every factor is applied, the
 * error rises in a third of the draws; with 0.62 it rises in 11 to 18 %, and the mean error is
 * higher by at most 0.1 %, with 0.7 by 0.1 to 0.2 %. */
#define SURE_FACTOR 0.62

/* The constants learned for one stack and one kind of model, dense or with experts. */
struct learned_stack {
    char stack[48];
    bool experts;       /* learned from models with experts; otherwise from dense models */
    double time_ratio;  /* measured / predicted */
    double ratio_error; /* standard deviation of log(time_ratio) */
    /* half width of the 90 % interval of the remaining shift, in log time, if the factor is
     * applied */
    double shift;
    int runs; /* number of runs that it was learned from */
    /* Logarithms of their measured / predicted times, and the factor's distribution before them: a
     * t distribution of the logarithm, normal if prior_freedom is 0. Later runs are learned with
     * them. num_ratios is 0 in files of earlier versions. */
    const double *ratios;
    int num_ratios;
    double prior_ratio, prior_error, prior_freedom;
    /* names of the profiles of the GPUs that the runs used */
    const char *profiles[MOST_LEARNED_GPUS];
    int num_profiles;
};

struct learned {
    struct arena arena;
    struct learned_stack *at;
    int count;
};

/* A faulty file gives ERR_INPUT with FILE:LINE: key. Call learned_release in either case. */
bool learned_load(const char *path, struct learned *out, struct err *err);
void learned_release(struct learned *learned);
json_t *learned_write(const struct learned *learned);

/* NULL if nothing was learned about the stack with this kind of model. */
const struct learned_stack *learned_find(const struct learned *learned, const char *stack,
                                         bool experts);

/* The probability that the factor lowers the error. */
double learned_chance(const struct learned_stack *of);
/* The factor to apply: time_ratio, or 1 if learned_chance is below SURE_FACTOR. */
double learned_factor(const struct learned_stack *of);
/* Half width of the 90 % interval of the remaining shift, which is wider if no factor is
 * applied. */
double learned_shift(const struct learned_stack *of);

/* Sets the stack's time ratios and lowers the shifts of stack and GPU to the remaining ones; it
 * never raises a shift. The GPU's shift is lowered only if the runs used the same profile. Applying
 * it twice changes nothing. */
void learned_apply(const struct learned *learned, struct system *system);

extern const struct field learned_fields[];
extern const size_t num_learned_fields;

#endif
