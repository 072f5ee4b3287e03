/* sim/engine/time_parts.h - the named classes of time (parts) that add up to a step's time, such as
 * compute and bubble.
 *
 * The parts are those of the stage that is busy longest; the time in which that stage is idle is
 * the bubble. */
#ifndef SIM_ENGINE_TIME_PARTS_H
#define SIM_ENGINE_TIME_PARTS_H

#include <stddef.h>

struct time_parts {
    double compute_s;
    double recompute_s;
    double tensor_comm_s;
    double context_comm_s;
    double expert_comm_s;
    double pipeline_comm_s;
    double bubble_s;
    double data_comm_s;
    double optimizer_s;
    double other_s; /* host: launches, per-microbatch and per-step overhead, exposed copies */
};

/* The parts, in the order in which answers list them. */
struct time_part {
    const char *name;  /* JSON key, such as "compute_s" */
    const char *label; /* label in printed answers */
    size_t offset;     /* offset in struct time_parts */
};
extern const struct time_part time_part_table[];
extern const int num_time_parts;
double time_part_s(const struct time_parts *parts, int i);

/* Adds `times` x each part to `sum`. */
void time_parts_add(struct time_parts *sum, const struct time_parts *parts, double times);

#endif
