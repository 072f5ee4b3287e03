/* Reads from a command line what a run trains: batch, sequence length, routing of experts, packed
 * documents. Values that the user did not give are noted as assumptions. */
#include "cli/input/setup_part.h"

#include "base/units.h"
#include "cli/input/documents.h"
#include "cli/input/routing.h"
#include "models/blocks.h"
#include "search/batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Default tokens per step: 4 Mi, so that powers of two divide batches. */
#define DEFAULT_TOKENS 4194304.0

/* Rounds a batch, so that it divides over data ranks and microbatches. */
static double rounded_batch(double sequences)
{
    if (sequences < 1)
        return 1;
    if (sequences == floor(sequences))
        return sequences;
    double dividing = batch_dividing(sequences, 1);
    return dividing > 0 ? dividing : round(sequences);
}

static bool set_tokens(const char *text, double tokens, struct setup *setup, struct err *err)
{
    struct model *model = &setup->model;
    double most = fields_find(model_fields, num_model_fields, "batch")->max;
    double asked = tokens / model->seq;
    if (asked < 1 || asked > most)
        return err_set(err, ERR_USAGE, "--batch",
                       "expected 1 to %.0f sequences of %d tokens; found \"%.60s\"", most,
                       model->seq, text);
    model->batch = rounded_batch(asked);
    if (model->batch != asked)
        setup_assume(setup,
                     "batch %.0f sequences (%.0f tokens), which has many divisors, instead of the "
                     "%.1f sequences that hold %s",
                     model->batch, model->batch * model->seq, asked, text);
    return true;
}

/* Whether a batch without unit was probably meant in tokens: no training has a billion tokens per
 * step and more than a hundred sequences per GPU. */
static bool is_likely_tokens(const struct setup *setup)
{
    const struct model *model = &setup->model;
    return model->batch >= model->seq && model->batch * model->seq > 1e9 &&
           model->batch > 100.0 * setup->system.num_gpus;
}

/* Reads a batch in sequences: "1536" or "1536 seq". */
static bool set_sequences(const char *text, struct setup *setup, struct err *err)
{
    struct model *model = &setup->model;
    const struct field *field = fields_find(model_fields, num_model_fields, "batch");
    struct err unread = { 0 };
    char number[64];
    snprintf(number, sizeof number, "%s", text);
    char *unit = strstr(number, "seq");
    bool says_sequences = unit && strcmp(unit, "seq") == 0;
    if (says_sequences)
        *unit = '\0';
    if (!field_parse(field, number, model, &unread) || model->batch < 1)
        return err_set(err, ERR_USAGE, "--batch",
                       "expected 1 to %.0f sequences, or tokens like \"3.2Mtok\"; found "
                       "\"%.60s\"",
                       field->max, text);
    if (says_sequences || !is_likely_tokens(setup))
        return true;
    return err_set(err, ERR_USAGE, "--batch",
                   "%.0f sequences of %d tokens are %.1f billion tokens per step; write --batch "
                   "%.0ftok for tokens, or --batch %.0fseq for sequences",
                   model->batch, model->seq, model->batch * model->seq / 1e9, model->batch,
                   model->batch);
}

/* Reads a batch: "1536" or "3.2 Mtok". */
static bool read_batch(const char *text, struct setup *setup, struct err *err)
{
    struct err not_tokens = { 0 };
    double tokens;
    if (units_parse(text, QUANTITY_TOKENS, &tokens, &not_tokens))
        return set_tokens(text, tokens, setup, err);
    return set_sequences(text, setup, err);
}

static bool set_seq(int seq, struct model *model, struct err *err)
{
    model->seq = seq;
    model->max_positions = 0; /* the learned position table has the sequence's length */
    if (model_derive(model, err))
        return true;
    err->code = ERR_USAGE;
    err_prefix(err, "--seq: ");
    return false;
}

static bool has_windows(const struct model *model)
{
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (model_kind(model, kind).attention == ATTENTION_WINDOW)
            return true;
    return false;
}

