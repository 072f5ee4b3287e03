/* Compares what a session reports with the steps of its ranks. Ranks are threads. */
#include "exec/run/session.h"

#include "exec/run/between_steps.h"
#include "exec/run/rank_state.h"
#include "sim/plan/lowering.h"
#include "sim/plan/ranks.h"
#include "sim/schedule/generators.h"
#include "tests/exec/checkpoint_runs.h"
#include "tests/exec/parity.h"
#include "tests/testing.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_RANKS = 4, STEPS = 5 };

static struct local_world *world;
static const struct kernel_api *kernels = &kernels_host;
static _Thread_local int own_rank; /* each rank is a thread */

static struct comm *open_in_world(const struct comm_options *options, struct err *err)
{
    struct comm_options own = *options;
    own.local_world = world;
    return comm_local.open(&own, err);
}

struct job {
    const struct session_options *options;
    struct place place;
    pthread_t thread;
    struct arena arena;
    size_t arena_bytes; /* 0: 8 MiB */
    struct session_result result;
    struct err err;
    bool ok;
};

/* A run of all ranks of a layout. */
struct sessions {
    struct arena arena;
    struct model model;
    struct plan plan;
    int size;
    struct job ranks[MOST_RANKS];
};

static void *run_rank(void *context)
{
    struct job *job = context;
    own_rank = job->place.rank;
    struct session_options own = *job->options;
    own.place = &job->place;
    own.arena_bytes = job->arena_bytes > 0 ? job->arena_bytes : 8 << 20;
    job->ok = session_run(&own, &job->arena, &job->result, &job->err);
    return NULL;
}

static void run_ranks(struct sessions *run, const struct session_options *options)
{
    world = local_world_new(run->size);
    for (int rank = 0; rank < run->size; rank++) {
        struct job *job = &run->ranks[rank];
        job->options = options;
        job->place = place_alone();
        job->place.rank = job->place.local_rank = rank;
        job->place.size = job->place.local_size = run->size;
        pthread_create(&job->thread, NULL, run_rank, job);
    }
    for (int rank = 0; rank < run->size; rank++)
        pthread_join(run->ranks[rank].thread, NULL);
    local_world_free(world);
}

/* Trains with the setup of parity_run, except for members that `asked`, `options` and the jobs of
 * `run` set. */
static void try_to_train(const char *layout, const struct parity_run *asked,
                         struct session_options options, struct sessions *run)
{
    struct err err = { 0 };
    run->model = parity_gpt();
    ck_assert(plan_parse(layout, &run->arena, &run->plan, &err));
    run->plan.dp = run->plan.dp > 0 ? run->plan.dp : 1;
    run->plan.precision = asked->precision;
    run->size = plan_ranks(&run->plan);
    struct lowering lowering = plan_lowering(&run->plan, &run->model);
    struct schedule_shape shape = plan_shape(&run->plan, run->model.batch);
    struct token_source tokens = { .vocab = run->model.vocab,
                                   .seq = run->model.seq,
                                   .seed = asked->seed };
    struct comm_api comm = comm_local;
    comm.open = open_in_world;
    struct run_setup setup = {
        .plan = &run->plan,
        .model = &run->model,
        .schedule = schedule_new(generator_find(plan_schedule(&run->plan)), &shape, &lowering,
                                 &run->arena, &err),
        .options = { .flash_attention = true,
                     .dtype = precision_value_dtype(run->plan.precision),
                     .gradient_bytes = 4 },
        .tokens = &tokens,
        .update = { .optimizer = OPTIMIZER_SGD,
                    .rate = asked->rate,
                    .beta1 = 0.9F,
                    .beta2 = 0.95F,
                    .epsilon = 1e-4F,
                    .momentum = 0.9F,
                    .clip = 1,
                    .loss_scale = 1 },
        .rates = asked->rates,
        .spike = asked->spike,
        .seed = asked->seed,
        .data_ranks = { run->plan.dp, 1 },
    };
    options.setup = &setup;
    options.device_api = &device_host;
    options.kernel_api = kernels;
    options.comm_api = &comm;
    options.watchdog_s = 60;
    run_ranks(run, &options);
}

