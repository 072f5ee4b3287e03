#include "cli/show.h"

#include "base/units.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/gantt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GIB 0x1p30

enum { BAR_WIDTH = 28, MEMORY_WIDTH = 24, LEFT_WIDTH = 58, BOTH_WIDTH = 104, FEW_STAGES = 8 };

struct time_scale time_scale_of(double step_s)
{
    double per_s = step_s >= 0.9995 ? 1 : step_s >= 0.9995e-3 ? 1e3 : 1e6;
    double shown = step_s * per_s;
    return (struct time_scale){
        .per_s = per_s,
        .unit = per_s > 1e3 ? "us"
                : per_s > 1 ? "ms"
                            : "s",
        .decimals = shown < 9.995   ? 2
                    : shown < 999.5 ? 1
                                    : 0,
    };
}

static void show_assumptions(const struct setup *setup)
{
    for (size_t i = 0; i < json_array_size(setup->assumptions); i++)
        printf("%s %s\n", i == 0 ? "assumed:" : "        ",
               json_string_value(json_array_get(setup->assumptions, i)));
}

void show_header(const struct terminal *terminal, const struct setup *setup)
{
    const struct model *model = &setup->model;
    const struct system *system = &setup->system;
    const char *dot = terminal_dot(terminal);
    char parameters[32];
    units_show_count(model_parameters(model), parameters, sizeof parameters);
    printf("simsearch %s%smodel %s (%s parameters, %d layers, hidden %d, seq %d)%sbatch %.0f%s%s\n",
           SIMSEARCH_VERSION, dot, model->name, parameters, model->layers, model->hidden,
           model->seq, dot, model->batch, dot, precision_names[setup->plan.precision]);
    printf("on %d %s %s in %s (profile %s)%sstack %s\n", system->num_gpus, terminal_times(terminal),
           system->gpu.name, system->cluster.name,
           system->profile.measured ? "calibrated" : "NOT calibrated", dot, system->stack.name);
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
        text_add(out, "%sselective recompute", dot);
        break;
    case RECOMPUTE_FULL:
        text_add(out, "%sfull recompute", dot);
        break;
    case RECOMPUTE_EVERY:
        text_add(out, "%sfull recompute, a checkpoint every %d layers", dot, plan->recompute_every);
        break;
    case RECOMPUTE_BLOCK:
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
    if (plan->zero > 0)
        text_add(&words, " (ZeRO-%d", plan->zero);
    if (plan->zero > 0 && plan_shards(plan) != plan_replicas(plan))
        text_add(&words, " over %d", plan_shards(plan));
    if (plan->zero > 0)
        text_add(&words, ")");
    text_add(&words, "%smicro-batch %d %s %d", dot, plan->microbatch, terminal_times(terminal),
             num_microbatches);
    add_recompute(&words, dot, plan);
    text_add(out, "%s", text_get(&words));
    text_release(&words);
}

/* In quotes when a shell would split it. */
static void add_option(struct text *out, const char *name, const char *value)
{
    if (!value)
        return;
    bool quote = strpbrk(value, " \t$&;|<>()*?'\"\\`") != NULL;
    text_add(out, " %s %s%s%s", name, quote ? "'" : "", value, quote ? "'" : "");
}

static const char *name_of(const char *const *names, int index)
{
    return index >= 0 ? names[index] : NULL;
}

void add_case_options(const struct options *options, const struct setup *setup, struct text *out)
{
    text_add(out, "--gpus %d", setup->system.num_gpus);
    add_option(out, "--model", options->model ? options->model : setup->model.name);
    if (options->num_files > 0 && !options->cluster && !options->gpu)
        add_option(out, "--cluster", setup->system.cluster.name);
    add_option(out, "--cluster", options->cluster);
    add_option(out, "--gpu", options->gpu);
    add_option(out, "--stack", options->stack);
    add_option(out, "--batch", options->batch);
    if (options->seq)
        text_add(out, " --seq %d", options->seq);
    add_option(out, "--precision", name_of(precision_names, options->precision));
    add_option(out, "--optimizer", name_of(optimizer_names, options->optimizer));
}

/* --- the few lines that say it all ------------------------------------------------------- */

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
    if (!profile->measured)
        text_add(out, "profile NOT calibrated)");
    else /* the error is the interval's half width; half of all errors are within 0.41 of it */
        text_add(out, "profile calibrated, typical error %.1f %%)",
                 100 * (exp(0.41 * system_error_log(&setup->system)) - 1));
}

