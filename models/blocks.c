/* Kinds of blocks and their order in a model. A run is a number of equal blocks in a row; after the
 * last run the runs repeat. */
#include "models/blocks.h"

#include "base/arena.h"
#include "base/length.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *const attention_kind_names[] = { "full",      "window",   "chunk",   "sparse", "delta",
                                             "lightning", "mamba",    "encoder", "cross",  "none",
                                             "blocks",    "low_rank", NULL };
const char *const feed_forward_names[] = { "dense", "experts", "none", NULL };

struct block_kind model_own_kind(const struct model *model)
{
    return (struct block_kind){ model->heads,     model->kv_heads,     model->head_dim, model->ffn,
                                model->attention, model->feed_forward, model->gradient };
}

struct block_kind model_kind(const struct model *model, int kind)
{
    return model->blocks.num_runs > 0 ? model->blocks.kinds[kind] : model_own_kind(model);
}

struct model model_of_kind(const struct model *model, int kind)
{
    struct model of = *model;
    if (model->blocks.num_runs == 0)
        return of;
    struct block_kind widths = model_kind(model, kind);
    of.heads = widths.heads;
    of.kv_heads = widths.kv_heads;
    of.head_dim = widths.head_dim;
    of.ffn = widths.ffn;
    of.attention = widths.attention;
    of.feed_forward = widths.feed_forward;
    of.gradient = widths.gradient;
    if (of.feed_forward != FEED_FORWARD_EXPERTS)
        of.experts = of.topk = of.shared_ffn = 0;
    of.blocks = (struct blocks){ 0 };
    return of;
}

struct model model_of_later(const struct model *model)
{
    return model_of_kind(model, model_kind_of(model, model->layers - 1));
}

/* Number of blocks after which the runs repeat; 0: no runs. */
static int round_layers(const struct blocks *blocks)
{
    int layers = 0;
    for (int i = 0; i < blocks->num_runs; i++)
        layers += blocks->runs[i].layers;
    assert(layers >= blocks->num_runs && "a run must have a layer");
    return layers;
}

/* The run that contains block `layer`. `left` gets the number of the run's blocks from `layer`
 * on. */
static const struct block_run *run_at(const struct blocks *blocks, int layer, int *left)
{
    const struct block_run *run = blocks->runs;
    int in_round = round_layers(blocks);
    assert(in_round > 0);
    for (layer %= in_round; layer >= run->layers; run++)
        layer -= run->layers;
    *left = run->layers - layer;
    return run;
}

int model_kind_of(const struct model *model, int layer)
{
    int left;
    return model->blocks.num_runs == 0 ? 0 : run_at(&model->blocks, layer, &left)->kind;
}

/* For each of the first `layers` blocks, adds `times` to the count of its kind. */
static void count_first(const struct blocks *blocks, int layers, int times,
                        int counts[MAX_BLOCK_KINDS])
{
    int in_round = round_layers(blocks);
    assert(in_round > 0);
    int rounds = layers / in_round, rest = layers % in_round;
    for (int i = 0; i < blocks->num_runs; i++) {
        const struct block_run *run = &blocks->runs[i];
        int begun = rest < run->layers ? rest : run->layers;
        counts[run->kind] += times * (rounds * run->layers + begun);
        rest -= begun;
    }
}

/* Counts the kinds of the `layers` blocks from `first` on, if all are within the first round of
 * runs, as in most models. Otherwise adds nothing and returns false. */
static bool count_in_round(const struct blocks *blocks, int first, int layers,
                           int counts[MAX_BLOCK_KINDS])
{
    int begin = 0, end = first + layers;
    if (end > round_layers(blocks))
        return false;
    for (int i = 0; i < blocks->num_runs && begin < end; i++) {
        const struct block_run *run = &blocks->runs[i];
        int from = first > begin ? first : begin;
        begin += run->layers;
        int to = end < begin ? end : begin;
        counts[run->kind] += to > from ? to - from : 0;
    }
    return true;
}

