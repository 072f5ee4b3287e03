#include "cli/gantt.h"

#include "cli/scale.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 12 /* "  stage 1234" */, LEAST_COLUMNS = 20, COLUMNS_UNSEEN = 100 };

void show_event_step(const struct terminal *terminal, const struct event_step *step,
                     double recurrence_step_s)
{
    struct time_scale scale = time_scale_of(step->step_s);
    double more = step->step_s / recurrence_step_s - 1;
    printf(
        "\n  %s%-10s%s  %.*f %s  (%s%.1f %%: messages wait for receives, transfers share wires)\n",
        terminal_dim(terminal), "events", terminal_plain(terminal), scale.decimals,
        step->step_s * scale.per_s, scale.unit, more < 0 ? terminal_minus(terminal) : "+",
        100 * (more < 0 ? -more : more));
}

void show_drawn_steps(const struct terminal *terminal, const struct drawn_steps *drawn,
                      double recurrence_step_s)
{
    struct time_scale scale = time_scale_of(drawn->median_s);
    double more = drawn->median_s / recurrence_step_s - 1;
    printf("\n  %s%-10s%s  %.*f %s in the median (%s%.1f %%), %.*f %s in 9 of 10, of %d steps of "
           "seed %d\n",
           terminal_dim(terminal), "jitter", terminal_plain(terminal), scale.decimals,
           drawn->median_s * scale.per_s, scale.unit, more < 0 ? terminal_minus(terminal) : "+",
           100 * (more < 0 ? -more : more), scale.decimals, drawn->p90_s * scale.per_s, scale.unit,
           drawn->draws.count, drawn->draws.seed);
}

/* The microbatch's last digit: 0 to 9, a to j or A to J. */
static char letter(char first, int microbatch)
{
    return (char)(first + microbatch % 10);
}

/* Every other chunk of a stage is in capitals and, where the locale has them, small digits. */
static void add_instr(const struct terminal *terminal, const struct instr *instr, int num_stages,
                      struct text *out)
{
    static const char *const small_digits[] = { "₀", "₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈", "₉" };
    bool is_odd = instr->chunk >= 0 && instr->chunk / num_stages % 2 == 1;
    switch (instr->op) {
    case INSTR_FORWARD:
        if (is_odd && terminal->utf8)
            text_add(out, "%s", small_digits[instr->microbatch % 10]);
        else
            text_add(out, "%c", letter('0', instr->microbatch));
        return;
    case INSTR_BACKWARD:
    case INSTR_BACKWARD_INPUT:
        text_add(out, "%c", letter(is_odd ? 'A' : 'a', instr->microbatch));
        return;
    case INSTR_BACKWARD_WEIGHT:
        text_add(out, "%c", is_odd ? 'W' : 'w');
        return;
    case INSTR_RECOMPUTE:
        text_add(out, "%c", is_odd ? 'R' : 'r');
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

/* What a lane of a stage runs at one moment after the other. */
struct cursor {
    const struct instrs *list;
    const struct interval *times;
    enum lane lane;
    int next; /* none before it matters any more */
};

/* NULL: idle. */
static const struct instr *running_at(struct cursor *cursor, double time_s)
{
    const struct instrs *list = cursor->list;
    while (cursor->next < list->count &&
           (opcode_infos[list->at[cursor->next].op].lane != cursor->lane ||
            cursor->times[cursor->next].end_s <= time_s))
        cursor->next++;
    bool is_running = cursor->next < list->count && cursor->times[cursor->next].start_s <= time_s;
    return is_running ? &list->at[cursor->next] : NULL;
}

static void add_row(const struct terminal *terminal, const struct timeline *timeline, int stage,
                    int columns, struct text *out)
{
    const struct schedule *schedule = timeline->schedule;
    struct cursor compute = { &schedule->ranks[stage], timeline->ranks[stage], LANE_COMPUTE, 0 };
    struct cursor data = compute;
    data.lane = LANE_DATA;
    double column_s = timeline_end_s(timeline) / columns;
    text_add(out, "  stage %-4d", stage);
    for (int column = 0; column < columns; column++) {
        const struct instr *instr = running_at(&compute, (column + 0.5) * column_s);
        if (!instr)
            instr = running_at(&data, (column + 0.5) * column_s);
        if (instr)
            add_instr(terminal, instr, schedule->shape.num_stages, out);
        else
            text_add(out, "%s", terminal->utf8 ? "·" : ".");
    }
    text_add(out, "\n");
}

void gantt_add(const struct terminal *terminal, const struct timeline *timeline, int columns,
               struct text *out)
{
    int inner = columns - LABEL_COLUMNS > LEAST_COLUMNS ? columns - LABEL_COLUMNS : LEAST_COLUMNS;
    for (int stage = 0; stage < timeline->schedule->shape.num_stages; stage++)
        add_row(terminal, timeline, stage, inner, out);
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

/* Lines that fit a window of 80 columns; the second and third only where they tell something. */
static void show_key(const struct terminal *terminal, const struct timeline *timeline)
{
    struct text more = { 0 };
    if (has_op(timeline, INSTR_BACKWARD_WEIGHT))
        text_add(&more, ", w weight gradients");
    if (has_op(timeline, INSTR_RECOMPUTE))
        text_add(&more, ", r recompute");
    if (has_op(timeline, INSTR_REDUCE_GRAD) || has_op(timeline, INSTR_REDUCE_TIED) ||
        has_op(timeline, INSTR_MIX_PARAM))
        text_add(&more, ", = gradients or parameters on the wire");
    printf("%*s0-9 forward of that microbatch, a-j backward, o update, %s idle\n", LABEL_COLUMNS,
           "", terminal->utf8 ? "·" : ".");
    if (more.length > 0)
        printf("%*s%s\n", LABEL_COLUMNS, "", text_get(&more) + strlen(", "));
    if (timeline->schedule->shape.chunks_per_stage > 1)
        printf("%*s%severy other chunk of a stage\n", LABEL_COLUMNS, "",
               terminal->utf8 ? "₀-₉ and capitals: " : "capitals: ");
    text_release(&more);
}

void show_gantt(const struct terminal *terminal, const struct timeline *timeline)
{
    struct text picture = { 0 };
    int columns = terminal_columns();
    gantt_add(terminal, timeline, columns > 0 ? columns : COLUMNS_UNSEEN, &picture);
    printf("\n%s", text_get(&picture));
    show_key(terminal, timeline);
    text_release(&picture);
}
