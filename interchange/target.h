/* interchange/target.h - the frameworks (targets) that plans are exported to and imported from.
 *
 * To add a framework, write its table of settings, its rules, and the four functions of struct
 * target. Then add a row to targets.c. */
#ifndef INTERCHANGE_TARGET_H
#define INTERCHANGE_TARGET_H

#include "interchange/rule.h"
#include "interchange/settings.h"

enum { MAX_TARGET_ARGS = 2048 }; /* bytes of the largest struct of arguments */

struct imported {
    struct job job;
    struct settings given;       /* every setting of the file, in order */
    struct settings unknown;     /* settings that no row reads and that may matter */
    struct settings ignored;     /* settings that change neither the step's time nor its memory */
    struct settings environment; /* variables that a script exports */
    int nodes, gpus_per_node;    /* from the launcher; 0: not stated */
    bool has_args;
    _Alignas(max_align_t) char args[MAX_TARGET_ARGS]; /* the target's struct */
};

/* The program that starts the job. */
enum job_launcher { LAUNCH_TORCHRUN, LAUNCH_SLURM };

struct exported_file {
    const char *name; /* "args.txt" */
    const char *text;
    bool is_script;
};
enum { MAX_EXPORTED_FILES = 8 };

/* The files and settings of an exported job; texts are in the arena. */
struct exported {
    struct settings settings;  /* with the target's keys */
    struct settings arguments; /* words of the command line, each stored as a key without values */
    struct settings environment; /* environment variables, with one value each */
    struct exported_file files[MAX_EXPORTED_FILES];
    int num_files;
    const char *script; /* the script that the launcher starts: "${MEGATRON:-.}/pretrain_gpt.py" */
    const char *trial;  /* default arguments of the launch script: a short trial run */
    const char *remark; /* comment at the top of the launch script: what the user must provide */
};

/* A note that keys of the model's config.json are not exported. It is printed, and written into the
 * launch script, if the model was read from a config.json. */
extern const char unexported_keys_note[];

/* Adds a file and releases its text. */
void exported_add(struct exported *out, const char *name, struct text *text, bool is_script,
                  struct arena *arena);

typedef bool target_parse(const char *path, const char *text, struct imported *out,
                          struct arena *arena, struct err *err);
typedef void target_write(const struct job *job, struct exported *out, struct arena *arena);

struct target {
    const char *name; /* "megatron" */
    const char *summary;
    const char *source;
    const char *stack; /* the shipped stack (training software) that predicts its jobs */
    struct setting_table table;
    const struct target_rule *rules;
    const int *num_rules;
    /* Converts a job to arguments. If the target cannot express the job, these are the arguments of
     * the nearest job, and a rule reports the difference. */
    void (*arguments)(const struct job *job, void *args, struct arena *arena);
    /* Converts arguments to a job. The caller has set the job to plan_default(), the stack's
     * defaults and the launcher's num_gpus. If no plan can hold a value, it fails with ERR_INPUT,
     * where = the key. */
    bool (*job)(const void *args, struct job *job, struct arena *arena, struct err *err);
    /* Splits a file into settings. `path` names it in errors. */
    target_parse *parse;
    /* Writes the command line, the environment and the target's own files. */
    target_write *write;
    const char *forbids; /* layout words that the target cannot express, separated by spaces */
    bool repeats_parts;  /* selective recompute can apply to any set of modules of a block */
    int context_comm; /* the target's default method of context parallelism (enum context_comm) */
    /* Prefixes ("--save", "optimizer.lr") of keys that change neither time nor memory. */
    const char *const *ignored;
};
extern const struct target targets[];
extern const int num_targets;
/* NULL: no target has this name, and ERR_USAGE suggests the nearest; `option` is err->where. */
const struct target *target_find(const char *name, const char *option, struct err *err);

/* Returns the first rule that a job breaks when it is exported; NULL: none. It starts at rule
 * `first`; NULL: at the first rule of all. To find the next broken rule pass rule + 1, which may
 * point past the last rule. */
const struct target_rule *target_check_job(const struct target *target, const struct job *job,
                                           const struct target_rule *first, struct arena *arena,
                                           struct err *err);

/* Changes the job to the nearest one that keeps the target's rules and plan_check's; false when
 * none is found. */
bool target_nearest(const struct target *target, struct job *job, struct arena *arena);

/* Writes the files for a job that keeps the rules: args.txt, env.sh, train.sh or train.sbatch, and
 * the target's own files. It also returns the settings. */
void target_export(const struct target *target, const struct job *job, enum job_launcher launch,
                   struct exported *out, struct arena *arena);

/* Reads a file. For an args.txt it also reads the launch script in the same folder, to find the
 * number of GPUs. `out->job` must contain the stack's defaults and may contain num_gpus. No rule is
 * checked. */
bool target_import(const struct target *target, const char *path, struct imported *out,
                   struct arena *arena, struct err *err);
/* Like target_check_job for a file. The rules about plans that the target cannot express do not
 * apply. */
const struct target_rule *target_check_file(const struct target *target,
                                            const struct imported *imported,
                                            const struct target_rule *first, struct err *err);
/* Converts settings from a file or from the head of a log to args and job. */
bool target_read(const struct target *target, struct imported *out, struct arena *arena,
                 struct err *err);

#endif
