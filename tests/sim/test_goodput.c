#include "sim/campaign/goodput.h"

#include "base/random.h"
#include "base/units.h"
#include "sim/textbook/failure.h"
#include "tests/sim/planned.h"
#include "tests/testing.h"

#include <math.h>
#include <stdbool.h>

/* --- closed forms -------------------------------------------------------------------------------
 */

static double relative(double a, double b)
{
    return fabs(a - b) / fabs(b);
}

/* For checkpoints that take C and a mean time between failures M, Young's formula omits terms of
 * order sqrt(C/M), and Daly's terms of order C/M. */
START_TEST(for_short_checkpoints_the_optimum_agrees_with_young_and_daly)
{
    for (double share = 1e-2; share > 1e-9; share /= 10) {
        struct textbook_failure failure = { .mtbf_s = 1e4, .checkpoint_s = share * 1e4 };
        double optimum_s = renewal_optimum_s(failure.mtbf_s, failure.checkpoint_s);
        ck_assert_double_lt(relative(optimum_s, textbook_young_s(&failure)), sqrt(share));
        ck_assert_double_lt(relative(optimum_s, textbook_daly_s(&failure)), share);
    }
}
END_TEST

/* Daly's limit: if checkpoints take 2 M or more (M is the mean time between failures), the interval
 * is about M. */
START_TEST(for_long_checkpoints_the_optimal_interval_is_the_time_between_failures)
{
    ck_assert_double_eq_tol(renewal_optimum_s(1e4, 1e6), 1e4, 1e-9 * 1e4);
    ck_assert_double_eq(renewal_optimum_s(1e4, 0), 0);
}
END_TEST

START_TEST(no_other_interval_has_more_goodput_than_the_optimum)
{
    for (double share = 1e-6; share < 10; share *= 10) {
        struct renewal renewal = { .mtbf_s = 1e4, .blocked_s = share * 1e4, .restart_s = 300 };
        double optimum_s = renewal_optimum_s(1e4, renewal.blocked_s);
        double most = renewal_kept(&renewal, optimum_s);
        for (double factor = 0.9; factor < 1.11; factor += 0.199)
            ck_assert_double_lt(renewal_kept(&renewal, factor * optimum_s), most);
    }
}
END_TEST

/* With two levels no other interval, and no other share of checkpoints in storage, keeps more. */
START_TEST(two_checkpoint_levels_have_their_best_interval_and_share)
{
    for (double share = 0.01; share < 1; share *= 3) {
        struct renewal best = { .mtbf_s = 1e4, .blocked_s = 5, .pending_s = 20, .restart_s = 300 };
        best.deep.share = share;
        best.deep.pending_s = 200;
        best.deep.restart_s = 900;
        double interval_s = renewal_choose(&best, 1), most = renewal_kept(&best, interval_s);
        for (double factor = 0.98; factor < 1.03; factor += 0.04)
            ck_assert_double_lt(renewal_kept(&best, factor * interval_s), most);
        for (int every = 1; every <= 64; every *= 2) {
            struct renewal other = best;
            other.deep.every = every;
            for (double s = fmax(20, 200.0 / every); s < 1e4; s *= 1.05)
                ck_assert_double_le(renewal_kept(&other, s), most * (1 + 1e-9));
        }
    }
}
END_TEST

START_TEST(goodput_of_blocking_checkpoints_equals_dalys_exact_formula)
{
    struct renewal renewal = { .mtbf_s = 11135.08, .blocked_s = 120, .restart_s = 900 };
    struct textbook_failure failure = { 11135.08, 120, 900 };
    double kept = renewal_kept(&renewal, 1634.75);
    ck_assert_double_eq_tol(kept, textbook_ettr_exact(&failure, 1634.75), 1e-12);
    ck_assert_double_eq_tol(kept, 0.7934, 5e-5);
}
END_TEST

/* Two levels of checkpoints equal one level if the second level is never needed, or always. */
START_TEST(two_checkpoint_levels_with_one_unused_equal_one_level)
{
    struct renewal one = { .mtbf_s = 1e4, .blocked_s = 20, .restart_s = 500 };
    struct renewal near = one, far = one;
    near.deep.share = 1e-15;
    near.deep.every = 7;
    near.deep.restart_s = 1e3;
    far.restart_s = 1;
    far.deep.share = 1;
    far.deep.every = 1;
    far.deep.restart_s = 500;
    ck_assert_double_eq_tol(renewal_kept(&near, 600), renewal_kept(&one, 600), 1e-12);
    ck_assert_double_eq_tol(renewal_kept(&far, 600), renewal_kept(&one, 600), 1e-12);
}
END_TEST