void model_count_kinds(const struct model *model, int first, int layers,
                       int counts[MAX_BLOCK_KINDS])
{
    memset(counts, 0, MAX_BLOCK_KINDS * sizeof *counts);
    if (model->blocks.num_runs == 0) {
        counts[0] = layers;
        return;
    }
    if (!count_in_round(&model->blocks, first, layers, counts)) {
        count_first(&model->blocks, first + layers, 1, counts);
        count_first(&model->blocks, first, -1, counts);
    }
}

bool model_blocks_repeat(const struct model *model, int first, int other, int layers)
{
    const struct blocks *blocks = &model->blocks;
    if (blocks->num_runs == 0)
        return true;
    for (int done = 0, left, other_left; done < layers;
         done += left < other_left ? left : other_left)
        if (run_at(blocks, first + done, &left)->kind !=
            run_at(blocks, other + done, &other_left)->kind)
            return false;
    return true;
}

bool model_has_attention(const struct model *model, int attention)
{
    for (int kind = 0; kind < model_num_kinds(model); kind++)
        if (model_kind(model, kind).attention == attention)
            return true;
    return false;
}

bool model_has_states(const struct model *model)
{
    return model_has_attention(model, ATTENTION_DELTA) ||
           model_has_attention(model, ATTENTION_LIGHTNING) ||
           model_has_attention(model, ATTENTION_MAMBA);
}

bool block_kinds_are_equal(const struct block_kind *a, const struct block_kind *b)
{
    return a->heads == b->heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->ffn == b->ffn && a->attention == b->attention && a->feed_forward == b->feed_forward &&
           a->gradient == b->gradient;
}

bool blocks_have_one_width(const struct blocks *blocks)
{
    for (int i = 1; i < blocks->num_kinds; i++) {
        struct block_kind kind = blocks->kinds[i];
        kind.gradient = blocks->kinds[0].gradient;
        if (!block_kinds_are_equal(&kind, &blocks->kinds[0]))
            return false;
    }
    return true;
}

bool blocks_are_equal(const struct blocks *a, const struct blocks *b)
{
    if (a->num_kinds != b->num_kinds || a->num_runs != b->num_runs)
        return false;
    for (int i = 0; i < a->num_kinds; i++)
        if (!block_kinds_are_equal(&a->kinds[i], &b->kinds[i]))
            return false;
    for (int i = 0; i < a->num_runs; i++)
        if (a->runs[i].kind != b->runs[i].kind || a->runs[i].layers != b->runs[i].layers)
            return false;
    return true;
}

/* The kind's index, added if new; -1: too many kinds. */
static int find_or_add_kind(struct blocks *blocks, const struct block_kind *kind)
{
    for (int i = 0; i < blocks->num_kinds; i++)
        if (block_kinds_are_equal(&blocks->kinds[i], kind))
            return i;
    if (blocks->num_kinds == MAX_BLOCK_KINDS)
        return -1;
    blocks->kinds[blocks->num_kinds] = *kind;
    return blocks->num_kinds++;
}

/* --- from the kind of each layer -------------------------------------------------------------- */

static bool repeats_after(const struct block_kind *layers, int count, int period)
{
    for (int i = period; i < count; i++)
        if (!block_kinds_are_equal(&layers[i], &layers[i - period]))
            return false;
    return true;
}

/* The shortest prefix of layers whose kinds, repeated, give the kinds of all layers. The last round
 * must be whole if in_whole_rounds. */
static int find_period(const struct block_kind *layers, int count, bool in_whole_rounds)
{
    for (int period = 1; period < count; period++)
        if ((count % period == 0 || !in_whole_rounds) && repeats_after(layers, count, period))
            return period;
    return count;
}