static void train(const char *layout, const struct parity_run *asked,
                  struct session_options options, struct sessions *run)
{
    *run = (struct sessions){ 0 };
    try_to_train(layout, asked, options, run);
    for (int rank = 0; rank < run->size; rank++)
        ck_assert_msg(run->ranks[rank].ok, "%s, rank %d: %s: %s", layout, rank,
                      run->ranks[rank].err.where, run->ranks[rank].err.msg);
}

static void release(struct sessions *run)
{
    for (int rank = 0; rank < run->size; rank++)
        arena_release(&run->ranks[rank].arena);
    arena_release(&run->arena);
}

static const char *const layouts[] = { "mb2", "dp2 mb1", "pp2 mb2" };

/* The learning rate rises over two steps and then falls until step 5; only the steps after the
 * first two are timed. */
START_TEST(a_session_reports_the_losses_norms_and_rates_of_its_steps)
{
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct parity_result steps;
    struct sessions run;
    asked.steps = STEPS;
    asked.rates = (struct rate_course){ .warmup = 2, .decay = 5, .least = 1e-3 };
    struct model model = parity_gpt();
    parity_run(&model, layouts[_i], &asked, &steps);
    train(layouts[_i], &asked, (struct session_options){ .steps = STEPS, .warmups = 2 }, &run);
    for (int rank = 0; rank < run.size; rank++) {
        const struct session_result *result = &run.ranks[rank].result;
        ck_assert_int_eq(result->first_step, 1);
        ck_assert_int_eq(result->num_steps, STEPS);
        ck_assert_int_eq(result->num_timed, STEPS - 2);
        ck_assert_int_eq((int)result->divergence.kind, DIVERGENCE_NONE);
        for (int i = 0; i < STEPS; i++) {
            ck_assert_double_eq(result->losses[i], steps.loss[i]);
            ck_assert_double_eq(result->gradient_norms[i], steps.gradient_norm[i]);
            ck_assert_double_eq_tol(result->rates[i],
                                    rate_at(&asked.rates, (double)asked.rate, i + 1),
                                    1e-7); /* rates are floats */
            ck_assert(result->loss_scales[i] == 1 && !result->is_skipped[i]);
        }
        for (int i = 0; i < result->num_timed; i++)
            ck_assert_double_gt(result->step_s[i], 0);
        ck_assert_double_eq(result->peak_bytes, run.ranks[0].result.peak_bytes);
    }
    parity_release(&steps);
    release(&run);
}
END_TEST

/* --- checkpoints ---------------------------------------------------------------------------- */

static bool has_checkpoint(int step)
{
    char path[120];
    struct stat about;
    snprintf(path, sizeof path, "%s/step-%09d", checkpoint_folder, step);
    return stat(path, &about) == 0;
}

/* Checkpoints are saved every `every` steps and after the last step; the newest two are kept. */
static const struct {
    int steps, every;
    int kept[2]; /* 0: none */
} saves[] = { { 3, 0, { 0, 3 } }, { 3, 1, { 2, 3 } }, { 4, 3, { 3, 4 } }, { 4, 2, { 2, 4 } } };

START_TEST(a_session_saves_at_its_period_and_after_its_last_step)
{
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct session_options options = { .steps = saves[_i].steps,
                                       .checkpoint = checkpoint_folder,
                                       .checkpoint_every = saves[_i].every };
    struct sessions run;
    train("mb2", &asked, options, &run);
    for (int step = 1; step <= saves[_i].steps; step++)
        ck_assert_msg(has_checkpoint(step) ==
                          (step == saves[_i].kept[0] || step == saves[_i].kept[1]),
                      "step %d: its checkpoint %s", step,
                      has_checkpoint(step) ? "was not removed" : "is missing");
    release(&run);
}
END_TEST

START_TEST(a_resumed_session_continues_with_the_next_step)
{
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct sessions whole, first, rest;
    train("dp2 mb1", &asked, (struct session_options){ .steps = 4 }, &whole);
    struct session_options options = { .steps = 2, .checkpoint = checkpoint_folder };
    train("dp2 mb1", &asked, options, &first);
    options.resumes = true;
    train("dp2 mb1", &asked, options, &rest);
    ck_assert(has_checkpoint(2) && has_checkpoint(4));
    const struct session_result *result = &rest.ranks[1].result;
    ck_assert_int_eq(result->first_step, 3);
    ck_assert_int_eq(result->num_steps, 2);
    ck_assert_int_eq((int)result->damage.code, ERR_NONE);
    ck_assert_int_eq(result->copies, 1);
    for (int i = 0; i < 2; i++)
        ck_assert_double_eq(result->losses[i], whole.ranks[0].result.losses[2 + i]);
    release(&whole);
    release(&first);
    release(&rest);
}
END_TEST