/* A failure costs the restart and the work since the last usable checkpoint. Only the sum of the
 * restart time and of the delay until a copy becomes usable matters. */
START_TEST(a_copy_that_counts_late_costs_as_much_as_a_longer_restart)
{
    for (int levels = 1; levels <= 2; levels++) {
        struct renewal late = {
            .mtbf_s = 1e4, .blocked_s = 20, .restart_s = 500, .pending_s = 300
        };
        late.deep.share = levels == 2 ? 0.2 : 0;
        late.deep.every = 5;
        late.deep.pending_s = 100;
        late.deep.restart_s = 900;
        struct renewal slow = late;
        slow.restart_s = 800;
        slow.pending_s = 0;
        ck_assert_double_eq_tol(renewal_kept(&late, 600), renewal_kept(&slow, 600), 1e-15);
        slow.restart_s = 500;
        ck_assert_double_lt(renewal_kept(&late, 600), renewal_kept(&slow, 600));
    }
}
END_TEST

/* --- simulated runs with random failures ------------------------------------------------ */

/* Simulates a run with random failures, without using the formulas. A copy in another host's memory
 * is near; a copy in storage is far. */
struct drawn {
    const struct renewal *of;
    double interval_s;
    struct random rng;
    double now_s, failure_s;
    int done, near,
        far; /* number of intervals done, saved in host memory (near), and saved in storage (far) */
    struct {
        int intervals;
        double at_s; /* time at which a copy completes; HUGE_VAL if none is pending */
    } to_near, to_far;
    double restarts_s, failures;
};

static double next_failure_s(struct drawn *run)
{
    return run->now_s - run->of->mtbf_s * log1p(-random_unit(&run->rng));
}

static void commit(struct drawn *run)
{
    if (run->to_near.at_s <= run->now_s) {
        run->near = run->to_near.intervals;
        run->to_near.at_s = HUGE_VAL;
    }
    if (run->to_far.at_s <= run->now_s) {
        run->far = run->to_far.intervals;
        run->to_far.at_s = HUGE_VAL;
    }
}

static void work(struct drawn *run)
{
    const struct renewal *of = run->of;
    run->now_s += run->interval_s + of->blocked_s;
    run->done++;
    commit(run);
    run->to_near.intervals = run->done;
    run->to_near.at_s = run->now_s + of->pending_s;
    if (of->deep.share > 0 && run->done % of->deep.every == 0) {
        run->to_far.intervals = run->done;
        run->to_far.at_s = run->now_s + of->deep.pending_s;
    }
    commit(run);
}

/* Handles a failure. Unfinished copies to another host's memory are lost. Copies from that memory
 * to storage continue, until a failure destroys their source. */
static void fall_back(struct drawn *run)
{
    const struct renewal *of = run->of;
    run->now_s = run->failure_s;
    commit(run);
    run->to_near.at_s = HUGE_VAL;
    if (run->to_far.intervals > run->near)
        run->to_far.at_s = HUGE_VAL;
    bool is_deep = false;
    for (bool is_over = false; !is_over;) {
        run->failures++;
        is_deep |= random_unit(&run->rng) < of->deep.share;
        if (is_deep)
            run->to_far.at_s = HUGE_VAL;
        double restart_s = is_deep ? of->deep.restart_s : of->restart_s;
        double began_s = run->now_s;
        run->failure_s = next_failure_s(run);
        is_over = run->failure_s >= began_s + restart_s;
        run->now_s = is_over ? began_s + restart_s : run->failure_s;
        run->restarts_s += run->now_s - began_s;
        commit(run);
    }
    if (is_deep)
        run->near = run->far;
    run->done = run->near;
}

static struct drawn draw(const struct renewal *of, double interval_s, int intervals, uint64_t seed)
{
    struct drawn run = { .of = of, .interval_s = interval_s, .rng = random_new(seed, 0) };
    run.to_near.at_s = run.to_far.at_s = HUGE_VAL;
    run.failure_s = next_failure_s(&run);
    while (run.done < intervals)
        if (run.now_s + interval_s + of->blocked_s <= run.failure_s)
            work(&run);
        else
            fall_back(&run);
    return run;
}

