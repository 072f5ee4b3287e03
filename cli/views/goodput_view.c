/* Shows the time of the whole run with failures and checkpoints, as text and as JSON. */
#include "cli/views/goodput_view.h"

#include "base/length.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/views/days_and_dollars.h"
#include "search/effective.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

static struct run run_of(const struct setup *setup, const struct plan *plan,
                         const struct prediction *prediction)
{
    return effective_run(&setup->system, &setup->model, plan, prediction);
}

struct goodput goodput_of_plan(const struct setup *setup, const struct plan *plan,
                               const struct prediction *prediction)
{
    struct run run = run_of(setup, plan, prediction);
    return goodput_of(&run);
}

/* --- for programs ------------------------------------------------------------------------------
 */

/* The content of the key "run". */
struct run_answer {
    double days, days_low, days_high, dollars, dollars_low, dollars_high;
    double goodput, checkpoint_share, restart_share, lost_share;
    double interruptions, mtbf_s, restart_s, hardware_share, hosts_lost, spare_hosts;
    double checkpoint_bytes, storage_bytes_per_s, checkpoint_s, pending_s;
    double checkpoint_interval_s, checkpoint_steps, storage_every, young_s, daly_s;
};

#define F(member) \
    .name = #member, .kind = FIELD_NUMBER, .offset = offsetof(struct run_answer, member)

// clang-format off
const struct field run_fields[] = {
    { F(days), .doc = "Mean time until all tokens are trained, in days." },
    { F(days_low), .doc = "Lower end of the 90 % interval. It includes the uncertainty of the step "
                          "time, the spread of published failure rates, and the random times of "
                          "failures." },
    { F(days_high), .doc = "Upper end of the same 90 % interval." },
    { F(dollars), .doc = "Price of the job's GPUs for those days; spare hosts are not included." },
    { F(dollars_low), .doc = "Price of the job's GPUs for days_low." },
    { F(dollars_high), .doc = "Price of the job's GPUs for days_high." },
    { F(goodput), .doc = "Share of the time that is spent on steps whose results are kept." },
    { F(checkpoint_share), .doc = "Share of the time in which training stops for checkpoints." },
    { F(restart_share), .doc = "Share of the time that is spent between a failure and the next "
                               "step." },
    { F(lost_share), .doc = "Share of the time that is spent on steps which are repeated. The four "
                            "shares add up to 1." },
    { F(interruptions), .doc = "Mean number of failures in those days." },
    { F(mtbf_s), .doc = "Mean time between failures of the job." },
    { F(restart_s), .doc = "Time to detect a failure, relaunch, load and warm up." },
    { F(hardware_share), .doc = "Share of failures after which a host must be repaired or "
                                "replaced." },
    { F(hosts_lost), .doc = "Mean number of hosts that such failures take out of service in those "
                            "days." },
    { F(spare_hosts), .doc = "Spare hosts that suffice, 99 % of the time, to replace all hosts "
                             "under repair." },
    { F(checkpoint_bytes), .doc = "Size of a checkpoint: weights and optimizer state, stored once." },
    { F(storage_bytes_per_s), .doc = "Rate at which all hosts together write to storage." },
    { F(checkpoint_s), .doc = "Time for which training stops for one checkpoint." },
    { F(pending_s), .doc = "Time from the end of checkpoint_s until the checkpoint can be used "
                           "for a restart." },
    { F(checkpoint_interval_s), .doc = "Best time between checkpoints, rounded to whole steps." },
    { F(checkpoint_steps), .doc = "Best number of steps between checkpoints." },
    { F(storage_every), .doc = "With checkpoints in memory: every n-th one also goes to storage; "
                               "this is n." },
    { F(young_s), .doc = "Time between checkpoints by Young's formula." },
    { F(daly_s), .doc = "Time between checkpoints by Daly's formula." },
};
// clang-format on
const size_t num_run_fields = LENGTH(run_fields);

