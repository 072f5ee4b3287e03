/* Measures how far ranks drift apart while they compute. */
#include "calibration/measure/host_drift.h"

#include "base/statistics.h"
#include "calibration/measure/host_pair.h"
#include "sim/cost/straggler.h"

#include <math.h>

enum { ROUNDS = 48, ROUND_PRODUCTS = 6, REPEATS = 7 };

struct round {
    double wall_s[2];
    double start_s, end_s; /* CPU time of the stream: time stolen by other processes is not drift */
};

/* Issues matrix products, each followed by a pass over memory, as in a layer, then a barrier of all
 * ranks. */
static void issue_round(const struct host_pair *p, struct round *round)
{
    const struct host_load *load = p->host->load;
    struct comm_call call = { .kind = COMM_BARRIER, .group = p->host->world, .stream = p->compute };
    p->host->api->note(p->compute, &round->wall_s[0], &round->start_s);
    for (int i = 0; i < ROUND_PRODUCTS; i++) {
        host_pair_work(p);
        p->host->api->fill(p->compute, p->values, 0, load->exchanged * sizeof(float));
    }
    p->host->api->note(p->compute, &round->wall_s[1], &round->end_s);
    p->host->comm_api->issue(&call);
}

/* Means over the rounds: *compute_s of all ranks' times, *slowest_s of the slowest rank's time in
 * each round. */
static bool time_rounds(const struct host_pair *p, double *compute_s, double *slowest_s,
                        struct err *err)
{
    struct round rounds[ROUNDS];
    double each_s[ROUNDS];
    if (!host_rank_meet(p->host, p->compute, err))
        return false;
    for (int i = 0; i < ROUNDS; i++)
        issue_round(p, &rounds[i]);
    bool ok =
        p->host->api->stream_sync(p->compute, err) && p->host->comm_api->poll(p->host->comm, err);
    *compute_s = *slowest_s = 0;
    for (int i = 0; i < ROUNDS && ok; i++) {
        each_s[i] = rounds[i].end_s - rounds[i].start_s;
        *compute_s += each_s[i] / ROUNDS;
    }
    ok = ok && host_rank_average(p->host, compute_s, 1, err) &&
         host_rank_most(p->host, p->host->world, each_s, ROUNDS, err);
    for (int i = 0; i < ROUNDS && ok; i++)
        *slowest_s += each_s[i] / ROUNDS;
    return ok;
}

/* The slowest of n ranks arrives expected_maximum(n) standard deviations later than the mean. */
static bool measure_drift(const struct host_pair *p, double *drift_s, struct err *err)
{
    double each_s[REPEATS];
    int repeats = host_rank_least(p->host, REPEATS);
    for (int i = 0; i < repeats; i++) {
        double compute_s, slowest_s;
        if (!time_rounds(p, &compute_s, &slowest_s, err))
            return false;
        double wait_s = fmax(0, slowest_s - compute_s);
        double deviation_s = wait_s / expected_maximum(p->host->place.size);
        each_s[i] = deviation_s * deviation_s / compute_s;
    }
    *drift_s = numbers_median(each_s, repeats);
    return true;
}

bool host_drift(struct host_rank *host, double *drift_s, struct err *err)
{
    struct host_pair p;
    bool ok = host_pair_open(host, &p, err) && measure_drift(&p, drift_s, err);
    host_pair_close(&p);
    return ok;
}