static void show_step(const struct terminal *terminal, const struct setup *setup,
                      const struct prediction *prediction)
{
    struct time_scale scale = time_scale_of(prediction->step_s);
    struct text line = { 0 };
    char rate[32];
    units_show_count(prediction->tokens_per_s, rate, sizeof rate);
    text_add(&line, "%s%.*f %s%s  ", terminal_bold(terminal), scale.decimals,
             prediction->step_s * scale.per_s, scale.unit, terminal_plain(terminal));
    add_interval(&line, setup, prediction, scale);
    text_add(&line, "%s%s tokens/s", terminal_dot(terminal), rate);
    show_row(terminal, "step time", text_get(&line));
    text_release(&line);
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
    enum dtype dtype = precision_dtype((enum precision)plan->precision);
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

static void show_peak(const struct terminal *terminal, const struct setup *setup,
                      const struct prediction *prediction)
{
    double capacity = setup->memory_bytes;
    double margin = capacity - prediction->peak_memory_bytes;
    struct text line = { 0 };
    text_add(&line, "%.1f of %.1f GiB", prediction->peak_memory_bytes / GIB, capacity / GIB);
    if (prediction->num_stages > 1)
        text_add(&line, " on stage %d (heaviest)", prediction->peak_stage);
    if (margin >= 0)
        text_add(&line, "%smargin %.1f GiB", terminal_dot(terminal), margin / GIB);
    else
        text_add(&line, "%s%sDOES NOT FIT: lacks %.1f GiB%s", terminal_dot(terminal),
                 terminal_bold(terminal), -margin / GIB, terminal_plain(terminal));
    show_row(terminal, "memory", text_get(&line));
    text_release(&line);
}

/* --- where time and memory go ------------------------------------------------------------ */

enum { MAX_LINES = 4096 };

/* Lines that are shown beside others. */
struct block {
    struct text *lines;
    int count;
};

static struct text *add_line(struct block *block, struct arena *arena)
{
    if (!block->lines)
        block->lines = ARENA_ARRAY(arena, struct text, MAX_LINES);
    return &block->lines[block->count++];
}

static void block_release(struct block *block)
{
    for (int i = 0; i < block->count; i++)
        text_release(&block->lines[i]);
}

enum { MOST_PARTS = 32 };

/* Longest first, equal ones in the table's order; without those of `least_s` or less. */
static int sort_parts(const struct time_parts *time, double least_s, int order[MOST_PARTS])
{
    int count = 0;
    for (int i = 0; i < num_time_parts && i < MOST_PARTS; i++) {
        double part_s = time_part_s(time, i);
        int at = count;
        if (!(part_s > least_s))
            continue;
        for (; at > 0 && time_part_s(time, order[at - 1]) < part_s; at--)
            order[at] = order[at - 1];
        order[at] = i;
        count++;
    }
    return count;
}

int bottleneck_of(const struct time_parts *time)
{
    int order[MOST_PARTS];
    int count = sort_parts(time, 0, order);
    for (int i = 0; i < count; i++)
        if (strcmp(time_part_table[order[i]].name, "compute_s") != 0)
            return order[i];
    return 0;
}

static struct block time_block(const struct terminal *terminal, const struct prediction *p,
                               struct arena *arena)
{
    struct block block = { 0 };
    struct time_scale scale = time_scale_of(p->step_s);
    int order[MOST_PARTS];
    int count = sort_parts(&p->time, 5e-4 * p->step_s, order);
    double longest_s = count > 0 ? time_part_s(&p->time, order[0]) : 1;
    text_add(add_line(&block, arena), "where the %.*f %s go", scale.decimals,
             p->step_s * scale.per_s, scale.unit);
    for (int i = 0; i < count; i++) {
        double part_s = time_part_s(&p->time, order[i]);
        struct text *line = add_line(&block, arena);
        struct text bar = { 0 };
        terminal_add_bar(terminal, part_s / longest_s, BAR_WIDTH, &bar);
        text_add(line, "%-17s%6.*f ", time_part_table[order[i]].label, scale.decimals,
                 part_s * scale.per_s);
        text_add_padded(line, text_get(&bar), BAR_WIDTH);
        text_add(line, "%5.1f%%", 100 * part_s / p->step_s);
        text_release(&bar);
    }
    return block;
}

/* What a bar of memory is made of, from the left. */
struct memory_share {
    double bytes;
    const char *utf8, *ascii;
};

static void add_memory_bar(const struct terminal *terminal, const struct stage_memory *stage,
                           double full_bytes, struct text *out)
{
    double state = stage->weights_bytes + stage->gradients_bytes + stage->optimizer_bytes;
    double outside = stage->slack_bytes + stage->network_bytes + stage->context_bytes;
    const struct memory_share shares[] = {
        { state, "█", "#" },
        { stage->activations_bytes, "▓", "=" },
        { stage->total_bytes - state - stage->activations_bytes - outside, "▒", "+" },
        { outside, "░", "-" },
        { full_bytes - stage->total_bytes, "·", "." },
    };
    double sum = 0;
    int drawn = 0;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        sum += shares[i].bytes;
        int end = (int)lround(MEMORY_WIDTH * sum / full_bytes);
        for (; drawn < end && drawn < MEMORY_WIDTH; drawn++)
            text_add(out, "%s", terminal->utf8 ? shares[i].utf8 : shares[i].ascii);
    }
}

