/* Shows the parts of a step's time and of a GPU's memory as bars. */
#include "cli/views/breakdown.h"

#include "base/arena.h"
#include "base/length.h"
#include "cli/print/apportion.h"
#include "cli/print/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BAR_WIDTH = 28, MEMORY_WIDTH = 24, LEFT_WIDTH = 58, BOTH_WIDTH = 104, FEW_STAGES = 8 };
enum { MAX_LINES = 4096 };

/* A block of lines that may be shown next to another block. */
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

/* Sorts the parts of the step that are longer than `least_s`, longest first; equal parts stay in
 * the order of time_part_table. */
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
    double parts[MOST_PARTS], units[MOST_PARTS], unit = pow(10, -scale.decimals);
    for (int i = 0; i < count; i++)
        parts[i] = time_part_s(&p->time, order[i]) * scale.per_s;
    apportion(parts, count, unit, units);
    text_add(add_line(&block, arena), "where the %.*f %s go", scale.decimals,
             p->step_s * scale.per_s, scale.unit);
    for (int i = 0; i < count; i++) {
        double part_s = time_part_s(&p->time, order[i]);
        struct text *line = add_line(&block, arena);
        struct text bar = { 0 };
        terminal_add_bar(terminal, part_s / longest_s, BAR_WIDTH, &bar);
        text_add(line, "%-17s%6.*f ", time_part_table[order[i]].label, scale.decimals,
                 units[i] * unit);
        text_add_padded(line, text_get(&bar), BAR_WIDTH);
        text_add(line, "%5.1f%%", 100 * part_s / p->step_s);
        text_release(&bar);
    }
    return block;
}

/* One segment of a memory bar. Segments are drawn from left to right. */
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
    for (size_t i = 0; i < LENGTH(shares); i++) {
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

static struct block memory_block(const struct terminal *terminal, double memory_bytes,
                                 const struct prediction *p, bool all, struct arena *arena)
{
    struct block block = { 0 };
    double full_bytes = fmax(memory_bytes, p->peak_memory_bytes);
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

/* Whether both blocks fit next to each other. Without a terminal, lines may have any length. */
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

void show_breakdown(const struct terminal *terminal, double memory_bytes,
                    const struct prediction *prediction, bool all_stages)
{
    struct arena arena = { 0 };
    struct block left = time_block(terminal, prediction, &arena);
    struct block right = memory_block(terminal, memory_bytes, prediction, all_stages, &arena);
    show_blocks(&left, &right);
    block_release(&left);
    block_release(&right);
    arena_release(&arena);
}