/* --- divergence ----------------------------------------------------------------------------- */

/* The first update makes the weights so large that the loss of step 2 is not finite. The loss is
 * computed on the last stage. If several ranks report that a loss is not finite in the same step,
 * the lowest rank is named. Nothing is saved afterwards. */
static const struct {
    const char *layout;
    int rank;
} diverged[] = { { "mb2", 0 }, { "dp2 mb1", 0 }, { "pp2 mb2", 1 } };

START_TEST(a_session_ends_at_the_step_that_diverges)
{
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct session_options options = {
        .steps = 4, .checkpoint = checkpoint_folder, .checkpoint_every = 1, .is_traced = true
    };
    struct sessions run;
    asked.rate = 1e30F;
    train(diverged[_i].layout, &asked, options, &run);
    for (int rank = 0; rank < run.size; rank++) {
        const struct session_result *result = &run.ranks[rank].result;
        ck_assert_int_eq((int)result->divergence.kind, DIVERGENCE_LOSS);
        ck_assert_int_eq(result->divergence.step, 2);
        ck_assert_int_eq(result->divergence.rank, diverged[_i].rank);
        ck_assert(!isfinite(result->divergence.loss));
        ck_assert_int_eq(result->num_steps, 2);
        ck_assert_ptr_null(result->timeline);
    }
    ck_assert(has_checkpoint(1) && !has_checkpoint(2));
    release(&run);
}
END_TEST

/* Two data ranks that average their weights diverge separately, each at the step in `breaks` (0:
 * never). The ranks tell each other of a divergence every 64 steps, after the last step, and before
 * a checkpoint is saved. The message names the rank that diverged first. */
static const struct {
    int steps, every, breaks[2];
    int step, rank, ends; /* the divergence, and the number of steps that run */
} apart[] = {
    { 4, 0, { 3, 2 }, 2, 1, 4 },   { 4, 0, { 2, 2 }, 2, 0, 4 },     { 4, 0, { 2, 3 }, 2, 0, 4 },
    { 4, 0, { 0, 3 }, 3, 1, 4 },   { 5, 2, { 0, 3 }, 3, 1, 4 },     { 5, 2, { 4, 0 }, 4, 0, 4 },
    { 66, 0, { 0, 2 }, 2, 1, 64 }, { 66, 0, { 65, 0 }, 65, 0, 66 },
};

static int broken; /* index of the current row */

/* From the rank's step in `breaks` on, the norm of its gradients is not a number. */
static void clip_or_break(struct kernels *context, struct stream *stream, const struct clip *clip)
{
    static _Thread_local int step;
    int from = apart[broken].breaks[own_rank];
    if (from > 0 && ++step >= from)
        device_host.fill(stream, (void *)(uintptr_t)clip->squares, 0xff, sizeof(double));
    kernels_host.clip(context, stream, clip);
}

START_TEST(of_replicas_that_diverge_apart_the_first_is_named)
{
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct kernel_api breaking = kernels_host;
    struct session_options options = { .steps = apart[_i].steps,
                                       .checkpoint = checkpoint_folder,
                                       .checkpoint_every = apart[_i].every };
    struct sessions run;
    if (options.checkpoint_every == 0)
        options.checkpoint = NULL;
    broken = _i;
    breaking.clip = clip_or_break;
    kernels = &breaking;
    train("dp2 mb4 exchange=local:100", &asked, options, &run);
    for (int rank = 0; rank < run.size; rank++) {
        const struct session_result *result = &run.ranks[rank].result;
        ck_assert_int_eq((int)result->divergence.kind, DIVERGENCE_NORM);
        ck_assert_int_eq(result->divergence.step, apart[_i].step);
        ck_assert_int_eq(result->divergence.rank, apart[_i].rank);
        ck_assert_int_eq(result->num_steps, apart[_i].ends);
        ck_assert_double_eq(result->divergence.loss, result->losses[apart[_i].step - 1]);
    }
    ck_assert(!has_checkpoint(4));
    release(&run);
}
END_TEST

