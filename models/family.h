/* models/family.h - the keys that transformers' configuration classes read, as tables.
 *
 * One row per family and key. The table says how each key sets struct model. Keys and their default
 * values are those of transformers 4.x, models/FAMILY/configuration_FAMILY.py. Add a family in
 * family.c; models/huggingface.c and its tests find it there. */
#ifndef MODELS_FAMILY_H
#define MODELS_FAMILY_H

#include "models/model.h"

enum key_kind {
    KEY_INT,         /* whole number into `field` */
    KEY_SAME,        /* whole number that must equal `field` */
    KEY_POSITIVE,    /* number above 0 into `field`, a FIELD_NUMBER */
    KEY_ROPE,        /* object of rotary positions, whose rope_theta is a number into `field` */
    KEY_DROPOUT,     /* a dropout rate; the model's dropout is the largest of the config's */
    KEY_ACTIVATION,  /* name in `activations` */
    KEY_TIED,        /* bool into tied */
    KEY_TRUE,        /* bool that must be true, or left out */
    KEY_FALSE,       /* bool that must be false, or left out */
    KEY_BIAS,        /* bool: biases on attention or, if the key is mlp_bias, on the feed-forward */
    KEY_BOOL,        /* bool into `field` */
    KEY_COUNT,       /* whole number from 0 on, or null, into `field` */
    KEY_SHARED,      /* number of shared experts; `fallback` when left out */
    KEY_PARALLEL,    /* bool: attention and feed-forward are parallel, in the way that family.base
                        gives; false: PARALLEL_NO */
    KEY_FIXED,       /* the number `fallback`, or left out */
    KEY_LAYERS,      /* sets the kind of each block, by a rule in models/layer_rules.c */
    KEY_IGNORED,     /* changes no weight, and no time or memory that is modelled */
    KEY_WINDOW,      /* how many tokens attention looks back */
    KEY_USE_WINDOW,  /* bool: the window is in use */
    KEY_FULL_BLOCKS, /* how many of the first blocks have no window when it is in use */
    KEY_LAYER_TYPES, /* list of the blocks' kinds, by name */
};

struct key {
    const char *name;
    enum key_kind kind;
    const char *field; /* KEY_INT, KEY_SAME: of model_fields */
    bool is_required;  /* at least one key for this field must be present; the message asks for this
                          one */
    double fallback; /* value of a key that is left out; KEY_INT: 0 lets model_derive decide; bool:
                        0 or 1 */
};

struct family {
    const char *model_type;
    const char *architecture; /* names the family in configs without model_type */
    struct model base;        /* values that no key sets */
    int extra_positions;      /* rows of the position table beyond the sequence */
    /* the list ends at the first key without a name; "a.b" means key b of object a */
    struct key keys[48];
};

/* A key's value; NULL when it is left out or null. The name "a.b" means key b of object a. */
const json_t *family_value(const json_t *config, const char *name);

/* Sets an error that quotes the value found, or names its type if it is an array or object. Always
 * returns false. */
bool family_refuse(const char *key, const char *expected, const json_t *found, struct err *err);

/* An activation's name, and the activation_kind of its plain and of its gated feed-forward; -1: not
 * modelled. */
struct activation {
    const char *name;
    int plain, gated;
};

/* A key that changes what is computed or stored. A config with such a key is rejected unless the
 * value is false, null, empty or `neutral`, or the family reads the key. */
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

/* Sets the kind of each block from the family's KEY_LAYERS (models/layer_rules.c). */
bool family_read_layers(const json_t *config, const struct family *family, struct model *out,
                        struct err *err);

/* Sets values that depend on several of a family's keys, after all keys have been read
 * (models/family_finish.c). */
bool family_finish(const json_t *config, const struct family *family, struct model *out,
                   struct err *err);

#endif
