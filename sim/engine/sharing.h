/* sim/engine/sharing.h - the rates of transfers that share links, max-min fairly.
 *
 * In a max-min fair allocation, no flow can go faster without slowing a flow that is no faster.
 * Rates rise together from zero; a flow stops rising at its own bound, or when a resource that it
 * uses is full (progressive filling: Bertsekas and Gallager 1992, Data Networks, section 6.5.2). */
#ifndef SIM_ENGINE_SHARING_H
#define SIM_ENGINE_SHARING_H

#include "base/arena.h"

/* A flow at rate r takes weight x r of the resource's capacity. */
struct share {
    int resource;
    double weight; /* > 0 */
};

enum { MAX_SHARES = 4 };

struct flow {
    double bound; /* its rate when alone; finite, > 0 */
    int num_shares;
    struct share shares[MAX_SHARES]; /* of different resources */
};

struct shared_wires {
    const double *capacity; /* > 0, in units of weight x rate */
    int num_resources;
    const struct flow *flows;
    int num_flows;
};

/* Fills rate[flow]. Pure; the scratch arena is reset on return. */
void share_fairly(const struct shared_wires *wires, struct arena *scratch, double *rate);

#endif
