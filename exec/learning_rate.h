/* exec/learning_rate.h - the learning rate of a step: linear warm-up, then cosine decay.
 *
 * It depends only on the step's number, so a resumed run continues with the same bits. It follows
 * Megatron-LM's OptimizerParamScheduler with --lr-decay-style cosine, but steps count from 1, so
 * the first update has a rate above 0. */
#ifndef EXEC_LEARNING_RATE_H
#define EXEC_LEARNING_RATE_H

struct rate_course {
    long warmup;  /* steps of the linear rise from 0; the last one has the peak rate; 0: none */
    long decay;   /* the step at which the cosine ends, counted from 1; 0: the peak stays */
    double least; /* the rate after the decay, at most the peak */
};

/* The learning rate of step `step`, from 1. */
double rate_at(const struct rate_course *course, double peak, long step);

#endif