static struct run_answer run_answer_of(const struct setup *setup, const struct goodput *of)
{
    return (struct run_answer){
        .days = of->run_s.mean / DAY_S,
        .days_low = of->run_s.low / DAY_S,
        .days_high = of->run_s.high / DAY_S,
        .dollars = dollars_of(setup, of->run_s.mean),
        .dollars_low = dollars_of(setup, of->run_s.low),
        .dollars_high = dollars_of(setup, of->run_s.high),
        .goodput = of->kept,
        .checkpoint_share = of->checkpoint_share,
        .restart_share = of->restart_share,
        .lost_share = of->lost_share,
        .interruptions = of->interruptions,
        .mtbf_s = of->failures.mtbf_s,
        .restart_s = of->renewal.restart_s,
        .hardware_share = of->failures.hardware_share,
        .hosts_lost = of->hosts_lost,
        .spare_hosts = of->spare_hosts,
        .checkpoint_bytes = round(of->checkpoint.bytes),
        .storage_bytes_per_s = of->checkpoint.storage_bytes_per_s,
        .checkpoint_s = of->renewal.blocked_s,
        .pending_s = of->renewal.pending_s,
        .checkpoint_interval_s = of->interval_s,
        .checkpoint_steps = of->steps,
        .storage_every = of->renewal.deep.every,
        .young_s = of->young_s,
        .daly_s = of->daly_s,
    };
}

/* The goodput of each way of checkpointing; null if the way is not possible. */
static json_t *ways_json(const struct run *run)
{
    json_t *ways = json_object();
    for (int way = 0; way < NUM_CHECKPOINTING; way++) {
        struct goodput of = goodput_in_way(run, (enum checkpointing)way);
        json_object_set_new(ways, checkpointing_names[way],
                            of.kept > 0 ? json_real(of.kept) : json_null());
    }
    return ways;
}

void add_run_json(json_t *object, const struct setup *setup, const struct plan *plan,
                  const struct prediction *prediction)
{
    if (!(setup->model.tokens > 0))
        return;
    struct run run = run_of(setup, plan, prediction);
    struct goodput of = goodput_of(&run);
    struct run_answer answer = run_answer_of(setup, &of);
    json_t *json = json_object();
    for (size_t i = 0; i < num_run_fields; i++) {
        const char *at = (const char *)&answer + run_fields[i].offset;
        json_object_set_new(json, run_fields[i].name,
                            finite_json(*(const double *)(const void *)at));
    }
    json_object_set_new(json, "checkpoints", json_string(checkpointing_names[of.way]));
    json_object_set_new(json, "goodput_by", ways_json(&run));
    json_object_set_new(object, "run", json);
}

/* --- for people --------------------------------------------------------------------------------
 */

static const char *const way_words[NUM_CHECKPOINTING] = {
    [CHECKPOINT_BLOCKING] = "blocking",
    [CHECKPOINT_ASYNC] = "asynchronous",
    [CHECKPOINT_MEMORY] = "in memory of peers",
};

static void show_row(const struct terminal *terminal, const char *name, struct text *line)
{
    printf("  %s%-10s%s  %s\n", terminal_dim(terminal), name, terminal_plain(terminal),
           text_get(line));
    text_release(line);
}

/* Adds a duration: "9.59 s", "30.7 min", "2.06 days". */
static void add_duration(struct text *out, double seconds)
{
    char text[40];
    const double minute_s = 60, hour_s = 3600;
    units_show_duration(seconds, text, sizeof text);
    if (seconds >= 2 * minute_s && seconds < 2 * hour_s)
        snprintf(text, sizeof text, "%.3g min", seconds / minute_s);
    else if (seconds >= 2 * hour_s && seconds < 2 * DAY_S)
        snprintf(text, sizeof text, "%.3g h", seconds / hour_s);
    text_add(out, "%s", text);
}

/* Units in which the time of the whole run is shown. */
static const struct {
    double s;
    const char *name;
} run_units[] = { { DAY_S, "days" }, { 3600, "h" }, { 60, "min" }, { 1, "s" } };

/* Adds a run time of years or more; mean and interval may have different units. */
static void add_long_run(struct text *out, const struct expected *run_s)
{
    char mean[40], low[40], high[40];
    units_show_duration(run_s->mean, mean, sizeof mean);
    units_show_duration(run_s->low, low, sizeof low);
    units_show_duration(run_s->high, high, sizeof high);
    text_add(out, "%s (90 %% interval %s to %s)", mean, low, high);
}

/* Adds the run time: "8.0 days (90 % interval 5.7 to 11.6)". */
static void add_run_time(struct text *out, const struct expected *run_s)
{
    size_t i = 0;
    const double longest_s = 1000.0 * DAY_S;
    if (run_s->high > longest_s) {
        add_long_run(out, run_s);
        return;
    }
    while (i + 1 < LENGTH(run_units) && run_s->mean < 2 * run_units[i].s)
        i++;
    double unit_s = run_units[i].s;
    int decimals = run_s->mean < 99.95 * unit_s ? 1 : 0;
    text_add(out, "%.*f %s (90 %% interval %.*f to %.*f)", decimals, run_s->mean / unit_s,
             run_units[i].name, decimals, run_s->low / unit_s, decimals, run_s->high / unit_s);
}

