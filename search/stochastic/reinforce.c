/* A policy that draws candidate plans and is trained by REINFORCE. A point is a candidate plan,
 * encoded as one digit for each searched axis, here called factor
 * (search/stochastic/encoding.h). */
#include "search/stochastic/strategy.h"

#include <math.h>
#include <string.h>

/* A policy gives each factor a categorical distribution: the softmax of its logits over the digits
 * that the earlier digits allow. A point rejected by the mask is redrawn; the gradient ignores this
 * rejection. */
struct policy {
    const struct encoding *encoding;
    size_t num_logits;
    double *logit;    /* [factor x most_digits + digit] */
    double *gradient; /* [factor x most_digits + digit], over one batch */
    double *share;    /* [most_digits], scratch: probabilities, 0 for digits not allowed */
    bool has_baseline;
    double mean, variance; /* moving averages of the log scores */
};

struct sample {
    struct point point;
    double log_score; /* HUGE_VAL: the point broke a rule and the mask is off */
};

static const double kept_share = 0.9; /* weight of the old baseline in the new one, per batch */
static const double most_advantage = 3;

static struct policy policy_new(const struct encoding *encoding, struct arena *arena)
{
    size_t most = (size_t)encoding->most_digits;
    struct policy policy = { .encoding = encoding, .num_logits = NUM_FACTORS * most };
    policy.logit = ARENA_ARRAY(arena, double, policy.num_logits);
    policy.gradient = ARENA_ARRAY(arena, double, policy.num_logits);
    policy.share = ARENA_ARRAY(arena, double, most);
    return policy;
}

static size_t row_of(const struct policy *policy, int factor)
{
    return (size_t)factor * (size_t)policy->encoding->most_digits;
}

/* False when no digit is allowed. */
static bool find_shares(struct policy *policy, const struct point *point, int factor)
{
    const double *logit = &policy->logit[row_of(policy, factor)];
    int count = policy->encoding->values[factor].count;
    double highest = -HUGE_VAL, sum = 0;
    for (int i = 0; i < count; i++) {
        bool is_allowed = encoding_allows(policy->encoding, point, (enum factor)factor, i);
        policy->share[i] = is_allowed ? logit[i] : -HUGE_VAL;
        highest = fmax(highest, policy->share[i]);
    }
    if (highest == -HUGE_VAL)
        return false;
    for (int i = 0; i < count; i++)
        sum += policy->share[i] = exp(policy->share[i] - highest);
    for (int i = 0; i < count; i++)
        policy->share[i] /= sum;
    return true;
}

static int draw_digit(const struct policy *policy, int factor, struct random *rng)
{
    int last = policy->encoding->values[factor].count - 1;
    double left = random_unit(rng);
    int digit = 0;
    while (digit < last && (left -= policy->share[digit]) >= 0)
        digit++;
    /* because of rounding, the loop may end past the last allowed digit; then the last allowed one
     * is taken */
    while (policy->share[digit] == 0)
        digit--;
    return digit;
}

static bool draw_point(struct policy *policy, struct random *rng, struct point *out)
{
    *out = (struct point){ 0 };
    for (int factor = 0; factor < policy->encoding->num_digits; factor++) {
        if (!find_shares(policy, out, factor))
            return false;
        out->digit[factor] = draw_digit(policy, factor, rng);
    }
    return true;
}

static enum verdict draw_sample(struct policy *policy, struct scorer *scorer, struct random *rng,
                                struct sample *sample)
{
    enum { MOST_DRAWS = 1000 };
    double score;
    for (int i = 0; i < MOST_DRAWS; i++) {
        if (!draw_point(policy, rng, &sample->point))
            continue;
        enum verdict verdict = scorer_score(scorer, &sample->point, &score);
        sample->log_score = verdict == SCORED ? log(score) : 0;
        if (verdict != OUT)
            return verdict;
    }
    return OUT;
}

/* Updates the baseline from the samples that have a score. */
static void move_baseline(struct policy *policy, const struct sample *samples, int count)
{
    double sum = 0, squares = 0;
    int n = 0;
    for (int i = 0; i < count; i++)
        if (samples[i].log_score < HUGE_VAL) {
            sum += samples[i].log_score;
            n++;
        }
    if (n == 0)
        return;
    double mean = sum / n;
    for (int i = 0; i < count; i++)
        if (samples[i].log_score < HUGE_VAL)
            squares += (samples[i].log_score - mean) * (samples[i].log_score - mean);
    double kept = policy->has_baseline ? kept_share : 0;
    policy->mean = kept * policy->mean + (1 - kept) * mean;
    policy->variance = kept * policy->variance + (1 - kept) * squares / n;
    policy->has_baseline = true;
}

