/* tests/exec/torch_steps.h - compares training steps with PyTorch's. PyTorch's results for the
 * small GPT and Llama of tests/exec/parity.h are in fixtures/torch. Weights follow the formulas of
 * draws.py in that folder. */
#ifndef TESTS_EXEC_TORCH_STEPS_H
#define TESTS_EXEC_TORCH_STEPS_H

#include "tests/exec/parity.h"

enum { TORCH_GPT, TORCH_LLAMA, TORCH_MODELS };
/* Two Llamas, with another rope_theta and another epsilon. The fixtures have only the first loss of
 * these models, computed by forward.py. */
enum { TORCH_THETA = TORCH_MODELS, TORCH_EPSILON };

/* Largest relative error of fp32 losses, gradient norms and gradients. */
#define TORCH_ERROR 1e-5

/* A run with PyTorch's initial weights. The caller fills in the device. */
struct parity_run torch_run(bool is_unfused);

/* Fails the test when losses or gradient norms of three steps differ. */
void torch_check_losses(int model, const char *layout, struct parity_run run);

/* Fails the test when the loss of the first step differs. It can be called for all models. */
void torch_check_first_loss(int model, const char *layout, struct parity_run run);

/* Fails the test when any gradient of the first step differs. */
void torch_check_gradients(int model, const char *layout, struct parity_run run);

#endif
