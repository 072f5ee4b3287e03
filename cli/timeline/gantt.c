/* A picture of a step: one line per stage, with a letter or digit for the pass that runs at each
 * time. */
#include "cli/timeline/gantt.h"

#include "cli/print/scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 12 /* as in " stage 1234" */, LEAST_COLUMNS = 20, COLUMNS_UNSEEN = 100 };

void show_event_step(const struct terminal *terminal, const struct event_step *step,
                     double recurrence_step_s)
{
    struct time_scale scale = time_scale_of(step->step_s);
    double more = step->step_s / recurrence_step_s - 1;
    printf("\n  %s%-10s%s  %.*f %s  (%s%.1f %% with sends that wait for their receives and "
           "transfers that share links)\n",
           terminal_dim(terminal), "events", terminal_plain(terminal), scale.decimals,
           step->step_s * scale.per_s, scale.unit, more < 0 ? terminal_minus(terminal) : "+",
           100 * (more < 0 ? -more : more));
}

void show_drawn_steps(const struct terminal *terminal, const struct drawn_steps *drawn,
                      double recurrence_step_s)
{
    struct time_scale scale = time_scale_of(drawn->median_s);
    double more = drawn->median_s / recurrence_step_s - 1;
    printf("\n"
           "  %s%-10s%s  %.*f %s in the median (%s%.1f %%), %.*f %s at the 90th percentile, of %d "
           "random steps (--seed %d)\n",
           terminal_dim(terminal), "jitter", terminal_plain(terminal), scale.decimals,
           drawn->median_s * scale.per_s, scale.unit, more < 0 ? terminal_minus(terminal) : "+",
           100 * (more < 0 ? -more : more), scale.decimals, drawn->p90_s * scale.per_s, scale.unit,
           drawn->draws.count, drawn->draws.seed);
}

/* The letter of a pass: the microbatch's last digit as 0 to 9 or a to j. */
static char letter(char first, int microbatch)
{
    return (char)(first + microbatch % 10);
}

static void add_instr(const struct terminal *terminal, const struct instr *instr, struct text *out)
{
    switch (instr->op) {
    case INSTR_FORWARD:
        text_add(out, "%c", letter('0', instr->microbatch));
        return;
    case INSTR_BACKWARD:
    case INSTR_BACKWARD_INPUT:
        text_add(out, "%c", letter('a', instr->microbatch));
        return;
    case INSTR_BACKWARD_WEIGHT:
        text_add(out, "w");
        return;
    case INSTR_RECOMPUTE:
        text_add(out, "r");
        return;
    case INSTR_OPTIMIZER:
        text_add(out, "o");
        return;
    case INSTR_GATHER_PARAM:
    case INSTR_REDUCE_GRAD:
    case INSTR_MIX_PARAM:
    case INSTR_REDUCE_TIED:
    case INSTR_NORM_GRAD:
        text_add(out, "=");
        return;
    case INSTR_SEND_ACT:
    case INSTR_RECV_ACT:
    case INSTR_SEND_GRAD:
    case INSTR_RECV_GRAD:
        text_add(out, "%s", terminal->utf8 ? "·" : ".");
        return;
    }
}

/* A position in a lane (one of a stage's streams: compute, data parallel, or a direction of
 * messages), to find the instruction that runs at successive times. */
struct cursor {
    const struct instrs *list;
    const struct interval *times;
    enum lane lane;
    int next; /* next instruction; earlier ones have ended */
};

/* The running instruction; NULL: idle. */
static const struct instr *running_at(struct cursor *cursor, double time_s)
{
    const struct instrs *list = cursor->list;
    while (cursor->next < list->count && (instr_lane(&list->at[cursor->next]) != cursor->lane ||
                                          cursor->times[cursor->next].end_s <= time_s))
        cursor->next++;
    bool is_running = cursor->next < list->count && cursor->times[cursor->next].start_s <= time_s;
    return is_running ? &list->at[cursor->next] : NULL;
}

/* A stage's line. Each column shows its compute lane or, if that is idle, its exchange with data
 * ranks. */
struct row {
    struct cursor compute, data;
    double column_s;
};

static struct row row_of(const struct timeline *timeline, int stage, int columns)
{
    const struct schedule *schedule = timeline->schedule;
    struct cursor compute = { &schedule->ranks[stage], timeline->ranks[stage], LANE_COMPUTE, 0 };
    struct row row = { compute, compute, timeline_end_s(timeline) / columns };
    row.data.lane = LANE_DATA;
    return row;
}

static const struct instr *row_instr(struct row *row, int column)
{
    const struct instr *instr = running_at(&row->compute, (column + 0.5) * row->column_s);
    return instr ? instr : running_at(&row->data, (column + 0.5) * row->column_s);
}

