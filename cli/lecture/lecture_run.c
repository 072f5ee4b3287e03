/* cli/lecture/lecture_run.c - the lecture's rows about the whole run: days, energy, failures. */
#include "cli/lecture/lecture.h"

#include "base/units.h"
#include "cli/views/answer.h"
#include "cli/views/goodput_view.h"
#include "sim/textbook/energy.h"
#include "sim/textbook/failure.h"

#include <math.h>

static const char topic[] = "THE WHOLE RUN";

static void add_days(struct lecture *lecture, const struct lecture_case *of, double textbook_s,
                     double detailed_s)
{
    double tokens = of->setup->model.tokens;
    struct lecture_row *row = lecture_add(lecture,
                                          (struct lecture_row){ .topic = topic,
                                                                .name = "days of computing at U",
                                                                .unit = LECTURE_DAYS,
                                                                .textbook = textbook_s,
                                                                .detailed = detailed_s },
                                          lecture_flops_formula(of->textbook->recomputed));
    text_add(&row->formula, "/(N F U)");
    text_add(&row->filled, "%.5g x %s x %s / (%d x %s x %.4g)", 6 + 2 * of->textbook->recomputed,
             in_digits(tokens).text, in_digits(of->estimate->parameters).text, of->gpus.count,
             in_flops_per_s(of->gpus.peak_flops_per_s).text, of->textbook->utilization);
    double busy_s = of->prediction->time.compute_s + of->prediction->time.recompute_s;
    lecture_gap(row,
                "In the predicted step %.1f %% of the time is not compute, and compute takes %.3g "
                "times as long as at U.",
                100 * (1 - busy_s / of->prediction->step_s), busy_s / of->estimate->compute_s);
}

/* Mean carbon intensity of US grids, as used for LLaMA's carbon count: Touvron et al. 2023, section
 * 6. */
static const double us_grams_per_kwh = 385;

static void add_energy(struct lecture *lecture, const struct lecture_case *of, double textbook_s,
                       double detailed_s)
{
    double power_w = of->setup->system.gpu.power_w;
    int gpus = of->gpus.count;
    if (power_w <= 0)
        return;
    double textbook_wh = textbook_energy_wh(gpus * textbook_s, power_w);
    double detailed_wh = textbook_energy_wh(gpus * detailed_s, power_w);
    struct lecture_row *row = lecture_add(lecture,
                                          (struct lecture_row){ .topic = topic,
                                                                .name = "energy of the GPUs",
                                                                .unit = LECTURE_WATT_HOURS,
                                                                .textbook = textbook_wh,
                                                                .detailed = detailed_wh },
                                          "N t W");
    text_add(&row->filled, "%d x %.5g x %.4g", gpus, textbook_s / 3600, power_w);
    lecture_gap(row, "Both values assume the GPU's rated %.0f W during the days above.", power_w);
    row = lecture_add(
        lecture,
        (struct lecture_row){ .topic = topic,
                              .name = "carbon of this energy",
                              .unit = LECTURE_GRAMS,
                              .textbook = textbook_gco2(textbook_wh, us_grams_per_kwh),
                              .detailed = textbook_gco2(detailed_wh, us_grams_per_kwh) },
        "kWh x g CO2/kWh");
    text_add(&row->filled, "%.5g x %.0f", textbook_wh / 1000, us_grams_per_kwh);
    lecture_gap(row, "Both values assume %.0f g/kWh, the US mean that LLaMA's authors used.",
                us_grams_per_kwh);
}

/* --- failures ------------------------------------------------------------------------------- */

/* Failure rate of Llama 3 405B: 419 unexpected interruptions in 54 days on 2048 nodes. Grattafiori
 * et al. 2024, section 3.3.4. */
static const double failures_per_1000_node_days = 3.79;
/* Time from a failure to the next step: detection, rescheduling, loading, warm-up. There is no
 * published number; NCCL's default timeout alone is ten minutes. */
static const double restart_s = 600;

static struct lecture_row *add_failure_row(struct lecture *lecture, const char *name,
                                           enum lecture_unit unit, double value, double detailed,
                                           const char *formula)
{
    return lecture_add(
        lecture,
        (struct lecture_row){
            .topic = topic, .name = name, .unit = unit, .textbook = value, .detailed = detailed },
        formula);
}

/* Replaces `value` by NAN if the run never ends. */
static double known(const struct goodput *goodput, double value)
{
    const double none = NAN;
    return goodput->kept > 0 ? value : none;
}

static void add_kept_gap(struct lecture_row *row, const struct goodput *goodput)
{
    lecture_gap(
        row, "The detailed value uses its own checkpoint interval and C, and R = %s%s.",
        in_seconds(goodput->renewal.restart_s).text,
        goodput->renewal.pending_s > 0 ? ", and checkpoints count only once they are written" : "");
}

