/* tests/exec/parity.h - trains with a plan, so that tests can compare layouts. Ranks are threads of
 * this process, or each of several processes calls parity_run as one rank. */
#ifndef TESTS_EXEC_PARITY_H
#define TESTS_EXEC_PARITY_H

#include "exec/run/rank.h"

enum { MOST_STEPS = 300 };

/* The rank of this process. Its communicator stays open between runs. */
struct parity_process {
    const struct comm_api *api;
    struct comm *comm;
    int rank, size;
};

struct parity_run {
    int steps, first_step; /* first_step 0 means 1 */
    int optimizer;         /* enum optimizer */
    float rate;
    bool unfused;               /* whether attention is unfused */
    bool unclipped;             /* whether gradients are not clipped */
    double clip;                /* limit of the gradient norm; 0 means 1 */
    struct rate_course rates;   /* warm-up and decay of the learning rate */
    double spike;               /* as in struct run_setup */
    struct hostility hostility; /* hostile data ranks */
    int prefetch; /* ZeRO-3: number of pieces (layers, embedding, head) that are gathered ahead */
    bool has_graphs; /* as in struct run_setup */
    const struct layer_options
        *options;       /* options of a layer's ops; NULL: only attention is fused */
    size_t arena_bytes; /* arena of a rank; 0: 8 MiB. A short run spends most of its time touching
                           the arena */
    int precision;      /* enum precision */
    uint64_t seed;
    double delay_most_s;                  /* random pauses on the streams */
    const struct token_source *tokens;    /* NULL: random */
    const struct comm_api *comm;          /* NULL: comm_local, or the process's communicator */
    const struct parity_process *process; /* NULL: threads are ranks */
    const struct kernel_api *kernels;     /* NULL: kernels_host */
    const struct device_api *device;      /* NULL: device_host */
    /* Two callbacks on every rank, one before its first step and one after its last; NULL: not
     * called. If one returns false, the test fails.
     */
    bool (*before)(struct rank *rank, const struct parity_run *run, struct err *err);
    bool (*after)(struct rank *rank, const struct parity_run *run, struct err *err);
    /* Called on every rank when it reaches a step, and once after its last step; NULL: not
     * called. */
    void (*at_step)(const struct parity_run *run, int rank, int step);
    void *context; /* context of these callbacks */
};

struct parity_result {
    double loss[MOST_STEPS], gradient_norm[MOST_STEPS], loss_scale[MOST_STEPS];
    bool is_skipped[MOST_STEPS];
    int num_weights;
    struct parity_weight *weights; /* weights after the last step; free with parity_release */
};

/* One weight of the whole model. If ranks are threads, it is collected from all ranks; if ranks are
 * processes, it has only the elements of this process. */
struct parity_weight {
    char name[48]; /* "3.qkv.0": layer, op, role */
    size_t elements;
    float *values;
    bool *is_held;
};

/* Two models with 4 layers of width 32, 16 tokens per sequence and 8 sequences per step: a GPT with
 * tied embeddings and no dropout, and a Llama with grouped queries. */
struct model parity_gpt(void);
struct model parity_llama(void);
/* A Llama in which every second block has more heads and a wider feed-forward. */
struct model parity_mixed(void);

/* The shipped text `workshop` with the model's sequence length. Close it with
 * token_source_close. */
struct token_source parity_text(const struct model *model);

/* Number of ranks of a layout. */
int parity_ranks(const char *layout);

/* Fails the test if the run fails. */
void parity_run(const struct model *model, const char *layout, const struct parity_run *run,
                struct parity_result *out);
void parity_release(struct parity_result *result);
/* Runs two steps with these op list options; the function itself sets the options of attention and
 * types. */
struct parity_result parity_run_lists(const struct model *model, const char *layout, int precision,
                                      struct layer_options options);

/* --- comparing two runs (parity_compare.c) ----------------------------------------------- */

/* Largest difference between the weights of two runs, relative to the norm of a's weights. Only
 * elements that both hold are compared. */
double parity_distance(const struct parity_result *a, const struct parity_result *b);

/* Whether several ranks trained like one rank: losses equal to 1e-5, gradient norms to 1e-4,
 * weights to 1e-5, or 1e-4 with Adam, which divides by small numbers. */
struct parity_verdict {
    bool agrees;
    char difference[100]; /* the first difference that is too large, in words */
};
struct parity_verdict parity_compare(const struct parity_run *run, const struct parity_result *one,
                                     const struct parity_result *many);

/* Fails the test unless the first losses equal those of `alone`, within a relative error. */
void parity_check_losses(const struct parity_result *alone, const struct parity_result *many,
                         int steps, double tolerance, const char *layout);

/* Whether losses, norms and weights have the same bits. */
bool parity_is_equal(const struct parity_result *a, const struct parity_result *b, int steps);

#endif
