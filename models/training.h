/* models/training.h - which of a model's weights are trained.
 *
 * Weights are named as the ops that use them: qkv, projection, fc1, ffn_norm, embedding, logits ...
 * With adapters (LoRA, Hu et al. 2021, arXiv:2106.09685) a linear layer of a block has two narrow
 * products beside its own, and they alone are trained. Blocks below the lowest trained weight need
 * no backward, and the lowest trained one no gradient of its input. */
#ifndef MODELS_TRAINING_H
#define MODELS_TRAINING_H

#include "models/model.h"

/* The gradients that the backward of a block makes. */
enum block_gradient {
    GRADIENT_WHOLE,     /* of its input and of its trained weights */
    GRADIENT_FROM_HERE, /* of its trained weights only: nothing before it is trained */
    GRADIENT_NONE,      /* none: it has no backward */
};

/* True if every weight that can have a gradient is trained. */
bool model_trains_all(const struct model *model);
/* True if weights of this name are trained in a block like `model`, in the embedding or the head.
 */
bool model_trains(const struct model *model, const char *name);
/* True if the linear layer of this name has an adapter. */
bool model_adapts(const struct model *model, const char *name);
/* True if nothing before the output head is trained. */
bool model_trains_head_alone(const struct model *model);
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
