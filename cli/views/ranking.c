/* Prints the table of the plans that a search found, and why they differ. */
#include "cli/views/ranking.h"

#include "cli/input/rerun.h"
#include "cli/print/apportion.h"
#include "cli/print/scale.h"
#include "cli/views/breakdown.h"
#include "cli/views/chances_view.h"
#include "cli/views/goodput_view.h"
#include "cli/views/remedy_view.h"
#include "cli/views/searched.h"
#include "cli/views/show.h"
#include "cli/views/uneven_view.h"
#include "cli/views/what_if.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- the table ---------------------------------------------------------------------------- */

static void add_recompute_word(const struct plan *plan, struct text *out)
{
    if (plan->recompute == RECOMPUTE_EVERY)
        text_add(out, "full:%d", plan->recompute_every);
    else if (plan->recompute == RECOMPUTE_BLOCK)
        text_add(out, "block");
    else if (plan->recompute == RECOMPUTE_SHARE)
        text_add(out, "block-share:%g", plan->recompute_share);
    else if (plan->recompute == RECOMPUTE_SELECTIVE)
        plan_write_selective(plan, out);
    else
        text_add(out, "%s", recompute_names[plan->recompute]);
}

/* The columns that only some rankings need, and the width of the recompute column. */
struct columns {
    bool with_context;
    bool with_experts;
    bool with_expert_tensor;
    int recompute_width;
};

static struct columns columns_of(const struct search_result *result)
{
    struct columns columns = { .recompute_width = 10 };
    for (int i = 0; i < result->num_top; i++) {
        const struct plan *plan = &result->top[i].plan;
        struct text recompute = { 0 };
        add_recompute_word(plan, &recompute);
        columns.with_context |= plan->cp > 1;
        columns.with_experts |= plan->ep > 1;
        columns.with_expert_tensor |= plan->etp > 1;
        int width = (int)strlen(text_get(&recompute));
        if (width > columns.recompute_width)
            columns.recompute_width = width;
        text_release(&recompute);
    }
    return columns;
}

static void show_row(const struct terminal *terminal, int number, const struct scored_plan *row,
                     int alike, struct columns columns, struct time_scale scale)
{
    const struct plan *plan = &row->plan;
    const struct prediction *p = &row->prediction;
    int bottleneck = bottleneck_of(&p->time);
    struct text recompute = { 0 }, tensor = { 0 }, others = { 0 };
    add_recompute_word(plan, &recompute);
    text_add(&tensor, "%d%s", plan->tp, plan->sp ? "+SP" : "");
    printf("  %s%3d %6s %4d %4d %5d", number == 1 ? terminal_bold(terminal) : "", number,
           text_get(&tensor), plan->pp, plan->vpp, plan->dp);
    if (columns.with_context)
        printf(" %3d", plan->cp);
    if (columns.with_experts)
        printf(" %3d", plan->ep);
    if (columns.with_expert_tensor)
        printf(" %3d", plan->etp);
    if (alike > 0)
        text_add(&others, "   +%d alike", alike);
    printf(" %4d %5d  %-*s %8.*f %5.1f %6.1f  %s %.1f %%%s%s\n", plan->zero, plan->microbatch,
           columns.recompute_width, text_get(&recompute), scale.decimals, p->step_s * scale.per_s,
           100 * p->mfu, p->peak_memory_bytes / GIB, time_part_table[bottleneck].label,
           100 * time_part_s(&p->time, bottleneck) / p->step_s, text_get(&others),
           number == 1 ? terminal_plain(terminal) : "");
    text_release(&others);
    text_release(&recompute);
    text_release(&tensor);
}

/* Number of plans at the top of the ranking whose 90 % interval overlaps that of plan #1. */
static int num_within_interval(const struct search_result *result)
{
    int count = 0;
    while (count < result->num_top &&
           result->top[count].prediction.step_low_s <= result->top[0].prediction.step_high_s)
        count++;
    return count;
}

