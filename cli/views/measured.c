/* Shows a run next to its prediction: as a whole, by kind of op, and by instruction. An instruction
 * is a step of a rank's schedule, such as the forward of one microbatch. */
#include "cli/views/measured.h"

#include "base/core_share.h"
#include "base/statistics.h"
#include "cli/input/command.h"
#include "cli/print/scale.h"
#include "cli/print/terminal.h"
#include "cli/views/answer.h"
#include "cli/views/show.h"
#include "sim/cost/stage_load.h"
#include "sim/exchange/robust.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Means of the timed steps over each cycle of the exchange: if only every H-th step exchanges, the
 * prediction is a mean over H steps. Fewer than H timed steps count as one cycle. */
static int cycle_means(const struct measured *m, double *means)
{
    int steps = m->session->num_timed, cycle = exchange_cycle(&m->setup->plan.exchange), count = 0;
    int length = cycle < steps ? cycle : steps;
    for (int first = 0; length > 0 && first + length <= steps; first += length) {
        double sum_s = 0;
        for (int i = 0; i < length; i++)
            sum_s += m->session->step_s[first + i];
        means[count++] = sum_s / length;
    }
    return count;
}

static void fill_step(struct measured *m)
{
    double *sorted = arena_grow(NULL, sizeof *sorted * ((size_t)m->session->num_timed + 1));
    int count = cycle_means(m, sorted);
    numbers_sort(sorted, (size_t)count);
    m->step_s = count > 0 ? sorted_quantile(sorted, count, 0.5) : (double)NAN;
    m->step_p10_s = count > 0 ? sorted_quantile(sorted, count, 0.1) : (double)NAN;
    m->step_p90_s = count > 0 ? sorted_quantile(sorted, count, 0.9) : (double)NAN;
    free(sorted);
    double predicted_s = m->compares ? m->prediction->step_s : (double)NAN;
    m->mfu = m->prediction->mfu * predicted_s / m->step_s;
    m->error = log(predicted_s / m->step_s);
    m->is_inside =
        m->step_s >= m->prediction->step_low_s && m->step_s <= m->prediction->step_high_s;
}

static void fill_kinds(struct measured *m)
{
    struct kind_totals totals =
        plan_kind_totals(&m->setup->system, &m->setup->model, &m->setup->plan);
    for (int kind = 0; kind < NUM_OP_KINDS; kind++)
        m->kinds[kind] =
            (struct beside_seconds){ m->session->op_counts[kind], m->session->op_seconds[kind],
                                     totals.seconds[kind] };
}

static double length_s(struct interval interval)
{
    return interval.end_s - interval.start_s;
}

static void fill_opcodes(struct measured *m)
{
    const struct timeline *ours = m->session->timeline;
    const struct schedule *schedule = ours->schedule;
    for (int stage = 0; stage < schedule->shape.num_stages; stage++)
        for (int i = 0; i < schedule->ranks[stage].count; i++) {
            struct beside_seconds *at = &m->opcodes[schedule->ranks[stage].at[i].op];
            at->count++;
            at->measured_s += length_s(ours->ranks[stage][i]);
            at->predicted_s += length_s(m->predicted_timeline->ranks[stage][i]);
        }
}

static double bubble_s(const struct timeline *timeline)
{
    int stages = timeline->schedule->shape.num_stages;
    double idle_s = 0;
    for (int stage = 0; stage < stages; stage++) {
        const struct instrs *list = &timeline->schedule->ranks[stage];
        idle_s += length_s(timeline_passes(timeline));
        for (int i = 0; i < list->count; i++)
            if (timeline_is_pass(list->at[i].op))
                idle_s -= length_s(timeline->ranks[stage][i]);
    }
    return idle_s / stages;
}

/* Clears predicted times. Predicted bytes are kept, as they are equal on all machines. */
static void forget_predictions(struct measured *m)
{
    m->predicted_bubble_s = (double)NAN;
    for (int kind = 0; kind < NUM_OP_KINDS; kind++)
        m->kinds[kind].predicted_s = (double)NAN;
    for (int op = 0; op < NUM_OPCODES; op++)
        m->opcodes[op].predicted_s = (double)NAN;
}

