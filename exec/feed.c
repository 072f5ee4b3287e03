#include "exec/feed.h"

enum { ALIGNMENT = 64 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* --- one microbatch ----------------------------------------------------------------------- */

/* Byte offsets of a microbatch's parts. */
struct offsets {
    size_t ids, targets, end;
};

static struct offsets offsets_of(const struct feed_setup *setup)
{
    size_t tokens_bytes =
        aligned(sizeof(int64_t) * (size_t)setup->sequences * (size_t)setup->source->seq);
    size_t ids = aligned(sizeof(struct draw_place));
    return (struct offsets){ ids, ids + tokens_bytes, ids + 2 * tokens_bytes };
}

static void make_microbatch(const struct feed_setup *setup, uint32_t step, long first,
                            unsigned char *at)
{
    struct offsets offsets = offsets_of(setup);
    *(struct draw_place *)(void *)at =
        (struct draw_place){ .first_sequence = (uint64_t)first, .step = step };
    tokens_of(setup->source, step, first, setup->sequences, (int64_t *)(void *)(at + offsets.ids),
              (int64_t *)(void *)(at + offsets.targets));
}

/* --- steps -------------------------------------------------------------------------------- */

static struct fed_step *slot_of(struct feed *feed, uint32_t step)
{
    return &feed->steps[step % FEED_STEPS];
}

/* The pinned memory is free when the copy of the step that last used it is done. The device memory
 * is already free, as the caller waits for the end of each step. */
void feed_make(struct feed *feed, uint32_t step)
{
    const struct feed_setup *setup = &feed->setup;
    struct fed_step *slot = slot_of(feed, step);
    struct err aborted = { 0 };
    if (slot->step == step || !setup->api->event_sync(slot->copied, &aborted))
        return;
    for (int j = 0; j < setup->num_microbatches; j++)
        make_microbatch(setup, step, setup->first + j * setup->stride,
                        slot->pinned + (size_t)j * feed->microbatch_bytes);
    setup->api->copy(feed->stream, slot->at, slot->pinned,
                     (size_t)setup->num_microbatches * feed->microbatch_bytes);
    setup->api->record(feed->stream, slot->copied);
    slot->step = step;
}

void feed_begin_step(struct feed *feed, uint32_t step)
{
    feed->setup.api->wait(feed->setup.compute, slot_of(feed, step)->copied);
    feed->step = step;
}

void feed_enter(struct feed *feed, int microbatch)
{
    const struct fed_step *slot = slot_of(feed, feed->step);
    feed->setup.api->copy(feed->setup.compute, feed->at,
                          slot->at + (size_t)microbatch * feed->microbatch_bytes,
                          feed->microbatch_bytes);
}

/* --- opening and closing ------------------------------------------------------------------ */

static bool open_step(struct feed *feed, struct fed_step *slot, struct err *err)
{
    const struct feed_setup *setup = &feed->setup;
    size_t bytes = (size_t)setup->num_microbatches * feed->microbatch_bytes;
    return (slot->pinned = setup->api->pinned_alloc(setup->device, bytes, err)) &&
           (slot->at = setup->api->alloc(setup->device, setup->compute, bytes, err)) &&
           (slot->copied = setup->api->event_new(setup->device, err));
}

bool feed_open(struct feed *feed, const struct feed_setup *setup, struct err *err)
{
    struct offsets offsets = offsets_of(setup);
    *feed = (struct feed){ .setup = *setup, .microbatch_bytes = offsets.end };
    feed->stream = setup->api->stream_new(setup->device, "feed", err);
    bool ok = feed->stream != NULL;
    for (int i = 0; i < FEED_STEPS && ok; i++)
        ok = open_step(feed, &feed->steps[i], err);
    ok = ok && (feed->at = setup->api->alloc(setup->device, setup->compute, offsets.end, err));
    if (ok)
        feed->now = (struct microbatch){ .ids = (int64_t *)(void *)(feed->at + offsets.ids),
                                         .targets = (int64_t *)(void *)(feed->at + offsets.targets),
                                         .place = (struct draw_place *)(void *)feed->at };
    return ok;
}

void feed_close(struct feed *feed)
{
    const struct device_api *api = feed->setup.api;
    if (!api)
        return;
    api->stream_free(feed->stream);
    for (int i = 0; i < FEED_STEPS; i++) {
        api->pinned_free(feed->setup.device, feed->steps[i].pinned);
        api->event_free(feed->steps[i].copied);
    }
}
