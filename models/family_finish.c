/* Families in which the meaning of a key depends on other keys. */
#include "models/family.h"

#include "base/arena.h"
#include "base/length.h"
#include "models/blocks.h"

#include <stdlib.h>
#include <string.h>

static bool is_true(const json_t *config, const char *name, bool fallback)
{
    const json_t *value = family_value(config, name);
    return value ? json_is_true(value) : fallback;
}

static int integer_of(const json_t *config, const char *name, int fallback)
{
    const json_t *value = family_value(config, name);
    json_int_t number = json_integer_value(value);
    if (!value)
        return fallback;
    return json_is_integer(value) && number >= 0 && number <= 50000 ? (int)number : -1;
}

/* The new Falcon architecture has grouped keys and values; the older one has one key head, or as
 * many as query heads. In the new architecture, parallel attention and feed-forward have a norm
 * each, unless the config says that they share one. */
static bool finish_falcon(const json_t *config, struct model *model, struct err *err)
{
    bool is_new = is_true(config, "new_decoder_architecture", false);
    bool is_parallel = is_true(config, "parallel_attn", true);
    int norms = integer_of(config, "num_ln_in_parallel_attn", is_new ? 2 : 1);
    if (norms != 1 && norms != 2)
        return err_set(err, ERR_INPUT, "num_ln_in_parallel_attn", "expected 1 or 2");
    if (!is_new)
        model->kv_heads = is_true(config, "multi_query", true) ? 1 : model->heads;
    model->parallel = !is_parallel ? PARALLEL_NO
                      : norms == 2 ? PARALLEL_OWN_NORMS
                                   : PARALLEL_ONE_NORM;
    if (is_true(config, "alibi", false)) {
        model->positions = POSITION_ALIBI;
        model->rope_theta = 0;
    }
    return true;
}

/* Whether a block has experts, in a stack of `count` blocks of which `sparse` have experts: the
 * second of every count / sparse blocks, or all blocks if that quotient is 1. With `sparse` 0 the
 * step is the whole stack, so transformers gives experts to one block, the second. */
static bool is_sparse(int layer, int count, int sparse)
{
    int step = sparse > 0 ? count / sparse : count;
    return step == 1 || (step > 1 && layer % step == 1);
}

/* model->layers is the number of encoder blocks so far. The decoder has equally many unless the
 * config gives another number. */
static bool finish_t5(const json_t *config, struct model *model, struct err *err)
{
    int of_encoder = model->layers;
    int of_decoder = integer_of(config, "num_decoder_layers", of_encoder);
    int in_encoder = integer_of(config, "num_sparse_encoder_layers", model->experts > 0 ? 3 : 0);
    int in_decoder = integer_of(config, "num_sparse_decoder_layers", model->experts > 0 ? 3 : 0);
    if (of_decoder < 1 || in_encoder < 0 || in_decoder < 0)
        return err_set(err, ERR_INPUT,
                       of_decoder < 1   ? "num_decoder_layers"
                       : in_encoder < 0 ? "num_sparse_encoder_layers"
                                        : "num_sparse_decoder_layers",
                       "expected a count of blocks");
    model->layers = of_encoder + of_decoder;
    if (!model_derive_widths(model, err))
        return false;
    struct block_kind *layers = arena_grow(NULL, (size_t)model->layers * sizeof *layers);
    for (int i = 0; i < model->layers; i++) {
        bool encodes = i < of_encoder;
        bool has_experts =
            model->experts > 0 && (encodes ? is_sparse(i, of_encoder, in_encoder)
                                           : is_sparse(i - of_encoder, of_decoder, in_decoder));
        layers[i] = model_own_kind(model);
        layers[i].attention = encodes ? ATTENTION_ENCODER : ATTENTION_CROSS;
        layers[i].feed_forward = has_experts ? FEED_FORWARD_EXPERTS : FEED_FORWARD_DENSE;
    }
    bool ok = blocks_of_layers(layers, model, err);
    free(layers);
    return ok;
}

static const struct {
    const char *model_type;
    bool (*finish)(const json_t *config, struct model *model, struct err *err);
} finishes[] = {
    { "falcon", finish_falcon },
    { "t5", finish_t5 },
    { "switch_transformers", finish_t5 },
};

bool family_finish(const json_t *config, const struct family *family, struct model *out,
                   struct err *err)
{
    for (int i = 0; i < LENGTH(finishes); i++)
        if (strcmp(finishes[i].model_type, family->model_type) == 0)
            return finishes[i].finish(config, out, err);
    return true;
}
