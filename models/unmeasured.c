/* Parts of models that no measured run in calibration/measured has. Their times are derived from
 * FLOPs and traffic alone. Delete a row when a run has been measured. */
#include "models/blocks.h"
#include "models/model.h"

#include "base/length.h"

static bool has_indexers(const struct model *model)
{
    return model_has_attention(model, ATTENTION_SPARSE);
}

static bool has_decoder(const struct model *model)
{
    return model_has_attention(model, ATTENTION_CROSS);
}

static bool has_encoder(const struct model *model)
{
    return model_has_attention(model, ATTENTION_ENCODER);
}

static bool approximates(const struct model *model)
{
    return model_has_attention(model, ATTENTION_BLOCKS) ||
           model_has_attention(model, ATTENTION_LOW_RANK);
}

static const struct {
    const char *what;
    bool (*has)(const struct model *model);
} parts[] = {
    { "linear mixers", model_has_states },
    { "indexers of sparse attention", has_indexers },
    { "decoders that read an encoder", has_decoder },
    { "encoders", has_encoder },
    { "block-sparse or low-rank attention", approximates },
};

const char *model_unmeasured(const struct model *model)
{
    for (int i = 0; i < LENGTH(parts); i++)
        if (parts[i].has(model))
            return parts[i].what;
    return NULL;
}
