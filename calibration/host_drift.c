#include "calibration/host_drift.h"

#include "base/statistics.h"
#include "calibration/host_pair.h"
#include "sim/cost/straggler.h"

#include <math.h>

enum { ROUNDS = 48, ROUND_PRODUCTS = 6, REPEATS = 7 };

struct round {
    double start_s, end_s, met_s;
};

/* Products, each followed by a pass over memory, as in a layer; then the ranks meet. */
static void issue_round(const struct host_pair *p, int products, struct round *round)
{
    const struct host_load *load = p->host->load;
    struct comm_call call = { .kind = COMM_BARRIER, .group = p->host->world, .stream = p->compute };
    p->host->api->note(p->compute, &round->start_s, NULL);
    for (int i = 0; i < products; i++) {
        host_pair_work(p);
        p->host->api->fill(p->compute, p->values, 0, load->exchanged * sizeof(float));
    }
    p->host->api->note(p->compute, &round->end_s, NULL);
    p->host->comm_api->issue(&call);
    p->host->api->note(p->compute, &round->met_s, NULL);
}

/* Means over the rounds and ranks. */
static bool time_rounds(const struct host_pair *p, int products, double *compute_s, double *wait_s,
                        struct err *err)
{
    struct round rounds[ROUNDS];
    double means_s[2] = { 0 };
    if (!host_rank_meet(p->host, p->compute, err))
        return false;
    for (int i = 0; i < ROUNDS; i++)
        issue_round(p, products, &rounds[i]);
    bool ok =
        p->host->api->stream_sync(p->compute, err) && p->host->comm_api->poll(p->host->comm, err);
    for (int i = 0; i < ROUNDS && ok; i++) {
        means_s[0] += (rounds[i].end_s - rounds[i].start_s) / ROUNDS;
        means_s[1] += (rounds[i].met_s - rounds[i].end_s) / ROUNDS;
    }
    ok = ok && host_rank_average(p->host, means_s, 2, err);
    *compute_s = means_s[0];
    *wait_s = means_s[1];
    return ok;
}

/* The slowest of n comes expected_maximum(n) standard deviations later than the mean. */
static bool measure_drift(const struct host_pair *p, double *drift_s, struct err *err)
{
    double each_s[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        double none_s, alone_s, compute_s, wait_s;
        if (!time_rounds(p, 0, &none_s, &alone_s, err) ||
            !time_rounds(p, ROUND_PRODUCTS, &compute_s, &wait_s, err))
            return false;
        double deviation_s = fmax(0, wait_s - alone_s) / expected_maximum(p->host->place.size);
        each_s[i] = deviation_s * deviation_s / compute_s;
    }
    *drift_s = numbers_median(each_s, REPEATS);
    return true;
}

bool host_drift(struct host_rank *host, double *drift_s, struct err *err)
{
    struct host_pair p;
    bool ok = host_pair_open(host, &p, err) && measure_drift(&p, drift_s, err);
    host_pair_close(&p);
    return ok;
}
