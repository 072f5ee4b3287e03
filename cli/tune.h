/* cli/tune.h - the state of `tune`, and its parts: flags, changes, proposals and advice. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "calibration/learn/evidence.h"
#include "calibration/learn/trace.h"
#include "cli/imported.h"
#include "cli/input/options.h"
#include "search/trial.h"

enum { MOST_RESULTS = 32 };

/* A measured run of one of the plans, or of a similar plan. */
struct tune_result {
    struct scored_plan plan;
    int gpus;
    double batch, step_s;
};

struct tuning {
    struct imported_job job;
    struct job now;       /* the tuned job: model, batch and plan of the run */
    struct err unsound;   /* the reason why its plan cannot be predicted; ERR_NONE: it can be */
    const char *rule_id;  /* the rule that `unsound` breaks */
    const char *sentence; /* the rule in words */
    /* the job's plan with its prediction; not set if the plan is unsound */
    struct scored_plan present;
    struct evaluator *evaluator;
    double oom_risk;
    double measured_s, measured_bytes;        /* measured values from the logs; -1: none */
    struct trace trace;                       /* the last trace among the logs; steps 0: none */
    struct tune_result results[MOST_RESULTS]; /* from --propose's files */
    int num_results;
    struct stack_runs known; /* the shipped measured runs of the same stack and GPU */
    struct arena arena;
};

/* --- flags: cli/tune_flags.c --- */

/* A change to the file: settings to add or replace, and keys to remove. */
struct flag_change {
    struct settings give, drop;
};

/* Finds the change of the file that gives the plan, and tests it on the file's settings. False if
 * the changed settings do not read back as the plan, or break a rule that the file keeps. */
bool tune_flags(struct tuning *t, const struct plan *plan, struct flag_change *out);
/* Like tune_flags, for a job with another number of GPUs and batch. */
bool tune_job_flags(struct tuning *t, const struct job *job, struct flag_change *out);
/* True if an export of the present plan would set the key. */
bool tune_needs(struct tuning *t, const char *key);
/* The change in words: "set --sequence-parallel, drop --recompute-granularity". */
const char *flag_change_words(const struct flag_change *change, struct arena *arena);

/* --- changes: cli/tune_changes.c --- */

enum { MOST_CHANGES = 7 };

struct change {
    struct scored_plan plan;
    struct flag_change flags;
    int settings; /* number of settings that differ; 0: the best plan of a search, which may differ
                     in all */
    double step_s;
    double gain; /* fraction of the step's time that is saved; NaN: not known */
    double p_gain;
};

struct changes {
    struct change at[MOST_CHANGES];
    int count;
    bool is_searched; /* the best plan was searched for; it is in `at`, unless it is no faster than
                         those */
};

/* The fastest plans that differ from the present one in one, two and three settings, and the best
 * plan that the framework can run; largest gain first. All fit in memory and keep the rules. */
void tune_find_changes(struct tuning *t, struct search_request *request, struct changes *out);

/* The plan from which changes start: the present plan, with zero1 if it has a single replica, so
 * that plans with more replicas shard the optimizer. */
struct plan tune_start(const struct tuning *t);
/* Predicts the plan on the system; false when it breaks a rule. dp is derived. */
bool tune_score(struct tuning *t, struct plan *plan, struct scored_plan *out);
/* True if the plan fits within the --oom-risk that was asked for and the framework can run it. */
bool tune_may_offer(struct tuning *t, const struct scored_plan *scored);

/* --- proposals: cli/tune_propose.c --- */

/* The rivals are the present plan, if it is sound and fits, and the changes. `belief` is the joint
 * estimate of all runs' times. `choice` is the rival that all measurements together advise
 * (belief_advice); `next` are short runs that would make this choice more certain. */
struct proposals {
    int rivals;
    int change[MOST_RIVALS]; /* index of the change that each rival is; -1: the present plan */
    struct scored_plan plan[MOST_RIVALS];
    struct belief belief;
    int choice; /* index of a rival; -1: there are none */
    double p_best;
    struct trial trials[2 * MOST_RIVALS];
    struct flag_change flags[2 * MOST_RIVALS]; /* changes of the file for each trial */
    int runs[2 * MOST_RIVALS];                 /* index of each trial's run in the belief */
    int num_trials;
    struct proposal next[MOST_TRIALS];
    int num_next;
};

/* { "format": 1, "runs": [ { "layout", "gpus", "batch", "step_s" or "log" } ] }, runs without a
 * time are skipped. Adds the runs to t->results; errors name FILE:LINE: key. */
bool tune_read_results(struct tuning *t, const char *path, struct err *err);
/* Chooses among the rivals. The user's runs and the shipped runs of the stack correct the changes'
 * times, gains and chances. An advised change becomes the first. If is_asked, it also proposes the
 * next runs. */
void tune_propose(struct tuning *t, struct changes *changes, bool is_asked, struct proposals *out);
/* The file of results: the known runs, and the next runs with empty times. */
json_t *tune_results_json(const struct tuning *t, const struct proposals *proposals);

/* --- output: cli/tune_view.c --- */

struct tune_answer {
    struct tuning t;
    bool is_unread; /* the file has no plan; t.unsound has the reason */
    json_t *broken;
    struct changes changes;
    bool is_asked; /* --propose was given */
    struct proposals proposals;
};

void tune_print_json(struct tune_answer *answer);
void tune_print(struct tune_answer *answer, const struct options *options);

/* --- advice: cli/tune_advice.c --- */

/* Appends advice about settings that cost time or memory: [{"rule", "sentence", "where", "found",
 * "fix"}]. */
void tune_add_advice(struct tuning *t, json_t *broken);

#endif
