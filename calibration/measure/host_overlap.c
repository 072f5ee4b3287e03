/* Measures by what factor compute and collectives slow each other when both run. A pair is one kind
 * of compute together with one kind of collective. */
#include "calibration/measure/host_overlap.h"

#include "base/clock.h"
#include "base/length.h"
#include "base/statistics.h"
#include "calibration/measure/budget.h"

#include <math.h>

enum { WARM_UPS = 3, LEAST_REPEATS = 3, MOST_REPEATS = 7 };
enum { BATCH_MS = 60, MOST_SLOWDOWN = 10 };

/* --- one pair ------------------------------------------------------------------------------ */

/* Times until compute and collectives end, from a common start. */
static bool time_pair(const struct host_pair *p, bool computes, bool exchanges, double *compute_s,
                      double *comm_s, struct err *err)
{
    double start_s, compute_end_s, comm_end_s;
    if (!host_rank_meet(p->host, p->comm, err))
        return false;
    start_s = clock_now_s();
    for (int i = 0; exchanges && i < p->exchanges; i++)
        host_pair_exchange(p);
    p->host->api->note(p->comm, &comm_end_s, NULL);
    for (int i = 0; computes && i < p->works; i++)
        host_pair_work(p);
    p->host->api->note(p->compute, &compute_end_s, NULL);
    bool ok = p->host->api->stream_sync(p->compute, err) &&
              p->host->api->stream_sync(p->comm, err) &&
              p->host->comm_api->poll(p->group->comm, err);
    double ends_s[2] = { compute_end_s - start_s, comm_end_s - start_s };
    ok = ok && host_rank_average(p->host, ends_s, 2, err);
    *compute_s = ends_s[0];
    *comm_s = ends_s[1];
    return ok;
}

/* Sets the repeats so that compute and collectives, each running alone, take the same time. */
static bool balance(struct host_pair *p, double *alone_s, struct err *err)
{
    double compute_s, comm_s, unused_s;
    int warm_ups = 0;
    p->works = p->exchanges = 8;
    do {
        if (!time_pair(p, true, false, &compute_s, &unused_s, err) ||
            !time_pair(p, false, true, &unused_s, &comm_s, err))
            return false;
    } while (++warm_ups < host_rank_least(p->host, WARM_UPS));
    *alone_s = BATCH_MS * 1e-3;
    p->works = (int)ceil(p->works * *alone_s / compute_s);
    p->exchanges = (int)ceil(p->exchanges * *alone_s / comm_s);
    return true;
}

/* Finds the slowdowns from the end times: while both run, each progresses at its slowed rate; when
 * one has ended, the other finishes at full speed. */
static bool measure_pair(struct host_pair *p, int repeats, struct host_slowdown *out,
                         struct err *err)
{
    double compute_ratio[MOST_REPEATS], comm_ratio[MOST_REPEATS];
    double alone_s;
    if (!balance(p, &alone_s, err))
        return false;
    for (int i = 0; i < repeats; i++) {
        double compute_s, comm_s, unused_s, both_compute_s, both_comm_s;
        if (!time_pair(p, true, false, &compute_s, &unused_s, err) ||
            !time_pair(p, false, true, &unused_s, &comm_s, err) ||
            !time_pair(p, true, true, &both_compute_s, &both_comm_s, err))
            return false;
        bool compute_is_first = both_compute_s < both_comm_s;
        double together_s = compute_is_first ? both_compute_s : both_comm_s;
        double left_s = fabs(both_comm_s - both_compute_s);
        double compute_done_s = compute_s - (compute_is_first ? 0 : left_s);
        double comm_done_s = comm_s - (compute_is_first ? left_s : 0);
        compute_ratio[i] = together_s / fmax(compute_done_s, 0.05 * together_s);
        comm_ratio[i] = together_s / fmax(comm_done_s, 0.05 * together_s);
    }
    out->compute = fmin(fmax(1, numbers_median(compute_ratio, repeats)), MOST_SLOWDOWN);
    out->comm = fmin(fmax(1, numbers_median(comm_ratio, repeats)), MOST_SLOWDOWN);
    return true;
}

/* --- all pairs ----------------------------------------------------------------------------- */

static const enum comm_kind collectives[] = { COMM_ALL_REDUCE, COMM_ALL_GATHER,
                                              COMM_REDUCE_SCATTER };
enum { NUM_COLLECTIVES_BESIDE = LENGTH(collectives) };
static const int block_counts[] = { 4, 8, 16, 32 };
enum { NUM_BLOCK_COUNTS = LENGTH(block_counts) };

