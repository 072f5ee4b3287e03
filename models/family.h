/* models/family.h - the keys that transformers' configuration classes read, as tables.
 *
 * One row per family and key. Keys and their default values are those of transformers 4.x,
 * models/FAMILY/configuration_FAMILY.py. Add a family in family.c; models/huggingface.c and its
 * tests find it there. */
#ifndef MODELS_FAMILY_H
#define MODELS_FAMILY_H

#include "models/model.h"

enum key_kind {
    KEY_INT,         /* whole number into `field` */
    KEY_SAME,        /* whole number that must equal `field` */
    KEY_POSITIVE,    /* number above 0 into `field`, a FIELD_NUMBER */
    KEY_ROPE,        /* object of rotary positions, whose rope_theta is a number into `field` */
    KEY_DROPOUT,     /* the model's dropout is the largest of them */
    KEY_ACTIVATION,  /* name out of `activations` */
    KEY_TIED,        /* bool into tied */
    KEY_TRUE,        /* bool that must be true, or left out */
    KEY_FALSE,       /* bool that must be false, or left out */
    KEY_BIAS,        /* bool: attention_bias or mlp_bias */
    KEY_WINDOW,      /* how many tokens attention looks back */
    KEY_USE_WINDOW,  /* bool: the window is in use */
    KEY_FULL_BLOCKS, /* how many of the first blocks have no window when it is in use */
    KEY_LAYER_TYPES, /* names, one per block */
};

struct key {
    const char *name;
    enum key_kind kind;
    const char *field; /* KEY_INT, KEY_SAME: of model_fields */
    bool is_required;  /* one of its field's keys must be present; the message asks for this one */
    double fallback;   /* when left out; KEY_INT: 0 lets model_derive decide */
};

struct family {
    const char *model_type;
    const char *architecture; /* names the family in configs without model_type */
    struct model base;        /* values that no key sets */
    int extra_positions;      /* rows of the position table beyond the sequence */
    struct key keys[24];      /* ends at the first without a name */
};

/* The plain and the gated feed-forward of an activation; -1: not modelled. */
struct activation {
    const char *name;
    int plain, gated;
};

/* A key that changes what is computed or stored unless it is false, null, empty or the neutral
 * number. Keys that the family reads are exempt. */
struct refused_key {
    const char *name;
    double neutral;
};

extern const struct family families[];
extern const size_t num_families;
extern const struct activation activations[];
extern const size_t num_activations;
extern const struct refused_key refused_keys[];
extern const size_t num_refused_keys;

#endif
