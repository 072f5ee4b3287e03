#include "tests/testing.h"

#include "sim/engine/event_step.h"
#include "sim/plan/lowering.h"
#include "sim/plan/ranks.h"

#include <math.h>
#include <string.h>

static const char *const layouts[] = {
    "mb1",
    "tp2 pp2 mb1",
    "tp2 pp4 mb1 sp",
    "tp2 pp8 vpp3 mb1 zero1",
    "tp4 pp4 vpp3 mb1 overlap=none",
    "tp4 pp4 vpp2 mb1 overlap=grad,param,p2p,tp sp zero1",
    "tp4 pp4 mb1 zero1 recompute=full",
    "tp4 pp2 mb2 recompute=selective",
    "tp2 pp2 mb1 recompute=block:2 zero1",
    "tp2 pp4 mb1 schedule=gpipe",
    "tp2 pp4 mb1 schedule=naive",
    "tp2 mb1 zero2",
    "tp2 cp2 pp2 mb1 sp zero1",
    "cp4 mb1 zero2",
    "tp4 pp4 vpp2 mb1 zero1 recompute=full overlap=p2p",
    "mb1 zero3",
    "mb1 zero1 overlap=grad",
    "pp4 stages=1,11,11,1 mb1",
    "pp4 mb1 schedule=zb-h1",
    "pp8 mb1 schedule=zb-h2",
    "pp4 vpp2 mb1 schedule=zb-v",
    "pp4 vpp2 mb1 schedule=dualpipev zero1",
    "pp8 mb1 schedule=dualpipe zero1",
    "tp2 pp4 mb1 sp offload=activations",
    "tp4 pp4 vpp2 mb1 recompute=full offload=activations",
    "pp4 mb1 schedule=zb-h1 offload=activations",
    "tp2 mb1 exchange=gossip:one-peer",
    "tp2 pp4 mb1 exchange=pga:4:group=2",
    "tp2 mb1 exchange=topk:0.01",
};
enum { NUM_LAYOUTS = LENGTH(layouts) };

/* A model on a system with one plan. */
struct fixture {
    struct system system;
    struct model model;
    struct plan plan;
    struct arena arena;
};

static void setup(struct fixture *f, const char *model, const char *layout, int num_gpus)
{
    struct err err = { 0 };
    memset(f, 0, sizeof *f);
    bool ok = system_load("dgx-h100", "megatron-core", num_gpus, &f->system, &err) &&
              model_load(model, &f->model, &err) && plan_parse(layout, &f->arena, &f->plan, &err) &&
              plan_derive_data(&f->plan, num_gpus, &err) &&
              !plan_check(&f->plan, &f->model, f->model.batch, num_gpus, &err);
    ck_assert_msg(ok, "%s: %s: %s", layout, err.where, err.msg);
}

static void teardown(struct fixture *f)
{
    system_release(&f->system);
    arena_release(&f->arena);
}

static double event_step_s(struct fixture *f)
{
    struct err err = { 0 };
    struct event_step step;
    struct evaluator *evaluator = evaluator_new(&f->system, &f->model);
    bool ok = event_step_run(evaluator, &f->model, &f->plan, &f->arena, &step, &err);
    ck_assert_msg(ok, "%s: %s", err.where, err.msg);
    evaluator_free(evaluator);
    return step.step_s;
}

static double recurrence_step_s(struct fixture *f)
{
    struct evaluator *evaluator = evaluator_new(&f->system, &f->model);
    double step_s = evaluate_step_s(evaluator, &f->plan);
    evaluator_free(evaluator);
    return step_s;
}

/* --- the recurrence ------------------------------------------------------------------------ */

/* Step time of the plan's instructions with messages as pure delays and without contention, as the
 * recurrence assumes. */
static double quiet_step_s(struct fixture *f)
{
    struct err err = { 0 };
    struct evaluator *evaluator = evaluator_new(&f->system, &f->model);
    struct step_cost cost = evaluate_cost(evaluator, &f->plan, &f->arena);
    cost.messages_are_delays = true;
    cost.blocking = f->plan.vpp == 1 || cost.blocking; /* also for zero-bubble schedules, for which
                                                        * the recurrence adds this time */
    cost.slowdowns = (struct slowdowns){ 1, 1 };
    struct lowering lowering = plan_lowering(&f->plan, &f->model);
    struct schedule_shape shape = plan_shape(&f->plan, f->model.batch);
    struct schedule *schedule =
        schedule_new(generator_find(plan_schedule(&f->plan)), &shape, &lowering, &f->arena, &err);
    ck_assert_msg(schedule != NULL, "%s", err.msg);
    struct timeline *timeline = events_run(schedule, &cost, &f->arena, &err);
    ck_assert_msg(timeline != NULL, "%s: %s", err.where, err.msg);
    evaluator_free(evaluator);
    double step_s = cost.validates ? timeline_own_s(timeline) : timeline_end_s(timeline);
    return step_s + cost.overhead_s;
}

