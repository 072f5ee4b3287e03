/* search/questions/design.h - the size of model and the tokens that a budget of GPUs trains to the
 * lowest predicted loss.
 *
 * How many tokens a model sees in a time follows from the fastest plan for it, which a search
 * finds, and from the share of the time that failures and checkpoints leave; how large the best
 * model is follows from the FLOPs that this comes to. The two are repeated until neither changes,
 * and then sizes around the answer are tried. */
#ifndef SEARCH_QUESTIONS_DESIGN_H
#define SEARCH_QUESTIONS_DESIGN_H

#include "search/search.h"
#include "sim/campaign/scaling.h"
#include "sim/campaign/shape.h"

struct design_request {
    const struct search_request *search; /* its model is the style */
    enum aspect aspect;
    const struct loss_law *law;
    double time_s; /* of all GPUs, for training and serving; 0: `budget.flops` instead */
    struct scaling_budget budget;
    bool batch_is_stated; /* else it follows from the FLOPs */
};

/* One size of model. */
struct design_size {
    struct model model;
    bool fits;
    struct training training;
    double loss; /* HUGE_VAL: it does not fit, or serving or failures leave no tokens to train on */
};

struct design {
    struct design_size best;
    double flops; /* 6 N D + 2 N served of it */
    int searches;
    bool timed_out, was_interrupted;
};

/* False only when the request is wrong. best.loss is HUGE_VAL when no size fits. */
bool search_design(const struct design_request *request, struct design *out, struct err *err);

/* FLOPs of training and serving. */
double design_flops(struct training training, double served);

/* A batch of sequences for a training of so many FLOPs (scaling_batch_tokens): the nearest power
 * of two times the odd part of the number of GPUs, so that all of them can be data ranks. */
double design_batch(double flops, int seq, int num_gpus);

#endif
