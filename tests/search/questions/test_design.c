#include "search/questions/design.h"

#include "search/effective.h"
#include "search/probe.h"
#include "tests/search/instance.h"
#include "tests/search/searching.h"
#include "tests/testing.h"

#include <math.h>

static struct instance instance;
static struct search_request search;
static struct err err;

static void set_up(void)
{
    instance_load(&instance);
    instance.system.num_gpus = 8;
    search = instance_request(&instance);
    search.top = 1;
}

static void tear_down(void)
{
    instance_release(&instance);
}

static struct design_request asked(double days)
{
    return (struct design_request){ .search = &search,
                                    .aspect = ASPECT_GPT3,
                                    .law = &loss_laws[LAW_CORRECTED],
                                    .time_s = 86400 * days };
}

static struct design design_of(const struct design_request *request)
{
    struct design design;
    ck_assert_msg(search_design(request, &design, &err), "%s: %s", err.where, err.msg);
    return design;
}

/* Returns the time for training and serving a model of this size, as a fraction of the budgeted
 * time. Training includes failures; serving has the efficiency of training. */
static double share_of_time(const struct design_request *request, const struct model *model)
{
    struct arena arena = { 0 };
    struct search_request own = *request->search;
    own.model = model;
    struct probe probe = probe_best(&own, &arena);
    double run_s = effective_s(own.system, model, &probe.best);
    double serving_s = request->budget.served / 3 / probe.best.prediction.tokens_per_s;
    arena_release(&arena);
    return (run_s + serving_s) / request->time_s;
}

/* The loss of a model size with its best plan, computed independently of the design search. */
static double loss_of(const struct design_request *request, double parameters, double batch)
{
    struct arena arena = { 0 };
    struct search_request own = *request->search;
    struct model model;
    ck_assert(shape_of_size(&instance.model, request->aspect, parameters, &model, &err));
    model.batch = batch;
    own.model = &model;
    struct probe probe = probe_best(&own, &arena);
    double tokens = 0;
    if (probe.fits) {
        double serving_s = request->budget.served / 3 / probe.best.prediction.tokens_per_s;
        tokens = effective_tokens(own.system, &model, &probe.best, request->time_s - serving_s);
    }
    arena_release(&arena);
    return tokens > 0
               ? scaling_loss(request->law, (struct training){ model_parameters(&model), tokens,
                                                               request->budget.unique })
               : HUGE_VAL;
}

/* The designed run takes the budgeted time, and slightly smaller or larger models have a higher
 * loss. */
static const struct {
    double days, served, unique;
    double memory_bytes, mtbf_s; /* of a GPU; mtbf: mean time between failures */
} cases[] = {
    { 1, 0, 0, 80e9, 1e8 },    { 10, 0, 0, 80e9, 1e8 }, { 10, 20e9, 0, 80e9, 1e8 },
    { 10, 0, 5e9, 80e9, 1e8 }, { 300, 0, 0, 4e9, 1e8 }, /* the best size by the loss law does not
                                                           fit in memory */
    { 10, 0, 0, 80e9, 8e4 },                            /* a failure every three hours */
};

START_TEST(no_other_size_has_a_lower_loss)
{
    if (is_spared(_i, 2))
        return;
    struct design_request request = asked(cases[_i].days);
    request.budget.served = cases[_i].served;
    request.budget.unique = cases[_i].unique;
    instance.system.gpu.memory_bytes = cases[_i].memory_bytes;
    instance.system.gpu.mtbf_s = cases[_i].mtbf_s;
    struct design design = design_of(&request);
    const struct design_size *best = &design.best;
    double batch = best->model.batch;
    ck_assert(best->fits && isfinite(best->loss));
    ck_assert_double_eq_tol(share_of_time(&request, &best->model), 1, 1e-6);
    double parameters = model_parameters(&best->model);
    ck_assert_double_eq(best->training.parameters, parameters);
    for (double factor = 0.5; factor < 2.1; factor *= 1.25)
        ck_assert_double_ge(loss_of(&request, factor * parameters, batch), best->loss - 2e-4);
    ck_assert_double_eq_tol(design.flops,
                            parameters * (6 * best->training.tokens + 2 * cases[_i].served), 1);
}
END_TEST

/* The batch is the batch that the scaling law gives for the run's FLOPs, rounded to a power of two
 * (so within a factor of sqrt(2), plus a small tolerance). */
START_TEST(the_batch_follows_from_the_flops)
{
    struct design_request request = asked(10);
    struct design design = design_of(&request);
    double wanted = scaling_batch_tokens(design.flops) / instance.model.seq;
    ck_assert_double_eq_tol(log2(design.best.model.batch / wanted), 0, 0.55);
    request.batch_is_stated = true;
    instance.model.batch = 96;
    ck_assert_double_eq(design_of(&request).best.model.batch, 96);
}
END_TEST

