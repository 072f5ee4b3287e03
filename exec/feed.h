/* exec/feed.h - a rank's microbatches on their way to the device.
 *
 * A step's tokens are made in pinned memory and copied on a stream of their own while the step
 * before computes: both memories have room for two steps. What a pass reads of its microbatch,
 * tokens and their place in the run, lies at one address whatever the microbatch is, so that what
 * was issued for one can be run again for the next. */
#ifndef EXEC_FEED_H
#define EXEC_FEED_H

#include "exec/machine.h"
#include "exec/tokens.h"

struct feed_setup {
    const struct token_source *source;
    const struct device_api *api;
    struct device *device;
    struct stream *compute; /* whose passes read microbatches */
    int num_microbatches;   /* of this rank in a step */
    long sequences;         /* of a microbatch */
    long first, stride;     /* in the global batch: of the first microbatch, from one to the next */
};

enum { FEED_STEPS = 2 };

/* A step's microbatches, end to end: each one's place, then ids, then targets. */
struct fed_step {
    unsigned char *pinned, *at; /* on the host, on the device */
    struct event *copied;
    uint32_t step; /* 0: none */
};

struct feed {
    struct feed_setup setup;
    size_t microbatch_bytes;
    struct stream *stream; /* of the copies */
    struct fed_step steps[FEED_STEPS];
    uint32_t step; /* that compute is in */
    unsigned char *at;
    struct microbatch now; /* in `at` */
};

/* False with err; feed_close then, too. */
bool feed_open(struct feed *feed, const struct feed_setup *setup, struct err *err);
/* After the last step. Accepts zeros. */
void feed_close(struct feed *feed);

/* Makes a step's microbatches, unless that is done, and issues their copy. Steps are made in any
 * order, but not while a step computes that is as far from it as FEED_STEPS. */
void feed_make(struct feed *feed, uint32_t step);
/* What compute is given from now on comes after the copy of that step, which was made. */
void feed_begin_step(struct feed *feed, uint32_t step);
/* `now` is one of that step's, for what compute is given from here on. */
void feed_enter(struct feed *feed, int microbatch);

#endif
