/* Scores the choice of a plan by its prediction, over groups of measured runs that differ only in
 * their plan (strata). */
#include "calibration/score/choice.h"

#include "calibration/rows/stratum.h"
#include "sim/engine/chances.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_PLANS = 4 };

/* The runs of a stratum (choice.h), and buffers for their times and probabilities. */
struct bench {
    const struct run_case *cases;
    const struct run_prediction *predictions;
    struct rival_time *rivals;
    double *chance;
};

static void add_stratum(const struct bench *bench, const struct run_case *const *of, int n,
                        struct choice *to)
{
    int chosen = 0;
    int best = 0;
    for (int i = 0; i < n; i++) {
        const struct run_prediction *predicted = &bench->predictions[of[i] - bench->cases];
        bench->rivals[i] = (struct rival_time){ predicted->step_s, &predicted->time };
        chosen = predicted->step_s < bench->rivals[chosen].step_s ? i : chosen;
        best = run_measured_s(of[i]->row) < run_measured_s(of[best]->row) ? i : best;
    }
    chances_of_best(of[0]->system, bench->rivals, n, bench->chance);
    double regret = log(run_measured_s(of[chosen]->row) / run_measured_s(of[best]->row));
    double miss = bench->chance[chosen] - (regret <= 0);
    to->strata++;
    to->plans += n;
    to->close += regret <= log(1 + CLOSE_CHOICE);
    to->mean += regret;
    to->worst = fmax(to->worst, regret);
    to->stated += bench->chance[chosen];
    to->was += regret <= 0;
    to->brier += miss * miss;
}

static void take_means(struct choice *of)
{
    of->close /= of->strata;
    of->mean /= of->strata;
    of->stated /= of->strata;
    of->was /= of->strata;
    of->brier /= of->strata;
}

struct choices runs_choose(const struct run_case *cases, const struct run_prediction *predictions,
                           const struct scores *scores, struct arena *arena)
{
    size_t room = (size_t)scores->num_scored;
    const struct run_case **of = ARENA_ARRAY(arena, const struct run_case *, room);
    struct bench bench = { cases, predictions, ARENA_ARRAY(arena, struct rival_time, room),
                           ARENA_ARRAY(arena, double, room) };
    struct choices out = { ARENA_ARRAY(arena, struct choice, (size_t)scores->num_sources), 0 };
    int n = 0;
    for (int i = 0; i < scores->num_scored; i++)
        of[n++] = &cases[scores->worst[i]];
    qsort(of, (size_t)n, sizeof(void *), stratum_compare_cases);
    for (int s = 0; s < scores->num_sources; s++) {
        struct choice sum = { .source = scores->sources[s].source };
        for (int first = 0, end; first < n; first = end) {
            end = stratum_end(of, n, first);
            if (end - first >= FEWEST_PLANS && strcmp(of[first]->row->source_key, sum.source) == 0)
                add_stratum(&bench, of + first, end - first, &sum);
        }
        if (sum.strata > 0) {
            take_means(&sum);
            out.at[out.count++] = sum;
        }
    }
    return out;
}
