/* exec/divergence.h - how training diverged: which numbers are not finite, or that the loss
 * spiked. */
#ifndef EXEC_DIVERGENCE_H
#define EXEC_DIVERGENCE_H

#include "base/err.h"

/* Kinds closer to the cause have larger values; the largest found by any rank is reported. */
enum divergence_kind {
    DIVERGENCE_NONE,
    DIVERGENCE_SCALE,     /* fp16: gradients overflow at the smallest loss scale */
    DIVERGENCE_NORM,      /* the norm of all gradients is not finite */
    DIVERGENCE_GRADIENTS, /* this rank's gradients are not finite */
    DIVERGENCE_LOSS,      /* the loss of this rank's tokens is not finite */
    DIVERGENCE_SPIKE,     /* the mean loss spiked */
};

struct divergence {
    enum divergence_kind kind;
    long step;
    int rank;               /* the lowest rank that found it; all ranks see a spike */
    double loss;            /* the step's mean over all ranks */
    double mean, deviation; /* for a spike: of the losses before */
};

/* Sets ERR_DIVERGED: where = the step, msg = the rank and what it found. Always returns false. */
bool divergence_tell(const struct divergence *divergence, struct err *err);

#endif