void measured_fill(struct measured *m)
{
    fill_step(m);
    m->bubble_s = (double)NAN;
    if (m->session->timeline) {
        fill_kinds(m);
        fill_opcodes(m);
        m->bubble_s = bubble_s(m->session->timeline);
    }
    m->predicted_bubble_s = bubble_s(m->predicted_timeline);
    if (!m->compares)
        forget_predictions(m);
}

/* --- JSON --------------------------------------------------------------------------------- */

/* Writes null for NaN and infinity. */
static json_t *beside_json(const struct beside_seconds *at)
{
    return json_pack("{s:f, s:f, s:o}", "count", at->count, "measured_s", at->measured_s,
                     "predicted_s", finite_json(at->predicted_s));
}

static json_t *kinds_json(const struct measured *m)
{
    json_t *object = json_object();
    for (int kind = 0; kind < NUM_OP_KINDS; kind++)
        if (m->kinds[kind].count > 0)
            json_object_set_new(object, op_kind_infos[kind].text, beside_json(&m->kinds[kind]));
    return object;
}

static json_t *opcodes_json(const struct measured *m)
{
    json_t *object = json_object();
    for (int op = 0; op < NUM_OPCODES; op++)
        if (m->opcodes[op].count > 0)
            json_object_set_new(object, opcode_infos[op].text, beside_json(&m->opcodes[op]));
    return object;
}

static json_t *numbers_json(const double *values, int count)
{
    json_t *array = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(array, finite_json(values[i]));
    return array;
}

static json_t *skipped_json(const struct session_result *session)
{
    json_t *array = json_array();
    for (int i = 0; i < session->num_steps; i++)
        if (session->is_skipped[i])
            json_array_append_new(array, json_integer(session->first_step + i));
    return array;
}

static json_t *divergence_json(const struct divergence *divergence)
{
    struct err words = { 0 };
    if (divergence->kind == DIVERGENCE_NONE)
        return json_null();
    divergence_tell(divergence, &words);
    return json_pack("{s:I, s:i, s:s}", "step", (json_int_t)divergence->step, "rank",
                     divergence->rank, "sentence", words.msg);
}

static json_t *figures_json(double step_s, double p10_s, double p90_s, double peak_bytes,
                            double mfu, double idle_s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "step_s", finite_json(step_s), "step_s_p10",
                     finite_json(p10_s), "step_s_p90", finite_json(p90_s), "peak_memory_bytes",
                     number_json(peak_bytes), "mfu", finite_json(mfu), "bubble_s",
                     finite_json(idle_s));
}

static json_t *exchange_json(const struct measured *m)
{
    const struct exchanged_bytes *bytes = &m->session->exchanged;
    const char *changes = exchange_method_of(&m->setup->plan.exchange)->changes;
    return json_pack("{s:s?, s:f, s:o}", "changes", changes, "predicted_step_bytes", bytes->planned,
                     "measured_step_bytes", bytes->sent < 0 ? json_null() : json_real(bytes->sent));
}

/* The settings that affect the loss curve, and the shapes (rows, columns, count) of the first
 * stage's tensors. */
static json_t *training_json(const struct measured *m)
{
    const struct setup *setup = m->setup;
    struct arena arena = { 0 };
    struct stage_load first;
    struct pieces pieces = pieces_cost(&setup->system, &setup->model, &setup->plan, &arena);
    fill_stage_load(&setup->model, &setup->plan, &pieces, 0, 1, &first);
    json_t *tensors = json_array();
    for (int i = 0; i < first.load.num_tensors; i++) {
        const struct exchange_tensor *tensor = &first.load.tensors[i];
        json_array_append_new(tensors,
                              json_pack("[f,f,f]", tensor->rows, tensor->columns, tensor->count));
    }
    arena_release(&arena);
    return json_pack("{s:f, s:i, s:f, s:o}", "rate", m->rate, "data_ranks", setup->plan.dp,
                     "samples_per_rank", setup->model.batch / setup->plan.dp, "tensors", tensors);
}

