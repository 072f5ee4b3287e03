#include "cli/run_log.h"

#include "base/text.h"

const char *run_log_why_another(const struct train_log *log, const struct model *model,
                                struct arena *arena)
{
    struct text words = { 0 };
    if (log->layers > 0 && log->layers != model->layers)
        text_add(&words, "of another model: num_layers %d, and %s has %d", log->layers, model->name,
                 model->layers);
    else if (log->hidden > 0 && log->hidden != model->hidden)
        text_add(&words, "of another model: hidden_size %d, and %s has %d", log->hidden,
                 model->name, model->hidden);
    else if (log->seq > 0 && log->seq != model->seq)
        text_add(&words, "of another run: seq_length %d, not %d", log->seq, model->seq);
    else if (log->batch > 0 && log->batch != model->batch)
        text_add(&words, "of another run: global_batch_size %d, not %.0f", log->batch,
                 model->batch);
    return text_keep(&words, arena);
}