static void show_table(const struct terminal *terminal, const struct ranking *ranking, bool by_time)
{
    const struct search_result *result = ranking->result;
    bool any_alike = false;
    struct time_scale scale = time_scale_of(result->top[0].prediction.step_s);
    struct columns columns = columns_of(result);
    char title[16];
    snprintf(title, sizeof title, "step %s", scale.unit);
    printf(
        "\n    #     TP   PP  VPP    DP%s%s%s ZeRO micro  %-*s %8s   MFU    GiB  besides compute\n",
        columns.with_context ? "  CP" : "", columns.with_experts ? "  EP" : "",
        columns.with_expert_tensor ? " ETP" : "", columns.recompute_width, "recompute", title);
    for (int i = 0; i < result->num_top; i++)
        show_row(terminal, i + 1, &result->top[i], ranking->kinds->alike[i], columns, scale);
    for (int i = 0; i < result->num_top; i++)
        any_alike |= ranking->kinds->alike[i] > 0;
    if (any_alike)
        printf(
            "  +N alike: N more of the best %d plans have the row's TP, CP,%s PP and micro-batch\n",
            ranking->kinds->of, columns.with_experts ? " EP," : "");
    if (!by_time)
        return;
    int close = num_within_interval(result);
    if (close == result->num_top && close == 2)
        printf("  Both lie within each other's intervals: measure them before you choose.\n");
    else if (close == result->num_top && close > 1)
        printf("  All %d lie within each other's intervals: measure them before you choose.\n",
               close);
    else if (close > 1)
        printf(
            "  The first %d lie within each other's intervals: measure them before you choose.\n",
            close);
}

/* --- differences -------------------------------------------------------------------------- */

static void add_signed(const struct terminal *terminal, double value, int decimals,
                       struct text *out)
{
    text_add(out, "%s%.*f", value < 0 ? terminal_minus(terminal) : "+", decimals, fabs(value));
}

/* Index of the term with the largest absolute value; -1: all terms are zero. */
static int take_largest(double *units, int count)
{
    int largest = -1;
    for (int i = 0; i < count; i++)
        if (units[i] != 0 && (largest < 0 || fabs(units[i]) > fabs(units[largest])))
            largest = i;
    return largest;
}

/* Shows the terms, largest first. The printed terms sum exactly to the printed total. */
static void show_terms(const struct terminal *terminal, const struct prediction *a,
                       const struct prediction *b, struct time_scale scale)
{
    enum { MOST_PARTS = 32 };
    int decimals = scale.decimals + 1, largest;
    int count = num_time_parts < MOST_PARTS ? num_time_parts : MOST_PARTS;
    double parts[MOST_PARTS], units[MOST_PARTS], unit = pow(10, -decimals), sum = 0;
    struct text line = { 0 };
    for (int i = 0; i < count; i++)
        parts[i] = (time_part_s(&a->time, i) - time_part_s(&b->time, i)) * scale.per_s;
    apportion(parts, count, unit, units);
    while ((largest = take_largest(units, count)) >= 0) {
        text_add(&line, "%s%s ", line.length > 0 ? terminal_dot(terminal) : "",
                 time_part_table[largest].label);
        add_signed(terminal, units[largest] * unit, decimals, &line);
        sum += units[largest];
        units[largest] = 0;
    }
    text_add(&line, "%s", line.length > 0 ? " = " : "");
    add_signed(terminal, sum * unit, decimals, &line);
    text_add(&line, " %s; memory ", scale.unit);
    add_signed(terminal, (a->peak_memory_bytes - b->peak_memory_bytes) / GIB, 1, &line);
    text_add(&line, " GiB");
    printf("    %s\n", text_get(&line));
    text_release(&line);
}

static void show_why(const struct terminal *terminal, const struct search_result *result)
{
    if (result->num_top < 2)
        return;
    struct text first = { 0 }, second = { 0 };
    const struct scored_plan *top = result->top;
    plan_write(&top[0].plan, &first);
    plan_write(&top[1].plan, &second);
    printf("\n  why #1 and not #2   %s  instead of  %s\n", text_get(&first), text_get(&second));
    show_terms(terminal, &top[0].prediction, &top[1].prediction,
               time_scale_of(top[0].prediction.step_s));
    text_release(&first);
    text_release(&second);
}

/* Shows the changes with which the compared layout would fit, if it does not fit. */
static void show_remedies(const struct terminal *terminal, const struct setup *setup,
                          const struct search_result *result, const struct plan *plan)
{
    struct text words = { 0 };
    add_remedies_words(setup, plan, result->planned_bytes, terminal_dot(terminal), &words);
    if (words.length > 0)
        printf("    it fits with %s\n", text_get(&words));
    text_release(&words);
}

