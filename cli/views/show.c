/* Prints a plan and its prediction as text. */
#include "cli/views/show.h"

#include "base/units.h"
#include "cli/input/command.h"
#include "cli/input/rerun.h"
#include "cli/print/scale.h"
#include "cli/timeline/gantt.h"
#include "cli/views/answer.h"
#include "cli/views/breakdown.h"
#include "cli/views/goodput_view.h"
#include "cli/views/idle_view.h"
#include "cli/views/remedy_view.h"
#include "sim/campaign/time_to_accuracy.h"
#include "sim/engine/tier.h"
#include "sim/plan/state_share.h"

#include <math.h>
#include <stdio.h>

static void show_assumptions(const struct setup *setup)
{
    for (size_t i = 0; i < json_array_size(setup->assumptions); i++)
        printf("%s %s\n", i == 0 ? "assumed:" : "        ",
               json_string_value(json_array_get(setup->assumptions, i)));
}

/* Where the profile's rates of matrix products come from, or "disturbed". Matrix products dominate
 * the step time. */
static const char *profile_word(const struct profile *profile)
{
    return profile->is_disturbed ? "disturbed" : profile->provenance.products;
}

void show_header(const struct terminal *terminal, const struct setup *setup)
{
    const struct model *model = &setup->model;
    const struct system *system = &setup->system;
    const char *dot = terminal_dot(terminal);
    char parameters[32], active[64] = "";
    char kinds[32] = "";
    units_show_count(model_parameters(model), parameters, sizeof parameters);
    if (model_active_parameters(model) != model_parameters(model)) {
        char count[32];
        units_show_count(model_active_parameters(model), count, sizeof count);
        snprintf(active, sizeof active, ", %s active", count);
    }
    if (model_num_kinds(model) > 1)
        snprintf(kinds, sizeof kinds, " of %d kinds", model_num_kinds(model));
    printf("simsearch %s%smodel %s (%s parameters%s, %d layers%s, hidden %d, seq %d)%sbatch "
           "%.0f%s%s\n",
           SIMSEARCH_VERSION, dot, model->name, parameters, active, model->layers, kinds,
           model->hidden, model->seq, dot, model->batch, dot,
           precision_names[setup->plan.precision]);
    printf("on %d %s %s in %s (profile %s)%sstack %s\n", system->num_gpus, terminal_times(terminal),
           system->gpu.name, system->cluster.name, profile_word(&system->profile), dot,
           system->stack.name);
    show_assumptions(setup);
}

static void add_degree(struct text *out, const char *dot, const char *name, int degree)
{
    if (degree > 1)
        text_add(out, "%s%s %d", out->length > 0 ? dot : "", name, degree);
}

static void add_recompute(struct text *out, const char *dot, const struct plan *plan)
{
    switch ((enum recompute)plan->recompute) {
    case RECOMPUTE_NONE:
        text_add(out, "%sno recompute", dot);
        break;
    case RECOMPUTE_SELECTIVE:
        text_add(out, "%s", dot);
        plan_write_selective(plan, out);
        text_add(out, " recompute");
        break;
    case RECOMPUTE_FULL:
        text_add(out, "%sfull recompute", dot);
        break;
    case RECOMPUTE_EVERY:
        text_add(out, "%sfull recompute, a checkpoint every %d layers", dot, plan->recompute_every);
        break;
    case RECOMPUTE_BLOCK:
    case RECOMPUTE_SHARE:
        text_add(out, "%sfull recompute of some layers", dot);
        break;
    }
}

void add_plan_words(const struct terminal *terminal, const struct plan *plan, int num_microbatches,
                    struct text *out)
{
    const char *dot = terminal_dot(terminal);
    struct text words = { 0 };
    if (plan->tp > 1)
        text_add(&words, "TP %d%s", plan->tp, plan->sp ? "+SP" : "");
    add_degree(&words, dot, "CP", plan->cp);
    add_degree(&words, dot, "EP", plan->ep);
    add_degree(&words, dot, "PP", plan->pp);
    add_degree(&words, dot, "VPP", plan->vpp);
    text_add(&words, "%sDP %d", words.length > 0 ? dot : "", plan->dp);
    if (plan_cuts(plan, STATE_OPTIMIZER))
        text_add(&words, " (ZeRO-%d", plan->zero);
    if (plan_repeats_shares(plan))
        text_add(&words, " over %d", plan_shards(plan));
    if (plan_cuts(plan, STATE_OPTIMIZER))
        text_add(&words, ")");
    text_add(&words, "%smicro-batch %d %s %d", dot, plan->microbatch, terminal_times(terminal),
             num_microbatches);
    add_recompute(&words, dot, plan);
    text_add(out, "%s", text_get(&words));
    text_release(&words);
}
/* --- summary of one plan ----------------------------------------------------------------- */

static void show_row(const struct terminal *terminal, const char *name, const char *text)
{
    printf("  %s%-10s%s  %s\n", terminal_dim(terminal), name, terminal_plain(terminal), text);
}