/* With a limit near 0 every loss above the mean of at least ten earlier ones is a spike. Without
 * learning the losses vary only with the tokens. */
START_TEST(a_session_ends_at_the_first_spike)
{
    enum { MOST = 30, LEAST_KNOWN = 10 };
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct sessions run, watched;
    asked.rate = 0;
    train("dp2 mb2", &asked, (struct session_options){ .steps = MOST }, &run);
    const double *losses = run.ranks[0].result.losses;
    double sum = 0;
    int spike = 0;
    for (; spike < MOST && (spike < LEAST_KNOWN || losses[spike] <= sum / spike); spike++)
        sum += losses[spike];
    ck_assert_int_lt(spike, MOST);
    asked.spike = 1e-9;
    train("dp2 mb2", &asked, (struct session_options){ .steps = MOST }, &watched);
    for (int rank = 0; rank < 2; rank++) {
        const struct session_result *result = &watched.ranks[rank].result;
        ck_assert_int_eq((int)result->divergence.kind, DIVERGENCE_SPIKE);
        ck_assert_int_eq(result->divergence.step, spike + 1);
        ck_assert_int_eq(result->num_steps, spike + 1);
        ck_assert_double_eq(result->divergence.loss, losses[spike]);
        ck_assert_double_eq_tol(result->divergence.mean, sum / spike, 1e-9);
    }
    release(&run);
    release(&watched);
}
END_TEST

/* --- traces ------------------------------------------------------------------------------- */

/* Per microbatch a block runs 4 products and 1 attention in the forward, and 8 products and 1
 * attention in the backward. The head runs 1 product in the forward and 2 in the backward, and
 * the embedding 1 op in each. Data ranks share the microbatches of the batch. */
START_TEST(a_trace_counts_the_ops_of_one_step_on_all_ranks)
{
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    struct sessions run;
    train(layouts[_i], &asked, (struct session_options){ .steps = 1, .is_traced = true }, &run);
    double microbatches = run.model.batch / run.plan.microbatch;
    const struct session_result *result = &run.ranks[run.size - 1].result;
    double blocks = microbatches * run.model.layers;
    ck_assert_double_eq(result->op_counts[OP_GEMM], 12 * blocks + 3 * microbatches);
    ck_assert_double_eq(result->op_counts[OP_FLASH_ATTENTION], 2 * blocks);
    ck_assert_double_eq(result->op_counts[OP_EMBEDDING], 2 * microbatches);
    ck_assert_double_gt(result->op_seconds[OP_GEMM], 0);
    ck_assert_double_eq(result->op_counts[OP_SCAN] + result->op_seconds[OP_SCAN], 0);
    double first_s = HUGE_VAL;
    const struct timeline *timeline = result->timeline;
    for (int stage = 0; stage < run.plan.pp; stage++)
        for (int i = 0; i < timeline->schedule->ranks[stage].count; i++) {
            struct interval at = timeline->ranks[stage][i];
            ck_assert(at.end_s >= at.start_s && at.start_s >= 0);
            first_s = fmin(first_s, at.start_s);
        }
    ck_assert(run.plan.dp > 1 || first_s == 0); /* the second data rank may be the first to start */
    struct err err = { 0 };
    ck_assert_msg(timeline_check(timeline, 1e-3, &err), "%s: %s", err.where, err.msg);
    release(&run);
}
END_TEST

/* --- numbers of all ranks ----------------------------------------------------------------- */

enum { MOST_NUMBERS = 257 };
static const int counts[] = {
    0, 1, 127, 128, 129, 255, 256, 257
}; /* one message has up to 128 numbers */

/* Number i of rank r is (r + 1) (10 - i). So the last rank has the largest number i or, if the
 * numbers i are negative, the first rank has it. */