static void check_equal(const struct fixture *f, double got_s, double expected_s)
{
    struct text layout = { 0 };
    plan_write(&f->plan, &layout);
    ck_assert_msg(fabs(got_s - expected_s) <= 1e-9 * expected_s,
                  "%s: the events take %.12g s, the recurrence %.12g s", text_get(&layout), got_s,
                  expected_s);
    text_release(&layout);
}

/* Without data ranks a step is the pipeline, the gradient norm, for which all stages wait, and the
 * update. */
START_TEST(a_step_without_data_ranks_equals_the_recurrence)
{
    static const char *const alone[] = {
        "tp8 pp8 mb1",
        "tp8 pp8 mb1 overlap=none recompute=full",
        "tp4 pp8 vpp3 mb1 sp",
        "tp4 pp8 vpp3 mb1 overlap=none",
        "tp4 pp4 vpp2 mb2 overlap=p2p recompute=full",
        "tp2 pp4 vpp2 mb2 stages=0,4,4,4,4,4,4,0 recompute=selective",
        "tp2 pp8 mb1 schedule=gpipe recompute=selective",
        "pp8 mb1 schedule=naive",
        "pp8 mb1 schedule=zb-h1",
        "tp2 pp4 mb1 schedule=zb-h2",
        "pp4 mb1 stages=1,11,11,1 recompute=block:1,2,3,0",
        "pp4 vpp2 mb1 schedule=zb-v",
        "tp2 pp4 vpp2 mb2 schedule=dualpipev recompute=selective",
        "pp4 vpp2 mb1 schedule=dualpipev stages=2,4,3,3,3,3,5,1",
    };
    for (size_t i = 0; i < LENGTH(alone); i++) {
        struct fixture f;
        struct arena arena = { 0 };
        struct plan plan;
        struct err err = { 0 };
        ck_assert(plan_parse(alone[i], &arena, &plan, &err));
        setup(&f, "gpt3-1.3b", alone[i], plan.tp * plan.pp);
        check_equal(&f, quiet_step_s(&f), recurrence_step_s(&f));
        teardown(&f);
        arena_release(&arena);
    }
}
END_TEST

/* With split backwards and no wait for the gradient norm, the step is the longest time of a stage
 * from its first forward on. */
START_TEST(without_a_wait_for_the_norm_the_events_equal_the_recurrence)
{
    static const char *const split[] = { "pp8 mb1 schedule=zb-h1", "pp8 mb1 schedule=zb-h2",
                                         "tp2 pp4 mb2 schedule=zb-h2",
                                         "pp4 mb1 schedule=zb-h1 stages=1,11,11,1" };
    static const int gpus[] = { 8, 8, 8, 4 };
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        setup(&f, "gpt3-1.3b", split[i], gpus[i]);
        double joined_s = recurrence_step_s(&f);
        f.system.stack.pipeline.post_validation = true;
        f.model.tied = false;
        double own_s = recurrence_step_s(&f);
        check_equal(&f, quiet_step_s(&f), own_s);
        ck_assert_double_lt(own_s, joined_s);
        teardown(&f);
    }
}
END_TEST

/* With a single stage no stage waits for another, and gradient buckets are reduced within its
 * chunk. */
START_TEST(a_step_of_one_stage_equals_the_recurrence)
{
    static const char *const layouts_of_one[] = {
        "mb1", "mb1 zero1", "tp2 mb1 zero2", "mb1 zero3", "mb1 zero1 overlap=grad", "tp8 sp mb2"
    };
    for (size_t i = 0; i < LENGTH(layouts_of_one); i++) {
        struct fixture f;
        setup(&f, "gpt3-1.3b", layouts_of_one[i], 64);
        check_equal(&f, event_step_s(&f), recurrence_step_s(&f));
        teardown(&f);
    }
}
END_TEST

/* The event engine's step is longer if messages wait or contend with compute, and shorter if a
 * zero-bubble order hides messages. */
START_TEST(with_short_messages_the_recurrence_is_within_a_few_percent_of_the_events)
{
    for (int i = 0; i < NUM_LAYOUTS; i++) {
        struct fixture f;
        setup(&f, "gpt3-1.3b", layouts[i], 64);
        double more = event_step_s(&f) / recurrence_step_s(&f) - 1;
        ck_assert_msg(more > -0.05 && more < 0.15,
                      "%s: the events take longer than the recurrence by the share %+.3f",
                      layouts[i], more);
        teardown(&f);
    }
}
END_TEST

/* --- monotone ------------------------------------------------------------------------------ */

static void twice_the_bandwidth(struct system *system)
{
    for (int i = 0; i < system->cluster.num_levels; i++) {
        system->cluster.levels[i].bytes_per_s *= 2;
        system->cluster.levels[i].channel_bytes_per_s *= 2;
        system->cluster.levels[i].nvls_intra_bytes_per_s *= 2;
    }
}

static void twice_the_flops(struct system *system)
{
    for (int i = 0; i < NUM_DTYPES; i++)
        system->gpu.peak_flops_per_s[i] *= 2;
}

