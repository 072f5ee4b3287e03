/* exec/divergence.h - kinds of divergence of training: numbers that are not finite, or a spike of
 * the loss. */
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
    int rank;    /* the lowest rank that found the divergence; a spike is found by all ranks */
    double loss; /* the step's mean over all ranks */
    double mean, deviation; /* for a spike: mean and standard deviation of the earlier losses */
};

/* Sets ERR_DIVERGED: where = the step, msg = the rank and what it found. Always returns false. */
bool divergence_tell(const struct divergence *divergence, struct err *err);

#endif