static void add_interval(struct text *out, const struct setup *setup,
                         const struct prediction *prediction, struct time_scale scale)
{
    const struct profile *profile = &setup->system.profile;
    text_add(out, "(90 %% interval %.*f to %.*f %s, ", scale.decimals,
             prediction->step_low_s * scale.per_s, scale.decimals,
             prediction->step_high_s * scale.per_s, scale.unit);
    text_add(out, "profile %s", profile_word(profile));
    if (profile->measured) /* if log errors are normal with mean 0, half of them are below 0.41
                              times the half width of the 90 % interval */
        text_add(out, ", typical error %.1f %%",
                 100 * 0.41 * log(prediction->step_high_s / prediction->step_s));
    text_add(out, ")");
}

static void show_step(const struct terminal *terminal, const struct setup *setup,
                      const struct prediction *prediction)
{
    struct time_scale scale = time_scale_of(prediction->step_s);
    struct text line = { 0 };
    char rate[32], tier[200];
    units_show_count(prediction->tokens_per_s, rate, sizeof rate);
    text_add(&line, "%s%.*f %s%s  ", terminal_bold(terminal), scale.decimals,
             prediction->step_s * scale.per_s, scale.unit, terminal_plain(terminal));
    add_interval(&line, setup, prediction, scale);
    text_add(&line, "%s%s tokens/s", terminal_dot(terminal), rate);
    show_row(terminal, "step time", text_get(&line));
    text_release(&line);
    tier_sentence(&setup->system, &setup->model, tier, sizeof tier);
    show_row(terminal, "measured", tier);
}

static void add_budget(struct text *out, const struct setup *setup,
                       const struct prediction *prediction)
{
    double days = days_to_train(setup, prediction);
    double dollars = dollars_to_train(setup, prediction);
    char tokens[32], price[32];
    if (!(days > 0))
        return;
    units_show_count(setup->model.tokens, tokens, sizeof tokens);
    text_add(out, "%s tokens in %.*f days", tokens, days < 100 ? 1 : 0, days);
    if (!(dollars > 0))
        return;
    units_show_count(dollars, price, sizeof price);
    text_add(out, " for %s $ at %.2f $/h per GPU", price, setup->system.cluster.price_per_gpu_h);
}

static void show_rates(const struct terminal *terminal, const struct setup *setup,
                       const struct plan *plan, const struct prediction *prediction)
{
    enum dtype dtype = precision_dtype(plan->precision);
    struct text line = { 0 }, budget = { 0 };
    char peak[32];
    units_show(setup->system.gpu.peak_flops_per_s[dtype], QUANTITY_FLOPS_PER_S, peak, sizeof peak);
    text_add(&line, "%.1f %% of %s dense %s", 100 * prediction->mfu, peak, dtype_names[dtype]);
    if (prediction->hfu > prediction->mfu + 0.005)
        text_add(&line, " (HFU %.1f %%)", 100 * prediction->hfu);
    add_budget(&budget, setup, prediction);
    if (budget.length > 0)
        text_add(&line, "%s%s", terminal_dot(terminal), text_get(&budget));
    show_row(terminal, "MFU", text_get(&line));
    text_release(&line);
    text_release(&budget);
}

/* If the updates of the exchange differ from those of all-reduce, shows how long the plan trains to
 * reach the loss of all-reduce. */
static void show_accuracy(const struct terminal *terminal, const struct setup *setup,
                          const struct plan *plan, const struct prediction *prediction)
{
    if (!exchange_method_of(&plan->exchange)->changes || setup->model.tokens <= 0)
        return;
    struct time_to_accuracy to = time_to_accuracy(&setup->convergence.convergence, &setup->system,
                                                  &setup->model, plan, prediction->step_s);
    struct text line = { 0 };
    char time[40], most[40], steps[32], own[32];
    units_show_duration(to.seconds, time, sizeof time);
    units_show_duration(to.most_seconds, most, sizeof most);
    units_show_count(to.all_reduce_steps, own, sizeof own);
    units_show_count(to.steps, steps, sizeof steps);
    if (to.basis == STEPS_BOUND && isfinite(to.steps))
        text_add(&line,
                 "at most %s until the loss that all-reduce reaches in %s steps; no published run "
                 "shows that fewer steps suffice, so this is the worst case in theory, %s steps, "
                 "with the constants of %s",
                 most, own, steps, setup_convergence_name(setup));
    else if (isfinite(to.steps))
        text_add(&line,
                 "%s until the loss that all-reduce reaches in %s steps; this exchange takes %s "
                 "steps (%s); in the worst case in theory, %s",
                 time, own, steps, *to.source ? to.source : "it computes the same sums", most);
    else if (to.gradient_error > 0)
        text_add(&line,
                 "no bound: the squared error of each aggregated gradient is up to %.3g times the "
                 "variance of the honest ranks' gradients (Allouah et al. 2023); with a plain mean "
                 "it is 1/%d of that variance",
                 to.gradient_error, plan->dp);
    else
        text_add(&line,
                 "never, because discarded parts of gradients keep training away from the optimum");
    show_row(terminal, "accuracy", text_get(&line));
    text_release(&line);
}

