/* models/training.h - the trained weights of a model: their number, and the backwards they need.
 *
 * Blocks below the lowest trained weight need no backward, and the lowest trained one no gradient
 * of its input. */
#ifndef MODELS_TRAINING_H
#define MODELS_TRAINING_H

#include "models/trained.h"

/* All trained parameters, adapters included; then adapters only. */
double model_trained_parameters(const struct model *model);
double model_adapter_parameters(const struct model *model);

/* Sets which gradients each block makes, as the last part of model_derive. Fails when no weight is
 * trained. */
bool blocks_of_training(struct model *model, struct err *err);

/* "lora:16", "lora:16:qkv,projection", "last:4", or names with * such as "*norm,logits": changes a
 * derived model. */
bool training_parse(const char *text, struct model *model, struct err *err);

#endif
