/* cli/tune.h - the state of `tune`, and its three parts: flags, changes and advice. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "cli/imported.h"
#include "cli/input/options.h"
#include "search/trial.h"

enum { MOST_RESULTS = 32 };

/* A measured run of one of the plans, or of a plan near them. */
struct tune_result {
    struct scored_plan plan;
    int gpus;
    double batch, step_s;
};

struct tuning {
    struct imported_job job;
    struct job now;             /* the job that is tuned: model, batch and plan of the run */
    struct err unsound;         /* why its plan cannot be predicted; ERR_NONE: it can */
    const char *rule_id;        /* the rule that `unsound` breaks */
    const char *sentence;       /* what that rule says */
    struct scored_plan present; /* its prediction, unless unsound */
    struct evaluator *evaluator;
    double oom_risk;
    double measured_s, measured_bytes;        /* from the logs; -1: not in them */
    struct tune_result results[MOST_RESULTS]; /* from --propose's files */
    int num_results;
    struct arena arena;
};

/* --- flags: cli/tune_flags.c --- */

/* A change to the file: settings to add or replace, and keys to remove. */
struct flag_change {
    struct settings give, drop;
};

/* Finds the change of the file that leads to the plan, and tries it on the file's own settings.
 * False if the result does not read back as the plan, or breaks a rule that the file keeps. */
bool tune_flags(struct tuning *t, const struct plan *plan, struct flag_change *out);
/* tune_flags for a job with another number of GPUs and batch. */
bool tune_job_flags(struct tuning *t, const struct job *job, struct flag_change *out);
/* True if an export of the present plan would set the key. */
bool tune_needs(struct tuning *t, const char *key);
/* "set --sequence-parallel, drop --recompute-granularity" */
const char *flag_change_words(const struct flag_change *change, struct arena *arena);

/* --- changes: cli/tune_changes.c --- */

enum { MOST_CHANGES = 7 };

struct change {
    struct scored_plan plan;
    struct flag_change flags;
    int settings; /* number that differ; 0: the best plan of a search, which may differ in all */
    double step_s;
    double gain; /* share of the step's time that is saved; NaN: nothing to compare with */
    double p_gain;
};

struct changes {
    struct change at[MOST_CHANGES];
    int count;
    bool is_searched; /* the best plan was found and is no faster than these, or among them */
};

/* The fastest plans that differ from the present one in one, two and three settings, and the best
 * of all that the framework can run; those that gain most first. All fit, and keep the rules. */
void tune_find_changes(struct tuning *t, struct search_request *request, struct changes *out);

/* The plan from which changes start: the present one, with zero1 where it has a single replica, so
 * that plans with more replicas share the optimizer. */
struct plan tune_start(const struct tuning *t);
/* The prediction of the plan on the system; false when it breaks a rule. dp is derived. */
bool tune_score(struct tuning *t, struct plan *plan, struct scored_plan *out);
/* True if the plan fits within the --oom-risk that was asked for and the framework can run it. */
bool tune_may_offer(struct tuning *t, const struct scored_plan *scored);

/* --- proposals: cli/tune_propose.c --- */

/* The rivals are the present plan, if it is sound and fits, and the changes. `choice` is the one to
 * take by all measurements; `next` are short runs that would make the choice surer. */
struct proposals {
    int rivals;
    int change[MOST_RIVALS]; /* index of the change that each rival is; -1: the present plan */
    struct scored_plan plan[MOST_RIVALS];
    struct belief belief;
    int choice; /* index of a rival; -1: there are none */
    double p_best;
    struct trial trials[2 * MOST_RIVALS];
    struct flag_change flags[2 * MOST_RIVALS]; /* that turn the file into each trial */
    int runs[2 * MOST_RIVALS];                 /* index of each trial's run in the belief */
    int num_trials;
    struct proposal next[MOST_TRIALS];
    int num_next;
};

/* { "format": 1, "runs": [ { "layout", "gpus", "batch", "step_s" or "log" } ] }, those without a
 * time yet left out. Adds to t->results; a fault is FILE:LINE: key. */
bool tune_read_results(struct tuning *t, const char *path, struct err *err);
/* Chooses among the rivals. Measured runs, if there are any, correct the changes' times and gains.
 * is_asked: proposes the next runs too. */
void tune_propose(struct tuning *t, struct changes *changes, bool is_asked, struct proposals *out);
/* A file of results with those known, and the next runs with empty times. */
json_t *tune_results_json(const struct tuning *t, const struct proposals *proposals);

/* --- what is told: cli/tune_view.c --- */

struct tune_answer {
    struct tuning t;
    bool is_unread; /* the file holds no plan, and t.unsound says why */
    json_t *broken;
    struct changes changes;
    bool is_asked; /* --propose was given */
    struct proposals proposals;
};

void tune_print_json(struct tune_answer *answer);
void tune_print(struct tune_answer *answer, const struct options *options);

/* --- advice: cli/tune_advice.c --- */

/* [{"rule", "sentence", "where", "found", "fix"}] of habits that cost time or memory. */
void tune_add_advice(struct tuning *t, json_t *broken);

#endif
