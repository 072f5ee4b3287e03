/* exec/feed.h - brings a rank's microbatches to the device.
 *
 * A step's tokens are made in pinned memory and copied on a separate stream while the step before
 * computes; both memories have room for two steps. A pass reads its microbatch (tokens and their
 * place in the run) at one fixed address for all microbatches, so that a captured graph serves them
 * all. */
#ifndef EXEC_FEED_H
#define EXEC_FEED_H

#include "exec/ops/machine.h"
#include "exec/tokens.h"

struct feed_setup {
    const struct token_source *source;
    const struct device_api *api;
    struct device *device;
    struct stream *compute; /* the stream whose passes read microbatches */
    int num_microbatches;   /* microbatches of this rank per step */
    long sequences;         /* of a microbatch */
    long first,
        stride; /* in the global batch: index of the first microbatch, and distance to the next */
};

enum { FEED_STEPS = 2 };

/* A step's microbatches one after the other: each has its place, then ids, then targets. */
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
    uint32_t step; /* the step that compute is in */
    unsigned char *at;
    struct microbatch now; /* in `at` */
};

/* False with err; call feed_close even then. */
bool feed_open(struct feed *feed, const struct feed_setup *setup, struct err *err);
/* Call it after the last step. Accepts a zeroed struct. */
void feed_close(struct feed *feed);

/* Makes a step's microbatches, unless already done, and issues their copy. Steps may be made in any
 * order, but not while a step computes that is FEED_STEPS or more away. */
void feed_make(struct feed *feed, uint32_t step);
/* Compute issued from now on runs after the copy of that step, which feed_make has issued. */
void feed_begin_step(struct feed *feed, uint32_t step);
/* `now` becomes the given microbatch of that step for compute issued from now on. */
void feed_enter(struct feed *feed, int microbatch);

#endif
