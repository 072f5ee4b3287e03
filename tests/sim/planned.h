/* tests/sim/planned.h - a plan with the model and the system on which its memory and time depend. A
 * failure to load them fails the test. */
#ifndef TESTS_SIM_PLANNED_H
#define TESTS_SIM_PLANNED_H

#include "sim/memory/memory.h"

struct planned {
    struct system system;
    struct model model;
    struct plan plan;
    struct pieces pieces;
    struct arena arena;
};
extern struct planned planned; /* the loaded plan */

void planned_load(const char *cluster, const char *stack, const char *model, int num_gpus);
void planned_release(void);
/* Sets the layout, which must be valid for the model's batch on the system's GPUs. */
void planned_layout(const char *layout);

struct stage_memory planned_memory(int stage);
double planned_parameters(int stage);

#endif
