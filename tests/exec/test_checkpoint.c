/* Tests that a saved and resumed run equals a run that was never interrupted. */
#include "exec/run/checkpoint.h"
#include "exec/run/checkpoint_exchange.h"
#include "tests/exec/checkpoint_runs.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <string.h>

/* --- callbacks on the ranks --------------------------------------------------------------- */

static bool save(struct rank *rank, const struct parity_run *run, struct err *err)
{
    int first = run->first_step > 0 ? run->first_step : 1;
    return checkpoint_save(rank, checkpoint_folder, first + run->steps - 1, err);
}

static bool load(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    return checkpoint_load(rank, checkpoint_folder, &state, err) &&
           (state.step == run->first_step - 1 ||
            err_set(err, ERR_INPUT, "step", "step %ld was loaded", state.step));
}

/* Runs three steps and saves. */
static void save_three(const struct model *model, const char *layout, struct parity_run run)
{
    struct parity_result result;
    run.steps = 3;
    run.after = save;
    parity_run(model, layout, &run, &result);
    parity_release(&result);
}

static void resume(const struct model *model, const char *layout, struct parity_run run, int steps,
                   struct parity_result *out)
{
    run.first_step = 4;
    run.steps = steps;
    run.before = load;
    parity_run(model, layout, &run, out);
}

/* --- resuming ----------------------------------------------------------------------------- */