START_TEST(a_batch_divides_over_all_gpus)
{
    ck_assert_double_eq(design_batch(5.76e23, 4096, 1024), 4096);
    ck_assert_double_eq(fmod(design_batch(5.76e23, 4096, 2520), 315), 0);
    ck_assert_double_eq(design_batch(1e9, 4096, 8), 1);
}
END_TEST

/* If the budget is given as the FLOPs that a run of the budgeted time executes, model and tokens
 * are the same. */
START_TEST(a_budget_in_flops_gives_the_same_design_as_in_time)
{
    struct design_request request = asked(10);
    struct design by_time = design_of(&request);
    request.time_s = 0;
    request.budget.flops = by_time.flops;
    struct design by_flops = design_of(&request);
    ck_assert_double_eq_tol(
        log(by_flops.best.training.parameters / by_time.best.training.parameters), 0, 0.25);
    ck_assert_double_eq_tol(by_flops.best.loss, by_time.best.loss, 0.003);
    ck_assert_double_eq_tol(by_flops.flops / by_time.flops, 1, 1e-9);
}
END_TEST

START_TEST(more_gpus_train_to_a_lower_loss)
{
    struct design_request request = asked(10);
    double loss = HUGE_VAL;
    for (int gpus = 2; gpus <= 8; gpus *= 2) {
        instance.system.num_gpus = gpus;
        struct design design = design_of(&request);
        ck_assert_double_lt(design.best.loss, loss);
        loss = design.best.loss;
    }
}
END_TEST

/* With a failure every three hours, time and tokens shrink by the same fraction. */
START_TEST(failures_leave_fewer_tokens)
{
    struct design_request request = asked(10);
    instance.system.gpu.mtbf_s = 1e18;
    struct design rare = design_of(&request);
    instance.system.gpu.mtbf_s = 8e4;
    struct design frequent = design_of(&request);
    ck_assert_double_gt(frequent.best.loss, rare.best.loss);
    ck_assert_double_lt(frequent.flops, 0.95 * rare.flops);
    instance.system.gpu.mtbf_s = 1;
    ck_assert(isinf(design_of(&request).best.loss));
}
END_TEST

START_TEST(half_a_second_trains_some_tokens)
{
    struct design_request request = asked(0.5 / 86400);
    struct design design = design_of(&request);
    ck_assert(isfinite(design.best.loss));
    ck_assert_double_gt(design.best.training.tokens, 0);
}
END_TEST

START_TEST(a_budget_used_up_by_serving_has_no_design)
{
    struct design_request request = asked(1);
    request.budget.served = 1e15;
    ck_assert(isinf(design_of(&request).best.loss));
}
END_TEST

START_TEST(if_no_plan_fits_there_is_no_design)
{
    struct design_request request = asked(1);
    instance.system.gpu.memory_bytes = 1e6;
    struct design design = design_of(&request);
    ck_assert(isinf(design.best.loss));
    ck_assert(!design.best.fits);
}
END_TEST

START_TEST(an_interruption_ends_the_design_search)
{
    struct design_request request = asked(10);
    search.interrupted = always;
    struct design design = design_of(&request);
    ck_assert(design.was_interrupted);
    ck_assert_int_eq(design.searches, 1);
}
END_TEST

static int polls_left;

static bool after_some_polls(void)
{
    return polls_left-- <= 0;
}

/* The later a search with one worker is interrupted, the lower is the loss of its design. If the
 * search for one size is interrupted, its result does not replace the plan of another size. */
START_TEST(a_later_interruption_gives_no_worse_design)
{
    struct design_request request = asked(10);
    double last = HUGE_VAL;
    bool ends = false;
    search.jobs = 1;
    search.interrupted = after_some_polls;
    for (int polls = 500; !ends; polls += polls / 8) {
        polls_left = polls;
        struct design design = design_of(&request);
        ck_assert_double_le(design.best.loss, last);
        last = design.best.loss;
        ends = !design.was_interrupted;
    }
    ck_assert(isfinite(last));
}
END_TEST

static Suite *design_suite(void)
{
    Suite *suite = suite_create("design");
    TCase *tcase = tcase_create("design");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, no_other_size_has_a_lower_loss, 0, LENGTH(cases));
    tcase_add_test(tcase, the_batch_follows_from_the_flops);
    tcase_add_test(tcase, a_batch_divides_over_all_gpus);
    tcase_add_test(tcase, a_budget_in_flops_gives_the_same_design_as_in_time);
    tcase_add_test(tcase, more_gpus_train_to_a_lower_loss);
    tcase_add_test(tcase, failures_leave_fewer_tokens);
    tcase_add_test(tcase, half_a_second_trains_some_tokens);
    tcase_add_test(tcase, a_budget_used_up_by_serving_has_no_design);
    tcase_add_test(tcase, if_no_plan_fits_there_is_no_design);
    tcase_add_test(tcase, an_interruption_ends_the_design_search);
    tcase_add_test(tcase, a_later_interruption_gives_no_worse_design);
    suite_add_tcase(suite, tcase);
    return suite;
}
TEST_MAIN(design_suite)