/* If the probability of running out of memory is above this value, an answer warns, and a search by
 * default does not recommend the plan. Megatron-LM's pull request 6429 measured a step of 17 s
 * instead of about 2.3 s with 70.3 of 80 GB allocated. */
static const double tight_risk = 0.05;

/* Shows the changes with which a plan that does not fit would fit. */
static void show_remedies(const struct terminal *terminal, const struct setup *setup,
                          const struct plan *plan)
{
    struct text line = { 0 };
    add_remedies_words(setup, plan, remedy_usual_bytes(setup), terminal_dot(terminal), &line);
    if (line.length > 0)
        show_row(terminal, "fits with", text_get(&line));
    text_release(&line);
}

static void show_peak(const struct terminal *terminal, const struct setup *setup,
                      const struct plan *plan, const struct prediction *prediction)
{
    double capacity = setup->memory_bytes;
    double margin = capacity - prediction->peak_memory_bytes;
    struct text line = { 0 };
    text_add(&line, "%.1f of %.1f GiB", prediction->peak_memory_bytes / GIB, capacity / GIB);
    if (prediction->num_stages > 1)
        text_add(&line, " on stage %d (heaviest)", prediction->peak_stage);
    if (margin >= 0)
        text_add(&line, "%smargin %.1f GiB%sP(out of memory) %s", terminal_dot(terminal),
                 margin / GIB, terminal_dot(terminal), risk_words(prediction->p_oom).text);
    else
        text_add(&line, "%s%sDOES NOT FIT: lacks %.1f GiB%s", terminal_dot(terminal),
                 terminal_bold(terminal), -margin / GIB, terminal_plain(terminal));
    show_row(terminal, "memory", text_get(&line));
    if (margin >= 0 && prediction->p_oom > tight_risk)
        show_row(terminal, "tight",
                 "PyTorch's allocator may have to free its cache and retry, which makes steps "
                 "several times slower");
    if (margin < 0)
        show_remedies(terminal, setup, plan);
    text_release(&line);
}

/* Shows the idle times of all stages, because the parts of the step printed below are those of the
 * busiest stage. */
static void show_idle(const struct terminal *terminal, const struct setup *setup,
                      const struct plan *plan, double step_s, bool all_stages)
{
    struct text line = { 0 };
    idle_add_words(&line, setup, plan, step_s, all_stages);
    if (line.length > 0)
        show_row(terminal, "idle", text_get(&line));
    text_release(&line);
}

void show_plan(const struct terminal *terminal, const struct setup *setup, const char *title,
               const struct plan *plan, const struct prediction *prediction, bool all_stages)
{
    struct text words = { 0 }, layout = { 0 };
    add_plan_words(terminal, plan, prediction->num_microbatches, &words);
    plan_write(plan, &layout);
    printf("\n  %s%-10s  %s%s\n", terminal_bold(terminal), title, text_get(&words),
           terminal_plain(terminal));
    show_row(terminal, "layout", text_get(&layout));
    show_step(terminal, setup, prediction);
    show_rates(terminal, setup, plan, prediction);
    show_accuracy(terminal, setup, plan, prediction);
    show_peak(terminal, setup, plan, prediction);
    show_idle(terminal, setup, plan, prediction->step_s, all_stages);
    printf("\n");
    show_breakdown(terminal, setup->memory_bytes, prediction, all_stages);
    text_release(&words);
    text_release(&layout);
}

/* Prints commands that the user may run next. */
static void show_next(const struct options *options, const struct setup *setup)
{
    const char *file = options->num_files > 0 ? options->files[0] : options->output;
    struct text next = { 0 }, export = { 0 }, layout = { 0 };
    plan_write(&setup->plan, &layout);
    add_case_options(options, setup, &next);
    printf("\nnext  simsearch %s\n", text_get(&next));
    if (file)
        printf("      simsearch explain %s\n      simsearch export %s --to megatron -o plan\n",
               file, file);
    else
        printf("      simsearch explain %s --layout \"%s\"\n", text_get(&next), text_get(&layout));
    if (!file && add_export_options(options, setup, &export))
        printf("      simsearch export %s --layout \"%s\" --to megatron -o plan\n",
               text_get(&export), text_get(&layout));
    text_release(&next);
    text_release(&export);
    text_release(&layout);
}

void show_simulation(const struct options *options, const struct setup *setup,
                     const struct prediction *prediction, const struct event_step *events,
                     const struct drawn_steps *drawn)
{
    struct terminal terminal = terminal_of_stdout();
    if (!options->quiet)
        show_header(&terminal, setup);
    show_plan(&terminal, setup, "PLAN", &setup->plan, prediction, options->verbose);
    if (events)
        show_event_step(&terminal, events, prediction->step_s);
    if (drawn)
        show_drawn_steps(&terminal, drawn, prediction->step_s);
    if (events && options->gantt)
        show_gantt(&terminal, events->timeline);
    show_goodput(&terminal, setup, &setup->plan, prediction);
    if (!options->quiet)
        show_next(options, setup);
}
