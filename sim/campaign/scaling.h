/* sim/campaign/scaling.h - the size and the tokens of a training by the published scaling laws.
 *
 * Training N parameters on D tokens takes C = 6 N D FLOPs. A loss law gives the final loss in nats
 * per token of text: E + A / N^alpha + B / D^beta. A size law gives the best N for a C; a loss law
 * implies a size law. Every function is pure. */
#ifndef SIM_CAMPAIGN_SCALING_H
#define SIM_CAMPAIGN_SCALING_H

struct loss_law {
    /* E: the loss that no model size and no amount of data removes */
    double least;
    double of_size, of_tokens;      /* A, B */
    double size_power, token_power; /* alpha, beta */
    double least_deviation;         /* standard error of E; 0: not published */
    const char *source;
};

/* Loss laws by name. */
enum loss_law_name { LAW_CORRECTED, LAW_CHINCHILLA, LAW_C4, NUM_LOSS_LAWS };
extern const char *const loss_law_names[]; /* "corrected", "chinchilla", "c4", NULL */
extern const struct loss_law loss_laws[NUM_LOSS_LAWS];

/* A model's size and its training tokens. `unique` of them are different and the rest are repeats;
 * 0: all are different. */
struct training {
    double parameters, tokens, unique;
};

/* The effective number of tokens. Repeated tokens count less the more often they are repeated; so
 * do parameters beyond the best number for the unique tokens (Muennighoff et al. 2023, equations 5
 * and 6). U unique tokens and R U repeats, or U parameters of the best size and R U further ones,
 * count as U + U R* (1 - e^(-R/R*)). */
double scaling_effective_tokens(struct training training);
double scaling_effective_parameters(const struct loss_law *law, struct training training);

double scaling_loss(const struct loss_law *law, struct training training);

/* The lowest and highest loss among three laws: the given one, the published fit of Chinchilla's
 * runs, and the corrected fit with E at either end of its 90 % interval. The errors of the other
 * constants are left out: they are strongly correlated, and the correlation is not published. */
struct loss_interval {
    double low, high;
};
struct loss_interval scaling_loss_interval(const struct loss_law *law, struct training training);

/* scaling_best_size: the N with the lowest loss if N D is `product` (C / 6), which is G
 * product^(beta / (alpha + beta)) with G = (alpha A / (beta B))^(1 / (alpha + beta)) (Hoffmann et
 * al. 2022, equation 4). scaling_size_for_tokens: the N whose best D is `tokens`. */
double scaling_best_size(const struct loss_law *law, double product);
double scaling_size_for_tokens(const struct loss_law *law, double tokens);

/* The FLOPs to spend on training and serving. Serving a token takes one forward pass of 2 N FLOPs,
 * a third of training on it (Sardana et al. 2024, equation 2). */
struct scaling_budget {
    double flops;  /* for training and serving together */
    double served; /* tokens that the model will serve; 0: none */
    double unique; /* number of different tokens that exist for training; 0: no limit */
};

/* The tokens that can be trained on after serving is paid; 0 or less if none remain. */
double scaling_tokens(struct scaling_budget budget, double parameters);

/* The training with the lowest loss. Its tokens are 0 if serving takes all FLOPs even for the
 * smallest model. */
struct training scaling_best(const struct loss_law *law, struct scaling_budget budget);

/* One published answer to "which size for these FLOPs". */
struct size_law {
    const char *name;    /* such as "chinchilla-1" */
    const char *summary; /* how the law was found, in words */
    const char *source;
    const struct loss_law *loss; /* NULL: the power law of the next three fields */
    double flops, size, power;   /* N = size (C / flops)^power */
};
extern const struct size_law size_laws[];
extern const int num_size_laws;
double scaling_law_size(const struct size_law *law, double flops);

/* Best number of tokens per step: 0.2920 C^0.3271 (DeepSeek-AI 2024, "DeepSeek LLM", equation 1,
 * fitted to batches whose loss is within 0.25 % of the lowest, on runs of 1e17 to 2e19 FLOPs). */
double scaling_batch_tokens(double flops);

#endif
