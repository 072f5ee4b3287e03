/* exec/divergence.h - how training failed: where numbers stopped being finite, or leapt. */
#ifndef EXEC_DIVERGENCE_H
#define EXEC_DIVERGENCE_H

#include "base/err.h"

/* A kind nearer to the cause is larger: the largest of the ranks' findings is reported. */
enum divergence_kind {
    DIVERGENCE_NONE,
    DIVERGENCE_SCALE,     /* fp16: gradients overflow at the smallest loss scale */
    DIVERGENCE_NORM,      /* the norm of all gradients is not finite */
    DIVERGENCE_GRADIENTS, /* nor is this rank's part of it */
    DIVERGENCE_LOSS,      /* nor is the loss of this rank's tokens */
    DIVERGENCE_SPIKE,     /* the mean loss leapt */
};

struct divergence {
    enum divergence_kind kind;
    long step;
    int rank;               /* the lowest that found it; a spike is all ranks' */
    double loss;            /* the step's mean, of all ranks */
    double mean, deviation; /* of a spike: of the losses before */
};

/* ERR_DIVERGED in words: where = the step, msg = the rank and what it found. Always false. */
bool divergence_tell(const struct divergence *divergence, struct err *err);

#endif
