/* search/questions/design.h - the size of model and the tokens that a budget of GPUs trains to the
 * lowest predicted loss.
 *
 * The fastest plan for a model, which a search finds, and the time lost to failures and checkpoints
 * give the number of tokens and so the FLOPs. The FLOPs give the best model size by the scaling
 * law. Both steps repeat until nothing changes. Then sizes around the answer are tried. */
#ifndef SEARCH_QUESTIONS_DESIGN_H
#define SEARCH_QUESTIONS_DESIGN_H

#include "search/search.h"
#include "sim/campaign/scaling.h"
#include "sim/campaign/shape.h"

struct design_request {
    const struct search_request *search; /* its model determines the architecture of all sizes */
    enum aspect aspect;
    const struct loss_law *law;
    double time_s; /* time of all GPUs for training and serving; 0: `budget.flops` is the budget */
    struct scaling_budget budget;
    bool batch_is_stated; /* false: the batch follows from the FLOPs */
};

/* One size of model. */
struct design_size {
    struct model model;
    bool fits;
    struct training training;
    double loss; /* predicted loss; HUGE_VAL: the model does not fit, or no time is left to train */
};

struct design {
    struct design_size best;
    double flops; /* FLOPs of training and serving `best`: 6 N D + 2 N x served tokens */
    int searches;
    bool timed_out, was_interrupted;
};

/* False only when the request is wrong. best.loss is HUGE_VAL when no size fits. */
bool search_design(const struct design_request *request, struct design *out, struct err *err);

/* FLOPs of training and then serving `served` tokens. */
double design_flops(struct training training, double served);

/* The batch, in sequences, for a training of `flops` (scaling_batch_tokens): rounded to the odd
 * factor of num_gpus times a power of two, so that all GPUs can be data ranks. */
double design_batch(double flops, int seq, int num_gpus);

#endif
