/* Tests layouts and models in free combination: with any three choices together, training equals
 * that of a single rank.
 *
 * By default the test runs the first rows of a covering array, which contain the most triples of
 * choices; the rows differ each time, and SEED=N repeats them. `make campaign` runs every layout of
 * the space. */
#include "exec/supported.h"
#include "sim/plan/ranks.h"
#include "tests/draw.h"
#include "tests/exec/covering.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the space ---------------------------------------------------------------------------- */

static const char *const tensors[] = { "tp1", "tp2", "tp4", "tp2 sp", "tp4 sp", NULL };
static const char *const pipelines[] = { "pp1",
                                         "pp2",
                                         "pp4",
                                         "pp2 vpp2 overlap=p2p",
                                         "pp2 stages=1,3",
                                         "pp3 vpp2 stages=0,1,1,1,1,0 overlap=p2p",
                                         "pp2 schedule=gpipe",
                                         "pp2 schedule=zb-h1",
                                         "pp2 schedule=naive",
                                         NULL };
static const char *const datas[] = { "dp1", "dp2", "dp4", NULL };
static const char *const zeros[] = { "zero0", "zero1", "zero2", "zero3", NULL };
static const char *const recomputes[] = { "recompute=none",
                                          "recompute=selective",
                                          "recompute=full",
                                          "recompute=block:1",
                                          "recompute=full:2",
                                          "recompute=op-selective",
                                          NULL };
static const char *const microbatches[] = { "mb1", "mb2", "mb4", NULL };
static const char *const models[] = {
    "GPT, tied", "GPT", "Llama", "Llama, tied, norms of heads", "Llama, 4 key-value heads", NULL
};
static const char *const dropouts[] = { "no dropout", "dropout", NULL };
static const char *const attentions[] = { "fused", "unfused", NULL };
static const char *const optimizers[] = { "adam", "momentum", "sgd", NULL };
static const char *const overlaps[] = { "overlap after the product", "overlap=tp", "overlap=grad",
                                        NULL };

/* `make test` does SAMPLE runs, drawn from every STRIDE-th combination; a campaign does all. */
enum { SAMPLE = 36 / SPARSE, STRIDE = 17 };

enum factor {
    TENSOR,
    PIPELINE,
    DATA,
    ZERO,
    RECOMPUTE,
    MICROBATCH,
    OVERLAP,
    NUM_LAYOUT_FACTORS,
    MODEL = NUM_LAYOUT_FACTORS,
    DROPOUT,
    ATTENTION,
    OPTIMIZER,
    NUM_FACTORS
};
static const char *const *const values[NUM_FACTORS] = {
    tensors,  pipelines, datas,    zeros,      recomputes, microbatches,
    overlaps, models,    dropouts, attentions, optimizers,
};

static int num_values(int factor)
{
    int count = 0;
    while (values[factor][count])
        count++;
    return count;
}

/* Presets are read from files only once, because there are many rows. */
static struct model preset(bool is_gpt)
{
    static struct model gpt, llama;
    if (gpt.layers == 0) {
        gpt = parity_gpt();
        llama = parity_llama();
    }
    return is_gpt ? gpt : llama;
}

static struct model model_of(const struct covering_row *row)
{
    int kind = row->value[MODEL];
    struct model model = preset(kind < 2);
    model.hidden = 16;
    model.head_dim = 4;
    model.ffn = 32;
    model.vocab = 50;
    model.seq = 8;
    model.max_positions = kind < 2 ? 8 : 0;
    model.tied = kind == 0 || kind == 3;
    model.qk_norm = kind == 3;
    model.kv_heads = kind == 2 || kind == 3 ? 2 : 4;
    model.dropout = row->value[DROPOUT] ? 0.2 : 0;
    return model;
}

static void layout_of(const struct covering_row *row, char *text, size_t size)
{
    static const char *const own[] = { "", " overlap=tp,p2p", " overlap=grad,p2p" };
    int overlap = row->value[OVERLAP];
    const char *pipeline = values[PIPELINE][row->value[PIPELINE]];
    const char *own_overlap = strstr(pipeline, " overlap=p2p");
    int length = own_overlap ? (int)(own_overlap - pipeline) : (int)strlen(pipeline);
    snprintf(text, size, "%s %.*s %s %s %s %s%s", values[TENSOR][row->value[TENSOR]], length,
             pipeline, values[DATA][row->value[DATA]], values[ZERO][row->value[ZERO]],
             values[RECOMPUTE][row->value[RECOMPUTE]], values[MICROBATCH][row->value[MICROBATCH]],
             overlap == 0 && own_overlap ? own_overlap : own[overlap]);
}

static bool is_possible(const struct covering_row *row)
{
    enum { MOST_WORLD = 8 };
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    char layout[200];
    struct model model = model_of(row);
    layout_of(row, layout, sizeof layout);
    ck_assert_msg(plan_parse(layout, &arena, &plan, &err), "%s: %s", layout, err.msg);
    int world = plan_ranks(&plan);
    bool possible = world <= MOST_WORLD && !(row->value[OVERLAP] == 1 && row->value[TENSOR] == 0) &&
                    !plan_check(&plan, &model, model.batch, world, &err) &&
                    run_supported(&plan, &model, &err);
    arena_release(&arena);
    return possible;
}