static const struct drawn_case {
    struct renewal renewal;
    double interval_s;
} drawn_cases[] = {
    { { .mtbf_s = 11135, .blocked_s = 120, .restart_s = 900 }, 1635 },
    { { .mtbf_s = 1000, .blocked_s = 100, .restart_s = 300 }, 400 },
    { { .mtbf_s = 11135, .blocked_s = 2, .pending_s = 200, .restart_s = 900 }, 210 },
    { { .mtbf_s = 1500, .blocked_s = 5, .pending_s = 400, .restart_s = 200 }, 450 },
    { { .mtbf_s = 5000,
        .blocked_s = 3,
        .pending_s = 4,
        .restart_s = 300,
        .deep = { 0.05, 16, 300, 700 } },
      150 },
    { { .mtbf_s = 3000,
        .blocked_s = 3,
        .pending_s = 10,
        .restart_s = 200,
        .deep = { 0.3, 4, 300, 600 } },
      120 },
};

START_TEST(simulated_runs_have_the_goodput_of_the_formula)
{
    const struct drawn_case *of = &drawn_cases[_i];
    int intervals = TURNS(400000);
    struct drawn run = draw(&of->renewal, of->interval_s, intervals, 1);
    double kept = intervals * of->interval_s / run.now_s;
    ck_assert_double_lt(relative(renewal_kept(&of->renewal, of->interval_s), kept),
                        IS_ASAN ? 0.02 : 0.01);
    ck_assert_double_lt(relative(run.now_s / of->renewal.mtbf_s, run.failures), 0.03);
}
END_TEST

/* --- failures -----------------------------------------------------------------------------------
 */

/* 419 failures in 54 days are 3.79 per 1000 host days, or one in 3.09 hours. */
START_TEST(the_default_failure_rate_is_that_of_llama_3)
{
    planned_load("dgx-h100", "megatron-core", "llama3-405b", 16384);
    struct failures failures = failures_of(&planned.system);
    ck_assert_int_eq(failures.hosts, 2048);
    ck_assert_double_eq_tol(failures.mtbf_s, 54.0 * DAY_S / 419, 1);
    ck_assert_double_eq_tol(failures.hardware_share, 356.0 / 419, 1e-4);
    planned_release();
}
END_TEST

/* Wang et al. 2023, section 4: of 16 machines, a loss of 2 is recoverable in 93.3 % of cases, a
 * loss of 3 in 80.0 %. */
START_TEST(recovery_probabilities_equal_geminis)
{
    ck_assert_double_eq(lost_hosts_hold_pair(16, 1), 0);
    ck_assert_double_eq_tol(1 - lost_hosts_hold_pair(16, 2), 0.933, 5e-4);
    ck_assert_double_eq_tol(1 - lost_hosts_hold_pair(16, 3), 0.800, 5e-4);
    ck_assert_double_eq(lost_hosts_hold_pair(16, 9), 1);
    struct failures alone = { .hardware_share = 1, .hosts_lost = 1, .hosts = 16 };
    ck_assert_double_eq(failures_lose_pair(&alone), 0);
    alone.hosts = 1;
    ck_assert_double_eq(failures_lose_pair(&alone), 1);
}
END_TEST

/* Draws failures one by one: each takes down a geometrically distributed number of random hosts. */
START_TEST(simulated_failures_lose_both_copies_as_often_as_the_formula)
{
    enum { HOSTS = 24 };
    struct failures failures = { .hardware_share = 0.8, .hosts_lost = 2.5, .hosts = HOSTS };
    struct random rng = random_new(1, 0);
    int count = TURNS(400000), lost_pairs = 0;
    for (int i = 0; i < count; i++) {
        int hosts[HOSTS], lost = 1;
        bool is_lost[HOSTS] = { false }, loses_pair = false;
        while (lost < HOSTS && random_unit(&rng) < 1 - 1 / failures.hosts_lost)
            lost++;
        for (int k = 0; k < HOSTS; k++)
            hosts[k] = k;
        for (int k = 0; k < lost; k++) {
            int drawn = k + random_below(&rng, HOSTS - k), host = hosts[drawn];
            hosts[drawn] = hosts[k];
            loses_pair |= is_lost[host ^ 1];
            is_lost[host] = true;
        }
        lost_pairs += loses_pair && random_unit(&rng) < failures.hardware_share;
    }
    ck_assert_double_lt(relative(failures_lose_pair(&failures), (double)lost_pairs / count),
                        IS_ASAN ? 0.04 : 0.01);
}
END_TEST

