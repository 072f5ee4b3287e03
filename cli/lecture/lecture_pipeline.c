/* cli/lecture/lecture_pipeline.c - the lecture's rows about a pipeline's idle time and transfers.
 */
#include "cli/lecture/lecture.h"

#include <math.h>

static const char topic[] = "PIPELINE";

/* Formulas of a stage's idle time, relative to its work and to the whole step. */
struct bubble_words {
    const char *of_useful, *of_total;
};
static const struct bubble_words words[NUM_TEXTBOOK_SCHEDULES] = {
    [TEXTBOOK_1F1B] = { "(p - 1)/(v m)", "(p - 1)/(v m + p - 1)" },
    [TEXTBOOK_GPIPE] = { "(p - 1)/m", "(p - 1)/(m + p - 1)" },
    [TEXTBOOK_NAIVE] = { "(p - 1) m/m, one microbatch after another", "(p - 1)/p" },
    [TEXTBOOK_ZB_H1] = { "(p - 1)/3/m, weight gradients fill the rest",
                         "(p - 1)/3/(m + (p - 1)/3)" },
    [TEXTBOOK_ZB_H2] = { "0/m, weight gradients fill all of it", "0/m" },
};

/* Idle time in units of a chunk's time, as a fraction: "7 / 3". */
static struct lecture_number idle_text(struct textbook_pipeline pipeline)
{
    struct lecture_number out;
    const char *form = "(%d - 1)";
    if (pipeline.schedule == TEXTBOOK_NAIVE)
        form = "(%d - 1) x %d";
    if (pipeline.schedule == TEXTBOOK_ZB_H1)
        form = "(%d - 1) / 3";
    if (pipeline.schedule == TEXTBOOK_ZB_H2)
        form = "0";
    snprintf(out.text, sizeof out.text, form, pipeline.stages, pipeline.microbatches);
    return out;
}

static void add_bubbles(struct lecture *lecture, const struct lecture_case *of)
{
    struct textbook_pipeline pipeline = textbook_pipeline_of(of->textbook);
    const struct time_parts *time = &of->prediction->time;
    double busy_s = time->compute_s + time->recompute_s;
    double work = (double)pipeline.chunks * pipeline.microbatches;
    struct lecture_number idle = idle_text(pipeline);
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = topic,
                                          .name = "bubble relative to compute",
                                          .unit = LECTURE_SHARE,
                                          .textbook = textbook_bubble_of_useful(pipeline),
                                          .detailed = time->bubble_s / busy_s },
                    words[pipeline.schedule].of_useful);
    text_add(&row->filled, "%s / %.0f", idle.text, work);
    lecture_gap(row,
                "The busiest stage computes for %s and waits for %s; other stages have less to "
                "compute, and messages take time.",
                in_seconds(busy_s).text, in_seconds(time->bubble_s).text);
    row = lecture_add(lecture,
                      (struct lecture_row){ .topic = topic,
                                            .name = "bubble relative to the step",
                                            .unit = LECTURE_SHARE,
                                            .textbook = textbook_bubble_of_total(pipeline),
                                            .detailed = time->bubble_s / of->prediction->step_s },
                      words[pipeline.schedule].of_total);
    text_add(&row->filled, "%s / (%.0f + %s)", idle.text, work, idle.text);
    lecture_gap(
        row, "Besides the busiest stage's compute and the bubble, the step has %s of other time.",
        in_seconds(of->prediction->step_s - busy_s - time->bubble_s).text);
}

static void fill_message(struct lecture_row *row, const struct textbook_setup *textbook)
{
    text_add(&row->filled, " x (%s + %s / %s)", in_seconds(textbook->pipeline_link.latency_s).text,
             in_bytes(textbook_boundary_bytes(textbook)).text,
             in_bytes_per_s(textbook->pipeline_link.bytes_per_s).text);
}

static void add_transfers(struct lecture *lecture, const struct lecture_case *of)
{
    struct textbook_pipeline pipeline = textbook_pipeline_of(of->textbook);
    const struct system *system = &of->setup->system;
    int boundaries = pipeline.stages * pipeline.chunks - 1;
    bool naive = pipeline.schedule == TEXTBOOK_NAIVE;
    struct lecture_row *row =
        lecture_add(lecture,
                    (struct lecture_row){ .topic = topic,
                                          .name = naive ? "transfers of all microbatches"
                                                        : "transfers of one microbatch",
                                          .unit = LECTURE_SECONDS,
                                          .textbook = of->estimate->pipeline_comm_low_s,
                                          .detailed = of->prediction->time.pipeline_comm_s },
                    naive ? "2 (p - 1) m (alpha + w s b h/B)" : "2 (p v - 1) (alpha + w s b h/B)");
    text_add(&row->filled, "2 x %d", boundaries);
    if (naive)
        text_add(&row->filled, " x %d", pipeline.microbatches);
    fill_message(row, of->textbook);
    lecture_gap(row, "The detailed value is the time of the busiest stage's own messages%s.",
                system->stack.pipeline.scatter_gather_p2p && of->textbook->tensor > 1
                    ? ", each split over the links of the t tensor ranks"
                    : "");
    if (naive)
        return;
    row = lecture_add(lecture,
                      (struct lecture_row){ .topic = topic,
                                            .name = "transfers, none overlapped",
                                            .unit = LECTURE_SECONDS,
                                            .textbook = of->estimate->pipeline_comm_high_s,
                                            .detailed = NAN },
                      "2 (p v - 1 + v (m - 1)) (alpha + w s b h/B)");
    text_add(&row->filled, "2 x (%d + %d x (%d - 1))", boundaries, pipeline.chunks,
             pipeline.microbatches);
    fill_message(row, of->textbook);
    lecture_gap(row, "An upper bound. The textbook's step time includes the lower bound, the "
                     "transfers of one microbatch.");
}

void lecture_add_pipeline(struct lecture *lecture, const struct lecture_case *of)
{
    if (of->textbook->pipeline == 1)
        return;
    add_bubbles(lecture, of);
    add_transfers(lecture, of);
}
