/* exec/rate.h - the learning rate of a step: warm-up along a line, then a cosine down.
 *
 * A function of the step's number alone, so that a resumed run goes on with the same bits. As
 * Megatron-LM's OptimizerParamScheduler with --lr-decay-style cosine, whose steps count from 1
 * here: the first update has a rate above 0. */
#ifndef EXEC_RATE_H
#define EXEC_RATE_H

struct rate_course {
    long warmup;  /* steps of a line from 0 to the peak, which the last of them reaches; 0: none */
    long decay;   /* the step that the cosine ends at, counted from 1; 0: the peak stays */
    double least; /* rate from then on, at most the peak */
};

/* From 1. */
double rate_at(const struct rate_course *course, double peak, long step);

#endif
