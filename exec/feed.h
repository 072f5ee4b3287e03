/* exec/feed.h - brings a rank's microbatches to the device.
 *
 * A step's tokens are made in pinned memory and copied on a separate stream while the previous step
 * computes. Pinned and device memory each hold two steps. A pass reads its microbatch (the tokens
 * and their position in the run) at one fixed address for all microbatches, so that a captured
 * graph serves them all. */
#ifndef EXEC_FEED_H
#define EXEC_FEED_H

#include "exec/ops/machine.h"
#include "exec/tokens.h"

struct feed_setup {
    const struct token_source *source;
    const struct device_api *api;
    struct device *device;
    struct stream *compute; /* stream whose passes read the microbatches */
    int num_microbatches;   /* microbatches of this rank per step */
    long sequences;         /* sequences per microbatch */
    long first, stride;     /* in sequences of the global batch: index of the first sequence of
                               microbatch 0, and distance to that of the next microbatch */
};

enum { FEED_STEPS = 2 };

/* A step's microbatches one after the other. Each has its position, then its ids, then its
 * targets. */
struct fed_step {
    unsigned char *pinned, *at; /* memory on the host and on the device */
    struct event *copied;
    uint32_t step; /* number of the step; 0: none */
};

struct feed {
    struct feed_setup setup;
    size_t microbatch_bytes;
    struct stream *stream; /* stream of the copies */
    struct fed_step steps[FEED_STEPS];
    uint32_t step; /* the step that compute is running */
    unsigned char *at;
    struct microbatch now; /* the current microbatch; its pointers point into `at` */
};

/* On failure it returns false with err; call feed_close even then. */
bool feed_open(struct feed *feed, const struct feed_setup *setup, struct err *err);
/* Call it after the last step. Accepts a zeroed struct. */
void feed_close(struct feed *feed);

/* Makes a step's microbatches, unless already done, and issues their copy. Steps may be made in any
 * order, but less than FEED_STEPS away from the step that computes. */
void feed_make(struct feed *feed, uint32_t step);
/* Makes compute that is issued later wait for the copy of that step. feed_make must have issued
 * it. */
void feed_begin_step(struct feed *feed, uint32_t step);
/* Makes `now` the given microbatch of the current step, for compute issued later. */
void feed_enter(struct feed *feed, int microbatch);

#endif
