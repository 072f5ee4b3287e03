/* How often a job fails, and how many hosts are under repair at the same time. A failure takes out
 * a random number of hosts with a geometric distribution. */
#include "sim/campaign/failures.h"

#include "base/arena.h"
#include "base/length.h"

#include <math.h>

const struct failure_rate published_failure_rates[] = {
    { "Llama 3 405B", 3.79,
      "Grattafiori et al. 2024, section 3.3.4: 419 unexpected interruptions in 54 days on 2048 "
      "hosts" },
    { "Meta RSC-1", 6.50, "Kokolis et al. 2024, section III, quoted from memory: A100, 11 months" },
    { "Meta RSC-2", 2.34, "Kokolis et al. 2024, section III, quoted from memory: A100, 11 months" },
    { "OPT-175B", 14.1,
      "Zhang et al. 2022, section 2.5: 35 manual and about 70 automatic restarts in two months on "
      "124 hosts" },
    { "Crusoe H200", 8.5, "Crusoe's account: 205 faults in four months on about 1600 GPUs" },
};
const int num_published_failure_rates = LENGTH(published_failure_rates);

double failure_rate_error_log(void)
{
    double sum = 0, squares = 0;
    int n = num_published_failure_rates;
    for (int i = 0; i < n; i++) {
        double log_rate = log(published_failure_rates[i].per_1000_host_days);
        sum += log_rate;
        squares += log_rate * log_rate;
    }
    return 1.645 * sqrt((squares - sum * sum / n) / (n - 1));
}

struct failures failures_of(const struct system *system)
{
    int host_size = cluster_host_size(&system->cluster);
    int hosts = (system->num_gpus + host_size - 1) / host_size;
    double hardware = system->num_gpus / system->gpu.mtbf_s + hosts / system->cluster.host_mtbf_s;
    double software = hosts / system->stack.recovery.mtbf_s;
    return (struct failures){
        .mtbf_s = 1 / (hardware + software),
        .hardware_share = hardware / (hardware + software),
        .hosts_lost = system->cluster.hosts_lost,
        .hosts = hosts,
    };
}

double lost_hosts_hold_pair(int hosts, int lost)
{
    double none = 1;
    for (int k = 0; k < lost; k++) /* each further host must be neither lost already nor the peer of
                                      a lost host */
        none *= hosts > k ? fmax(0, (double)(hosts - 2 * k) / (hosts - k)) : 0;
    return 1 - none;
}

/* Probability that one hardware failure takes out exactly `hosts` hosts: a geometric
 * distribution. */
static double takes(const struct failures *failures, int hosts)
{
    double goes_on = 1 - 1 / failures->hosts_lost;
    return (1 - goes_on) * pow(goes_on, hosts - 1);
}

double failures_lose_pair(const struct failures *failures)
{
    int n = failures->hosts;
    double share = 0, rest = 1;
    if (n < 2)
        return 1;
    for (int lost = 1; lost <= n && rest > 1e-12; lost++) {
        double chance = takes(failures, lost);
        share += chance * lost_hosts_hold_pair(n, lost);
        rest -= chance;
    }
    /* the remaining probability is that of losing all hosts */
    return failures->hardware_share * (share + fmax(0, rest));
}

/* The 99 % quantile of the number of hosts under repair. With `a` failures under repair on average
 * and f_j the probability that a failure takes j hosts, the probability of k hosts is p_0 = e^-a
 * and p_k = a/k times the sum over j of j f_j p_(k-j). */
static int panjer_quantile(const struct failures *failures, double under_repair)
{
    enum { MOST_SPARES = 4096 };
    struct arena arena = { 0 };
    double *p = ARENA_ARRAY(&arena, double, MOST_SPARES);
    p[0] = exp(-under_repair);
    double sum = p[0];
    int spares = 0;
    while (sum < 0.99 && spares + 1 < MOST_SPARES) {
        spares++;
        for (int j = 1; j <= spares; j++)
            p[spares] += j * takes(failures, j) * p[spares - j];
        p[spares] *= under_repair / spares;
        sum += p[spares];
    }
    arena_release(&arena);
    return spares;
}

int failures_spare_hosts(const struct failures *failures, double repair_s)
{
    const double most_exact = 300; /* e^-a underflows beyond 700 */
    double under_repair = repair_s * failures->hardware_share / failures->mtbf_s;
    double mean = failures->hosts_lost;
    if (under_repair <= most_exact) {
        int spares = panjer_quantile(failures, under_repair);
        return spares < failures->hosts ? spares : failures->hosts;
    }
    /* normal approximation: mean a E[k] and variance a E[k^2], with E[k] = g and E[k^2] = (2 g - 1)
     * g for a geometric k */
    double deviation = sqrt(under_repair * (2 * mean - 1) * mean);
    return (int)fmin(ceil(under_repair * mean + 2.326 * deviation), failures->hosts);
}
