#include "models/trainable.h"

#include "models/blocks.h"

#include <string.h>

/* Whether a pattern of `length` bytes, in which * stands for any text, matches the whole name. */
static bool pattern_matches(const char *pattern, size_t length, const char *name)
{
    if (length == 0)
        return *name == '\0';
    if (*pattern == '*')
        return pattern_matches(pattern + 1, length - 1, name) ||
               (*name && pattern_matches(pattern, length, name + 1));
    return *pattern == *name && pattern_matches(pattern + 1, length - 1, name + 1);
}

static bool list_matches(const char *patterns, const char *name)
{
    while (*patterns) {
        size_t length = strcspn(patterns, ",");
        if (pattern_matches(patterns, length, name))
            return true;
        patterns += length + (patterns[length] == ',');
    }
    return false;
}

bool model_trains_all(const struct model *model)
{
    return model->lora == 0 && model->trained_layers == 0 && *model->trained == '\0';
}

bool model_adapts(const struct model *model, const char *name)
{
    return model->lora > 0 && (*model->trained == '\0' || list_matches(model->trained, name));
}

bool model_trains(const struct model *model, enum weight_place place, const char *name)
{
    if (model_trains_all(model))
        return true;
    if (model->gradient == GRADIENT_NONE)
        return false;
    if (model->lora > 0)
        return place == WEIGHT_OF_ADAPTER;
    if (model->trained_layers > 0)
        return place != WEIGHT_OF_EMBEDDING;
    return list_matches(model->trained, name);
}

bool model_trains_table(const struct model *model)
{
    return model_trains(model, WEIGHT_OF_EMBEDDING, "embedding");
}

bool model_trains_embedding(const struct model *model)
{
    return model_trains_table(model) ||
           (model->embedding_norm && model_trains(model, WEIGHT_OF_EMBEDDING, "embedding_norm"));
}

bool model_trains_head_alone(const struct model *model)
{
    if (model_trains_all(model) || model_trains_embedding(model))
        return false;
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (model_kind(model, kind).gradient != GRADIENT_NONE)
            return false;
    return true;
}
