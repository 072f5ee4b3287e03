/* models/trainable.h - which of a model's weights are trained.
 *
 * A weight has the name of the op that uses it: qkv, projection, fc1, ffn_norm, embedding, logits
 * ... With adapters (LoRA, Hu et al. 2021, arXiv:2106.09685) a linear layer of a block has two
 * narrow matrix products in addition to its main one, and only the weights of these two are
 * trained. */
#ifndef MODELS_TRAINABLE_H
#define MODELS_TRAINABLE_H

#include "models/model.h"

/* The gradients that the backward of a block makes. */
enum block_gradient {
    GRADIENT_WHOLE,     /* gradients of its input and of its trained weights */
    GRADIENT_FROM_HERE, /* only gradients of its trained weights, as nothing before it is trained */
    GRADIENT_NONE,      /* no gradients and no backward */
};

/* The part of a model that a weight belongs to. */
enum weight_place {
    WEIGHT_OF_LAYERS, /* a block, a later prediction or the head */
    WEIGHT_OF_EMBEDDING,
    WEIGHT_OF_ADAPTER,
};

/* True if every weight that can have a gradient is trained. */
bool model_trains_all(const struct model *model);
/* True if weights of this place and name are trained in a model, or block, like `model`. Names
 * matter only if the model lists patterns of names. */
bool model_trains(const struct model *model, enum weight_place place, const char *name);
/* True if the embedding's table is trained. A tied head uses the same table. */
bool model_trains_table(const struct model *model);
/* True if the linear layer of this name has an adapter. */
bool model_adapts(const struct model *model, const char *name);
bool model_trains_embedding(const struct model *model);
/* True if nothing before the output head is trained. */
bool model_trains_head_alone(const struct model *model);

#endif