/* All spare hosts are in use at most 1 % of the time; with one spare less, more often. The test
 * draws moments and counts failures in a window as long as a repair. */
START_TEST(at_random_moments_spare_hosts_suffice_99_percent_of_the_time)
{
    struct failures failures = {
        .mtbf_s = DAY_S, .hardware_share = 0.85, .hosts_lost = 1.6, .hosts = 200
    };
    double repair_s = 6.0 * DAY_S;
    int spares = failures_spare_hosts(&failures, repair_s);
    struct random rng = random_new(2, 0);
    int count = TURNS(100000), short_of = 0, short_of_fewer = 0;
    for (int i = 0; i < count; i++) {
        int out = 0;
        double at_s = -failures.mtbf_s * log1p(-random_unit(&rng));
        for (; at_s < repair_s; at_s -= failures.mtbf_s * log1p(-random_unit(&rng)))
            if (random_unit(&rng) < failures.hardware_share)
                for (out++; random_unit(&rng) < 1 - 1 / failures.hosts_lost;)
                    out++;
        short_of += out > spares;
        short_of_fewer += out > spares - 1;
    }
    double chance = sqrt(0.01 / count);
    ck_assert_double_le((double)short_of / count, 0.01 + 4 * chance);
    ck_assert_double_ge((double)short_of_fewer / count, 0.01 - 4 * chance);
}
END_TEST

/* 2048 hosts have 3.79 failures per 1000 host days, and a repair takes two days. So 15.5 hosts are
 * under repair on average, and at most 25 for 99 % of the time. */
START_TEST(the_number_of_spares_is_the_99_percent_quantile_of_hosts_under_repair)
{
    struct failures failures = {
        .mtbf_s = 2 * DAY_S / 15.52, .hardware_share = 1, .hosts_lost = 1, .hosts = 2048
    };
    ck_assert_int_eq(failures_spare_hosts(&failures, 2 * DAY_S), 25);
    failures.mtbf_s = HUGE_VAL;
    ck_assert_int_eq(failures_spare_hosts(&failures, 2 * DAY_S), 0);
    failures =
        (struct failures){ .mtbf_s = 1, .hardware_share = 1, .hosts_lost = 1.6, .hosts = 2048 };
    int exact = failures_spare_hosts(&failures, 300), normal = failures_spare_hosts(&failures, 301);
    ck_assert_int_le(abs(normal - exact - 2), 3);
    ck_assert_int_eq(failures_spare_hosts(&failures, 1e18), 2048);
}
END_TEST

/* --- runs ---------------------------------------------------------------------------------------
 */

enum { MOST_STAGES = 64 };
static struct stage_memory stages[MOST_STAGES];

/* The run has 30 days of steps of 10 s. */
static struct run run_of(const char *layout)
{
    planned_layout(layout);
    for (int i = 0; i < planned.plan.pp; i++)
        stages[i] = planned_memory(i);
    return (struct run){ .system = &planned.system,
                         .model = &planned.model,
                         .plan = &planned.plan,
                         .stages = stages,
                         .work_s = 30.0 * DAY_S,
                         .step_s = 10,
                         .step_low_s = 9,
                         .step_high_s = 11 };
}

/* BLOOM's checkpoints have 2.3 TiB and take 40 s. */
START_TEST(blooms_checkpoint_has_2_3_tib_and_takes_40_s)
{
    planned_load("jean-zay-a100-80g", "bigscience", "bloom-176b", 384);
    struct run run = run_of("tp4 pp12 dp8 mb2 zero1 stages=5,6x10,5");
    struct checkpoint checkpoint = checkpoint_of(run.system, run.model, run.plan, run.stages);
    ck_assert_double_eq_tol(checkpoint.bytes, 2.3 * 0x1p40, 0.03 * 0x1p40 * 2.3);
    ck_assert_double_eq_tol(checkpoint.storage_s, 40, 4);
    planned_release();
}
END_TEST

/* Rates are those of the cluster's file. If it states none, a host writes at most at the rate of
 * its network cards. Copies to peers use the rate of the cards. */