static bool has_graphs(const struct pass_counts *passes)
{
    return passes->issued > 0;
}

static json_t *graphs_json(const struct pass_counts *passes)
{
    return has_graphs(passes)
               ? json_pack("{s:I, s:I, s:I}", "issued", (json_int_t)passes->issued, "captured",
                           (json_int_t)passes->captured, "replayed", (json_int_t)passes->replayed)
               : json_null();
}

/* A predicted time or rate; NaN when times are not compared. */
static double predicted(const struct measured *m, double value)
{
    return m->compares ? value : (double)NAN;
}

/* Number of hostile ranks that the plan's exchange tolerates; 0 if it averages the gradients. */
static int tolerated(const struct measured *m)
{
    const struct plan *plan = &m->setup->plan;
    bool is_mean = !exchange_method_of(&plan->exchange)->rule;
    return is_mean ? 0 : robust_hostile(&plan->exchange, plan->dp);
}

static json_t *hostile_json(const struct measured *m)
{
    const struct hostility *hostility = m->hostility;
    json_t *ranks = json_array();
    for (int i = 0; i < m->setup->plan.dp; i++)
        if (hostility_includes(hostility, m->seed, m->setup->plan.dp, i))
            json_array_append_new(ranks, json_integer(i));
    return json_pack("{s:s, s:f, s:o, s:i}", "sends", falsity_words[hostility->falsity], "strength",
                     hostility->strength, "data_ranks", ranks, "tolerated", tolerated(m));
}

void measured_print_json(const struct measured *m)
{
    const struct prediction *p = m->prediction;
    const struct session_result *session = m->session;
    int steps = m->session->num_steps;
    struct text layout = { 0 };
    plan_write(&m->setup->plan, &layout);
    json_t *object = json_object();
    json_object_set_new(object, "layout", json_string(text_get(&layout)));
    json_object_set_new(object, "backend", json_string(m->options->training.backend));
    json_object_set_new(object, "ranks", json_integer(m->num_ranks));
    json_object_set_new(object, "loss", numbers_json(session->losses, steps));
    json_object_set_new(object, "gradient_norm", numbers_json(session->gradient_norms, steps));
    json_object_set_new(object, "loss_scale", numbers_json(session->loss_scales, steps));
    json_object_set_new(object, "learning_rate", numbers_json(session->rates, steps));
    json_object_set_new(object, "skipped_steps", skipped_json(session));
    json_object_set_new(object, "diverged", divergence_json(&session->divergence));
    json_object_set_new(object, "training", training_json(m));
    json_object_set_new(object, "measured",
                        figures_json(m->step_s, m->step_p10_s, m->step_p90_s, session->peak_bytes,
                                     m->mfu, m->bubble_s));
    json_object_set_new(object, "predicted",
                        figures_json(predicted(m, p->step_s), predicted(m, p->step_low_s),
                                     predicted(m, p->step_high_s), p->peak_memory_bytes,
                                     predicted(m, p->mfu), m->predicted_bubble_s));
    json_object_set_new(object, "error", finite_json(m->error));
    json_object_set_new(object, "inside_interval",
                        m->compares ? json_boolean(m->is_inside) : json_null());
    json_object_set_new(object, "core_share",
                        session->core_share < 0 ? json_null() : json_real(session->core_share));
    json_object_set_new(object, "graphs", graphs_json(&session->passes));
    if (session->exchanged.planned > 0 || !exchange_is_default(&m->setup->plan.exchange))
        json_object_set_new(object, "exchange", exchange_json(m));
    if (m->hostility->count > 0)
        json_object_set_new(object, "hostile", hostile_json(m));
    json_object_set_new(object, "by_kind", kinds_json(m));
    json_object_set_new(object, "by_instruction", opcodes_json(m));
    json_object_set_new(object, "profile",
                        m->compares ? json_string(m->setup->system.profile.name) : json_null());
    json_object_set(object, "assumptions", m->setup->assumptions);
    print_json(object);
    json_decref(object);
    text_release(&layout);
}

