/* cli/input/setup.h - the model and system of a command line, and the assumptions made.
 *
 * Each part comes from its option, else from the plan file, else from a default, which is shown. */
#ifndef CLI_INPUT_SETUP_H
#define CLI_INPUT_SETUP_H

#include "base/arena.h"
#include "cli/input/options.h"
#include "interchange/job.h"
#include "sim/campaign/convergence_file.h"
#include "sim/engine/simulate.h"

#include <jansson.h>

struct setup {
    struct system system; /* with the price of --price if given */
    struct model model;   /* its seq, batch and tokens are those of the run; 0 tokens: not stated */
    /* constants of the convergence of exchanges; source "": the shipped constants */
    struct convergence_file convergence;
    double memory_bytes; /* memory limit per GPU: the GPU's memory, or --max-memory */
    json_t *assumptions; /* sentences, most important first */
    struct arena arena;  /* owns the plan's arrays */
    bool has_plan;
    struct plan plan; /* the plan of --layout or the plan file; for a search the values that are not
                         searched */
};

/* Loads a setup from the options and, unless plan_path is NULL, a plan file. It checks that the
 * GPUs are whole nodes and checks the plan with plan_check and system_check. Release the setup in
 * either case. */
bool setup_load(const struct options *options, const char *plan_path, struct setup *out,
                struct err *err);
/* Loads a job of another framework: its model, plan and number of GPUs, on the system of the
 * options. The plan's arrays must outlast the setup. */
bool setup_of_job(const struct options *options, const struct job *job, struct setup *out,
                  struct err *err);
/* Like setup_of_job, but the plan is not checked and may break rules. */
bool setup_of_unchecked(const struct options *options, const struct job *job, struct setup *out,
                        struct err *err);
void setup_release(struct setup *setup);

/* If the plan's exchange changes the mathematics of training, adds that as the first assumption. */
void setup_note_exchange(struct setup *setup, const struct plan *plan);

/* Adds the assumption that a job uses a segment of each rack and therefore fewer than the `asked`
 * GPUs. */
void setup_note_segment(struct setup *setup, int asked);
/* Adds the assumption that the job uses fewer than the `asked` GPUs, for another reason than
 * racks. */
void setup_note_fewer(struct setup *setup, int asked);

/* Adds the assumed default bandwidth of storage, if the cluster states none and the run's length is
 * known. */
void setup_note_storage(struct setup *setup);

/* Name of the runs on which the number of steps to an accuracy is based: "published runs". */
const char *setup_convergence_name(const struct setup *setup);

/* Reads another layout for the same model, system and precision. */
bool setup_parse(struct setup *setup, const struct options *options, const char *option,
                 const char *text, struct plan *out, struct err *err);

#endif
