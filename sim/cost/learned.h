/* sim/cost/learned.h - what one's own runs taught about a stack: `learn -o mine.json`.
 *
 * An overlay on the shipped constants: a factor on all times of a stack, and how much of its shift
 * is left. `--learned mine.json` lays it on a system once the stack is loaded. */
#ifndef SIM_COST_LEARNED_H
#define SIM_COST_LEARNED_H

#include "base/arena.h"
#include "sim/cost/hardware.h"

enum { MOST_LEARNED = 256, MOST_LEARNED_GPUS = 16 };

/* One stack, with models of one sort. */
struct learned_stack {
    char stack[48];
    bool experts;       /* of models with experts; else of dense ones */
    double time_ratio;  /* measured / predicted */
    double ratio_error; /* standard deviation of its logarithm */
    double shift;       /* half width of 90 % that a whole source may still be off, in log time */
    int runs;           /* it was learned from */
    const char *profiles[MOST_LEARNED_GPUS]; /* of the GPUs that they ran on */
    int num_profiles;
};

struct learned {
    struct arena arena;
    struct learned_stack *at;
    int count;
};

/* ERR_INPUT with FILE:LINE: key. Release in either case. */
bool learned_load(const char *path, struct learned *out, struct err *err);
void learned_release(struct learned *learned);
json_t *learned_write(const struct learned *learned);

/* NULL: nothing was learned of the stack with such models. */
const struct learned_stack *learned_find(const struct learned *learned, const char *stack,
                                         bool experts);

/* Sets the stack's ratios. A shift that was assumed shrinks to what is left of it, never grows; of
 * the GPU only where the runs had it. Applying it twice changes nothing. */
void learned_apply(const struct learned *learned, struct system *system);

extern const struct field learned_fields[];
extern const size_t num_learned_fields;

#endif