static bool reduce_numbers(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)run;
    double most[MOST_NUMBERS], losses[MOST_NUMBERS], last = 4, own = rank->on.rank + 1;
    double sum = 1 + 2 + 3 + 4, tokens = rank->setup.model->batch * rank->setup.model->seq;
    bool ok = true;
    for (int c = 0; c < LENGTH(counts); c++) {
        for (int i = 0; i < MOST_NUMBERS; i++)
            most[i] = losses[i] = own * (10 - i);
        ok = ok && rank_most(rank, most, counts[c], err) &&
             rank_mean_losses(rank, losses, counts[c], err);
        for (int i = 0; i < MOST_NUMBERS && ok; i++) {
            bool is_reduced = i < counts[c];
            double largest = (is_reduced ? i < 10 ? last : 1 : own) * (10 - i);
            double mean = is_reduced ? sum * (10 - i) / tokens : own * (10 - i);
            ok = (most[i] == largest && losses[i] == mean) ||
                 err_set(err, ERR_INPUT, "numbers", "number %d of %d", i, counts[c]);
        }
    }
    return ok;
}

START_TEST(sums_and_maxima_are_of_all_ranks)
{
    struct model model = parity_gpt();
    struct parity_result none;
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    run.before = reduce_numbers;
    parity_run(&model, "pp2 dp2 mb1", &run, &none);
    parity_release(&none);
}
END_TEST

/* One rank after another fails. The other ranks learn of the failure, and the failed rank keeps its
 * own cause. In the last turn all ranks succeed. */
static bool agree_in_turn(struct rank *rank, const struct parity_run *run, struct err *err)
{
    (void)run;
    for (int turn = 0; turn < 5; turn++) {
        bool fails = turn == rank->on.rank;
        struct err found = { 0 };
        if (fails)
            err_set(&found, ERR_INPUT, "own", "cause");
        bool ok = rank_agrees(rank, !fails, &found);
        if (ok != (turn == 4) ||
            found.code != (fails ? ERR_INPUT
                           : ok  ? ERR_NONE
                                 : ERR_SYSTEM) ||
            (!ok && !fails && strcmp(found.msg, "another rank failed") != 0))
            return err_set(err, ERR_INPUT, "agreement", "turn %d: %s", turn, found.msg);
    }
    return true;
}

START_TEST(all_ranks_learn_that_one_failed)
{
    struct model model = parity_gpt();
    struct parity_result none;
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    run.before = agree_in_turn;
    parity_run(&model, "pp2 dp2 mb1", &run, &none);
    parity_release(&none);
}
END_TEST

/* --- parts of a rank ---------------------------------------------------------------------- */

/* A rank with all four layers has six pieces: the embedding, the layers and the head. `keeps` has
 * one letter per piece for the values that it keeps for the backward: All, Input, Nothing or Some.
 */
static const struct {
    const char *layout, *keeps;
} kept[] = {
    { "mb2", "AAAAAA" },
    { "mb2 recompute=full", "AIIIIA" },
    { "mb2 recompute=full:1", "AIIIIA" },
    { "mb2 recompute=full:2", "AININA" },
    { "mb2 recompute=full:3", "AINNIA" },
    { "mb2 recompute=block:1", "AIAAAA" },
    { "mb2 recompute=block:3", "AIIIAA" },
    { "mb2 recompute=selective", "ASSSSA" },
    { "dp2 mb2 zero1", "AAAAAA" },
    { "dp3 mb1 zero2", "AAAAAA" },
};

/* A store is padded to the least multiple of 64 elements for each of its shards. */
static bool check_parts(struct rank *rank, const struct parity_run *run, struct err *err)
{
    static const char letters[] = {
        [KEEP_ALL] = 'A', [KEEP_INPUT] = 'I', [KEEP_NOTHING] = 'N', [KEEP_SOME] = 'S'
    };
    const struct chunk *chunk = &rank->chunks[0];
    char keeps[16] = "";
    for (int i = 0; i < chunk->num_pieces; i++)
        keeps[i] = letters[chunk->pieces[i].keeping];
    if (strcmp(keeps, run->context) != 0)
        return err_set(err, ERR_INPUT, "pieces", "keep %s", keeps);
    for (int s = 0; s < rank->num_stores; s++) {
        const struct store *store = &rank->stores[s];
        size_t unit = 64 * (size_t)store->shards;
        if (store->padded % unit != 0 || store->padded - store->elements >= unit)
            return err_set(err, ERR_INPUT, "store", "%zu elements are padded to %zu",
                           store->elements, store->padded);
    }
    return true;
}

START_TEST(pieces_keep_what_the_plan_says_in_padded_stores)
{
    struct model model = parity_gpt();
    char keeps[16];
    struct parity_result none;
    struct parity_run run = checkpoint_run(PRECISION_FP32, OPTIMIZER_SGD);
    snprintf(keeps, sizeof keeps, "%s", kept[_i].keeps);
    model.batch = 12;
    run.before = check_parts;
    run.context = keeps;
    parity_run(&model, kept[_i].layout, &run, &none);
    parity_release(&none);
}
END_TEST