static void half_the_latency(struct system *system)
{
    system->profile.intra_latency_factor /= 2;
    system->profile.inter_latency_factor /= 2;
}

static void twice_the_memory_bandwidth(struct system *system)
{
    system->gpu.memory_bytes_per_s *= 2;
}

static void (*const upgrades[])(struct system *) = { twice_the_bandwidth, twice_the_flops,
                                                     half_the_latency, twice_the_memory_bandwidth };

START_TEST(better_hardware_never_lengthens_a_step)
{
    for (int i = 0; i < NUM_LAYOUTS; i++) {
        struct fixture f;
        setup(&f, "gpt3-1.3b", layouts[i], 64);
        double before_s = event_step_s(&f);
        upgrades[_i](&f.system);
        double after_s = event_step_s(&f);
        ck_assert_msg(after_s <= before_s * (1 + 1e-9),
                      "%s: better hardware changed the step from %g s to %g s", layouts[i],
                      before_s, after_s);
        teardown(&f);
    }
}
END_TEST

START_TEST(a_step_of_too_many_instructions_is_refused)
{
    struct fixture f;
    struct err err = { 0 };
    struct event_step step;
    setup(&f, "gpt3-1.3b", "tp2 pp4 mb1", 8);
    f.model.batch = 1 << 20;
    struct evaluator *evaluator = evaluator_new(&f.system, &f.model);
    ck_assert(!event_step_run(evaluator, &f.model, &f.plan, &f.arena, &step, &err));
    ck_assert_int_eq(err.code, ERR_INFEASIBLE);
    evaluator_free(evaluator);
    teardown(&f);
}
END_TEST

/* A mirrored plan (DualPipe) is timed as a V with half its stages, but its messages are those of
 * its own stages: with 8 stages on two nodes, or 4 stages with twice the data ranks, only messages
 * between the two middle stages leave a node. */
START_TEST(a_mirrored_schedule_has_the_boundaries_of_its_own_stages)
{
    static const char *const plains[] = { "tp2 pp8 mb1", "tp2 pp4 mb1", "tp4 pp4 mb1" };
    for (int i = 0; i < LENGTH(plains); i++) {
        struct fixture plain, mirrored;
        char layout[80];
        snprintf(layout, sizeof layout, "%s schedule=dualpipe", plains[i]);
        setup(&plain, "gpt3-1.3b", plains[i], 16);
        setup(&mirrored, "gpt3-1.3b", layout, 16);
        struct evaluator *evaluator = evaluator_new(&plain.system, &plain.model);
        struct step_cost of_plain = evaluate_cost(evaluator, &plain.plan, &plain.arena);
        struct step_cost of_both = evaluate_cost(evaluator, &mirrored.plan, &mirrored.arena);
        int middle = plain.plan.pp / 2 - 1;
        for (int stage = 0; stage < plain.plan.pp - 1; stage++) {
            ck_assert_int_eq(of_both.boundaries[stage].wire,
                             stage == middle ? WIRE_NETWORK : WIRE_NODE);
            ck_assert_double_eq(of_both.boundaries[stage].message_s,
                                of_plain.boundaries[stage].message_s);
        }
        evaluator_free(evaluator);
        teardown(&plain);
        teardown(&mirrored);
    }
}
END_TEST

/* The two copies' messages between the middle stages, which cross the network, delay the passes:
 * the step is longer than on a network as fast as a node. */
START_TEST(a_slow_network_between_the_middle_stages_delays_a_mirrored_step)
{
    struct fixture f;
    setup(&f, "gpt3-1.3b", "tp2 pp8 mb1 schedule=dualpipe", 16);
    double step_s[2];
    for (int i = 0; i < 2; i++) {
        f.system.cluster.levels[1].bytes_per_s /= i == 0 ? 1 : 50;
        f.system.cluster.levels[1].channel_bytes_per_s /= i == 0 ? 1 : 50;
        struct evaluator *evaluator = evaluator_new(&f.system, &f.model);
        step_s[i] = evaluate_passes_s(evaluator, &f.plan);
        evaluator_free(evaluator);
    }
    ck_assert_double_gt(step_s[1], step_s[0]);
    teardown(&f);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("event step");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_mirrored_schedule_has_the_boundaries_of_its_own_stages);
    tcase_add_test(tc, a_slow_network_between_the_middle_stages_delays_a_mirrored_step);
    tcase_add_test(tc, a_step_without_data_ranks_equals_the_recurrence);
    tcase_add_test(tc, without_a_wait_for_the_norm_the_events_equal_the_recurrence);
    tcase_add_test(tc, a_step_of_one_stage_equals_the_recurrence);
    tcase_add_test(tc, with_short_messages_the_recurrence_is_within_a_few_percent_of_the_events);
    tcase_add_loop_test(tc, better_hardware_never_lengthens_a_step, 0, LENGTH(upgrades));
    tcase_add_test(tc, a_step_of_too_many_instructions_is_refused);
    Suite *s = suite_create("sim/engine/event_step");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