/* Adds all values of the free factors to each possible layout and model. */
static void add_free(struct covering_rows *rows, struct covering_row row)
{
    for (int i = 0; i < num_values(DROPOUT) * num_values(ATTENTION) * num_values(OPTIMIZER); i++) {
        row.value[DROPOUT] = (uint8_t)(i % num_values(DROPOUT));
        row.value[ATTENTION] = (uint8_t)(i / num_values(DROPOUT) % num_values(ATTENTION));
        row.value[OPTIMIZER] = (uint8_t)(i / num_values(DROPOUT) / num_values(ATTENTION));
        covering_add(rows, &row);
    }
}

static bool next_row(struct covering_row *row)
{
    for (int factor = 0; factor <= MODEL; factor++) {
        if (++row->value[factor] < num_values(factor))
            return true;
        row->value[factor] = 0;
    }
    return false;
}

/* Every `stride`-th combination; the stride is a prime that divides no factor's number of
 * values. */
static struct covering_rows possible_rows(uint64_t seed, uint64_t stride)
{
    struct covering_rows rows = { 0 };
    struct covering_row row = { 0 };
    uint64_t i = seed;
    do
        if (i++ % stride == 0 && is_possible(&row))
            add_free(&rows, row);
    while (next_row(&row));
    return rows;
}

/* --- comparison with one rank ------------------------------------------------------------- */

static struct parity_run run_of(const struct covering_row *row)
{
    static const int kinds[] = { OPTIMIZER_ADAM, OPTIMIZER_MOMENTUM, OPTIMIZER_SGD };
    static const float rates[] = { 0.01F, 0.1F, 0.3F };
    return (struct parity_run){ .steps = 2,
                                .optimizer = kinds[row->value[OPTIMIZER]],
                                .rate = rates[row->value[OPTIMIZER]],
                                .unfused = row->value[ATTENTION] == 1,
                                .prefetch = row->value[MICROBATCH],
                                .arena_bytes = 1 << 20,
                                .seed = 7 };
}

/* Returns the result of one rank alone. There is one result for each choice of the factors that do
 * not concern ranks. */
static struct parity_result *alone(const struct covering_row *row)
{
    static struct parity_result results[MOST_VALUES][2][2][3];
    struct parity_result *result = &results[row->value[MODEL]][row->value[DROPOUT]]
                                           [row->value[ATTENTION]][row->value[OPTIMIZER]];
    if (!result->weights) {
        struct model model = model_of(row);
        struct parity_run run = run_of(row);
        parity_run(&model, "mb1", &run, result);
    }
    return result;
}

static void check_row(const struct covering_row *row)
{
    char what[300], layout[200];
    struct model model = model_of(row);
    struct parity_run run = run_of(row);
    struct parity_result *one = alone(row), many;
    layout_of(row, layout, sizeof layout);
    snprintf(what, sizeof what, "%s; %s, %s, %s, %s", layout, models[row->value[MODEL]],
             dropouts[row->value[DROPOUT]], attentions[row->value[ATTENTION]],
             optimizers[row->value[OPTIMIZER]]);
    parity_run(&model, layout, &run, &many);
    struct parity_verdict verdict = parity_compare(&run, one, &many);
    ck_assert_msg(verdict.agrees, "%s: %s", what, verdict.difference);
    parity_release(&many);
}

/* Lists every layout with every model; the values of the free factors alternate. */
static struct covering_rows every_layout(const struct covering_rows *all)
{
    struct covering_rows rows = { 0 };
    int each = num_values(DROPOUT) * num_values(ATTENTION) * num_values(OPTIMIZER);
    for (int i = 0; i < all->count / each; i++)
        covering_add(&rows, &all->at[i * each + i % each]);
    return rows;
}

START_TEST(any_three_choices_train_like_one_rank)
{
    uint64_t seed = fresh_seed();
    bool is_all = is_campaign();
    struct covering_rows all = possible_rows(seed, is_all ? 1 : STRIDE);
    struct covering_rows rows =
        is_all ? every_layout(&all) : covering_choose(&all, NUM_FACTORS, SAMPLE, seed);
    printf("SEED=%llu: %d of %d runs\n", (unsigned long long)seed, rows.count, all.count);
    fflush(stdout);
    for (int i = 0; i < rows.count; i++)
        check_row(&rows.at[i]);
    free(rows.at);
    free(all.at);
}
END_TEST

static Suite *suite(void)
{
    TCase *cases = tcase_create("parity");
    tcase_set_tags(cases, THREADS);
    tcase_set_timeout(cases, 60);
    tcase_add_test(cases, any_three_choices_train_like_one_rank);
    Suite *s = suite_create("exec/parity_space");
    suite_add_tcase(s, cases);
    return s;
}

TEST_MAIN(suite)
