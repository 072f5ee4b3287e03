/* sim/cost/learned.h - corrections to a stack, learned from the user's own runs by `learn -o
 * mine.json`.
 *
 * They change two shipped constants: the factor on all times of a stack, and the half width of the
 * shift (the error that all runs of a stack or GPU have in common), which becomes smaller.
 * `--learned mine.json` applies them to a system after its stack is loaded. */
#ifndef SIM_COST_LEARNED_H
#define SIM_COST_LEARNED_H

#include "base/arena.h"
#include "sim/cost/hardware.h"

enum { MOST_LEARNED = 256, MOST_LEARNED_GPUS = 16 };

/* The constants learned for one stack and one kind of model, dense or with experts. */
struct learned_stack {
    char stack[48];
    bool experts;       /* learned from models with experts; otherwise from dense models */
    double time_ratio;  /* measured / predicted */
    double ratio_error; /* standard deviation of log(time_ratio) */
    double shift;       /* half width of the 90 % interval of the remaining shift, in log time */
    int runs;           /* number of runs that it was learned from */
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

/* Sets the stack's time ratios and lowers the shifts of stack and GPU to the remaining ones; it
 * never raises a shift. The GPU's shift is lowered only if the runs used the same profile. Applying
 * it twice changes nothing. */
void learned_apply(const struct learned *learned, struct system *system);

extern const struct field learned_fields[];
extern const size_t num_learned_fields;

#endif
