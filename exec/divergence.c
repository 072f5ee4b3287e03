#include "exec/divergence.h"

#include <stdio.h>

static const char *const findings[] = {
    [DIVERGENCE_SCALE] = "gradients overflow even at the smallest loss scale",
    [DIVERGENCE_NORM] = "the gradients' norm is not finite",
    [DIVERGENCE_GRADIENTS] = "its gradients are not finite",
    [DIVERGENCE_LOSS] = "the loss of its tokens is not finite",
};

bool divergence_tell(const struct divergence *d, struct err *err)
{
    char where[32];
    snprintf(where, sizeof where, "step %ld", d->step);
    if (d->kind == DIVERGENCE_SPIKE)
        return err_set(err, ERR_DIVERGED, where,
                       "training stopped: the loss %.5g is %.1f standard deviations above the mean "
                       "of earlier losses, %.5g (standard deviation %.2g)",
                       d->loss, (d->loss - d->mean) / d->deviation, d->mean, d->deviation);
    return err_set(err, ERR_DIVERGED, where, "training diverged on rank %d: %s", d->rank,
                   findings[d->kind]);
}
