/* kernels/host/loss_scale.h - the factor that keeps gradients in fp16 above underflow.
 *
 * The loss is multiplied by it, and the gradients are divided by it. A step whose gradients
 * overflow is skipped and halves it; after `growth_steps` steps without overflow it doubles
 * (Micikevicius et al. 2018, section 3.2; the numbers are those of PyTorch's GradScaler). */
#ifndef KERNELS_HOST_LOSS_SCALE_H
#define KERNELS_HOST_LOSS_SCALE_H

#include <stdbool.h>

/* Saved in checkpoints. */
struct loss_scale {
    double scale;    /* a power of two, so scaling is exact */
    int steps_since; /* steps without overflow since the last change */
    int growth_steps;
    double minimum, maximum;
};

struct loss_scale loss_scale_new(void); /* 65,536; doubles after 2,000 steps; 1 to 2^24 */

/* Call it after each step; is_finite must be the same on all ranks. False when gradients overflow
 * at the minimum: no scale helps, and the run should stop. */
bool loss_scale_update(struct loss_scale *loss_scale, bool is_finite);

#endif