static void add_dollars(struct text *out, const struct setup *setup, const struct expected *run_s)
{
    char mean[32], low[32], high[32];
    if (!(setup->system.cluster.price_per_gpu_h > 0) || isinf(run_s->high))
        return;
    units_show_count(dollars_of(setup, run_s->mean), mean, sizeof mean);
    units_show_count(dollars_of(setup, run_s->low), low, sizeof low);
    units_show_count(dollars_of(setup, run_s->high), high, sizeof high);
    text_add(out, " for %s $ (%s to %s)", mean, low, high);
}

static void show_run(const struct terminal *terminal, const struct setup *setup,
                     const struct goodput *of)
{
    struct text line = { 0 };
    char tokens[32];
    units_show_count(setup->model.tokens, tokens, sizeof tokens);
    text_add(&line, "%s tokens ", tokens);
    if (of->kept > 0) {
        text_add(&line, "in ");
        add_run_time(&line, &of->run_s);
        add_dollars(&line, setup, &of->run_s);
    } else {
        text_add(&line, "never: failures come faster than recoveries");
    }
    show_row(terminal, "whole run", &line);
}

static void show_kept(const struct terminal *terminal, const struct goodput *of)
{
    struct text line = { 0 };
    const char *dot = terminal_dot(terminal);
    text_add(&line,
             "%.1f %% of the time%scheckpoints %.1f %%%srestarts %.1f %%%srepeated work %.1f %%",
             100 * of->kept, dot, 100 * of->checkpoint_share, dot, 100 * of->restart_share, dot,
             100 * of->lost_share);
    show_row(terminal, "goodput", &line);
}

static void show_failures(const struct terminal *terminal, const struct goodput *of)
{
    struct text line = { 0 };
    text_add(&line, "one in ");
    add_duration(&line, of->failures.mtbf_s);
    text_add(&line, ", %.3g in the run (%.0f %% of them hardware), %.3g hosts lost; ",
             of->interruptions, 100 * of->failures.hardware_share, of->hosts_lost);
    add_duration(&line, of->renewal.restart_s);
    text_add(&line, " to restart; %d spare host%s 99 %% of the time", of->spare_hosts,
             of->spare_hosts == 1 ? " suffices" : "s suffice");
    show_row(terminal, "failures", &line);
}

/* Adds how many checkpoints go to storage: ", one in 16 to storage". */
static void add_storage(struct text *out, const struct goodput *of)
{
    if (of->way == CHECKPOINT_MEMORY)
        text_add(out, ", one in %d to storage", of->renewal.deep.every);
}

static void show_checkpoints(const struct terminal *terminal, const struct run *run,
                             const struct goodput *of)
{
    struct text line = { 0 };
    char bytes[32];
    units_show(of->checkpoint.bytes, QUANTITY_BYTES, bytes, sizeof bytes);
    text_add(&line, "%s every %.0f steps, ", bytes, of->steps);
    add_duration(&line, of->interval_s);
    add_storage(&line, of);
    text_add(&line, "; %s: training stops for ", way_words[of->way]);
    add_duration(&line, of->renewal.blocked_s);
    const char *before = "goodput if ";
    for (int way = 0; way < NUM_CHECKPOINTING; way++) {
        struct goodput other = goodput_in_way(run, (enum checkpointing)way);
        if (way == (int)of->way || other.kept <= 0)
            continue;
        text_add(&line, "%s%s%s %.1f %%", terminal_dot(terminal), before, way_words[way],
                 100 * other.kept);
        before = "if ";
    }
    show_row(terminal, "checkpoint", &line);
}

void show_goodput(const struct terminal *terminal, const struct setup *setup,
                  const struct plan *plan, const struct prediction *prediction)
{
    if (!(setup->model.tokens > 0))
        return;
    struct run run = run_of(setup, plan, prediction);
    struct goodput of = goodput_of(&run);
    printf("\n");
    show_run(terminal, setup, &of);
    if (of.kept <= 0)
        return;
    show_kept(terminal, &of);
    show_failures(terminal, &of);
    show_checkpoints(terminal, &run, &of);
}
