/* Checks random layouts, most of which break a rule or cannot be read. Their canonical texts and
 * error messages are compared with tests/golden/drawn_layouts.txt, which has one line per layout.
 *
 * SIMSEARCH_GOLDEN=write make T=drawn_layouts test
 *
 * rewrites the file: read the difference, and commit it with the reason. */
#include "base/text.h"
#include "exec/supported.h"
#include "sim/engine/simulate.h"
#include "sim/plan/pass.h"
#include "sim/plan/ranks.h"
#include "tests/draw.h"
#include "tests/kept.h"
#include "tests/search/random_question.h"
#include "tests/testing.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_SEED = 90000, QUESTIONS = 60, LAYOUTS = 20 };

static struct question question;
static struct text answers;

/* Words of a layout. Some values are not valid, or break a rule of most models. */
static const char *const words[] = {
    "tp1",
    "tp2",
    "tp2 sp",
    "tp3",
    "tp4 sp",
    "tp8",
    "tp0",
    "tp99999999",
    "sp",
    "sp0",
    "sp2",
    "pp1",
    "pp2",
    "pp3",
    "pp4",
    "pp5",
    "pp2 vpp2",
    "pp2 vpp3",
    "pp4 vpp2",
    "vpp2",
    "vpp0",
    "cp2",
    "cp4",
    "cp2 cp-comm=a2a",
    "cp2 cp-comm=all-gather",
    "cp-comm=a2a",
    "cp2 cp-comm=x",
    "ep2",
    "ep4",
    "ep2 etp2",
    "etp2",
    "capacity=1.25",
    "capacity=0",
    "capacity=x",
    "dp1",
    "dp2",
    "dp4",
    "dp8",
    "dp3",
    "mb1",
    "mb2",
    "mb3",
    "mb4",
    "mb64",
    "mb",
    "zero0",
    "zero1",
    "zero2",
    "zero3",
    "zero4",
    "shard=2",
    "shard=4",
    "shard=0",
    "shard=3",
    "reshard=pass",
    "reshard=step",
    "reshard=gradients",
    "reshard=no",
    "schedule=1f1b",
    "schedule=gpipe",
    "schedule=naive",
    "schedule=interleaved",
    "schedule=zb-h1",
    "schedule=zb-h2",
    "schedule=zb-v",
    "schedule=dualpipe",
    "schedule=dualpipev",
    "schedule=1f1c",
    "stages=4,4",
    "stages=2,3,1",
    "stages=1x4",
    "stages=2x3,1",
    "stages=0,4,4,0",
    "stages=",
    "stages=4,-1",
    "stages=Et*3|t*3L",
    "stages=E|tt|tt|L",
    "stages=EtmL",
    "stages=tL",
    "stages=9999999",
    "recompute=none",
    "recompute=selective",
    "recompute=selective:mlp",
    "recompute=selective:core_attn+layernorm",
    "recompute=selective:x",
    "recompute=op-selective",
    "recompute=full",
    "recompute=full:2",
    "recompute=full:0",
    "recompute=block:1",
    "recompute=block:1,2",
    "recompute=block:99",
    "recompute=block-share:0.5",
    "recompute=block-share:2",
    "recompute=all",
    "attn=unfused",
    "attn=flash",
    "attn=flash9",
    "dtype=fp32",
    "dtype=fp16",
    "dtype=bf16-pure",
    "dtype=fp8",
    "dtype=fp8-mx",
    "dtype=nvfp4",
    "dtype=fp7",
    "grad=bf16",
    "grad=fp16",
    "grad=fp8",
    "reduce=bf16",
    "reduce=fp16",
    "optimizer=adam-8bit",
    "optimizer=sgd",
    "optimizer=momentum",
    "optimizer=adafactor",
    "optimizer=muon",
    "optimizer=adam-bf16",
    "optimizer=adma",
    "order=tp-cp-pp-dp",
    "order=pp-tp-cp-dp",
    "order=tp-pp-dp",
    "order=tp-tp-cp-pp-dp",
    "order=ep-tp-cp-dp-pp",
    "order=x",
    "overlap=none",
    "overlap=shared",
    "ep2 overlap=shared",
    "ep2 overlap=shared,ep",
    "ep2 overlap=shared recompute=selective:shared_experts",
    "overlap=grad",
    "overlap=param",
    "overlap=tp,p2p",
    "overlap=grad,param,p2p,tp,ep",
    "overlap=grad,grad",
    "overlap=all",
    "offload=optimizer",
    "offload=activations",
    "offload=optimizer,activations",
    "offload=weights",
    "exchange=ring",
    "exchange=local:4",
    "exchange=local:0",
    "exchange=gossip:ring",
    "exchange=gossip:one-peer:combine=beside",
    "exchange=gossip:x",
    "exchange=pga:6",
    "exchange=aga:2",
    "exchange=ps:1",
    "exchange=ps:9",
    "exchange=topk:0.01",
    "exchange=topk:2",
    "exchange=powersgd:4",
    "exchange=qsgd:8",
    "exchange=hierarchical",
    "exchange=async:3",
    "exchange=median:1",
    "exchange=krum:3",
    "exchange=ef21:0.1",
    "exchange=topk:0.1:memory=off",
    "exchange=topk:0.1:memory=x",
    "exchange=none",
    "tp2 tp2",
    "pp2 pp4",
    "unknown=3",
    "xyz",
    "=",
    "tp=2",
    "zero=1",
    "mb=4",
};