static const struct {
    const char *layout;
    int precision, optimizer;
} runs[] = {
    { "mb2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 zero3 mb2", PRECISION_FP32, OPTIMIZER_MOMENTUM },
    { "tp2 sp pp2 zero0", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 zero1 pp2 mb2", PRECISION_BF16, OPTIMIZER_ADAM },
    { "tp2 dp2 zero2 mb2", PRECISION_FP16, OPTIMIZER_ADAM },
    { "tp2 dp2 mb2 exchange=qsgd:5", PRECISION_BF16, OPTIMIZER_ADAM },
    { "pp2 vpp2 mb2", PRECISION_FP32, OPTIMIZER_SGD },
    { "dp2 tp2 mb2 exchange=topk:0.1", PRECISION_FP32, OPTIMIZER_ADAM },
    { "pp2 vpp2 dp2 mb2 exchange=ef21:0.1", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 mb2 exchange=neolithic:0.05", PRECISION_BF16, OPTIMIZER_MOMENTUM },
    { "dp2 mb2 exchange=async:3", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 mb2 exchange=powersgd:2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 mb2 exchange=powersgd:2:memory=off", PRECISION_FP32, OPTIMIZER_SGD },
    { "pp2 dp2 mb2 exchange=gossip:one-peer:combine=beside", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp2 tp2 sp mb2 exchange=gossip:one-peer", PRECISION_BF16, OPTIMIZER_ADAM },
    { "dp4 mb1 exchange=gossip:ring", PRECISION_FP16, OPTIMIZER_ADAM },
    { "dp4 mb1 exchange=aga:2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp4 mb1 exchange=pga:4:graph=ring:group=2", PRECISION_FP32, OPTIMIZER_ADAM },
    { "dp4 mb1 exchange=local:2", PRECISION_FP32, OPTIMIZER_ADAM },
};
enum { NUM_RUNS = LENGTH(runs) };

START_TEST(a_resumed_run_has_the_same_bits_as_an_uninterrupted_run)
{
    if (is_spared(_i, 4))
        return;
    struct model model = _i % 2 ? parity_llama() : parity_gpt();
    struct parity_run run = checkpoint_run(runs[_i].precision, runs[_i].optimizer);
    struct parity_result whole, rest;
    save_three(&model, runs[_i].layout, run);
    resume(&model, runs[_i].layout, run, 3, &rest);
    run.steps = 6;
    parity_run(&model, runs[_i].layout, &run, &whole);
    memmove(whole.loss, whole.loss + 3, 3 * sizeof *whole.loss);
    memmove(whole.gradient_norm, whole.gradient_norm + 3, 3 * sizeof *whole.loss);
    ck_assert_msg(parity_is_equal(&whole, &rest, 3), "%s: the resumed run differs",
                  runs[_i].layout);
    parity_release(&whole);
    parity_release(&rest);
}
END_TEST

/* Checkpoints are written in slices. A weight of 33,000 rows and 32 columns has more elements than
 * one slice. */
START_TEST(weights_of_several_slices_are_saved_completely)
{
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct parity_result whole, rest;
    model.vocab = 33000;
    model.layers = 1;
    run.arena_bytes = (size_t)64 << 20;
    run.after = save;
    run.steps = 1;
    parity_run(&model, "mb1", &run, &whole);
    run.after = NULL;
    run.before = load;
    run.first_step = 2;
    run.steps = 0;
    parity_run(&model, "mb1", &run, &rest);
    ck_assert(parity_is_equal(&whole, &rest, 0));
    parity_release(&whole);
    parity_release(&rest);
}
END_TEST

/* Warm-up ends at step 2 and the cosine decay at step 5, so the steps right before and after the
 * save are in the decay. */
START_TEST(a_resumed_run_uses_the_learning_rate_of_its_step)
{
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result whole, rest, constant;
    run.rates = (struct rate_course){ .warmup = 2, .decay = 5, .least = 1e-3 };
    save_three(&model, "dp2 zero1", run);
    resume(&model, "dp2 zero1", run, 3, &rest);
    run.steps = 6;
    parity_run(&model, "dp2 zero1", &run, &whole);
    run.rates = (struct rate_course){ 0 };
    parity_run(&model, "dp2 zero1", &run, &constant);
    ck_assert(whole.loss[1] != constant.loss[1]);
    memmove(whole.loss, whole.loss + 3, 3 * sizeof *whole.loss);
    memmove(whole.gradient_norm, whole.gradient_norm + 3, 3 * sizeof *whole.loss);
    ck_assert(parity_is_equal(&whole, &rest, 3));
    parity_release(&whole);
    parity_release(&rest);
    parity_release(&constant);
}
END_TEST

/* --- spikes ------------------------------------------------------------------------------- */

static double loss_of(int i)
{
    return 5 + sin(7 * i) / 3;
}

/* Passes 14 losses to the spike detector of each rank, then saves. */
static bool see_and_save(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct divergence ignored;
    for (int i = 0; i < 14; i++)
        ck_assert(!rank_sees_spike(rank, loss_of(i), &ignored));
    return save(rank, run, err);
}

static bool load_and_see(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct spike_watch watch = { 0 };
    struct divergence found = { 0 };
    for (int i = 0; i < 14; i++)
        spike_seen(&watch, 4, loss_of(i));
    ck_assert(load(rank, run, err));
    ck_assert(rank_sees_spike(rank, 9, &found));
    ck_assert_int_eq(found.kind, DIVERGENCE_SPIKE);
    ck_assert(found.mean == watch.mean && found.deviation == spike_deviation(&watch));
    return true;
}

START_TEST(a_resumed_run_restores_the_losses_of_the_spike_detector)
{
    static const char *const layouts[] = { "dp2 mb2", "pp2" };
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct parity_result result;
    run.spike = 4;
    run.after = see_and_save;
    parity_run(&model, "dp2 mb2", &run, &result);
    parity_release(&result);
    run.after = NULL;
    run.first_step = 1;
    run.before = load_and_see;
    parity_run(&model, layouts[_i], &run, &result);
    parity_release(&result);
}
END_TEST

static const char *const from_to[][2] = {
    { "mb2", "tp2 sp pp2 dp2 zero1" }, { "tp4 sp", "dp2 zero3 mb2" },  { "dp4 zero2", "pp4" },
    { "pp2 vpp2 mb2", "mb1" },         { "dp2 zero1 tp2", "tp4 dp2" },
};
enum { NUM_MOVES = LENGTH(from_to) };

/* Right after loading, the weights have the same bits under any layout. */
START_TEST(a_run_resumes_under_another_layout)
{
    if (is_spared(_i, 2))
        return;
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result saved, loaded, same, other;
    const char *from = from_to[_i][0], *to = from_to[_i][1];
    save_three(&model, from, run);
    resume(&model, from, run, 0, &saved);
    resume(&model, to, run, 0, &loaded);
    ck_assert_msg(parity_distance(&saved, &loaded) == 0, "%s loaded as %s: the weights differ",
                  from, to);
    resume(&model, from, run, 3, &same);
    resume(&model, to, run, 3, &other);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(fabs(other.loss[i] / same.loss[i] - 1) < 1e-6,
                      "%s resumed as %s: the loss is %.9g, but %.9g without a change", from, to,
                      other.loss[i], same.loss[i]);
    parity_release(&saved);
    parity_release(&loaded);
    parity_release(&same);
    parity_release(&other);
}
END_TEST

static bool load_copies(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    return checkpoint_load(rank, checkpoint_folder, &state, err) &&
           (state.copies == *(int *)run->context ||
            err_set(err, ERR_INPUT, "copies", "%d and not %d", state.copies, *(int *)run->context));
}

/* With learning rate 0 the fourth step only averages the weights that the replicas had after the
 * first three steps. */
START_TEST(another_layout_resumes_with_the_mean_of_differing_replicas)
{
    if (is_spared(_i, 2))
        return;
    static const char *const others[] = { "mb1", "pp2 dp2 zero1 mb2", "dp4 mb2 exchange=local:4" };
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct parity_result one, averaged, mean;
    int copies = 1;
    save_three(&model, "dp2 mb1 exchange=local:4", run);
    run.before = load_copies;
    run.context = &copies;
    run.first_step = 4;
    run.rate = 0;
    parity_run(&model, "dp2 mb1 exchange=local:4", &run, &one);
    run.steps = 1;
    parity_run(&model, "dp2 mb1 exchange=local:4", &run, &averaged);
    run.steps = 0;
    copies = 2;
    parity_run(&model, others[_i], &run, &mean);
    ck_assert_double_gt(parity_distance(&averaged, &one), 1e-4);
    ck_assert_double_lt(parity_distance(&averaged, &mean), 1e-7);
    parity_release(&one);
    parity_release(&averaged);
    parity_release(&mean);
}
END_TEST

static bool load_and_know_rate(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    (void)run;
    if (!checkpoint_load(rank, checkpoint_folder, &state, err))
        return false;
    ck_assert(state.rate == 0.3F);
    return true;
}

/* With a learning rate of 0 the weights stay as they were saved. */
START_TEST(a_given_learning_rate_overrides_the_saved_one)
{
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct parity_result saved, rest;
    save_three(&model, "dp2", run);
    resume(&model, "dp2", run, 0, &saved);
    run.rate = 0;
    run.before = load_and_know_rate;
    run.first_step = 4;
    run.steps = 2;
    parity_run(&model, "dp2", &run, &rest);
    ck_assert(parity_distance(&saved, &rest) == 0);
    parity_release(&saved);
    parity_release(&rest);
}
END_TEST

/* --- checkpoints of other models ---------------------------------------------------------- */

static bool refuse(struct rank *rank, const struct parity_run *run, struct err *err)
{
    struct checkpoint_state state;
    struct err found = { 0 };
    (void)err;
    ck_assert(!checkpoint_load(rank, checkpoint_folder, &state, &found));
    ck_assert_int_eq(found.code, ERR_INPUT);
    ck_assert_str_eq(found.where, run->context);
    return true;
}

START_TEST(another_model_seed_or_optimizer_is_refused)
{
    if (is_spared(_i, 2))
        return;
    static char wheres[][12] = { "ffn", "seed", "optimizer" };
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    save_three(&model, "mb1", run);
    run.before = refuse;
    run.context = wheres[_i];
    model.ffn = _i == 0 ? 64 : model.ffn;
    run.seed = _i == 1 ? 12 : run.seed;
    run.optimizer = _i == 2 ? OPTIMIZER_SGD : run.optimizer;
    parity_run(&model, "mb1", &run, &result);
    parity_release(&result);
}
END_TEST

/* Runs with the same gradient exchange but another layout. An exchange without error feedback keeps
 * no state, so its checkpoint can be loaded. */
static const struct {
    const char *from, *to;
    bool is_refused;
} others[] = {
    { "dp2 mb1 exchange=topk:0.1", "dp2 mb1", true },
    { "dp2 mb1 exchange=topk:0.1", "tp2 dp2 mb1 exchange=topk:0.1", true },
    { "dp2 mb1 exchange=ef21:0.1", "dp2 mb1 exchange=topk:0.1", true },
    { "dp2 mb1 exchange=powersgd:2", "mb1", true },
    { "dp2 mb1 exchange=topk:0.1:memory=off", "mb1", false },
    { "dp2 mb1", "dp2 mb1 exchange=topk:0.1", false },
    { "dp2 mb1 exchange=gossip:one-peer", "dp2 mb1 exchange=ef21:0.1", false },
};
enum { NUM_OTHERS = LENGTH(others) };

START_TEST(exchange_state_is_not_loaded_under_another_layout)
{
    if (is_spared(_i, 1))
        return;
    struct model model = parity_gpt();
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
    struct parity_result result;
    static char where[] = "exchange";
    save_three(&model, others[_i].from, run);
    run.before = others[_i].is_refused ? refuse : checkpoint_load_whole;
    run.context = where;
    parity_run(&model, others[_i].to, &run, &result);
    parity_release(&result);
}
END_TEST

/* A checkpoint has the text of its layout, which may be cut off, and a checksum of the whole
 * layout. */
START_TEST(a_checkpoint_is_of_the_layout_with_its_text_and_checksum)
{
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct plan plan;
    struct checkpoint_header header = { 0 };
    ck_assert(plan_parse("tp2 dp4 mb1 exchange=topk:0.1", &arena, &plan, &err));
    struct rank rank = { .setup = { .plan = &plan } };
    checkpoint_tell_exchange(&rank, &header);
    ck_assert(checkpoint_is_of_layout(&rank, &header));
    header.layout_sum++;
    ck_assert(!checkpoint_is_of_layout(&rank, &header));
    header.layout_sum--;
    header.layout[2]++;
    ck_assert(!checkpoint_is_of_layout(&rank, &header));
    ck_assert(!checkpoint_exchange_fits(&rank, &header,
                                        &err)); /* each error-feedback buffer belongs to one rank */
    header.layout[2]--;
    for (int replicas = 0; replicas < 3; replicas++) {
        header.replicas = replicas;
        ck_assert(checkpoint_exchange_fits(&rank, &header, &err) == (replicas > 0));
    }
    header.exchange[0] = '?';
    ck_assert(!checkpoint_exchange_fits(&rank, &header, &err));
    arena_release(&arena);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("checkpoint");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, checkpoint_folder_make, checkpoint_folder_remove);
    tcase_add_test(tc, weights_of_several_slices_are_saved_completely);
    tcase_add_loop_test(tc, a_resumed_run_has_the_same_bits_as_an_uninterrupted_run, 0, NUM_RUNS);
    tcase_add_loop_test(tc, a_resumed_run_restores_the_losses_of_the_spike_detector, 0, 2);
    tcase_add_loop_test(tc, a_run_resumes_under_another_layout, 0, NUM_MOVES);
    tcase_add_loop_test(tc, another_layout_resumes_with_the_mean_of_differing_replicas, 0, 3);
    tcase_add_loop_test(tc, another_model_seed_or_optimizer_is_refused, 0, 3);
    tcase_add_loop_test(tc, exchange_state_is_not_loaded_under_another_layout, 0, NUM_OTHERS);
    tcase_add_test(tc, a_checkpoint_is_of_the_layout_with_its_text_and_checksum);
    TCase *rates = tcase_create("rates"); // the code paths are the same as with threads
    tcase_set_timeout(rates, 60);
    tcase_add_checked_fixture(rates, checkpoint_folder_make, checkpoint_folder_remove);
    tcase_add_test(rates, a_resumed_run_uses_the_learning_rate_of_its_step);
    tcase_add_test(rates, a_given_learning_rate_overrides_the_saved_one);
    Suite *s = suite_create("exec/checkpoint");
    suite_add_tcase(s, tc);
    suite_add_tcase(s, rates);
    return s;
}

TEST_MAIN(suite)
