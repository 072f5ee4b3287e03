/* How long a whole training takes with failures, restarts and checkpoints. Goodput is the share of
 * its time that is spent on steps whose results are kept. */
#include "sim/campaign/goodput.h"

#include "sim/textbook/failure.h"

#include <math.h>

/* --- checkpoints --------------------------------------------------------------------------- */

static double recovery_s(const struct system *system)
{
    const struct stack_recovery *recovery = &system->stack.recovery;
    return recovery->detect_s + recovery->relaunch_s + recovery->warm_up_s;
}

static struct renewal renewal_of(const struct run *run, const struct goodput *goodput)
{
    const struct checkpoint *checkpoint = &goodput->checkpoint;
    double loaded_s = recovery_s(run->system) + checkpoint->storage_s;
    struct renewal out = { .mtbf_s = goodput->failures.mtbf_s,
                           .blocked_s = checkpoint->copy_s,
                           .restart_s = loaded_s,
                           .deep = { .every = 1 } };
    switch (goodput->way) {
    case CHECKPOINT_BLOCKING:
        out.blocked_s += checkpoint->storage_s;
        break;
    case CHECKPOINT_ASYNC:
        out.pending_s = checkpoint->storage_s;
        break;
    case CHECKPOINT_MEMORY:
        out.pending_s = checkpoint->peer_s;
        out.restart_s = recovery_s(run->system) + checkpoint->peer_s;
        out.deep.share = failures_lose_pair(&goodput->failures);
        out.deep.pending_s = checkpoint->storage_s;
        out.deep.restart_s = loaded_s;
        break;
    case NUM_CHECKPOINTING:
        break;
    }
    return out;
}

/* --- losses of time ------------------------------------------------------------------------ */

/* Mean length of a recovery; it lasts for restart_s or until the next failure. */
static double attempt_s(double mtbf_s, double restart_s)
{
    return -mtbf_s * expm1(-restart_s / mtbf_s);
}

/* The share of the run's time that recoveries take: their mean length times the rate of failures.
 * Every failure begins a recovery, even during another recovery. */
static double restart_share(const struct renewal *renewal)
{
    double q = renewal->deep.share, mtbf_s = renewal->mtbf_s;
    double near_s = attempt_s(mtbf_s, renewal->restart_s);
    double far_s = attempt_s(mtbf_s, renewal->deep.restart_s);
    return ((1 - q) * near_s + q * far_s) / mtbf_s;
}

static void fill_shares(struct goodput *out)
{
    out->kept = renewal_kept(&out->renewal, out->interval_s);
    out->checkpoint_share = out->kept * out->renewal.blocked_s / out->interval_s;
    out->restart_share = restart_share(&out->renewal);
    out->lost_share = fmax(0, 1 - out->kept - out->checkpoint_share - out->restart_share);
}

/* --- the run ------------------------------------------------------------------------------- */

/* A sum of a Poisson number of losses, with mean n, has the variance n E[loss^2]. Each failure
 * loses the restart R, the delay W until a checkpoint counts, and a uniformly distributed part of
 * the interval (renewal.h). */
double goodput_chance_deviation(const struct goodput *of, double run_s)
{
    const struct renewal *renewal = &of->renewal;
    double cycle_s = of->interval_s + renewal->blocked_s;
    double mean_s = renewal->restart_s + renewal->pending_s + cycle_s / 2;
    double square_s2 = mean_s * mean_s + cycle_s * cycle_s / 12;
    return sqrt(run_s / renewal->mtbf_s * square_s2) / run_s;
}

static double kept_at_rate(const struct goodput *of, double factor)
{
    struct renewal renewal = of->renewal;
    renewal.mtbf_s /= factor;
    return renewal_kept(&renewal, of->interval_s);
}

/* The 90 % interval of the run's time. The errors of the step time and of the failure rate, and the
 * random times of failures, are independent, so the squares of their logarithmic half widths add.
 * The interval between checkpoints is fixed. */
static struct expected run_time(const struct run *run, const struct goodput *of)
{
    if (of->kept <= 0)
        return (struct expected){ HUGE_VAL, HUGE_VAL, HUGE_VAL };
    double mean_s = run->work_s / of->kept;
    double factor = exp(failure_rate_error_log());
    double fewer = log(kept_at_rate(of, 1 / factor) / of->kept);
    double more = log(of->kept / kept_at_rate(of, factor));
    double chance = 1.645 * goodput_chance_deviation(of, mean_s);
    double below = log(run->step_s / run->step_low_s), above = log(run->step_high_s / run->step_s);
    return (struct expected){
        .mean = mean_s,
        .low = mean_s * exp(-sqrt(below * below + fewer * fewer + chance * chance)),
        .high = mean_s * exp(sqrt(above * above + more * more + chance * chance)),
    };
}

/* The best interval in whole steps, at most the whole run. */
static double interval_steps(const struct run *run, struct renewal *renewal)
{
    double best = renewal_choose(renewal, run->step_s) / run->step_s;
    double least = ceil(renewal->pending_s / run->step_s);
    return fmax(1, fmin(fmax(round(best), least), ceil(run->work_s / run->step_s)));
}

struct goodput goodput_in_way(const struct run *run, enum checkpointing way)
{
    const struct system *system = run->system;
    struct goodput out = { .way = way, .failures = failures_of(system) };
    out.checkpoint = checkpoint_of(system, run->model, run->plan, run->stages);
    if (way == CHECKPOINT_MEMORY && out.checkpoint.peer_s <= 0)
        return out;
    out.renewal = renewal_of(run, &out);
    struct textbook_failure textbook = { out.renewal.mtbf_s, out.renewal.blocked_s,
                                         out.renewal.restart_s };
    out.young_s = textbook_young_s(&textbook);
    out.daly_s = textbook_daly_s(&textbook);
    out.steps = interval_steps(run, &out.renewal);
    out.interval_s = out.steps * run->step_s;
    fill_shares(&out);
    out.run_s = run_time(run, &out);
    out.interruptions = out.run_s.mean / out.renewal.mtbf_s;
    out.hosts_lost = out.interruptions * out.failures.hardware_share * out.failures.hosts_lost;
    out.spare_hosts = failures_spare_hosts(&out.failures, system->cluster.repair_s);
    return out;
}

struct goodput goodput_of(const struct run *run)
{
    return goodput_in_way(run, (enum checkpointing)run->system->stack.recovery.checkpointing);
}

double goodput_most(const struct run *run)
{
    const struct system *system = run->system;
    struct goodput of = { .way = (enum checkpointing)system->stack.recovery.checkpointing,
                          .failures = failures_of(system) };
    of.checkpoint = checkpoint_of(system, run->model, run->plan, run->stages);
    of.checkpoint.copy_s = 0;
    struct renewal renewal = renewal_of(run, &of);
    const double rounding = 1 + 1e-6; /* tolerance of the numerical search for the best interval */
    const double shortest_s = 1e-3;
    return fmin(1, renewal_kept(&renewal, renewal_choose(&renewal, shortest_s)) * rounding);
}
