/* sim/campaign/failures.h - how often a job fails, and how many hosts a failure takes out.
 *
 * GPUs, hosts and the software on each host fail independently, so their rates add. The files of
 * the GPU, the cluster and the stack each state a mean time between failures; the default is that
 * of Llama 3's training. A hardware failure takes out its host until it is repaired, and sometimes
 * other hosts with it. The number of hosts per failure has a geometric distribution, whose mean the
 * cluster's file states. */
#ifndef SIM_CAMPAIGN_FAILURES_H
#define SIM_CAMPAIGN_FAILURES_H

#include "sim/cost/hardware.h"

struct failures {
    double mtbf_s;         /* of the whole job */
    double hardware_share; /* share of its failures that take hosts out */
    double hosts_lost;     /* mean number of hosts that such a failure takes out; >= 1 */
    int hosts;
};
struct failures failures_of(const struct system *system);

/* Probability that a failure takes out some host together with its peer, so that the checkpoints in
 * their memories are lost. Hosts form pairs. The peers are placed far apart, so hosts lost together
 * are treated as drawn at random: k of n hosts contain no pair with probability C(n/2, k) 2^k /
 * C(n, k) (Wang et al. 2023, Gemini, section 4). 1 for a single host. */
double failures_lose_pair(const struct failures *failures);
/* Probability that `lost` hosts, drawn out of `hosts`, include a host and its peer. */
double lost_hosts_hold_pair(int hosts, int lost);

/* The fewest spare hosts that replace all hosts under repair with probability 99 %; at most the
 * job's number of hosts. The number of failures under repair has a Poisson distribution; Panjer's
 * recursion (1981) gives the distribution of their hosts. */
int failures_spare_hosts(const struct failures *failures, double repair_s);

/* Published rates of interruptions of training runs, from all causes. */
struct failure_rate {
    const char *run;
    double per_1000_host_days;
    const char *source;
};
extern const struct failure_rate published_failure_rates[];
extern const int num_published_failure_rates;

/* Half width of the 90 % interval of the logarithm of a run's failure rate: 1.645 standard
 * deviations of the logarithms of the published rates. */
double failure_rate_error_log(void);

#endif
