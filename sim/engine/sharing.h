/* sim/engine/sharing.h - the rates of transfers that share links, max-min fairly.
 *
 * In a max-min fair allocation, a flow can only go faster if another flow, which is as slow or
 * slower, goes slower still. Rates rise together from zero; a flow stops rising at its own bound,
 * or when a resource that it uses is full (progressive filling: Bertsekas and Gallager 1992, Data
 * Networks, section 6.5.2). */
#ifndef SIM_ENGINE_SHARING_H
#define SIM_ENGINE_SHARING_H

#include "base/arena.h"

/* The use of one resource: a flow at rate r takes weight x r of the resource's capacity. */
struct share {
    int resource;
    double weight; /* > 0 */
};

enum { MAX_SHARES = 4 };

struct flow {
    double bound; /* the flow's rate if no other flow exists; finite, > 0 */
    int num_shares;
    struct share shares[MAX_SHARES]; /* the uses are of distinct resources */
};

struct shared_wires {
    const double *capacity; /* > 0, in units of weight x rate */
    int num_resources;
    const struct flow *flows;
    int num_flows;
};

/* Fills rate[flow]. The function is pure and resets the scratch arena when it returns. */
void share_fairly(const struct shared_wires *wires, struct arena *scratch, double *rate);

#endif