/* With hostile ranks gradients are reduced only after all of them are computed. */
START_TEST(gradients_are_reduced_by_piece_without_hostile_ranks)
{
    struct plan plan = { .tp = 1, .cp = 1, .pp = 1, .dp = 2, .vpp = 1 };
    struct rank rank = { .setup = { .plan = &plan, .overlaps_gradients = true } };
    ck_assert(rank_reduces_pieces(&rank));
    rank.setup.hostility.count = 1;
    ck_assert(!rank_reduces_pieces(&rank));
    rank.setup.hostility.count = 0;
    rank.setup.overlaps_gradients = false;
    ck_assert(!rank_reduces_pieces(&rank));
}
END_TEST

/* --- memory ------------------------------------------------------------------------------- */

enum { MEMORY_SIZES = 24 };

static const char *const memory_layouts[] = {
    "mb2", "mb2 recompute=full", "mb2 recompute=selective", "dp2 mb1", "dp2 zero3 mb1", "tp2 mb2",
};

/* The last rank has less memory than its peak. Wherever in the run it lacks memory, it reports
 * this, and the other rank ends too. */
START_TEST(a_rank_that_lacks_memory_ends_the_run)
{
    struct parity_run asked = checkpoint_run(PRECISION_FP32, OPTIMIZER_ADAM);
    struct session_options options = { .steps = 2 };
    struct sessions run;
    train(memory_layouts[_i], &asked, options, &run);
    size_t peak = (size_t)run.ranks[0].result.peak_bytes;
    release(&run);
    for (size_t i = 1; i < MEMORY_SIZES; i++) {
        char capacity[64];
        int last = run.size - 1;
        run = (struct sessions){ 0 };
        run.ranks[last].arena_bytes = peak * i / MEMORY_SIZES / 256 * 256;
        snprintf(capacity, sizeof capacity, "of the arena's %zu", run.ranks[last].arena_bytes);
        try_to_train(memory_layouts[_i], &asked, options, &run);
        const struct job *poor = &run.ranks[last];
        ck_assert(!poor->ok && !poor->result.is_interrupted);
        ck_assert_str_eq(poor->err.where, "memory");
        ck_assert_msg(strstr(poor->err.msg, "bytes do not fit") && strstr(poor->err.msg, capacity),
                      "%s", poor->err.msg);
        ck_assert(last == 0 || (!run.ranks[0].ok && run.ranks[0].result.is_interrupted));
        ck_assert_int_eq(run.ranks[0].err.code, ERR_SYSTEM);
        release(&run);
    }
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("session");
    tcase_set_tags(tc, THREADS);
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, checkpoint_folder_make, checkpoint_folder_remove);
    tcase_add_loop_test(tc, a_session_reports_the_losses_norms_and_rates_of_its_steps, 0,
                        LENGTH(layouts));
    tcase_add_loop_test(tc, a_session_saves_at_its_period_and_after_its_last_step, 0,
                        LENGTH(saves));
    tcase_add_test(tc, a_resumed_session_continues_with_the_next_step);
    tcase_add_loop_test(tc, a_session_ends_at_the_step_that_diverges, 0, LENGTH(diverged));
    tcase_add_loop_test(tc, of_replicas_that_diverge_apart_the_first_is_named, 0, LENGTH(apart));
    tcase_add_test(tc, a_session_ends_at_the_first_spike);
    tcase_add_loop_test(tc, a_trace_counts_the_ops_of_one_step_on_all_ranks, 0, LENGTH(layouts));
    tcase_add_test(tc, sums_and_maxima_are_of_all_ranks);
    tcase_add_test(tc, all_ranks_learn_that_one_failed);
    tcase_add_loop_test(tc, pieces_keep_what_the_plan_says_in_padded_stores, 0, LENGTH(kept));
    tcase_add_test(tc, gradients_are_reduced_by_piece_without_hostile_ranks);
    tcase_add_loop_test(tc, a_rank_that_lacks_memory_ends_the_run, 0, LENGTH(memory_layouts));
    Suite *s = suite_create("exec/session");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
