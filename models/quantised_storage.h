/* models/quantised_storage.h - the form in which values are kept from forward to backward if linear
 * layers are quantised. Without a recipe (struct recipe: how they are quantised) every value is
 * kept as it was computed.
 *
 * The weight gradient of a quantised product reads the product's input quantised along the other
 * dimension. The software keeps that copy, or it keeps a value from which the backward makes the
 * copy: the input before it was quantised, or the input of the activation that made it. */
#ifndef MODELS_QUANTISED_STORAGE_H
#define MODELS_QUANTISED_STORAGE_H

#include "models/precision.h"

/* The form in which a quantised product keeps its input. QUANTIZED: the copy for the weight
 * gradient (Transformer Engine, pytorch/module/linear.py). SHARED: the 16-bit input if another op
 * keeps it anyway or if selective recompute makes it again, else the copy (Megatron Core since
 * 0.14, set_save_original_input; needs a recipe that requantizes). ORIGINAL: always the 16-bit
 * input, except one that tensor ranks gathered quantised (torchao, float8/float8_linear.py,
 * matmul_with_hp_or_float8_args). */
enum input_store { INPUT_QUANTIZED, INPUT_SHARED, INPUT_ORIGINAL, NUM_INPUT_STORES };
extern const char *const input_store_names[NUM_INPUT_STORES + 1]; /* NULL-terminated */

/* The type in which a 16-bit value is kept. OWN: its own. QUANTIZED: the recipe's, with scales.
 * E5M6: 12 bits, with the recipe's scales (DeepSeek-V3, section 3.3.3). */
enum storage { STORAGE_OWN, STORAGE_QUANTIZED, STORAGE_E5M6, NUM_STORAGES };
extern const char *const storage_names[NUM_STORAGES + 1]; /* NULL-terminated */

struct stores {
    enum input_store inputs;
    enum storage attention;   /* output of fused attention, which its backward reads */
    enum storage activations; /* inputs of activations */
    bool remakes_activations; /* products behind an activation keep nothing: the backward makes the
                                 activation's output again */
    bool transposes_apart;    /* kernels that quantise write one copy, along rows. Copies along
                                 columns, for weight gradients, are made in the backward by two more
                                 kernels: one transposes 16-bit values, another quantises them */
};

/* Bytes of a kept value whose own type has `own_bytes`. */
double stored_bytes(enum storage storage, const struct recipe *recipe, double own_bytes);

#endif
