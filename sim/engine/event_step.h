/* sim/engine/event_step.h - times a plan's step with the event engine: instruction lists, their
 * costs and a timeline. */
#ifndef SIM_ENGINE_EVENT_STEP_H
#define SIM_ENGINE_EVENT_STEP_H

#include "sim/engine/events.h"
#include "sim/engine/simulate.h"

struct event_step {
    const struct schedule *schedule;
    const struct timeline *timeline;
    double step_s; /* including the host's overhead per step */
};

/* The plan must have passed plan_check and system_check. The results are in the arena. Fails
 * (ERR_INFEASIBLE) on a plan of more than MOST_EVENTS instructions. */
enum { MOST_EVENTS = 4000000 };
bool event_step_run(struct evaluator *evaluator, const struct model *model, const struct plan *plan,
                    struct arena *arena, struct event_step *out, struct err *err);

/* Simulates the plan's step many times, each time with other random delays (jitter.h). */
enum { MOST_DRAWS = 10000 };
struct draws {
    int count; /* from 1 to MOST_DRAWS */
    int seed;  /* equal seeds draw equal steps */
};
struct drawn_steps {
    struct draws draws;
    double median_s, p90_s;
};
bool event_step_draw(struct evaluator *evaluator, const struct model *model,
                     const struct plan *plan, struct draws draws, struct drawn_steps *out,
                     struct err *err);

#endif