static double advantage_of(const struct policy *policy, const struct sample *sample)
{
    if (sample->log_score == HUGE_VAL)
        return -most_advantage;
    double better = policy->mean - sample->log_score;
    double spread = sqrt(policy->variance) + 1e-9;
    return fmax(-most_advantage, fmin(most_advantage, better / spread));
}

static double entropy_of(const double *share, int count)
{
    double entropy = 0;
    for (int i = 0; i < count; i++)
        if (share[i] > 0)
            entropy -= share[i] * log(share[i]);
    return entropy;
}

/* Adds advantage x grad log p(point) + weight x grad entropy, for a softmax (Williams 1992, section
 * 4; the entropy term of Williams and Peng 1991). */
static void add_gradient(struct policy *policy, const struct point *point, double advantage,
                         double entropy_weight)
{
    for (int factor = 0; factor < policy->encoding->num_digits; factor++) {
        int count = policy->encoding->values[factor].count;
        double *gradient = &policy->gradient[row_of(policy, factor)];
        find_shares(policy, point, factor);
        double entropy = entropy_of(policy->share, count);
        for (int i = 0; i < count; i++) {
            double share = policy->share[i];
            if (share > 0)
                gradient[i] += advantage * ((i == point->digit[factor]) - share) -
                               entropy_weight * share * (log(share) + entropy);
        }
    }
}

static void update(struct policy *policy, const struct tuning *tuning, const struct sample *samples,
                   int count)
{
    if (!policy->has_baseline)
        move_baseline(policy, samples, count);
    memset(policy->gradient, 0, policy->num_logits * sizeof *policy->gradient);
    for (int i = 0; i < count; i++)
        add_gradient(policy, &samples[i].point, advantage_of(policy, &samples[i]),
                     tuning->entropy_weight);
    for (size_t i = 0; i < policy->num_logits; i++)
        policy->logit[i] += tuning->learning_rate * policy->gradient[i] / count;
    move_baseline(policy, samples, count);
}

static bool are_all_one(const struct sample *samples, int count)
{
    for (int i = 1; i < count; i++)
        if (memcmp(&samples[i].point, &samples[0].point, sizeof samples[0].point) != 0)
            return false;
    return true;
}

static double best_of(const struct sample *samples, int count)
{
    double best = HUGE_VAL;
    for (int i = 0; i < count; i++)
        best = fmin(best, samples[i].log_score);
    return best;
}

/* Runs one policy until it has settled: all samples of a batch are the same point, or no better
 * point was found for a while. The second test is needed because the entropy term keeps the policy
 * sampling around its (often local) optimum. Returns false when the search must stop. */
static bool learn_once(struct scorer *scorer, const struct tuning *tuning, struct random *rng,
                       struct sample *samples, struct policy *policy)
{
    double best = HUGE_VAL;
    for (int batches = 0, gained = 0;; batches++) {
        for (int i = 0; i < tuning->batch; i++) {
            enum verdict verdict = draw_sample(policy, scorer, rng, &samples[i]);
            if (verdict != SCORED)
                return verdict == OUT && batches > 0;
        }
        double found = best_of(samples, tuning->batch);
        if (found < best)
            gained = batches;
        best = fmin(best, found);
        if (are_all_one(samples, tuning->batch) ||
            (batches - gained) * tuning->batch >= tuning->policy_patience_scores)
            return true;
        update(policy, tuning, samples, tuning->batch);
    }
}

void reinforce(struct scorer *scorer, const struct tuning *tuning, struct random *rng)
{
    struct arena arena = { 0 };
    struct sample *samples = ARENA_ARRAY(&arena, struct sample, (size_t)tuning->batch);
    struct arena_mark mark = arena_mark(&arena);
    bool goes_on = true;
    while (goes_on) {
        struct policy policy = policy_new(scorer->encoding, &arena);
        goes_on = learn_once(scorer, tuning, rng, samples, &policy);
        arena_reset(&arena, mark);
    }
    arena_release(&arena);
}
