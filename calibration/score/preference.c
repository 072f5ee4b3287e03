/* Scores the order in which predictions rank measured runs that differ only in their plan (a
 * stratum). */
#include "calibration/score/preference.h"

#include "base/statistics.h"
#include "calibration/rows/stratum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_PLANS = 4 };
static const double near_share = 0.03;

double kendall_tau(const double *x, const double *y, int n)
{
    int same = 0;
    int other = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            double product = (x[i] - x[k]) * (y[i] - y[k]);
            same += product > 0;
            other += product < 0;
        }
    return n > 1 ? 2.0 * (same - other) / ((double)n * (n - 1)) : (double)NAN;
}

/* Statistics of all strata (preference.h), and buffers for the plans of one stratum. */
struct strata {
    double *tau, *loss;
    int count, plans;
    double *predicted_s, *measured_s;
};

static void judge_stratum(struct strata *strata, const struct run_case *const *of, int n,
                          const struct run_case *cases, const struct run_prediction *predictions)
{
    int chosen = 0;
    int best = 0;
    for (int i = 0; i < n; i++) {
        strata->predicted_s[i] = predictions[of[i] - cases].step_s;
        strata->measured_s[i] = run_measured_s(of[i]->row);
        chosen = strata->predicted_s[i] < strata->predicted_s[chosen] ? i : chosen;
        best = strata->measured_s[i] < strata->measured_s[best] ? i : best;
    }
    strata->tau[strata->count] = kendall_tau(strata->predicted_s, strata->measured_s, n);
    strata->loss[strata->count++] = log(strata->measured_s[chosen] / strata->measured_s[best]);
    strata->plans += n;
}

static struct preference sum_up(struct strata *strata, const char *source)
{
    int n = strata->count;
    int near = 0;
    numbers_sort(strata->tau, (size_t)n);
    numbers_sort(strata->loss, (size_t)n);
    while (near < n && strata->loss[near] <= log(1 + near_share))
        near++;
    return (struct preference){
        .source = source,
        .strata = n,
        .plans = strata->plans,
        .tau = sorted_quantile(strata->tau, n, 0.5),
        .tau_p10 = sorted_quantile(strata->tau, n, 0.1),
        .near_best = (double)near / n,
        .loss = sorted_quantile(strata->loss, n, 0.9),
    };
}

static bool is_asked(const struct run_case *of)
{
    return !of->is_fitted && of->row->n_gpus <= cluster_node_size(&of->system->cluster);
}

struct preferences runs_prefer(const struct run_case *cases,
                               const struct run_prediction *predictions,
                               const struct scores *scores, struct arena *arena)
{
    size_t room = (size_t)scores->num_scored;
    const struct run_case **of = ARENA_ARRAY(arena, const struct run_case *, room);
    struct strata strata = {
        ARENA_ARRAY(arena, double, room), ARENA_ARRAY(arena, double, room), 0, 0,
        ARENA_ARRAY(arena, double, room), ARENA_ARRAY(arena, double, room)
    };
    struct preferences out = { ARENA_ARRAY(arena, struct preference, (size_t)scores->num_sources),
                               0 };
    int n = 0;
    for (int i = 0; i < scores->num_scored; i++)
        if (is_asked(&cases[scores->worst[i]]))
            of[n++] = &cases[scores->worst[i]];
    qsort(of, (size_t)n, sizeof(void *), stratum_compare_cases);
    for (int i = 0; i < scores->num_sources; i++) {
        const char *source = scores->sources[i].source;
        strata.count = strata.plans = 0;
        for (int first = 0, end; first < n; first = end) {
            end = stratum_end(of, n, first);
            if (end - first >= FEWEST_PLANS && strcmp(of[first]->row->source_key, source) == 0)
                judge_stratum(&strata, of + first, end - first, cases, predictions);
        }
        if (strata.count > 0)
            out.at[out.count++] = sum_up(&strata, source);
    }
    return out;
}