/* Sets the routing and adds it to the assumptions. */
static bool set_routing(const struct options *options, struct setup *setup, struct err *err)
{
    struct model *model = &setup->model;
    struct routing *routing = &model->routing;
    if (options->routing && model->experts == 0)
        return err_set(err, ERR_USAGE, "--routing", "%s has no experts", model->name);
    if (options->routing && !routing_read(options->routing, routing, err))
        return false;
    if (model->experts == 0)
        return true;
    switch ((enum routing_kind)routing->kind) {
    case ROUTING_BALANCED:
        setup_assume(setup, "a balanced router: every expert gets the same number of tokens");
        break;
    case ROUTING_IN_TURN:
        setup_assume(setup, "no router: tokens get neighbouring experts in turn, as in benchmarks");
        break;
    case ROUTING_RANDOM:
        setup_assume(setup,
                     "a router that chooses at random: all ranks wait for the most loaded rank");
        break;
    case ROUTING_SKEWED:
        setup_assume(setup,
                     "experts whose popularity has a standard deviation of %g times its mean: all "
                     "ranks wait for the most loaded rank",
                     routing->cv);
        break;
    case ROUTING_FACTOR:
        setup_assume(setup,
                     "a router whose most loaded rank gets %g times the mean load, if possible",
                     routing->factor);
        break;
    }
    return true;
}

/* Adds an assumption about the parameters of multi-token-prediction modules. */
static void assume_modules(struct setup *setup)
{
    const struct model *model = &setup->model;
    char parameters[32];
    if (model->mtp == 0)
        return;
    units_show_count(model_mtp_parameters(model), parameters, sizeof parameters);
    setup_assume(setup,
                 "%d module%s of %s predict%s later tokens, on the stage of the head, with %s more "
                 "parameters",
                 model->mtp, model->mtp > 1 ? "s" : "", model->name, model->mtp > 1 ? "" : "s",
                 parameters);
}

/* Adds assumptions if a config.json leaves the kind of attention open, or if the kind is not
 * modelled. */
static void assume_attention(const struct options *options, struct setup *setup)
{
    const struct model *model = &setup->model;
    if (!options->seq && model->allowed_seq > model->seq && model->seq != model->sliding_window)
        setup_assume(setup,
                     "sequence %d tokens, usual in training, as %s states only the longest one, %d "
                     "tokens; --seq changes it",
                     model->seq, model->name, model->allowed_seq);
    else if (!options->seq && model->allowed_seq > 0)
        setup_assume(setup, "sequence %d tokens, the %s of %s", model->seq,
                     model->seq == model->allowed_seq ? "largest number of positions"
                                                      : "attention window",
                     model->name);
    if (model->sliding_window > 0 && model->seq > model->sliding_window && !has_windows(model))
        setup_assume(setup,
                     "attention over all %d tokens: the sliding window of %d that %s has is not "
                     "modelled, so compute and time are predicted too large",
                     model->seq, model->sliding_window, model->name);
}

/* Adds an assumption that names a feature of the model that no measured run has. */
static void assume_unmeasured(struct setup *setup)
{
    const char *unmeasured = model_unmeasured(&setup->model);
    if (unmeasured)
        setup_assume(setup,
                     "the times of %s are computed from FLOPs and memory traffic, as no run with "
                     "them has been measured",
                     unmeasured);
}

/* Sets the lengths of packed documents. For long sequences, in which attention is a large part, it
 * adds the packing to the assumptions. */
static bool set_documents(const struct options *options, struct setup *setup, struct err *err)
{
    enum { LONG_SEQ = 16384 };
    struct model *model = &setup->model;
    if (options->documents &&
        !documents_read(options->documents, model->seq, &model->documents, err))
        return false;
    const struct documents *documents = &model->documents;
    if (documents->mean > 0)
        setup_assume(setup,
                     "documents of %.0f tokens on average: attention costs as much as with "
                     "sequences of %.0f tokens instead of %d%s",
                     documents->mean, documents_attended(documents, model->seq), model->seq,
                     options->documents && strchr(options->documents, '=')
                         ? "; lengths are gamma distributed"
                         : "");
    else if (model->seq >= LONG_SEQ)
        setup_assume(setup,
                     "one document per sequence: attention covers all %d tokens (--documents sets "
                     "shorter documents)",
                     model->seq);
    return true;
}

bool setup_set_run(const struct options *options, bool of_file, struct setup *setup,
                   struct err *err)
{
    struct model *model = &setup->model;
    double usual_tokens = model->batch * model->seq;
    if (options->seq && !set_seq(options->seq, model, err))
        return false;
    assume_attention(options, setup);
    assume_unmeasured(setup);
    if (!set_routing(options, setup, err))
        return false;
    assume_modules(setup);
    if (!set_documents(options, setup, err))
        return false;
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
