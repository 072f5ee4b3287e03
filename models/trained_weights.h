/* models/trained_weights.h - the trained weights of a model: their number, and the backward passes
 * that they need.
 *
 * Blocks below the lowest trained weight need no backward. The lowest block with a trained weight
 * needs no gradient of its input. */
#ifndef MODELS_TRAINED_WEIGHTS_H
#define MODELS_TRAINED_WEIGHTS_H

#include "models/trainable.h"

/* model_trained_parameters counts all trained parameters, adapters included; the second function
 * counts those of adapters. */
double model_trained_parameters(const struct model *model);
double model_adapter_parameters(const struct model *model);

/* Sets which gradients each block's backward makes. model_derive calls this last. Fails when no
 * weight is trained. */
bool blocks_of_training(struct model *model, struct err *err);

/* Sets the trained weights of a derived model from "lora:16", "lora:16:qkv,projection", "last:4",
 * or weight names with * such as "*norm,logits". */
bool training_parse(const char *text, struct model *model, struct err *err);

#endif