START_TEST(checkpoint_rates_follow_from_storage_and_network_cards)
{
    enum { HOSTS = 4 };
    static const struct {
        /* bytes/s: of_host and cards are per host, the others over all hosts */
        double storage, of_host, cards, expected;
    } rows[] = {
        { 0, 0, 400e9, HOSTS * 2e9 }, { 0, 5e9, 400e9, HOSTS * 5e9 }, { 7e9, 5e9, 400e9, 7e9 },
        { 0, 0, 1e9, HOSTS * 1e9 },   { 0, 5e9, 1e9, HOSTS * 5e9 },   { 3e9, 0, 1e9, 3e9 },
    };
    planned_load("dgx-h100", "megatron-core", "gpt3-2.7b", 8 * HOSTS);
    struct run run = run_of("tp1 dp32 mb1 zero1");
    struct cluster *cluster = &planned.system.cluster;
    for (int i = 0; i < LENGTH(rows); i++) {
        cluster->storage_bytes_per_s = rows[i].storage;
        cluster->host_storage_bytes_per_s = rows[i].of_host;
        cluster->levels[1].bytes_per_s = rows[i].cards / 8 / cluster->levels[1].nics_per_gpu;
        struct checkpoint of = checkpoint_of(run.system, run.model, run.plan, run.stages);
        ck_assert_double_eq_tol(of.storage_bytes_per_s, rows[i].expected, 1);
        ck_assert_double_eq_tol(of.storage_s, of.bytes / rows[i].expected, 1e-9);
        ck_assert_double_eq_tol(of.peer_s, of.bytes / HOSTS / rows[i].cards, 1e-9);
    }
    planned_release();
}
END_TEST

/* Each GPU copies the same number of bytes if all state is sharded or divided over replicas. */
START_TEST(copies_to_the_host_are_divided_over_replicas)
{
    static const char *const layouts[] = { "tp8 pp4 dp64 mb1", "tp8 pp4 dp64 mb1 zero1",
                                           "tp8 dp256 mb1 zero3" };
    planned_load("dgx-h100", "megatron-core", "gpt3-175b", 2048);
    for (int i = 0; i < LENGTH(layouts); i++) {
        struct run run = run_of(layouts[i]);
        struct checkpoint checkpoint = checkpoint_of(run.system, run.model, run.plan, run.stages);
        double share_s = checkpoint.bytes / 2048 / run.system->gpu.pcie_bytes_per_s;
        ck_assert_double_ge(checkpoint.copy_s, share_s);
        /* tolerance for the embedding of the first stage */
        ck_assert_double_lt(checkpoint.copy_s, 1.05 * share_s);
    }
    planned_release();
}
END_TEST

/* The share of time that restarts take. Failures come at the rate 1/M. After each failure, recovery
 * lasts R seconds or until the next failure: on average M (1 - e^(-R/M)). A share of the failures
 * also loses the checkpoints in memory, which makes R longer. */
static double restarting(const struct renewal *of)
{
    double near = 1 - exp(-of->restart_s / of->mtbf_s);
    double far = 1 - exp(-of->deep.restart_s / of->mtbf_s);
    return near + of->deep.share * (far - near);
}

START_TEST(goodput_rises_as_checkpoints_block_less)
{
    double before = 0;
    planned_load("dgx-h100", "megatron-core", "llama3-405b", 16384);
    struct run run = run_of("tp8 pp16 vpp8 dp128 mb1 zero1 stages=0,1x126,0");
    for (int way = 0; way < NUM_CHECKPOINTING; way++) {
        struct goodput of = goodput_in_way(&run, (enum checkpointing)way);
        ck_assert_double_gt(of.kept, before);
        ck_assert_double_lt(of.kept, 1);
        ck_assert_double_eq_tol(of.kept + of.checkpoint_share + of.restart_share + of.lost_share, 1,
                                1e-12);
        ck_assert_double_lt(of.lost_share, 0.05);
        ck_assert_double_eq(of.interval_s, of.steps * run.step_s);
        ck_assert_double_eq_tol(of.restart_share, restarting(&of.renewal), 1e-12);
        ck_assert_double_ge(of.interval_s, of.renewal.pending_s);
        ck_assert_double_eq_tol(of.run_s.mean * of.kept, run.work_s, 1e-6 * run.work_s);
        ck_assert_double_lt(of.run_s.low, of.run_s.mean);
        ck_assert_double_gt(of.run_s.high, of.run_s.mean);
        before = of.kept;
    }
    planned_release();
}
END_TEST

