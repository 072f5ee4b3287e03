/* tests/parity.h - runs a plan with threads as ranks, to hold layouts against each other. */
#ifndef TESTS_PARITY_H
#define TESTS_PARITY_H

#include "exec/rank.h"

enum { MOST_STEPS = 32 };

struct parity_run {
    int steps, first_step; /* first_step 0: 1 */
    int optimizer;         /* enum optimizer */
    float rate;
    bool unfused;       /* attention */
    size_t arena_bytes; /* of a rank; 0: 8 MiB. Touching it takes most of a short run */
    int precision;      /* enum precision */
    uint64_t seed;
    double delay_most_s;               /* random pauses on the streams */
    const struct token_source *tokens; /* NULL: random */
    const struct comm_api *comm;       /* NULL: comm_local */
    const struct kernel_api *kernels;  /* NULL: kernels_host */
    /* On every rank, before its first step and after its last; NULL: nothing. False fails the test.
     */
    bool (*before)(struct rank *rank, const struct parity_run *run, struct err *err);
    bool (*after)(struct rank *rank, const struct parity_run *run, struct err *err);
    void *context; /* theirs */
};

struct parity_result {
    double loss[MOST_STEPS], gradient_norm[MOST_STEPS], loss_scale[MOST_STEPS];
    bool is_skipped[MOST_STEPS];
    int num_weights;
    struct parity_weight *weights; /* whole, of the last step; parity_release */
};

/* One weight of the whole model, put together from the ranks that hold it. */
struct parity_weight {
    char name[48]; /* "3.qkv.0": layer, op, role */
    size_t elements;
    float *values;
    bool is_counted;
};

/* 4 layers of width 32, 16 tokens, 8 sequences a step: GPT with tied embeddings and no dropout, and
 * Llama with grouped queries. */
struct model parity_gpt(void);
struct model parity_llama(void);

/* Fails the test when the run does. */
void parity_run(const struct model *model, const char *layout, const struct parity_run *run,
                struct parity_result *out);
void parity_release(struct parity_result *result);

/* Largest relative difference of two weights' values, over the norm of all of a's. */
double parity_distance(const struct parity_result *a, const struct parity_result *b);

/* Losses, norms and weights have the same bits. */
bool parity_is_equal(const struct parity_result *a, const struct parity_result *b, int steps);

#endif
