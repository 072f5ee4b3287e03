/* kernels/host/loss_scale.h - the factor that keeps fp16 gradients from underflow.
 *
 * The loss is multiplied by the factor, and the gradients are divided by it. A step whose gradients
 * overflow is skipped and halves the factor; after `growth_steps` steps without overflow the factor
 * doubles (Micikevicius et al. 2018, section 3.2; the constants are those of PyTorch's
 * GradScaler). */
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

struct loss_scale loss_scale_new(void); /* starts with scale 65,536, growth_steps 2,000, limits 1
                                         * and 2^24 */

/* Call it after each step; is_finite must be the same on all ranks. Returns false when gradients
 * overflow at the minimum scale: the run should then stop. */
bool loss_scale_update(struct loss_scale *loss_scale, bool is_finite);

#endif