/* --- text --------------------------------------------------------------------------------- */

/* Warns, before any time is shown, if other programs used the cores. */
static void show_core_share(const struct measured *m)
{
    double share = m->session->core_share;
    if (share >= 0 && share < quiet_core_share)
        printf("disturbed: a rank got only %.0f %% of a core while it was ready to compute; the "
               "times below depend on other programs\n",
               100 * share);
}

static bool varies(const double *values, int count)
{
    for (int i = 1; i < count; i++)
        if (values[i] != values[0])
            return true;
    return false;
}

/* Shows losses; also learning rates and loss scales, if they vary. */
static void show_losses(const struct measured *m)
{
    const struct session_result *session = m->session;
    int steps = session->num_steps, num_skipped = 0;
    bool has_rates = varies(session->rates, steps);
    bool has_scales = m->setup->plan.precision == PRECISION_FP16;
    printf("\n  step       loss   gradient norm%s%s\n", has_rates ? "    learning rate" : "",
           has_scales ? "   loss scale" : "");
    for (int i = 0; i < steps; i++) {
        num_skipped += session->is_skipped[i];
        if (steps > 12 && i >= 5 && i < steps - 5)
            continue;
        printf("  %4ld  %9.5f  %14.5g", session->first_step + i, fabs(session->losses[i]),
               fabs(session->gradient_norms[i])); /* drops the sign of a NaN */
        if (has_rates)
            printf("  %15.5g", session->rates[i]);
        if (has_scales)
            printf("  %11g", session->loss_scales[i]);
        printf("%s\n", session->is_skipped[i] ? "  skipped" : "");
    }
    if (num_skipped > 0)
        printf("  %d of %d steps skipped: gradients were not finite, and no weight was changed\n",
               num_skipped, steps);
}

/* Prints a predicted and a measured value, then a note. NaN stands for an unknown value. */
static void show_noted(const char *label, double predicted, double measured, const char *unit,
                       const char *note)
{
    if ((predicted <= 0 && measured <= 0) || !isfinite(measured))
        return;
    printf("  %-18s ", label);
    if (isfinite(predicted))
        printf("%12.4g ", predicted);
    else
        printf("%12s ", "-");
    printf("%12.4g %s", measured, unit);
    if (predicted > 0 && measured > 0)
        printf("   %+.1f %%", 100 * log(predicted / measured));
    printf("%s%s\n", *note ? "   " : "", note);
}

static void show_pair(const char *label, double predicted, double measured, const char *unit)
{
    show_noted(label, predicted, measured, unit, "");
}

static void show_interval(const struct measured *m)
{
    const struct prediction *p = m->prediction;
    if (m->compares && !m->is_inside && isfinite(m->step_s))
        printf("  the measured step lies outside the predicted 90 %% interval of %.4g to %.4g ms\n",
               1e3 * p->step_low_s, 1e3 * p->step_high_s);
}

static void show_whole(const struct measured *m)
{
    const struct prediction *p = m->prediction;
    printf("\n  %-18s %12s %12s       log(predicted / measured)\n", "", "predicted", "measured");
    show_pair("step time", 1e3 * predicted(m, p->step_s), 1e3 * m->step_s, "ms");
    show_interval(m);
    show_pair("MFU", 100 * predicted(m, p->mfu), 100 * m->mfu, "%");
    show_pair("peak memory", p->peak_memory_bytes / GIB, m->session->peak_bytes / GIB, "GiB");
    show_pair("bubble", 1e3 * m->predicted_bubble_s, 1e3 * m->bubble_s, "ms");
}

