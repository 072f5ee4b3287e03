/* models/learning_curve.h - a model's loss on text, in nats per token, as a function of the number
 * of training tokens.
 *
 * L(N, D) = 1.69 + 406.4 / N^0.34 + 410.7 / D^0.28 for N parameters after D tokens (Hoffmann et al.
 * 2022, "Training Compute-Optimal Large Language Models", equation 10), fitted on models of 70 M to
 * 16 B. The loss is capped at ln(vocabulary), the loss of an untrained model. */
#ifndef MODELS_LEARNING_CURVE_H
#define MODELS_LEARNING_CURVE_H

#include "models/model.h"

/* The loss after training on `tokens`, >= 0. */
double learning_curve_loss(const struct model *model, double tokens);

#endif