/* "higher than 90% effective training time": Grattafiori et al. 2024, section 3.3.4. */
START_TEST(the_goodput_of_llama_3_is_above_90_percent)
{
    planned_load("meta-grand-teton-700w", "megatron-core", "llama3-405b", 16384);
    struct run run = run_of("tp8 pp16 vpp8 dp128 mb1 zero1 stages=0,1x126,0");
    struct goodput of = goodput_in_way(&run, CHECKPOINT_ASYNC);
    ck_assert_double_gt(of.kept, 0.9);
    ck_assert_double_lt(of.kept, 0.95);
    ck_assert_double_eq_tol(of.interruptions / of.run_s.mean, 419 / (54.0 * DAY_S), 1e-7);
    /* 356 of the 419 failures each lose 1.5 hosts on average */
    planned.system.cluster.hosts_lost = 1.5;
    of = goodput_in_way(&run, CHECKPOINT_ASYNC);
    ck_assert_double_eq_tol(of.hosts_lost / of.interruptions, 1.5 * 356 / 419, 1e-4);
    planned_release();
}
END_TEST

START_TEST(without_failures_a_run_takes_its_steps_with_their_interval)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-2.7b", 8);
    struct run run = run_of("tp1 dp8 mb1 zero1");
    planned.system.gpu.mtbf_s = planned.system.cluster.host_mtbf_s =
        planned.system.stack.recovery.mtbf_s = 1e18;
    struct goodput of = goodput_of(&run);
    ck_assert_double_eq_tol(of.run_s.mean, run.work_s, 1e-4 * run.work_s);
    ck_assert_double_eq_tol(of.run_s.low, 0.9 * run.work_s, 1e-3 * run.work_s);
    ck_assert_double_eq_tol(of.run_s.high, 1.1 * run.work_s, 1e-3 * run.work_s);
    ck_assert_double_le(of.interval_s, run.work_s);
    /* there is no other host that could keep a copy */
    ck_assert_double_eq(goodput_in_way(&run, CHECKPOINT_MEMORY).kept, 0);
    planned_release();
}
END_TEST

/* Failures are more frequent than recoveries, so the run never ends. */
START_TEST(a_run_that_never_ends_is_infinite)
{
    planned_load("dgx-h100", "megatron-core", "gpt3-2.7b", 8);
    struct run run = run_of("tp1 dp8 mb1 zero1");
    planned.system.gpu.mtbf_s = 1;
    struct goodput of = goodput_of(&run);
    ck_assert_double_eq(of.kept, 0);
    ck_assert(isinf(of.run_s.mean) && isinf(of.run_s.low) && isinf(of.run_s.high));
    planned_release();
}
END_TEST

/* There are 100 failures. Each loses 10 s of restart, 20 s of delay, and 0 to 60 s of work (the
 * time since the last checkpoint), on average 30 s with a variance of 300 s^2. */
START_TEST(the_variance_of_a_run_is_that_of_its_losses)
{
    struct goodput of = { .renewal = { .mtbf_s = 1000, .blocked_s = 6 }, .interval_s = 54 };
    of.renewal.restart_s = 10;
    of.renewal.pending_s = 20;
    double variance = 100 * (60 * 60 + 300);
    ck_assert_double_eq_tol(goodput_chance_deviation(&of, 1e5), sqrt(variance) / 1e5, 1e-12);
}
END_TEST

/* The interval of a run's duration combines three errors: of step times, of the random number of
 * failures, and of the failure rates. Each half width is the root of the sum of their squares. */