static bool is_shown(const struct prediction *p, int stage, bool all)
{
    return all || p->num_stages <= FEW_STAGES || stage < 3 || stage == p->peak_stage ||
           stage >= p->num_stages - 2;
}

static void add_key(const struct terminal *terminal, struct block *block, struct arena *arena)
{
    bool utf8 = terminal->utf8;
    text_add(add_line(block, arena), "%s weights, gradients, optimizer  %s activations",
             utf8 ? "█" : "#", utf8 ? "▓" : "=");
    text_add(add_line(block, arena), "%s logits, recompute, buffers  %s NCCL, allocator, runtime",
             utf8 ? "▒" : "+", utf8 ? "░" : "-");
}

static struct block memory_block(const struct terminal *terminal, const struct setup *setup,
                                 const struct prediction *p, bool all, struct arena *arena)
{
    struct block block = { 0 };
    double full_bytes = fmax(setup->memory_bytes, p->peak_memory_bytes);
    text_add(add_line(&block, arena), "memory, GiB      0%*.0f", MEMORY_WIDTH - 1,
             full_bytes / GIB);
    bool gap = false;
    for (int stage = 0; stage < p->num_stages && block.count < MAX_LINES - 4; stage++) {
        if (!is_shown(p, stage, all)) {
            if (!gap)
                text_add(add_line(&block, arena), "%s", terminal->utf8 ? "…" : "...");
            gap = true;
            continue;
        }
        gap = false;
        struct text *line = add_line(&block, arena);
        text_add(line, "stage %-3d %5.1f  ", stage, p->stages[stage].total_bytes / GIB);
        add_memory_bar(terminal, &p->stages[stage], full_bytes, line);
    }
    add_key(terminal, &block, arena);
    return block;
}

/* Lines may wrap only when nobody is looking. */
static bool has_room_for_both(void)
{
    int columns = terminal_columns();
    return columns == 0 || columns >= BOTH_WIDTH;
}

static void show_blocks(const struct block *left, const struct block *right)
{
    bool beside = has_room_for_both();
    int count = left->count > right->count ? left->count : right->count;
    for (int i = 0; i < (beside ? count : left->count); i++) {
        struct text line = { 0 };
        bool has_right = beside && i < right->count;
        text_add_padded(&line, i < left->count ? text_get(&left->lines[i]) : "",
                        has_right ? LEFT_WIDTH : 0);
        printf("  %s%s%s\n", text_get(&line), has_right ? "  " : "",
               has_right ? text_get(&right->lines[i]) : "");
        text_release(&line);
    }
    if (beside)
        return;
    printf("\n");
    for (int i = 0; i < right->count; i++)
        printf("  %s\n", text_get(&right->lines[i]));
}

void show_plan(const struct terminal *terminal, const struct setup *setup, const char *title,
               const struct plan *plan, const struct prediction *prediction, bool all_stages)
{
    struct arena arena = { 0 };
    struct text words = { 0 }, layout = { 0 };
    add_plan_words(terminal, plan, prediction->num_microbatches, &words);
    plan_write(plan, &layout);
    printf("\n  %s%-10s  %s%s\n", terminal_bold(terminal), title, text_get(&words),
           terminal_plain(terminal));
    show_row(terminal, "layout", text_get(&layout));
    show_step(terminal, setup, prediction);
    show_rates(terminal, setup, plan, prediction);
    show_peak(terminal, setup, prediction);
    printf("\n");
    struct block left = time_block(terminal, prediction, &arena);
    struct block right = memory_block(terminal, setup, prediction, all_stages, &arena);
    show_blocks(&left, &right);
    block_release(&left);
    block_release(&right);
    text_release(&words);
    text_release(&layout);
    arena_release(&arena);
}

void show_simulation(const struct options *options, const struct setup *setup,
                     const struct prediction *prediction, const struct event_step *events)
{
    struct terminal terminal = terminal_of_stdout();
    struct text next = { 0 };
    if (!options->quiet)
        show_header(&terminal, setup);
    show_plan(&terminal, setup, "PLAN", &setup->plan, prediction, options->verbose);
    if (events)
        show_event_step(&terminal, events, prediction->step_s);
    if (options->gantt)
        show_gantt(&terminal, events->timeline);
    if (options->quiet)
        return;
    const char *file = options->num_files > 0 ? options->files[0] : options->output;
    struct text layout = { 0 };
    plan_write(&setup->plan, &layout);
    add_case_options(options, setup, &next);
    printf("\nnext  simsearch %s\n", text_get(&next));
    if (file)
        printf("      simsearch explain %s\n", file);
    else
        printf("      simsearch explain %s --layout \"%s\"\n", text_get(&next), text_get(&layout));
    text_release(&next);
    text_release(&layout);
}
