/* sim/campaign/failures.h - how often a job fails, and what a failure takes with it.
 *
 * GPUs, hosts and each host's share of the software fail independently, so their rates add; the
 * files of the GPU, the cluster and the stack state a mean time between failures each, by default
 * Llama 3's. A failure of hardware takes its host out until it is repaired, and sometimes others in
 * the same breath: a geometric number of hosts, of the cluster's mean. */
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

/* The chance that a failure loses some host together with its peer, so that what they hold for each
 * other is gone. Hosts are in pairs, placed so apart that hosts lost together are as good as drawn
 * at random: k of n hosts hold no pair with chance C(n/2, k) 2^k / C(n, k) (Wang et al. 2023,
 * Gemini, section 4). 1 without another host. */
double failures_lose_pair(const struct failures *failures);
/* The chance that k lost hosts out of n include a host and its peer. */
double lost_hosts_hold_pair(int hosts, int lost);

/* The fewest spare hosts that replace all hosts under repair with probability 99 %. The number of
 * failures is Poisson, that of hosts follows by Panjer's recursion (1981); at most the job's hosts.
 */
int failures_spare_hosts(const struct failures *failures, double repair_s);

/* Published rates of interruptions of runs, of all causes. */
struct failure_rate {
    const char *run;
    double per_1000_host_days;
    const char *source;
};
extern const struct failure_rate published_failure_rates[];
extern const int num_published_failure_rates;

/* Half width of the 90 % interval of the log of a run's rate: 1.645 standard deviations of those.
 */
double failure_rate_error_log(void);

#endif