START_TEST(the_interval_of_a_run_adds_the_squares_of_three_errors)
{
    planned_load("dgx-h100", "megatron-core", "llama3-405b", 16384);
    struct run run = run_of("tp8 pp16 vpp8 dp128 mb1 zero1 stages=0,1x126,0");
    run.step_low_s = run.step_s / 1.01;
    run.step_high_s = run.step_s * 1.02;
    struct goodput of = goodput_of(&run);
    double factor = exp(failure_rate_error_log()), mean = of.run_s.mean;
    struct renewal rare = of.renewal, frequent = of.renewal;
    rare.mtbf_s *= factor;
    frequent.mtbf_s /= factor;
    double fewer = log(renewal_kept(&rare, of.interval_s) / of.kept);
    double more = log(of.kept / renewal_kept(&frequent, of.interval_s));
    double chance = 1.645 * goodput_chance_deviation(&of, mean);
    double below = sqrt(pow(log(1.01), 2) + fewer * fewer + chance * chance);
    double above = sqrt(pow(log(1.02), 2) + more * more + chance * chance);
    ck_assert_double_gt(fewer, 0);
    ck_assert_double_gt(more, fewer);
    ck_assert_double_eq_tol(log(mean / of.run_s.low), below, 1e-9);
    ck_assert_double_eq_tol(log(of.run_s.high / mean), above, 1e-9);
    planned_release();
}
END_TEST

/* Random runs of 300 intervals each differ only by chance. */
START_TEST(simulated_runs_lie_in_the_interval_with_its_probability)
{
    enum { RUNS = 400, INTERVALS = 300 };
    planned_load("dgx-h100", "megatron-core", "llama3-405b", 16384);
    struct run run = run_of("tp8 pp16 vpp8 dp128 mb1 zero1 stages=0,1x126,0");
    run.step_low_s = run.step_high_s = run.step_s;
    struct goodput of = goodput_of(&run);
    double sum = 0, squares = 0;
    for (int i = 0; i < RUNS; i++) {
        double s = draw(&of.renewal, of.interval_s, INTERVALS, 1 + (uint64_t)i).now_s;
        sum += s;
        squares += s * s;
    }
    double mean = sum / RUNS, deviation = sqrt(squares / RUNS - mean * mean) / mean;
    ck_assert_double_eq_tol(goodput_chance_deviation(&of, mean), deviation, 0.15 * deviation);
    planned_release();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("goodput");
    TCase *forms = tcase_create("closed forms");
    tcase_add_test(forms, for_short_checkpoints_the_optimum_agrees_with_young_and_daly);
    tcase_add_test(forms, for_long_checkpoints_the_optimal_interval_is_the_time_between_failures);
    tcase_add_test(forms, no_other_interval_has_more_goodput_than_the_optimum);
    tcase_add_test(forms, goodput_of_blocking_checkpoints_equals_dalys_exact_formula);
    tcase_add_test(forms, a_copy_that_counts_late_costs_as_much_as_a_longer_restart);
    tcase_add_test(forms, two_checkpoint_levels_with_one_unused_equal_one_level);
    tcase_add_test(forms, two_checkpoint_levels_have_their_best_interval_and_share);
    TCase *drawn = tcase_create("drawn");
    tcase_add_loop_test(drawn, simulated_runs_have_the_goodput_of_the_formula, 0,
                        LENGTH(drawn_cases));
    TCase *failures = tcase_create("failures");
    tcase_add_test(failures, the_default_failure_rate_is_that_of_llama_3);
    tcase_add_test(failures, recovery_probabilities_equal_geminis);
    tcase_add_test(failures, simulated_failures_lose_both_copies_as_often_as_the_formula);
    tcase_add_test(failures, at_random_moments_spare_hosts_suffice_99_percent_of_the_time);
    tcase_add_test(failures, the_number_of_spares_is_the_99_percent_quantile_of_hosts_under_repair);
    TCase *runs = tcase_create("runs");
    tcase_add_test(runs, blooms_checkpoint_has_2_3_tib_and_takes_40_s);
    tcase_add_test(runs, checkpoint_rates_follow_from_storage_and_network_cards);
    tcase_add_test(runs, copies_to_the_host_are_divided_over_replicas);
    tcase_add_test(runs, goodput_rises_as_checkpoints_block_less);
    tcase_add_test(runs, the_goodput_of_llama_3_is_above_90_percent);
    tcase_add_test(runs, without_failures_a_run_takes_its_steps_with_their_interval);
    tcase_add_test(runs, a_run_that_never_ends_is_infinite);
    tcase_add_test(runs, the_interval_of_a_run_adds_the_squares_of_three_errors);
    tcase_add_test(runs, the_variance_of_a_run_is_that_of_its_losses);
    tcase_add_test(runs, simulated_runs_lie_in_the_interval_with_its_probability);
    suite_add_tcase(s, failures);
    suite_add_tcase(s, runs);
    suite_add_tcase(s, forms);
    suite_add_tcase(s, drawn);
    return s;
}

TEST_MAIN(suite)
