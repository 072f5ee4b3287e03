/* models/learning_curve.h - the loss that a model has on text, nats a token, as it learns.
 *
 * L(N, D) = 1.69 + 406.4 / N^0.34 + 410.7 / D^0.28 of N parameters after D tokens (Hoffmann et al.
 * 2022, "Training Compute-Optimal Large Language Models", equation 10), fitted on models of 70 M to
 * 16 B. An untrained model guesses, which costs ln(vocabulary); no loss is above that.
 */
#ifndef MODELS_LEARNING_CURVE_H
#define MODELS_LEARNING_CURVE_H

#include "models/model.h"

/* The loss after `tokens`, 0 or more. */
double learning_curve_loss(const struct model *model, double tokens);

#endif
