/* sim/textbook/pipeline.h - bubble, exposed transfers and layers in flight of a pipeline of equal
 * stages.
 *
 * p stages of v chunks each run m microbatches. Every function is pure. */
#ifndef SIM_TEXTBOOK_PIPELINE_H
#define SIM_TEXTBOOK_PIPELINE_H

enum textbook_schedule {
    TEXTBOOK_1F1B,  /* one forward one backward; v > 1: interleaved */
    TEXTBOOK_GPIPE, /* all forwards, then all backwards */
    TEXTBOOK_NAIVE, /* one microbatch after another, each through all stages and back */
    TEXTBOOK_ZB_H1, /* weight gradients are computed separately, within 1F1B's memory */
    TEXTBOOK_ZB_H2, /* weight gradients are computed separately, within twice 1F1B's memory */
    NUM_TEXTBOOK_SCHEDULES
};

struct textbook_pipeline {
    int stages;       /* p */
    int chunks;       /* v: chunks of the model per stage; 1: not interleaved */
    int microbatches; /* m, per pipeline */
    enum textbook_schedule schedule;
};

/* Idle time relative to a stage's working time, and relative to the whole step. */
double textbook_bubble_of_useful(struct textbook_pipeline pipeline);
double textbook_bubble_of_total(struct textbook_pipeline pipeline);

/* Exposed transfers of a step when one message over one boundary takes `message_s`: the low value
 * has the activations and gradients of one microbatch, the high value those of the whole batch. */
double textbook_pipeline_low_s(struct textbook_pipeline pipeline, double message_s);
double textbook_pipeline_high_s(struct textbook_pipeline pipeline, double message_s);

/* Peak number of layers of one microbatch whose activations stage 0 holds. */
double textbook_layers_in_flight(struct textbook_pipeline pipeline, int layers);

#endif