/* Changes one character of some layouts: drops it, doubles it, or replaces it. */
static void garble(char *layout, size_t length)
{
    size_t at = (size_t)random_below(&question.rng, (int)length);
    if (random_below(&question.rng, 6) > 0)
        return;
    if (random_below(&question.rng, 2))
        memmove(layout + at, layout + at + 1, length - at);
    else
        layout[at] = "0123456789=:,-x "[random_below(&question.rng, 16)];
}

/* Whether the layout can be read if this word is appended. */
static bool can_follow(const char *layout, const char *word)
{
    char both[512];
    struct err err = { 0 };
    struct plan plan;
    snprintf(both, sizeof both, "%s %s", layout, word);
    return plan_parse(both, &question.arena, &plan, &err);
}

/* Draws a layout. Most of its words can be read, and most layouts have a microbatch size. */
static const char *draw_layout(void)
{
    char layout[512] = "";
    int count = within(&question.rng, 1, 6);
    if (random_below(&question.rng, 6) > 0)
        strcat(layout, "mb1");
    for (int i = 0; i < count; i++) {
        const char *word;
        do
            word = words[random_below(&question.rng, (int)LENGTH(words))];
        while (!can_follow(layout, word) && random_below(&question.rng, 12) > 0);
        strcat(layout, *layout ? " " : "");
        strcat(layout, word);
    }
    garble(layout, strlen(layout));
    return arena_text(&question.arena, layout);
}

/* Appends the reasons for which the executor refuses a valid plan. */
static void add_executor(const struct plan *plan)
{
    struct err err = { 0 };
    const char *refusal = plan_capture_refusal(plan);
    if (!run_supported(plan, &question.model, &err))
        text_add(&answers, "; run: %s: %s", err.where, err.msg);
    if (refusal)
        text_add(&answers, "; graphs: %s", refusal);
}

static void add_layout(const char *layout)
{
    struct err err = { 0 };
    struct plan plan;
    const struct system *system = &question.system;
    text_add(&answers, "  %s => ", layout);
    if (!plan_parse(layout, &question.arena, &plan, &err) ||
        !plan_derive_data(&plan, system->num_gpus, &err)) {
        text_add(&answers, "%s: %s\n", err.where, err.msg);
        return;
    }
    text_add(&answers, "%s", question_layout(&question, &plan));
    const struct plan_rule *broken =
        plan_check(&plan, &question.model, question.model.batch, system->num_gpus, &err);
    if (broken)
        text_add(&answers, "; %s: %s: %s", broken->name, err.where, err.msg);
    else if (!system_check(system, &plan, &err))
        text_add(&answers, "; system: %s: %s", err.where, err.msg);
    else
        add_executor(&plan);
    text_add(&answers, "\n");
}

static void answer(int i)
{
    question_draw((uint64_t)(FIRST_SEED + i), &question);
    draw_experts(&question.model, question.seed);
    question.model.batch = i % 4 > 0 ? 192 : question.model.batch;
    question.model.tied = i % 3 == 0;
    question.model.mtp = i % 7 == 0;
    text_add(&answers, "$ %s, %s layers %d heads %d batch %g\n", question.words,
             question.model.name, question.model.layers, question.model.heads,
             question.model.batch);
    for (int k = 0; k < LAYOUTS; k++)
        add_layout(draw_layout());
    question_release(&question);
}

START_TEST(what_is_said_about_a_layout_is_what_it_was)
{
    if (kept_is_written())
        return;
    answer(_i);
    kept_check(text_get(&answers));
    text_release(&answers);
}
END_TEST

START_TEST(the_answers_are_written)
{
    for (int i = 0; i < QUESTIONS && kept_is_written(); i++)
        answer(i);
    if (kept_is_written())
        kept_write(text_get(&answers));
    text_release(&answers);
}
END_TEST

static Suite *suite(void)
{
    kept_read("tests/golden/drawn_layouts.txt");
    TCase *tc = tcase_create("layouts");
    tcase_add_test(tc, the_answers_are_written);
    tcase_add_loop_test(tc, what_is_said_about_a_layout_is_what_it_was, 0, QUESTIONS);
    Suite *s = suite_create("drawn layouts");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