/* Shows how the exchange changes the mathematics. */
static void show_change(const struct measured *m)
{
    const struct exchange_method *method = exchange_method_of(&m->setup->plan.exchange);
    if (method->changes)
        printf("exchange=%s computes other updates than all-reduce: %s\n", method->name,
               method->changes);
}

static void show_hostile(const struct measured *m)
{
    const struct hostility *hostility = m->hostility;
    int data_ranks = m->setup->plan.dp, shown = 0;
    if (hostility->count == 0)
        return;
    printf("%d of %d data ranks are hostile (%s", hostility->count, data_ranks,
           falsity_words[hostility->falsity]);
    if (hostility->falsity != FALSITY_SILENCE)
        printf(" x %g", hostility->strength);
    printf("):");
    for (int i = 0; i < data_ranks; i++)
        if (hostility_includes(hostility, m->seed, data_ranks, i))
            printf("%s %d", shown++ > 0 ? "," : "", i);
    printf("; exchange=%s tolerates %d\n", exchange_method_of(&m->setup->plan.exchange)->name,
           tolerated(m));
}

static void show_exchanged(const struct measured *m)
{
    const struct exchanged_bytes *bytes = &m->session->exchanged;
    show_pair("sent in a step", bytes->planned / 1e6, fmax(0, bytes->sent) / 1e6, "MB");
}

static void show_table(const struct measured *m)
{
    printf("\n"
           "  %-18s %12s %12s     (ops of a step, summed over ranks; each op is timed alone)\n",
           "by kind", "predicted", "measured");
    for (int kind = 0; kind < NUM_OP_KINDS; kind++)
        if (m->kinds[kind].count > 0)
            show_pair(op_kind_infos[kind].text, 1e3 * m->kinds[kind].predicted_s,
                      1e3 * m->kinds[kind].measured_s, "ms");
    printf("\n"
           "  %-18s %12s %12s     (one rank per stage)\n",
           "by instruction", "predicted", "measured");
    for (int op = 0; op < NUM_OPCODES; op++)
        if (m->opcodes[op].count > 0)
            show_noted(opcode_infos[op].text, 1e3 * m->opcodes[op].predicted_s,
                       1e3 * m->opcodes[op].measured_s, "ms", opcode_infos[op].meaning);
}

static void show_graphs(const struct measured *m)
{
    const struct pass_counts *passes = &m->session->passes;
    if (has_graphs(passes) && !m->options->quiet)
        printf("passes of rank 0: %ld issued op by op, %ld captured, %ld launched as graphs\n",
               passes->issued, passes->captured, passes->replayed);
}

static void show_profile(const struct measured *m)
{
    const struct profile *profile = &m->setup->system.profile;
    const char *cluster = m->setup->system.cluster.name;
    if (m->compares)
        printf("predicted for %s (profile %s%s)", cluster, profile->name,
               profile->is_disturbed ? ", disturbed" : "");
    else
        printf("no predicted times: the ranks ran on CPU cores, but %s has GPUs; to get them, run "
               "`simsearch calibrate -o here.json`, then add --cluster here.json",
               cluster);
    if (m->session->num_timed > 0)
        printf("; steps took %.4g to %.4g ms (10th to 90th percentile)", 1e3 * m->step_p10_s,
               1e3 * m->step_p90_s);
    printf("\n");
}

void measured_show(const struct measured *m)
{
    struct text layout = { 0 };
    plan_write(&m->setup->plan, &layout);
    if (!m->options->quiet)
        printf("simsearch %s · ran %s on %d rank%s of the %s, %d steps, %d of them timed\n",
               SIMSEARCH_VERSION, text_get(&layout), m->num_ranks, m->num_ranks > 1 ? "s" : "",
               m->options->training.backend, m->session->num_steps, m->session->num_timed);
    text_release(&layout);
    if (!m->options->quiet)
        show_profile(m);
    show_core_share(m);
    show_graphs(m);
    show_change(m);
    show_hostile(m);
    show_losses(m);
    show_whole(m);
    show_exchanged(m);
    if (m->session->timeline)
        show_table(m);
}
