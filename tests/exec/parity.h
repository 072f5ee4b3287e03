/* tests/exec/parity.h - runs a plan, to hold layouts against each other: with threads as ranks, or
 * as one of several processes that each call it. */
#ifndef TESTS_EXEC_PARITY_H
#define TESTS_EXEC_PARITY_H

#include "exec/run/rank.h"

enum { MOST_STEPS = 300 };

/* The rank that this process is; the communicator stays open from run to run. */
struct parity_process {
    const struct comm_api *api;
    struct comm *comm;
    int rank, size;
};

struct parity_run {
    int steps, first_step; /* first_step 0: 1 */
    int optimizer;         /* enum optimizer */
    float rate;
    bool unfused;                        /* attention */
    bool unclipped;                      /* gradients */
    double clip;                         /* else their norm is at most this; 0: 1 */
    struct rate_course rates;            /* of the learning rate */
    double spike;                        /* as run_setup's */
    struct hostility hostility;          /* of data ranks */
    int prefetch;                        /* of ZeRO-3 */
    bool has_graphs;                     /* as run_setup's */
    const struct layer_options *options; /* of the op lists; NULL: nothing fused but attention */
    size_t arena_bytes; /* of a rank; 0: 8 MiB. Touching it takes most of a short run */
    int precision;      /* enum precision */
    uint64_t seed;
    double delay_most_s;                  /* random pauses on the streams */
    const struct token_source *tokens;    /* NULL: random */
    const struct comm_api *comm;          /* NULL: comm_local, or the process's */
    const struct parity_process *process; /* NULL: threads are ranks */
    const struct kernel_api *kernels;     /* NULL: kernels_host */
    const struct device_api *device;      /* NULL: device_host */
    /* On every rank, before its first step and after its last; NULL: nothing. False fails the test.
     */
    bool (*before)(struct rank *rank, const struct parity_run *run, struct err *err);
    bool (*after)(struct rank *rank, const struct parity_run *run, struct err *err);
    /* On every rank, when it comes to a step, and to the one after its last; NULL: nothing. */
    void (*at_step)(const struct parity_run *run, int rank, int step);
    void *context; /* theirs */
};

struct parity_result {
    double loss[MOST_STEPS], gradient_norm[MOST_STEPS], loss_scale[MOST_STEPS];
    bool is_skipped[MOST_STEPS];
    int num_weights;
    struct parity_weight *weights; /* of the last step; parity_release */
};

/* One weight of the whole model, put together from the ranks that hold it: of a process, its own
 * elements alone. */
struct parity_weight {
    char name[48]; /* "3.qkv.0": layer, op, role */
    size_t elements;
    float *values;
    bool *is_held;
};

/* 4 layers of width 32, 16 tokens, 8 sequences a step: GPT with tied embeddings and no dropout, and
 * Llama with grouped queries. */
struct model parity_gpt(void);
struct model parity_llama(void);
/* A llama whose every second block has more heads and a wider feed-forward. */
struct model parity_mixed(void);

/* The text `workshop` that is shipped, in the model's sequences; token_source_close. */
struct token_source parity_text(const struct model *model);

/* How many ranks a layout has. */
int parity_ranks(const char *layout);

/* Fails the test when the run does. */
void parity_run(const struct model *model, const char *layout, const struct parity_run *run,
                struct parity_result *out);
void parity_release(struct parity_result *result);
/* Two steps of training with these op list `options`; attention and types are filled in. */
struct parity_result parity_run_lists(const struct model *model, const char *layout, int precision,
                                      struct layer_options options);

/* --- runs beside each other (parity_compare.c) ----------------------------------------------- */

/* Largest relative difference of two weights' values where both are held, over the norm of all of
 * a's. */
double parity_distance(const struct parity_result *a, const struct parity_result *b);

/* Whether many ranks trained as one did: losses the same to 1e-5, norms of gradients to 1e-4,
 * weights to 1e-5, and to 1e-4 by Adam, which divides by small ones. */
struct parity_verdict {
    bool agrees;
    char difference[100]; /* the first that is too large, in words */
};
struct parity_verdict parity_compare(const struct parity_run *run, const struct parity_result *one,
                                     const struct parity_result *many);

/* Fails the test where a loss of the first steps is not that of `alone`, relative to it. */
void parity_check_losses(const struct parity_result *alone, const struct parity_result *many,
                         int steps, double tolerance, const char *layout);

/* Losses, norms and weights have the same bits. */
bool parity_is_equal(const struct parity_result *a, const struct parity_result *b, int steps);

#endif