/* Adds a layer to the last run if that run has the layer's kind, else begins a run. */
static bool add_layer(struct blocks *blocks, const struct block_kind *kind, struct err *err)
{
    int index = find_or_add_kind(blocks, kind);
    if (index < 0)
        return err_set(err, ERR_INPUT, "blocks", "expected %d kinds of blocks or fewer",
                       MAX_BLOCK_KINDS);
    if (blocks->num_runs > 0 && blocks->runs[blocks->num_runs - 1].kind == index) {
        blocks->runs[blocks->num_runs - 1].layers++;
        return true;
    }
    if (blocks->num_runs == MAX_BLOCK_RUNS)
        return err_set(err, ERR_INPUT, "blocks", "expected %d runs of equal blocks or fewer",
                       MAX_BLOCK_RUNS);
    blocks->runs[blocks->num_runs++] = (struct block_run){ index, 1 };
    return true;
}

static bool set_runs(const struct block_kind *layers, int period, struct model *model,
                     struct err *err)
{
    model->blocks = (struct blocks){ 0 };
    for (int i = 0; i < period; i++)
        if (!add_layer(&model->blocks, &layers[i], err))
            return false;
    return true;
}

bool blocks_of_layers(const struct block_kind *layers, struct model *model, struct err *err)
{
    return set_runs(layers, find_period(layers, model->layers, true), model, err);
}

bool blocks_follow_experts(const struct model *model)
{
    return model->first_dense > 0 || model->moe_step > 1;
}

bool blocks_of_experts(struct model *model, struct err *err)
{
    int step = model->moe_step > 0 ? model->moe_step : 1;
    struct block_kind *layers = arena_grow(NULL, (size_t)model->layers * sizeof *layers);
    for (int i = 0; i < model->layers; i++) {
        bool is_dense = i < model->first_dense || (i + 1) % step != 0;
        layers[i] = model_own_kind(model);
        layers[i].feed_forward = is_dense ? FEED_FORWARD_DENSE : FEED_FORWARD_EXPERTS;
    }
    bool ok = set_runs(layers, find_period(layers, model->layers, false), model, err);
    free(layers);
    return ok;
}

/* --- files ------------------------------------------------------------------------------------ */

struct given_run {
    int layers;
    struct block_kind widths;
};

#define F(member) #member, .kind = FIELD_INT, .offset = offsetof(struct given_run, member)
#define W(member)                                                                              \
#member, .kind = FIELD_INT, .offset = offsetof(struct given_run, widths.member), .min = 0, \
             .fallback = "0"
#define N(member) #member, .kind = FIELD_NAME, .offset = offsetof(struct given_run, widths.member)
const struct field block_fields[] = {
    { F(layers), .min = 1, .max = 100000,
      .doc = "Number of equal, consecutive blocks in the run." },
    { W(heads), .max = 1e6, .doc = "Query heads; 0 or absent: the model's." },
    { W(kv_heads), .max = 1e6,
      .doc =
          "Key and value heads; 0 or absent: the model's, or the run's `heads` if the model has as "
          "many of both." },
    { W(head_dim), .max = 1e6, .doc = "Width of one head; 0 or absent: the model's." },
    { W(ffn), .max = 1e8, .doc = "Width of the feed-forward; 0 or absent: the model's." },
    { N(attention), .names = attention_kind_names, .fallback = "full",
      .doc = "Kind of attention or other token mixer; absent: the model's." },
    { N(feed_forward), .names = feed_forward_names, .fallback = "dense",
      .doc = "Dense, experts or none; absent: experts if the model has them." },
};
#undef N
#undef W
#undef F
const size_t num_block_fields = LENGTH(block_fields);

static struct block_kind derive(const struct model *model, const struct block_kind *given)
{
    struct block_kind kind = *given;
    if (kind.heads == 0)
        kind.heads = model->heads;
    if (kind.kv_heads == 0)
        kind.kv_heads = model->kv_heads == model->heads ? kind.heads : model->kv_heads;
    if (kind.head_dim == 0)
        kind.head_dim = model->head_dim;
    if (kind.ffn == 0)
        kind.ffn = model->ffn;
    return kind;
}

