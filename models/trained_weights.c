#include "models/trained_weights.h"

#include "base/arena.h"
#include "models/blocks.h"
#include "models/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- parameters ------------------------------------------------------------------------------- */

struct counted {
    double trained, adapters;
};

static struct counted count_list(struct ops list)
{
    struct counted counted = { 0 };
    for (int i = 0; i < list.operands->num_weights; i++) {
        const struct op_weight *weight = &list.operands->weights[i];
        double parameters = weight->rows * weight->columns;
        counted.trained += weight->is_frozen ? 0 : parameters;
        counted.adapters += weight->is_of_adapter ? parameters : 0;
    }
    return counted;
}

typedef struct ops forward_fn(const struct model *model, const struct layer_dims *dims,
                              const struct layer_options *options, struct arena *arena);

static struct counted count(forward_fn *forward, const struct model *model)
{
    struct arena arena = { 0 };
    struct layer_options options = { .flash_attention = true, .dtype = DTYPE_BF16 };
    struct layer_dims dims = layer_dims(model, 1, model->seq);
    struct counted counted = count_list(forward(model, &dims, &options, &arena));
    arena_release(&arena);
    return counted;
}

static struct counted count_blocks(const struct model *model)
{
    int counts[MAX_BLOCK_KINDS];
    struct counted sum = { 0 };
    model_count_kinds(model, 0, model->layers, counts);
    for (int kind = 0; kind < model_num_kinds(model); kind++) {
        struct model of = model_of_kind(model, kind);
        struct counted counted = count(layer_forward, &of);
        sum.trained += counts[kind] * counted.trained;
        sum.adapters += counts[kind] * counted.adapters;
    }
    return sum;
}

double model_trained_parameters(const struct model *model)
{
    if (model_trains_all(model))
        return model_parameters(model) - model_untrained_parameters(model);
    double trained = count_blocks(model).trained + count(embedding_forward, model).trained;
    trained += count(head_forward, model).trained;
    if (model->tied && model_trains_table(model))
        trained -= (double)model->vocab * model->hidden; /* a tied table counts once */
    return trained;
}

double model_adapter_parameters(const struct model *model)
{
    return model->lora > 0 ? count_blocks(model).adapters : 0;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static bool trains_in(const struct model *model, const struct block_kind *kind, int layer)
{
    if (model->trained_layers > 0)
        return layer >= model->layers - model->trained_layers;
    struct model of = *model;
    of.blocks = (struct blocks){ .kinds = { *kind }, .runs = { { 0, 1 } }, 1, 1 };
    of = model_of_kind(&of, 0);
    return count(layer_forward, &of).trained > 0;
}

static int first_trained(const struct model *model, const struct block_kind *layers)
{
    bool trains = false;
    for (int i = 0; i < model->layers; i++) {
        bool is_as_before = i > 0 && model->trained_layers == 0 &&
                            block_kinds_are_equal(&layers[i], &layers[i - 1]);
        trains = is_as_before ? trains : trains_in(model, &layers[i], i);
        if (trains)
            return i;
    }
    return model->layers;
}

static bool check_any(const struct model *model, struct err *err)
{
    bool any = !model_trains_head_alone(model) || count(head_forward, model).trained > 0;
    return any || err_set(err, ERR_INPUT, "trained",
                          "expected names of weights, such as qkv, fc1, *norm or logits; found "
                          "\"%.60s\", which no weight has",
                          model->trained);
}

bool blocks_of_training(struct model *model, struct err *err)
{
    if (model_trains_all(model))
        return true;
    struct block_kind *layers = arena_grow(NULL, (size_t)model->layers * sizeof *layers);
    for (int i = 0; i < model->layers; i++) {
        layers[i] = model_kind(model, model_kind_of(model, i));
        layers[i].gradient = GRADIENT_WHOLE;
    }
    int first = model_trains_embedding(model) ? -1 : first_trained(model, layers);
    for (int i = 0; i < model->layers; i++)
        layers[i].gradient = i < first    ? GRADIENT_NONE
                             : i == first ? GRADIENT_FROM_HERE
                                          : GRADIENT_WHOLE;
    bool ok = blocks_of_layers(layers, model, err) && check_any(model, err);
    free(layers);
    return ok;
}

/* --- the option ------------------------------------------------------------------------------- */

static bool refuse(const char *text, struct err *err)
{
    return err_set(err, ERR_USAGE, "--train",
                   "expected lora:R, lora:R:NAMES, last:N or names of weights like "
                   "\"qkv,*norm\"; found \"%.60s\"",
                   text);
}

/* Reads a whole number, 1 or more, up to the character `end` or the end of the text. */
static bool read_number(const char *text, char end, int *out, const char **rest)
{
    char *behind;
    long number = strtol(text, &behind, 10);
    *out = (int)number;
    *rest = behind;
    return behind > text && number >= 1 && number <= 1000000 && (*behind == end || !*behind);
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '*' || c == ',';
}

static bool read_names(const char *names, struct model *model)
{
    size_t length = strlen(names);
    for (size_t i = 0; i < length; i++)
        if (!is_name(names[i]))
            return false;
    if (length == 0 || length >= sizeof model->trained)
        return false;
    memcpy(model->trained, names, length + 1);
    return true;
}

static bool read_words(const char *text, struct model *model)
{
    const char *rest = "";
    if (strncmp(text, "last:", 5) == 0)
        return read_number(text + 5, '\0', &model->trained_layers, &rest) && *rest == '\0' &&
               model->trained_layers <= model->layers;
    if (strncmp(text, "lora:", 5) != 0)
        return read_names(text, model);
    if (!read_number(text + 5, ':', &model->lora, &rest))
        return false;
    return *rest == '\0' || read_names(rest + 1, model);
}

bool training_parse(const char *text, struct model *model, struct err *err)
{
    *model->trained = '\0';
    model->lora = model->trained_layers = 0;
    if (!read_words(text, model))
        return refuse(text, err);
    struct err found = { 0 };
    return model_derive(model, &found) || err_set(err, ERR_USAGE, "--train", "%s", found.msg);
}
