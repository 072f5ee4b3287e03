/* tests/exec/torch_steps.h - training steps compared with PyTorch's: its results for the small GPT
 * and Llama of tests/exec/parity.h are in fixtures/torch, with their origin. Weights are the
 * formulas of draws.py there. */
#ifndef TESTS_EXEC_TORCH_STEPS_H
#define TESTS_EXEC_TORCH_STEPS_H

#include "tests/exec/parity.h"

enum { TORCH_GPT, TORCH_LLAMA, TORCH_MODELS };
/* Llamas with another rope_theta, or epsilon: forward.py's first loss alone. */
enum { TORCH_THETA = TORCH_MODELS, TORCH_EPSILON };

/* Largest relative error of fp32 losses, gradient norms and gradients. */
#define TORCH_ERROR 1e-5

/* A run from PyTorch's weights; the caller fills in the device. */
struct parity_run torch_run(bool is_unfused);

/* Fails the test when losses or gradient norms of three steps differ. */
void torch_check_losses(int model, const char *layout, struct parity_run run);

/* Fails the test when the loss of the first step differs; of all models. */
void torch_check_first_loss(int model, const char *layout, struct parity_run run);

/* Fails the test when any gradient of the first step differs. */
void torch_check_gradients(int model, const char *layout, struct parity_run run);

#endif