static void show_comparison(const struct terminal *terminal, const struct setup *setup,
                            const struct search_result *result, const struct comparison *comparison)
{
    const struct standing *rank = comparison->rank;
    if (!rank)
        return;
    struct text layout = { 0 }, place = { 0 };
    plan_write(&rank->plan.plan, &layout);
    printf("\n  compared  %s\n", text_get(&layout));
    text_release(&layout);
    if (comparison->left_out)
        printf(
            "    was faster than every plan of the requested space: its degrees were added to the "
            "space, and the search was repeated\n");
    if (!rank->is_valid) {
        printf("    breaks a rule: %s\n", comparison->reason);
        return;
    }
    const struct prediction *p = &rank->plan.prediction;
    if (plan_equal(&rank->plan.plan, &result->top[0].plan)) {
        printf("    it is #1\n");
        return;
    }
    if (p->fits && rank->rank > 0) {
        add_count(&place, rank->rank);
        text_add(&place, " of ");
        add_count(&place, rank->of);
        printf("    rank %s plans that fit, ", text_get(&place));
        if (result->oom_risk > 0 && p->p_oom > result->oom_risk)
            printf("tight: P(out of memory) %s, ", risk_words(p->p_oom).text);
    } else if (!p->fits) {
        printf("    does not fit: needs %.1f GiB on stage %d. With enough memory: ",
               p->peak_memory_bytes / GIB, p->peak_stage);
    } else {
        printf("    ");
    }
    text_release(&place);
    struct time_scale scale = time_scale_of(p->step_s);
    printf("%.*f %s, %.1f %% %s than #1. #1 minus this layout:\n", scale.decimals,
           p->step_s * scale.per_s, scale.unit, 100 * fabs(rank->lost_share),
           rank->lost_share >= 0 ? "slower" : "faster");
    show_terms(terminal, &result->top[0].prediction, p, scale);
    if (!p->fits)
        show_remedies(terminal, setup, result, &rank->plan.plan);
}

/* --- the whole table ---------------------------------------------------------------------- */

static void show_next(const struct options *options, const struct setup *setup,
                      const struct search_result *result)
{
    struct text again = { 0 }, layout = { 0 }, search = { 0 };
    add_case_options(options, setup, &again);
    add_search_options(options, &search);
    plan_write(&result->top[0].plan, &layout);
    const char *target =
        options->calibration.for_model ? options->calibration.for_model : "megatron";
    if (options->output)
        printf("\nnext  simsearch explain %s\n      simsearch simulate %s --schedule-text\n"
               "      simsearch export %s --to %s -o plan\n",
               options->output, options->output, options->output, target);
    else if (options->search.largest) /* the model may have no name */
        printf("\nnext  simsearch %s%s -o plan.json\n", text_get(&again), text_get(&search));
    else
        printf("\nnext  simsearch explain %s --layout \"%s\"\n      simsearch %s%s -o plan.json\n"
               "      simsearch export plan.json --to %s -o plan\n",
               text_get(&again), text_get(&layout), text_get(&again), text_get(&search), target);
    text_release(&search);
    text_release(&again);
    text_release(&layout);
}

void show_ranking(const struct options *options, const struct setup *setup,
                  const struct ranking *ranking)
{
    struct terminal terminal = terminal_of_stdout();
    const struct search_result *result = ranking->result;
    if (!options->quiet) {
        show_header(&terminal, setup);
        show_searched(result);
    }
    if (!options->quiet || !result->proved_optimal)
        show_proof(result);
    show_plan(&terminal, setup, "BEST PLAN", &result->top[0].plan, &result->top[0].prediction,
              options->verbose);
    show_table(&terminal, ranking, options->search.objective == OBJECTIVE_TIME);
    if (options->search.objective == OBJECTIVE_TIME)
        show_chances(&setup->system, result);
    show_finalists(ranking->finalists);
    show_even_best(setup, result);
    show_comparison(&terminal, setup, result, ranking->comparison);
    show_robustness(ranking->robust);
    show_region(ranking->region);
    if (ranking->tight)
        show_tight(ranking->tight, &result->top[0]);
    show_nearby_requests(setup, &result->top[0].prediction, ranking->nearby);
    if (!options->quiet) {
        show_why(&terminal, result);
        show_tipping_point(ranking->tipping, result);
        show_wider(ranking->wider);
        show_what_if(&terminal, setup, &result->top[0]);
    }
    show_goodput(&terminal, setup, &result->top[0].plan, &result->top[0].prediction);
    if (!options->quiet)
        show_next(options, setup, result);
}
