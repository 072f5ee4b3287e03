/* sim/cost/learned.h - corrections to a stack (training software), learned from the user's own runs
 * by `learn -o mine.json`.
 *
 * They change two shipped constants: the factor on all times of a stack, and the half width of the
 * shift. A shift is the error that all runs of a stack or GPU have in common; learning makes it
 * smaller. All versions of a stack (stack_family) share one entry. In an entry, each GPU that had
 * runs has its own factor, and all other GPUs have the factor of the stack
 * (calibration/learn/learn.h).
 *
 * The factors of an entry are applied only if they are likely to lower the error. With mean m and
 * standard deviation s of its logarithm, a factor is better than none if the true logarithm is
 * beyond m / 2, which has the probability Phi(|m| / (2 s)). The highest of the GPUs' probabilities
 * decides for all factors of the entry.
 *
 * `--learned mine.json` applies them to a system after its stack is loaded. */
#ifndef SIM_COST_LEARNED_H
#define SIM_COST_LEARNED_H

#include "base/arena.h"
#include "sim/cost/hardware.h"

enum { MOST_LEARNED = 256, MOST_LEARNED_GPUS = 16, MOST_RATIOS = 100000 };

/* Factors are applied if one of them lowers the error with at least this probability. Measured by
 * tests/calibration/test_learn.c on sources left out of the fit, after one run: when every factor
 * is applied, the error rises in 44 % of the draws and its mean is 4.73 %. With a threshold of 0.62
 * it rises in 20 % of the draws (mean 4.73 %), with 0.68 in 12 % (4.84 %), with 0.7 in 10 % (4.87
 * %). */
#define SURE_FACTOR 0.68

/* The learned factor on the times of a stack on one GPU. */
struct learned_factor {
    double time_ratio;  /* measured / predicted */
    double ratio_error; /* standard deviation of log(time_ratio) */
    /* half width of the 90 % interval of the remaining shift, in log time, if the factor is
     * applied */
    double shift;
};

/* The factor of one GPU, and the runs on it. */
struct learned_gpu {
    char profile[48];
    struct learned_factor factor;
    /* The prior t distribution of the part of the shift that only this GPU has. Scale 0: it has no
     * such part. */
    double prior_error, prior_freedom;
    /* logarithms of the measured / predicted times; later runs are learned with them */
    const double *ratios;
    int num_ratios;
};

/* The constants learned for one stack and one kind of model, dense or with experts. */
struct learned_stack {
    char stack[48]; /* name of the stack, or of its family (stack_family) */
    bool experts;   /* learned from models with experts; otherwise from dense models */
    struct learned_factor factor; /* the factor of GPUs without runs */
    /* the prior t distribution of the part of the shift that all GPUs have in common */
    double prior_error, prior_freedom;
    struct learned_gpu gpus[MOST_LEARNED_GPUS];
    int num_gpus;
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

/* NULL if nothing was learned about the stack or another version of it with this kind of model. */
const struct learned_stack *learned_find(const struct learned *learned, const struct stack *stack,
                                         bool experts);
/* NULL if the GPU had no runs. */
const struct learned_gpu *learned_gpu_find(const struct learned_stack *of, const char *profile);
int learned_runs(const struct learned_stack *of);

/* The probability that its factors lower the error. */
double learned_chance(const struct learned_stack *of);
/* The factor to apply on a GPU: its time_ratio, or 1 if learned_chance is below SURE_FACTOR. */
double learned_ratio(const struct learned_stack *of, const char *profile);
/* Half width of the 90 % interval of the remaining shift on a GPU, which is wider if no factor is
 * applied. */
double learned_shift(const struct learned_stack *of, const char *profile);

/* Sets the stack's time ratios and lowers the shifts of stack and GPU to the remaining ones; it
 * never raises a shift. The GPU's shift is lowered only if the GPU had runs. Applying it twice
 * changes nothing. */
void learned_apply(const struct learned *learned, struct system *system);

extern const struct field learned_fields[], learned_gpu_fields[];
extern const size_t num_learned_fields, num_learned_gpu_fields;

#endif
