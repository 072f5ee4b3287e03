/* calibration/learn/evidence.h - the shipped measured runs as evidence about a stack's errors
 * (sim/engine/belief.h). */
#ifndef CALIBRATION_LEARN_EVIDENCE_H
#define CALIBRATION_LEARN_EVIDENCE_H

#include "calibration/fit/shipped_runs.h"
#include "sim/engine/belief.h"

/* Runs of a stack on a GPU. `evidence` points into the arena. */
struct stack_runs {
    struct arena arena;
    struct run_systems *systems;
    struct evidence evidence;
};

/* Whether a run is evidence for a job: same stack, GPU and kind of model (dense or with experts).
 */
bool evidence_counts(const struct run_case *of, const struct system *system,
                     const struct model *model);

/* Makes n scored cases the evidence for jobs of `model`, which is borrowed. If n exceeds
 * MOST_EVIDENCE, runs of models as wide as `model` are taken first, then other runs. If only some
 * of a group fit, runs at even distances in the list are taken. `predictions` are those of `cases`;
 * arrays live in the arena. */
void evidence_gather(const struct run_case *const *of, int n, const struct run_case *cases,
                     const struct run_prediction *predictions, const struct model *model,
                     struct arena *arena, struct evidence *out);

/* Loads and predicts all shipped runs that count for the job; none is no error. Release the result
 * also after an error. */
bool stack_runs_load(const struct system *system, const struct model *model, int jobs,
                     struct stack_runs *out, struct err *err);
void stack_runs_release(struct stack_runs *runs);

#endif