static bool measure_one(struct host_pair *p, int most_blocks, int repeats,
                        struct host_overlaps *out, struct err *err)
{
    struct host_overlap *at = &out->at[out->count];
    *at = (struct host_overlap){ p->work, p->collective, most_blocks, { 1, 1 } };
    if (!measure_pair(p, repeats, &at->slowdown, err))
        return false;
    out->count++;
    return true;
}

static bool measure_works(struct host_pair *p, int most_blocks, int repeats,
                          struct host_overlaps *out, struct err *err)
{
    bool ok = true;
    /* On a busy host only matrix products are measured, as a profile stores only their slowdown. */
    int works = p->host->is_busy ? WORK_PRODUCTS + 1 : NUM_HOST_WORKS;
    for (int work = 0; work < works && ok; work++) {
        p->work = (enum host_work)work;
        ok = measure_one(p, most_blocks, repeats, out, err);
    }
    return ok;
}

/* Measures pairs with a separate communicator whose calls use at most `most_blocks` thread
 * blocks. */
static bool measure_blocks(struct host_pair *p, int most_blocks, int repeats,
                           struct host_overlaps *out, struct err *err)
{
    enum { PATIENCE_S = 60 };
    struct host_rank *host = p->host;
    struct comm_options options = { .place = &host->place,
                                    .device = host->api,
                                    .patience_s = PATIENCE_S,
                                    .most_blocks = most_blocks };
    struct comm *comm = host->comm_api->open(&options, err);
    struct group *group =
        comm ? host->comm_api->group_new(comm, host->world->ranks, host->world->size, err) : NULL;
    bool ok = false;
    if (group) {
        p->group = group;
        p->collective = COMM_ALL_REDUCE;
        ok = measure_works(p, most_blocks, repeats, out, err);
        p->group = host->world;
        host->comm_api->group_free(group);
    }
    if (comm)
        host->comm_api->close(comm);
    return ok;
}

static bool has_blocks(const struct host_rank *host)
{
    return host->load->grid == GRID_GPU;
}

/* Number of repeats per pair. A pair needs one batch each for compute, for collectives and for both
 * together, plus warm-ups. */
static int repeats_in(const struct host_rank *host, double seconds, int num_pairs)
{
    double fitting = seconds / num_pairs / (3e-3 * BATCH_MS) - 1;
    return budget_repeats(fitting, LEAST_REPEATS, host->is_busy ? LEAST_REPEATS : MOST_REPEATS);
}

static bool measure_all(struct host_pair *p, bool is_quick, double seconds,
                        struct host_overlaps *out, struct err *err)
{
    int num_collectives = is_quick ? 1 : NUM_COLLECTIVES_BESIDE;
    int num_blocks = is_quick || !has_blocks(p->host) ? 0 : NUM_BLOCK_COUNTS;
    int repeats = repeats_in(p->host, seconds, NUM_HOST_WORKS * (num_collectives + num_blocks));
    bool ok = true;
    for (int i = 0; i < num_collectives && ok; i++) {
        p->collective = collectives[i];
        ok = measure_works(p, 0, repeats, out, err);
    }
    for (int i = 0; i < num_blocks && ok; i++)
        ok = measure_blocks(p, block_counts[i], repeats, out, err);
    return ok;
}

bool host_overlaps_measure(struct host_rank *host, bool is_quick, double seconds,
                           struct host_overlaps *out, struct err *err)
{
    struct host_pair p;
    out->count = 0;
    bool ok = host_pair_open(host, &p, err) && measure_all(&p, is_quick, seconds, out, err);
    host_pair_close(&p);
    return ok;
}

struct host_slowdown host_overlaps_mean(const struct host_overlaps *overlaps)
{
    struct host_slowdown sum = { 0, 0 };
    int count = 0;
    for (int i = 0; i < overlaps->count; i++) {
        const struct host_overlap *at = &overlaps->at[i];
        if (at->work != WORK_PRODUCTS || at->most_blocks != 0)
            continue;
        sum.compute += at->slowdown.compute;
        sum.comm += at->slowdown.comm;
        count++;
    }
    if (count == 0)
        return (struct host_slowdown){ 1, 1 };
    return (struct host_slowdown){ sum.compute / count, sum.comm / count };
}

json_t *host_overlaps_json(const struct host_overlaps *overlaps)
{
    json_t *all = json_array();
    for (int i = 0; i < overlaps->count; i++) {
        const struct host_overlap *at = &overlaps->at[i];
        json_array_append_new(
            all, json_pack("{s:s, s:s, s:i, s:f, s:f}", "compute", host_work_names[at->work],
                           "collective", comm_kind_names[at->collective], "most_blocks",
                           at->most_blocks, "compute_slowdown", at->slowdown.compute,
                           "comm_slowdown", at->slowdown.comm));
    }
    return all;
}