static void add_intervals(struct lecture *lecture, const struct textbook_failure *failure,
                          const struct goodput *goodput)
{
    double interval_s = known(goodput, goodput->interval_s), kept = known(goodput, goodput->kept);
    double young_s = textbook_young_s(failure);
    double x = sqrt(failure->checkpoint_s / (2 * failure->mtbf_s));
    struct lecture_number c = in_seconds(failure->checkpoint_s), m = in_seconds(failure->mtbf_s);
    struct lecture_number t = in_seconds(young_s), r = in_seconds(restart_s);
    struct lecture_row *row = add_failure_row(lecture, "between checkpoints, Young",
                                              LECTURE_SECONDS, young_s, interval_s, "sqrt(2 C M)");
    text_add(&row->filled, "sqrt(2 x %s x %s)", c.text, m.text);
    lecture_gap(row,
                "The detailed value is the exact optimum for its own C and M, in whole steps.");
    if (failure->checkpoint_s < 2 * failure->mtbf_s) {
        row = add_failure_row(lecture, "between checkpoints, Daly", LECTURE_SECONDS,
                              textbook_daly_s(failure), interval_s,
                              "sqrt(2 C M) (1 + x/3 + x^2/9) - C, x^2 = C/(2 M)");
        text_add(&row->filled, "%s x (1 + %.4g / 3 + %.4g^2 / 9) - %s", t.text, x, x, c.text);
        lecture_gap(row, "The detailed value is the same as in the row above.");
    }
    row =
        add_failure_row(lecture, "share of time kept, t by Young", LECTURE_SHARE,
                        textbook_ettr_linear(failure, young_s), kept, "1/(1 + C/t + (t/2 + R)/M)");
    text_add(&row->filled, "1 / (1 + %s / %s + (%s / 2 + %s) / %s)", c.text, t.text, t.text, r.text,
             m.text);
    add_kept_gap(row, goodput);
    row = add_failure_row(lecture, "the same, with random failures", LECTURE_SHARE,
                          textbook_ettr_exact(failure, young_s), kept,
                          "t/(M e^(R/M) (e^((t + C)/M) - 1))");
    text_add(&row->filled, "%s / (%s x exp(%s / %s) x (exp((%s + %s) / %s) - 1))", t.text, m.text,
             r.text, m.text, t.text, c.text, m.text);
    add_kept_gap(row, goodput);
}

static void add_failures(struct lecture *lecture, const struct lecture_case *of)
{
    const struct system *system = &of->setup->system;
    const struct stage_memory *stage = &of->prediction->stages[0];
    int hosts = system->num_gpus / cluster_host_size(&system->cluster);
    int nodes = hosts > 0 ? hosts : 1;
    double state_bytes = stage->weights_bytes + stage->optimizer_bytes;
    if (system->gpu.pcie_bytes_per_s <= 0)
        return;
    struct textbook_failure failure = {
        .mtbf_s = textbook_mtbf_s(failures_per_1000_node_days, nodes),
        .checkpoint_s = state_bytes / system->gpu.pcie_bytes_per_s,
        .restart_s = restart_s,
    };
    struct goodput goodput = goodput_of_plan(of->setup, &of->setup->plan, of->prediction);
    struct lecture_row *row =
        add_failure_row(lecture, "time between failures M", LECTURE_SECONDS, failure.mtbf_s,
                        goodput.failures.mtbf_s, "1000 days/(r nodes)");
    text_add(&row->filled, "1000 x 24 h / (%.3g x %d)", failures_per_1000_node_days, nodes);
    lecture_gap(
        row, "r is the rate of Llama 3 405B: 3.79 failures per 1000 node-days. The detailed value "
             "is the sum of the rates in the files of the GPU, the cluster and the stack.");
    row = add_failure_row(lecture, "checkpoint C", LECTURE_SECONDS, failure.checkpoint_s,
                          known(&goodput, goodput.renewal.blocked_s),
                          "weights and optimizer/link to the host");
    text_add(&row->filled, "%s / %s", in_bytes(state_bytes).text,
             in_bytes_per_s(system->gpu.pcie_bytes_per_s).text);
    lecture_gap(
        row,
        "The textbook's training stops while each GPU copies all its state to the host, and a "
        "restart takes R = 10 min, an assumption; checkpoints of the detailed model are %s.",
        checkpointing_names[goodput.way]);
    add_intervals(lecture, &failure, &goodput);
}

void lecture_add_run(struct lecture *lecture, const struct lecture_case *of)
{
    double tokens = of->setup->model.tokens;
    if (!(tokens > 0))
        return;
    double textbook_s = textbook_compute_s(
        of->gpus, textbook_flops(of->estimate->parameters, tokens, of->textbook->recomputed),
        of->textbook->utilization);
    double detailed_s = days_to_train(of->setup, of->prediction) * DAY_S;
    add_days(lecture, of, textbook_s, detailed_s);
    add_energy(lecture, of, textbook_s, detailed_s);
    add_failures(lecture, of);
}
