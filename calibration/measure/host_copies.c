/* Measures the rates of copies between a device and host memory. */
#include "calibration/measure/host_copies.h"

#include "base/statistics.h"

#include <string.h>

enum { REPEATS = 5, NUM_WAYS = 2 };

/* One direction of copies: the first in the array is up (to the device), the second down. */
struct way {
    struct stream *stream;
    void *on_device, *on_host;
};

struct copier {
    struct host_rank *host;
    size_t bytes;
    struct way ways[NUM_WAYS];
};

static void issue_copy(const struct copier *c, int way)
{
    const struct way *w = &c->ways[way];
    void *to = way == 0 ? w->on_device : w->on_host;
    void *from = way == 0 ? w->on_host : w->on_device;
    c->host->api->copy(w->stream, to, from, c->bytes);
}

/* Time from the first start to the last end of copies that run at once. */
static bool time_ways(const struct copier *c, const bool used[NUM_WAYS], double *took_s,
                      struct err *err)
{
    const struct device_api *api = c->host->api;
    double start_s[NUM_WAYS], end_s[NUM_WAYS], first_s = 0, last_s = 0;
    if (!host_rank_meet(c->host, c->ways[0].stream, err))
        return false;
    for (int way = 0; way < NUM_WAYS; way++) {
        api->note(c->ways[way].stream, &start_s[way], NULL);
        if (used[way])
            issue_copy(c, way);
        api->note(c->ways[way].stream, &end_s[way], NULL);
    }
    for (int way = 0; way < NUM_WAYS; way++)
        if (!api->stream_sync(c->ways[way].stream, err))
            return false;
    for (int way = 0; way < NUM_WAYS; way++) {
        bool is_first = way == 0 || !used[0];
        if (!used[way])
            continue;
        first_s = is_first || start_s[way] < first_s ? start_s[way] : first_s;
        last_s = is_first || end_s[way] > last_s ? end_s[way] : last_s;
    }
    *took_s = last_s - first_s;
    return true;
}

/* Measures the best rate of several copies, as the first one is slower because it also maps the
 * memory pages. */
static bool measure_ways(const struct copier *c, bool up, bool down, double *bytes_per_s,
                         struct err *err)
{
    const bool used[NUM_WAYS] = { up, down };
    double took_s[REPEATS];
    for (int i = 0; i < REPEATS; i++)
        if (!time_ways(c, used, &took_s[i], err))
            return false;
    numbers_sort(took_s, REPEATS);
    *bytes_per_s = (up + down) * (double)c->bytes / took_s[REPEATS / 4];
    return true;
}

static bool open_way(const struct copier *c, struct way *way, const char *name, struct err *err)
{
    struct host_rank *host = c->host;
    way->stream = host->api->stream_new(host->device, name, err);
    if (!way->stream ||
        !(way->on_device = host->api->alloc(host->device, way->stream, c->bytes, err)) ||
        !(way->on_host = host->api->pinned_alloc(host->device, c->bytes, err)))
        return false;
    memset(way->on_host, 0, c->bytes);
    host->api->fill(way->stream, way->on_device, 0, c->bytes);
    return host->api->stream_sync(way->stream, err);
}

static void close_way(const struct copier *c, struct way *way)
{
    struct host_rank *host = c->host;
    host->api->pinned_free(host->device, way->on_host);
    if (way->on_device)
        host->api->free(host->device, way->stream, way->on_device);
    host->api->stream_free(way->stream);
}

bool host_copies_measure(struct host_rank *host, size_t bytes, struct host_copies *out,
                         struct err *err)
{
    struct copier c = { .host = host, .bytes = bytes };
    double rates[3];
    bool ok = open_way(&c, &c.ways[0], "up", err) && open_way(&c, &c.ways[1], "down", err) &&
              measure_ways(&c, true, false, &rates[0], err) &&
              measure_ways(&c, false, true, &rates[1], err) &&
              measure_ways(&c, true, true, &rates[2], err) &&
              host_rank_average(host, rates, 3, err);
    close_way(&c, &c.ways[0]);
    close_way(&c, &c.ways[1]);
    *out = ok ? (struct host_copies){ rates[0], rates[1], rates[2] } : (struct host_copies){ 0 };
    return ok;
}
