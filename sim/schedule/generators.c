/* The table of schedules, and functions that several of them use. */
#include "sim/schedule/generators.h"

#include "base/length.h"

#include <string.h>

const struct generator generators[] = {
    {
        .name = "naive",
        .summary = "One microbatch at a time through all stages and back; all others wait.",
        .source = "the baseline of Huang et al. 2019, fig. 2b",
        .accepts = accepts_one_chunk,
        .emit = naive_emit,
        .in_flight = naive_in_flight,
    },
    {
        .name = "gpipe",
        .summary = "All forwards, then all backwards; holds every microbatch.",
        .source = "Huang et al. 2019, GPipe, fig. 2c",
        .accepts = accepts_one_chunk,
        .emit = gpipe_emit,
        .in_flight = gpipe_in_flight,
    },
    {
        .name = "1f1b",
        .summary =
            "After a warm-up, one forward and one backward in turn; holds at most pp microbatches.",
        .source = "Narayanan et al. 2021, section 2.2.1 (PipeDream-Flush)",
        .accepts = accepts_one_chunk,
        .emit = one_f_one_b_emit,
        .in_flight = one_f_one_b_in_flight,
    },
    {
        .name = "interleaved",
        .summary = "1F1B with several chunks on each stage; the bubble is vpp times smaller.",
        .source = "Narayanan et al. 2021, section 2.2.2; order of Megatron-LM schedules.py",
        .accepts = interleaved_accepts,
        .emit = interleaved_emit,
        .in_flight = interleaved_in_flight,
        .of_round = interleaved_of_round,
        .most_of_round = interleaved_most_of_round,
    },
    {
        .name = "zb-h1",
        .summary = "1F1B with weight gradients delayed to fill the bubble; holds as many "
                   "microbatches as 1F1B.",
        .source = "Qi et al. 2024, Zero Bubble Pipeline Parallelism, section 2.2, ZB-H1",
        .accepts = zero_bubble_accepts,
        .emit = zb_h1_emit,
        .in_flight = zb_h1_in_flight,
        .waiting = zb_h1_waiting,
    },
    {
        .name = "zb-h2",
        .summary = "Twice the warm-up of ZB-H1: stages never wait, but hold 2 pp - 1 microbatches.",
        .source = "Qi et al. 2024, Zero Bubble Pipeline Parallelism, section 2.3, ZB-H2",
        .accepts = zero_bubble_accepts,
        .emit = zb_h2_emit,
        .in_flight = zb_h2_in_flight,
        .waiting = zb_h2_waiting,
    },
    {
        .name = "zb-v",
        .summary = "Two chunks on each stage, placed down the stages and back up (a V): stages "
                   "never wait, and each holds as many activations as 1F1B's first stage.",
        .source = "Qi et al. 2024, Zero Bubble Pipeline Parallelism, section 6, ZB-V; order of "
                  "PyTorch's ScheduleZBVZeroBubble",
        .rule = &placement_v,
        .accepts = v_accepts,
        .emit = zb_v_emit,
        .in_flight = zb_v_in_flight,
        .of_round = zb_v_of_round,
        .most_of_round = zb_v_most_of_round,
        .waiting = v_waiting,
    },
    {
        .name = "dualpipev",
        .summary = "A V in which a forward and the backward of another microbatch run as one pair.",
        .source = "DeepSeek, DualPipe, dualpipev.py; Qi, cut-in-half DualPipe",
        .rule = &placement_v,
        .accepts = dualpipev_accepts,
        .emit = dualpipev_emit,
        .in_flight = dualpipev_in_flight,
        .of_round = dualpipev_of_round,
        .waiting = v_waiting,
        .pairs = dualpipev_pairs,
    },
    {
        .name = "dualpipe",
        .summary = "Microbatches enter at both ends of the pipeline, and there are two copies of "
                   "every stage.",
        .source = "DeepSeek-V3 technical report, section 3.2.1; DualPipe, dualpipe.py",
        .rule = &placement_mirrored,
        .accepts = dualpipe_accepts,
        .emit = dualpipe_emit,
        .in_flight = dualpipe_in_flight,
        .of_round = dualpipe_of_round,
        .waiting = v_waiting,
        .pairs = dualpipe_pairs,
    },
};
const int num_generators = LENGTH(generators);

const struct generator *generator_find(const char *name)
{
    for (int i = 0; i < num_generators; i++)
        if (strcmp(generators[i].name, name) == 0)
            return &generators[i];
    return NULL;
}

bool generator_splits(const struct generator *generator)
{
    return generator->waiting != NULL;
}

int chunk_in_flight(const struct generator *generator, const struct schedule_shape *shape,
                    int stage, int round)
{
    return generator->of_round ? generator->of_round(shape, stage, round)
                               : generator->in_flight(shape, stage);
}

int chunk_most_in_flight(const struct generator *generator, const struct schedule_shape *shape,
                         int stage, int round)
{
    return generator->most_of_round ? generator->most_of_round(shape, stage, round)
                                    : chunk_in_flight(generator, shape, stage, round);
}

static void emit(struct instrs *out, enum opcode op, int chunk, int microbatch)
{
    out->at[out->count++] = (struct instr){
        .op = op, .chunk = chunk, .microbatch = microbatch, .peer = -1, .after = NO_INSTR
    };
}

void emit_forward(struct instrs *out, int chunk, int microbatch)
{
    emit(out, INSTR_FORWARD, chunk, microbatch);
}

void emit_pair(struct instrs *out, int chunk, int microbatch, int back_chunk, int back_microbatch)
{
    emit(out, INSTR_FORWARD, chunk, microbatch);
    emit(out, INSTR_BACKWARD, back_chunk, back_microbatch);
    out->at[out->count - 2].is_paired = out->at[out->count - 1].is_paired = true;
}

void emit_backward(struct instrs *out, int chunk, int microbatch)
{
    emit(out, INSTR_BACKWARD, chunk, microbatch);
}

void emit_backward_input(struct instrs *out, int chunk, int microbatch)
{
    emit(out, INSTR_BACKWARD_INPUT, chunk, microbatch);
}

void emit_backward_weight(struct instrs *out, int chunk, int microbatch)
{
    emit(out, INSTR_BACKWARD_WEIGHT, chunk, microbatch);
}

bool accepts_one_chunk(const struct schedule_shape *shape, struct err *err)
{
    if (shape->chunks_per_stage == 1)
        return true;
    return err_set(err, ERR_INFEASIBLE, "schedule",
                   "this schedule has 1 chunk on each stage, not %d", shape->chunks_per_stage);
}
