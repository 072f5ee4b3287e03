/* sim/campaign/scaling.h - the size and the tokens of a training by the published scaling laws.
 *
 * A training of N parameters on D tokens takes C = 6 N D FLOPs. A loss law says what it ends with,
 * in nats per token of text: E + A / N^alpha + B / D^beta. A size law says which N is best for a
 * C; the best one of a loss law follows from it. Every function is pure. */
#ifndef SIM_CAMPAIGN_SCALING_H
#define SIM_CAMPAIGN_SCALING_H

struct loss_law {
    double least;                   /* E: the loss that remains at any size and with any data */
    double of_size, of_tokens;      /* A, B */
    double size_power, token_power; /* alpha, beta */
    double least_deviation;         /* standard error of E; 0: not published */
    const char *source;
};

/* Loss laws by name. */
enum loss_law_name { LAW_CORRECTED, LAW_CHINCHILLA, LAW_C4, NUM_LOSS_LAWS };
extern const char *const loss_law_names[]; /* "corrected", "chinchilla", "c4", NULL */
extern const struct loss_law loss_laws[NUM_LOSS_LAWS];

/* A model and its tokens, of which `unique` (0: all) are different and the rest repeat them. */
struct training {
    double parameters, tokens, unique;
};

/* With a number of unique tokens, repeats count less and less, and so do parameters beyond those
 * that are best for the unique tokens seen (Muennighoff et al. 2023, equations 5 and 6): U of them
 * and R U more count as U + U R* (1 - e^(-R/R*)). */
double scaling_effective_tokens(struct training training);
double scaling_effective_parameters(const struct loss_law *law, struct training training);

double scaling_loss(const struct loss_law *law, struct training training);

/* The lowest and highest of the law itself and of the fits of Chinchilla's runs: the published one,
 * and the corrected one with E at the ends of its normal interval of 90 %. The errors of its other
 * constants are not in it: they are published without their correlation, which nearly cancels them.
 */
struct loss_interval {
    double low, high;
};
struct loss_interval scaling_loss_interval(const struct loss_law *law, struct training training);

/* The N that has the lowest loss when N times D is `product` (C / 6), or whose optimum has
 * `tokens`: G product^(beta / (alpha + beta)), G = (alpha A / (beta B))^(1 / (alpha + beta))
 * (Hoffmann et al. 2022, equation 4). */
double scaling_best_size(const struct loss_law *law, double product);
double scaling_size_for_tokens(const struct loss_law *law, double tokens);

/* The FLOPs to spend, and on what. Serving a token takes a forward pass, 2 N FLOPs, a third of
 * training on it (Sardana et al. 2024, equation 2). */
struct scaling_budget {
    double flops;  /* of training and serving */
    double served; /* tokens that the model will serve; 0: none */
    double unique; /* tokens to train on that exist; 0: any number */
};

/* The tokens that remain for training; 0 or less: none. */
double scaling_tokens(struct scaling_budget budget, double parameters);

/* The training of the lowest loss. When even the smallest model spends all on serving, its tokens
 * are 0. */
struct training scaling_best(const struct loss_law *law, struct scaling_budget budget);

/* One published answer to "which size for these FLOPs". */
struct size_law {
    const char *name;    /* "chinchilla-1" */
    const char *summary; /* how it was found */
    const char *source;
    const struct loss_law *loss; /* NULL: the line below */
    double flops, size, power;   /* N = size (C / flops)^power */
};
extern const struct size_law size_laws[];
extern const int num_size_laws;
double scaling_law_size(const struct size_law *law, double flops);

/* Tokens in a step: 0.2920 C^0.3271 (DeepSeek-AI 2024, "DeepSeek LLM", equation 1: the batches
 * within 0.25 % of the lowest loss on runs of 1e17 to 2e19 FLOPs). */
double scaling_batch_tokens(double flops);

#endif