static void add_row(const struct terminal *terminal, const struct timeline *timeline, int stage,
                    int columns, struct text *out)
{
    struct row row = row_of(timeline, stage, columns);
    text_add(out, "  stage %-4d", stage);
    for (int column = 0; column < columns; column++) {
        const struct instr *instr = row_instr(&row, column);
        if (instr)
            add_instr(terminal, instr, out);
        else
            text_add(out, "%s", terminal->utf8 ? "·" : ".");
    }
    text_add(out, "\n");
}

/* Adds a line with the chunk of each pass: 0 to 9, then a to z. */
static void add_chunks(const struct timeline *timeline, int stage, int columns, struct text *out)
{
    static const char names[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    struct placement placement = schedule_placement(timeline->schedule);
    struct row row = row_of(timeline, stage, columns);
    text_add(out, "    chunk   ");
    for (int column = 0; column < columns; column++) {
        const struct instr *instr = row_instr(&row, column);
        bool has_chunk = instr && instr->chunk >= 0 && instr->op != INSTR_OPTIMIZER &&
                         instr_lane(instr) == LANE_COMPUTE;
        int round = has_chunk ? placement_round(placement, instr->chunk) : 0;
        text_add(out, "%c", has_chunk ? names[round % (int)(sizeof names - 1)] : ' ');
    }
    text_add(out, "\n");
}

void gantt_add(const struct terminal *terminal, const struct timeline *timeline, int columns,
               struct text *out)
{
    int inner = columns - LABEL_COLUMNS > LEAST_COLUMNS ? columns - LABEL_COLUMNS : LEAST_COLUMNS;
    for (int stage = 0; stage < timeline->schedule->shape.num_stages; stage++) {
        add_row(terminal, timeline, stage, inner, out);
        if (timeline->schedule->shape.chunks_per_stage > 1)
            add_chunks(timeline, stage, inner, out);
    }
    double end_s = timeline_end_s(timeline);
    struct time_scale scale = time_scale_of(end_s);
    text_add(out, "%*s0%*.*f %s\n", LABEL_COLUMNS, "", inner - 2 - (int)strlen(scale.unit),
             scale.decimals, end_s * scale.per_s, scale.unit);
}

static bool has_op(const struct timeline *timeline, enum opcode op)
{
    const struct instrs *first = &timeline->schedule->ranks[0];
    for (int i = 0; i < first->count; i++)
        if (first->at[i].op == op)
            return true;
    return false;
}

static bool has_pair(const struct timeline *timeline)
{
    const struct instrs *first = &timeline->schedule->ranks[0];
    for (int i = 0; i < first->count; i++)
        if (first->at[i].is_paired)
            return true;
    return false;
}

/* Shows the legend in lines of at most 80 columns; the second and third line only when needed. */
static void show_key(const struct terminal *terminal, const struct timeline *timeline)
{
    struct text more = { 0 };
    if (has_op(timeline, INSTR_BACKWARD_WEIGHT))
        text_add(&more, ", w weight gradients");
    if (has_op(timeline, INSTR_RECOMPUTE))
        text_add(&more, ", r recompute");
    if (has_pair(timeline))
        text_add(&more, ", a forward and backward that run together show as the backward");
    if (has_op(timeline, INSTR_REDUCE_GRAD) || has_op(timeline, INSTR_REDUCE_TIED) ||
        has_op(timeline, INSTR_MIX_PARAM))
        text_add(&more, ", = gradients or parameters on the wire");
    printf("%*s0-9 forward (microbatch mod 10), a-j backward, o update, %s idle\n", LABEL_COLUMNS,
           "", terminal->utf8 ? "·" : ".");
    if (more.length > 0)
        printf("%*s%s\n", LABEL_COLUMNS, "", text_get(&more) + strlen(", "));
    if (timeline->schedule->shape.chunks_per_stage > 1)
        printf("%*sbelow each stage: the chunk number of each pass\n", LABEL_COLUMNS, "");
    text_release(&more);
}

/* Passes of a stage per column of the picture. */
static double passes_per_column(const struct timeline *timeline, int columns)
{
    int passes = 0;
    const struct instrs *first = &timeline->schedule->ranks[0];
    for (int i = 0; i < first->count; i++)
        passes += instr_lane(&first->at[i]) == LANE_COMPUTE;
    return (double)passes / (columns - LABEL_COLUMNS);
}

void show_gantt(const struct terminal *terminal, const struct timeline *timeline)
{
    struct text picture = { 0 };
    int known = terminal_columns();
    int columns = known > 0 ? known : COLUMNS_UNSEEN;
    gantt_add(terminal, timeline, columns, &picture);
    printf("\n%s", text_get(&picture));
    show_key(terminal, timeline);
    double passes = passes_per_column(timeline, columns);
    if (passes > 0.5)
        printf("%*sa column stands for %.1f passes, so some are hidden; COLUMNS=%.0f shows all\n",
               LABEL_COLUMNS, "", passes, LABEL_COLUMNS + ceil(2 * passes) * columns);
    text_release(&picture);
}
