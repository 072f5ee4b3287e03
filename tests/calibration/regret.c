#include "tests/calibration/regret.h"

#include "base/clock.h"
#include "base/statistics.h"

#include <math.h>

struct recorder {
    struct regret_run *run;
    double optimum_s, start_s, best_s;
};

/* Records a score (predicted value of a plan). The clock is read when the best score improves, and
 * occasionally otherwise, because reading it takes time. */
static void record(void *context, const struct scorer *scorer, double score, bool fits)
{
    enum { NOW_AND_THEN = 8 };
    struct recorder *recorder = context;
    struct regret_run *run = recorder->run;
    int n = (int)scorer->spent;
    bool gains = fits && score < recorder->best_s;
    if (gains)
        recorder->best_s = score;
    run->regret[n] = recorder->best_s / recorder->optimum_s - 1;
    run->core_s[n] = gains || n % NOW_AND_THEN == 0 || n == run->budget
                         ? clock_thread_s() - recorder->start_s
                         : run->core_s[n - 1];
}

static struct regret_run new_run(int budget, struct arena *arena)
{
    size_t count = (size_t)budget + 1;
    struct regret_run run = { budget, ARENA_ARRAY(arena, double, count),
                              ARENA_ARRAY(arena, double, count) };
    run.regret[0] = HUGE_VAL;
    return run;
}

struct regret_run regret_of(const struct regret_case *of, const struct strategy *strategy,
                            const struct tuning *tuning, bool is_masked, int budget, uint64_t seed,
                            uint64_t stream, struct arena *arena)
{
    struct regret_run run = new_run(budget, arena);
    double start_s = clock_thread_s();
    struct recorder recorder = { &run, of->optimum_s, start_s, HUGE_VAL };
    struct encoding encoding = encoding_new(of->search->space, arena);
    struct scorer scorer = scorer_new(of->search, &encoding, budget);
    scorer.is_masked = is_masked;
    scorer.scored = record;
    scorer.context = &recorder;
    struct random rng = random_new(seed, stream);
    strategy->run(&scorer, tuning, &rng);
    scorer_release(&scorer);
    return run;
}

struct regret_run regret_of_both(const struct regret_run *a, const struct regret_run *b,
                                 struct arena *arena)
{
    struct regret_run run = new_run(a->budget + b->budget, arena);
    for (int n = 1; n <= run.budget; n++) {
        int of_b = n / 2 < b->budget ? n / 2 : b->budget;
        int of_a = n - of_b;
        run.regret[n] = fmin(a->regret[of_a], b->regret[of_b]);
        run.core_s[n] = a->core_s[of_a] + b->core_s[of_b];
    }
    return run;
}

double regret_scores_to(const struct regret_run *run, double within)
{
    for (int n = 1; n <= run->budget; n++)
        if (run->regret[n] <= within)
            return n;
    return HUGE_VAL;
}

double regret_at_time(const struct regret_run *run, double core_s)
{
    int n = 0;
    while (n < run->budget && run->core_s[n + 1] <= core_s)
        n++;
    return run->regret[n];
}

double quantile(double *values, int count, double share)
{
    numbers_sort(values, (size_t)count);
    double place = share * (count - 1);
    int below = (int)place;
    double rest = place - below;
    if (rest == 0)
        return values[below];
    return (1 - rest) * values[below] + rest * values[below + 1];
}

struct interval wilson(int successes, int count)
{
    const double z = 1.959964; /* for a 95 % interval */
    double n = count;
    double share = successes / n;
    double middle = (share + z * z / (2 * n)) / (1 + z * z / n);
    double half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return (struct interval){ fmax(0, middle - half), fmin(1, middle + half) };
}
