/* cli/input/setup.h - the model and the system of a command line, and what was assumed.
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
    struct system system; /* --price, when given, replaces its cluster's price */
    struct model model;   /* with the seq, batch and tokens of the run; 0 tokens: not stated */
    /* constants for judging exchanges; source "": as shipped */
    struct convergence_file convergence;
    double memory_bytes; /* memory limit per GPU: all it has, or --max-memory */
    json_t *assumptions; /* sentences, most important first */
    struct arena arena;  /* of the plan's arrays */
    bool has_plan;
    struct plan plan; /* from --layout or the plan file; else the values that are not searched */
};

/* Loads from the options and, unless NULL, a plan file. Checks that the GPUs are whole nodes, and
 * checks a plan with plan_check and system_check. Release it in either case. */
bool setup_load(const struct options *options, const char *plan_path, struct setup *out,
                struct err *err);
/* Loads a job of another framework: its model, plan and number of GPUs, on the system of the
 * options. The plan's arrays must outlast the setup. */
bool setup_of_job(const struct options *options, const struct job *job, struct setup *out,
                  struct err *err);
/* As setup_of_job, without checks: the plan may break rules. */
bool setup_of_unchecked(const struct options *options, const struct job *job, struct setup *out,
                        struct err *err);
void setup_release(struct setup *setup);

/* Adds, as the first assumption, how the plan's exchange changes the mathematics, if it does. */
void setup_note_exchange(struct setup *setup, const struct plan *plan);

/* Notes that a job takes a segment of each rack, so fewer than the `asked` GPUs. */
void setup_note_segment(struct setup *setup, int asked);
/* Notes that the job takes fewer than the `asked` GPUs for another reason than racks. */
void setup_note_fewer(struct setup *setup, int asked);

/* Notes the default bandwidth of storage, if the cluster states none and the run's length is known.
 */
void setup_note_storage(struct setup *setup);

/* Name of the runs behind the steps to an accuracy: "published runs". */
const char *setup_convergence_name(const struct setup *setup);

/* Another layout text for the same model and system, in the same precision. */
bool setup_parse(struct setup *setup, const struct options *options, const char *option,
                 const char *text, struct plan *out, struct err *err);

#endif
