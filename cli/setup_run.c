#include "cli/setup_part.h"

#include "base/units.h"

#include <math.h>

#define DEFAULT_TOKENS 4194304.0 /* of a step: 4 Mi, so that the batch has powers of two in it */

/* The whole number within 2 % of `sequences` that halves most often, and of those the nearest: a
 * batch has to be divided over data ranks and microbatches. */
static double rounded_batch(double sequences)
{
    if (sequences < 1)
        return 1;
    if (sequences == floor(sequences))
        return sequences;
    for (int power = 40; power > 0; power--) {
        double step = ldexp(1, power);
        double rounded = step * round(sequences / step);
        if (rounded > 0 && fabs(rounded - sequences) <= 0.02 * sequences)
            return rounded;
    }
    return round(sequences);
}

/* "1536" or "3.2 Mtok". */
static bool read_batch(const char *text, struct setup *setup, struct err *err)
{
    struct model *model = &setup->model;
    const struct field *field = fields_find(model_fields, num_model_fields, "batch");
    struct err not_tokens = { 0 };
    double tokens;
    if (!units_parse(text, QUANTITY_TOKENS, &tokens, &not_tokens)) {
        bool ok = field_parse(field, text, model, err);
        if (ok && model->batch >= 1)
            return true;
        *err = (struct err){ 0 };
        return err_set(err, ERR_USAGE, "--batch",
                       "expected sequences from 1 to %.0f, or tokens like \"3.2Mtok\"; found "
                       "\"%.60s\"",
                       field->max, text);
    }
    if (tokens < model->seq || tokens / model->seq > field->max)
        return err_set(err, ERR_USAGE, "--batch",
                       "expected 1 to %.0f sequences of %d tokens; found \"%.60s\"", field->max,
                       model->seq, text);
    model->batch = rounded_batch(tokens / model->seq);
    if (model->batch * model->seq != tokens)
        setup_assume(setup,
                     "batch %.0f sequences (%.0f tokens): %s is no whole number of sequences",
                     model->batch, model->batch * model->seq, text);
    return true;
}

static bool set_seq(int seq, struct model *model, struct err *err)
{
    model->seq = seq;
    model->max_positions = 0; /* a learned table grows or shrinks with it */
    if (model_derive(model, err))
        return true;
    err->code = ERR_USAGE;
    err_prefix(err, "--seq: ");
    return false;
}

/* Notes what a config.json leaves open, and what is not modelled. */
static void assume_attention(const struct options *options, struct setup *setup)
{
    const struct model *model = &setup->model;
    if (!options->seq && model->allowed_seq > model->seq && model->seq != model->sliding_window)
        setup_assume(setup,
                     "sequence %d tokens, a usual one of training, as %s only says that %d are "
                     "the most; --seq takes another",
                     model->seq, model->name, model->allowed_seq);
    else if (!options->seq && model->allowed_seq > 0)
        setup_assume(setup, "sequence %d tokens, the %s of %s", model->seq,
                     model->seq == model->allowed_seq ? "most positions" : "attention window",
                     model->name);
    if (model->sliding_window > 0 && model->seq > model->sliding_window)
        setup_assume(setup,
                     "attention over all %d tokens: the sliding window of %d that %s has is not "
                     "modelled, so compute and time are predicted too large",
                     model->seq, model->sliding_window, model->name);
}

bool setup_set_run(const struct options *options, bool of_file, struct setup *setup,
                   struct err *err)
{
    struct model *model = &setup->model;
    double usual_tokens = model->batch * model->seq;
    if (options->seq && !set_seq(options->seq, model, err))
        return false;
    assume_attention(options, setup);
    if (options->tokens > 0)
        model->tokens = options->tokens;
    if (options->batch)
        return read_batch(options->batch, setup, err);
    if (model->batch == 0) {
        model->batch = rounded_batch(DEFAULT_TOKENS / model->seq);
        setup_assume(setup, "batch %.0f sequences of %d tokens, about 4 million, as none was given",
                     model->batch, model->seq);
        return true;
    }
    if (options->seq && model->batch * model->seq != usual_tokens) {
        model->batch = rounded_batch(usual_tokens / model->seq);
        setup_assume(setup,
                     "batch %.0f sequences of %d tokens, about the model's usual number of tokens",
                     model->batch, model->seq);
        return true;
    }
    if (!of_file)
        setup_assume(setup, "batch %.0f sequences of %d tokens, the model's usual one",
                     model->batch, model->seq);
    return true;
}