static bool read_run(const json_t *object, struct model *model, struct err *err)
{
    struct blocks *blocks = &model->blocks;
    struct given_run given = { 0 };
    if (!fields_read(block_fields, num_block_fields, object, &given, err))
        return false;
    struct block_kind kind = derive(model, &given.widths);
    if (!json_object_get(object, "attention"))
        kind.attention = model->attention;
    if (!json_object_get(object, "feed_forward"))
        kind.feed_forward = model->feed_forward;
    int index = find_or_add_kind(blocks, &kind);
    if (index < 0)
        return err_set(err, ERR_INPUT, "", "expected %d kinds of blocks or fewer; found one more",
                       MAX_BLOCK_KINDS);
    blocks->runs[blocks->num_runs++] = (struct block_run){ index, given.layers };
    return true;
}

bool blocks_read(const json_t *runs, struct model *model, struct err *err)
{
    model->blocks = (struct blocks){ 0 };
    if (!runs)
        return true;
    if (blocks_follow_experts(model))
        return err_set(err, ERR_INPUT, model->first_dense > 0 ? "first_dense" : "moe_step",
                       "cannot be combined with \"blocks\", which states the blocks with experts");
    size_t count = json_array_size(runs);
    if (!json_is_array(runs) || count < 1 || count > MAX_BLOCK_RUNS)
        return err_set(err, ERR_INPUT, "blocks", "expected a list of 1 to %d runs of blocks",
                       MAX_BLOCK_RUNS);
    for (size_t i = 0; i < count; i++) {
        const json_t *run = json_array_get(runs, i);
        if (!json_is_object(run))
            err_set(err, ERR_INPUT, "", "expected an object");
        else if (read_run(run, model, err))
            continue;
        return err_within_item(err, "blocks", i);
    }
    return true;
}

json_t *blocks_write(const struct model *model)
{
    const struct blocks *blocks = &model->blocks;
    if (blocks->num_runs == 0 || blocks_follow_experts(model) || blocks_have_one_width(blocks))
        return NULL;
    json_t *runs = json_array();
    for (int i = 0; i < blocks->num_runs; i++) {
        struct given_run run = { blocks->runs[i].layers, blocks->kinds[blocks->runs[i].kind] };
        json_array_append_new(runs, fields_write(block_fields, num_block_fields, &run));
    }
    return runs;
}

/* Checks that (heads + 2 kv_heads) head_dim fits in an int, as some code computes with ints. */
static bool check_kind(const struct block_kind *kind, struct err *err)
{
    double width = (double)kind->heads * kind->head_dim;
    if (width > 5e8)
        return err_set(err, ERR_INPUT, "head_dim",
                       "%d heads of width %d are together wider than 500000000", kind->heads,
                       kind->head_dim);
    if (kind->kv_heads > kind->heads || kind->heads % kind->kv_heads != 0)
        return err_set(err, ERR_INPUT, "kv_heads",
                       "%d key and value heads do not divide the %d query heads", kind->kv_heads,
                       kind->heads);
    return true;
}

/* All blocks must share head_dim, as they use one table of rotary angles. */
static bool share_angles(const struct model *model, struct err *err)
{
    for (int kind = 1; kind < model_num_kinds(model); kind++)
        if (model->positions == POSITION_ROTARY &&
            model_kind(model, kind).head_dim != model_kind(model, 0).head_dim)
            return err_set(err, ERR_INPUT, "blocks",
                           "expected one head_dim in all blocks of a model with rotary positions; "
                           "found %d and %d",
                           model_kind(model, 0).head_dim, model_kind(model, kind).head_dim);
    return true;
}

bool blocks_check(const struct model *model, struct err *err)
{
    struct block_kind own = model_own_kind(model);
    if (!check_kind(&own, err))
        return false;
    for (int i = 0; i < model->blocks.num_runs; i++)
        if (!check_kind(&model->blocks.kinds[model->blocks.runs[i].kind], err))
            return err_within_item(err, "blocks", (size_t)i);
    int in_round = round_layers(&model->blocks);
    if (in_round > 0 && model->layers % in_round != 0 && !blocks_follow_experts(model))
        return err_set(err, ERR_INPUT, "blocks",
                       "expected runs whose layers add up to %d, or to a divisor of it; found %d",
                       model->layers, in_round);
    return share_angles(model, err);
}
