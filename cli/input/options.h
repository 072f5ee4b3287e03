/* cli/input/options.h - the options of all commands: one table by which they are parsed, checked
 * and documented.
 *
 * A row's field reads and bounds the value. Values are stored as the user gave them. The command
 * combines them, for example to derive a cluster from a GPU or a batch from tokens. */
#ifndef CLI_INPUT_OPTIONS_H
#define CLI_INPUT_OPTIONS_H

#include "base/err.h"
#include "base/field.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>

enum { MAX_FILES = 64, MOST_GPUS = 1 << 24 };

/* Whether a chunk's forwards and backwards are captured once and then launched as graphs; auto:
 * only with the backend cuda and one pipeline stage. */
enum graphs { GRAPHS_AUTO, GRAPHS_ON, GRAPHS_OFF };
extern const char *const graphs_names[];

/* Options of search: which plans, by which method. */
struct search_options {
    const char *fix, *forbid, *compare, *method;
    int objective;
    int space; /* -1: not given */
    bool uneven, recompute_mixes, placement;
    int recompute_modules; /* enum modules_choice; -1: not given */
    int budget;
    double oom_risk; /* 0: not given */
    double time_limit_s;
    bool pareto;
    double deadline_s;        /* 0: none */
    const char *robust_words; /* of --robust; NULL: not requested */
    double robust;            /* the number given with --robust; -1: none */
    bool robust_region;
    const char *largest, *certificate;
    int stage_types;
    bool same_recompute;
    double host_memory_bytes;
};

/* Options of run. */
struct training_options {
    const char *backend, *comm, *data, *hostile;
    int graphs; /* enum graphs */
    int ranks, steps;
    double rate, watchdog_s;
    int lr_warmup, lr_decay;        /* -1: not given */
    double least_rate, clip, spike; /* -1: not given */
    bool slice;
    const char *checkpoint;
    int checkpoint_every;
    bool resume;
};

/* Options of design. */
struct design_options {
    double days, cost; /* 0: not given */
    const char *flops;
    double served_tokens; /* tokens to serve; 0: none */
    int law, aspect;
};

/* Options about the time to an accuracy. */
struct accuracy_options {
    const char *convergence;
    double least;         /* least possible loss; 0: not known */
    double heterogeneity; /* 0: shuffled data */
};

/* Options of validate and fit. */
struct fit_options {
    const char *predictions, *source;
    double tolerance; /* -1: not given */
    bool why;
    const char *report;
    bool check;
    const char *table, *leave_out;
};

/* Options of import and export. */
struct conversion_options {
    const char *from, *to;
    bool slurm, torchrun;
};

/* Options of calibrate. */
struct calibration_options {
    bool quick, nccl_tests, osu;
    const char *for_model, *refine;
};

/* Texts are borrowed from argv. A value that is not given is NULL, 0 or -1. */
struct options {
    const char *model, *cluster, *gpu, *stack;
    int gpus, nodes;   /* 0: not given */
    const char *batch; /* "1536", or "3.2 Mtok" */
    const char *documents, *routing;
    int dispatcher; /* -1: not given */
    bool quantized_dispatch;
    int seq;
    double tokens;
    int precision, optimizer; /* -1: not given */
    const char *train;
    bool reference;
    double reserve_bytes; /* 0: none */
    const char *layout;
    int top, jobs, seed;
    double max_memory_bytes, price;
    const char *output;
    const char *trace;
    int draws;
    bool json, quiet, verbose, schedule_text, gantt;
    bool partition; /* option of explain */
    const char *from_run;
    const char *learned; /* NULL: not given */
    bool propose;        /* option of tune */
    bool run;            /* option of search */
    struct search_options search;
    struct training_options training;
    struct design_options design;
    struct accuracy_options accuracy;
    struct fit_options fit;
    struct conversion_options conversion;
    struct calibration_options calibration;
    const char *files[MAX_FILES];
    int num_files;
};

struct option_row {
    const char *name;     /* "--gpus" */
    const char *alias;    /* "-o"; NULL: none */
    const char *argument; /* "N"; NULL: a switch */
    unsigned commands;    /* bit set of COMMAND_... that take it */
    struct field field;   /* FIELD_OTHER: unparsed text */
};
extern const struct option_row option_rows[];
extern const int num_option_rows;

/* Reads argv[1 ...] for one command: options, and up to `max_files` arguments that are no options.
 * A faulty value is ERR_USAGE, where = the option. */
bool options_parse(unsigned command, int max_files, int argc, char **argv, struct options *out,
                   struct err *err);

/* True when an output file is "-": standard output then contains that file instead of the
 * answer. */
bool options_answer_is_hidden(const struct options *options);

/* The left column of help: "--output FILE, -o". */
void options_left_column(const struct option_row *row, char *text, size_t size);

/* Adds an option's text for a command, and the names that the option accepts. A row's doc has a
 * text for all commands, then texts for some commands: "[calibrate fit]...". If `command` is 0, all
 * texts are added with their commands. */
void options_add_doc(const struct option_row *row, unsigned command, struct text *out);

/* Writes all options as rows of a Markdown table. */
void options_document(FILE *to);

#endif
