/* Expected loads of experts and their ranks. A load is the number of rows, that is tokens times
 * chosen experts, that an expert or a rank gets. */
#include "models/routing.h"

#include "base/normal.h"

#include <math.h>

const char *const routing_names[] = { "balanced", "random", "cv", "factor", "in-turn", 0 };

bool routing_is_even(const struct routing *routing)
{
    return routing->kind == ROUTING_BALANCED || routing->kind == ROUTING_IN_TURN;
}

/* An expert's popularity (its share of choices, scaled to mean 1): standard deviation and skewness
 * of a lognormal. */
struct popularity {
    double cv, skewness;
};

/* The elasticity of an expert's load with respect to its popularity. It is below 1 because a token
 * never chooses an expert twice. Among E experts of weight 1, an expert of weight w is missed by k
 * choices in turn with the probability P = product over j = 1..k of (E - j)/(w + E - j). At w = 1
 * the elasticity of the load 1 - P is (1 - k/E) (sum over j of 1/(E - j + 1)) / (k/E). For k = 1
 * this is 1 - 1/E, less than 1 only because shares must sum to 1. The result is the elasticity for
 * k = topk divided by the elasticity for k = 1. */
static double slope_of_choice(double experts, double topk)
{
    double sum = 0;
    if (topk >= experts)
        return 0;
    for (int j = 1; j <= (int)topk; j++)
        sum += 1 / (experts - j + 1);
    return (1 - topk / experts) * sum / (topk / experts) / (1 - 1 / experts);
}

static struct popularity popularity_of(const struct routing *routing, const struct routed *routed)
{
    double cv = routing->kind == ROUTING_SKEWED ? routing->cv : 0;
    return (struct popularity){ cv * slope_of_choice(routed->experts, routed->topk),
                                cv * (3 + cv * cv) };
}

/* The expected largest of `draws` loads of a rank, each the sum over its experts / ranks experts,
 * with mean 1. The variance of a load is that of its experts' mean popularity, plus the variance of
 * the number of rows that choose this rank. The expected maximum of draws with a small skewness s
 * is z + s (z^2 - 1)/6 standard deviations above the mean (Cornish and Fisher 1938), where z is the
 * expected maximum of the same number of standard normals. */
static double largest_load(const struct popularity *popularity, const struct routed *routed,
                           double ranks, double draws)
{
    double of_rank = routed->experts / ranks;
    double z = expected_maximum(draws);
    double popular = popularity->cv * popularity->cv / of_rank;
    double counted = (ranks - 1) / (routed->tokens * routed->topk);
    double skewness = popularity->skewness / sqrt(of_rank) *
                      (popular > 0 ? pow(popular / (popular + counted), 1.5) : 0);
    return 1 + sqrt(popular + counted) * (z + skewness * (z * z - 1) / 6);
}

/* The largest possible load: a token sends a rank no more rows than the token has choices or the
 * rank has experts. */
static double most_load(const struct routed *routed, double ranks)
{
    return ranks * fmin(1, routed->experts / ranks / routed->topk);
}

/* The largest load divided by the mean load when the experts are divided into `ranks` equal parts:
 * the largest of ranks x `times` loads. */
static double factor_of(const struct routing *routing, const struct routed *routed, double ranks,
                        double times)
{
    struct popularity popularity = popularity_of(routing, routed);
    if (routing_is_even(routing) || ranks <= 1)
        return 1;
    double load = routing->kind == ROUTING_FACTOR
                      ? routing->factor
                      : largest_load(&popularity, routed, ranks, ranks * times);
    return fmax(1, fmin(load, most_load(routed, ranks)));
}

double routing_rank_factor(const struct routing *routing, const struct routed *routed)
{
    return factor_of(routing, routed, routed->ranks, 1);
}

double routing_expert_factor(const struct routing *routing, const struct routed *routed)
{
    double factor = factor_of(routing, routed, routed->experts, 1);
    return fmax(factor, routing_rank_factor(routing, routed));
}

double routing_peak_factor(const struct routing *routing, const struct routed *routed,
                           double layers)
{
    return factor_of(routing, routed, routed->ranks, layers);
}

double routing_capacity_rows(double tokens, double experts, double topk, double capacity)
{
    return ceil(tokens * topk / experts * capacity);
}

/* The share of dropped rows. A load X of mean 1 is approximately normal with standard deviation v.
 * With capacity F, E max(0, X - F) = v (phi(a) - a (1 - Phi(a))), where a = (F - 1)/v. A token
 * chooses an expert at most once, so counts have (1 - k/E) of a Poisson's variance. */
double routing_dropped_share(const struct routing *routing, const struct routed *routed,
                             double capacity)
{
    struct popularity popularity = popularity_of(routing, routed);
    double mean = routed->tokens * routed->topk / routed->experts;
    double counted = (1 - routed->topk / routed->experts) / mean;
    double deviation = sqrt(popularity.cv * popularity.cv + counted);
    if (routing_is_even(routing) || deviation <= 0)
        return fmax(0, 1 - capacity);
    double above = (capacity - 1) / deviation;
    return deviation * (normal_density(above) - above * (1 - normal_cdf(above)));
}

/* The probability that a token, which chooses k of E experts without repetition, chooses none of
 * `a` given experts: C(E - a, k)/C(E, k). */
static double chance_of_none(double experts, double part, int topk)
{
    double chance = 1;
    for (int i = 0; i < topk; i++)
        chance *= fmax(0, experts - part - i) / (experts - i);
    return chance;
}

/* In turn, a token's k experts are neighbours, the first a multiple of k modulo E. All multiples of
 * the greatest common divisor of k and E are equally frequent. */
static double distinct_in_turn(const struct expert_choice *choice, double parts)
{
    int experts = choice->experts, topk = choice->topk, reached = 0;
    for (int first = 0, i = 0; i < experts; i++, first = (first + topk) % experts) {
        int part = -1;
        for (int j = 0; j < topk; j++) {
            int of = (int)((first + j) % experts * parts / experts);
            reached += of != part;
            part = of;
        }
    }
    return fmin((double)reached / experts, parts);
}

/* A token limited to M of G groups chooses among E M/G experts. These experts are on M/G of the
 * parts, or on M parts if a part has several groups (DeepEP, elastic.py, has the same form). */
double routing_distinct(const struct expert_choice *choice, double parts)
{
    double experts = choice->experts, reached = parts;
    if (choice->in_turn)
        return distinct_in_turn(choice, parts);
    if (choice->topk_groups > 0 && choice->topk_groups < choice->groups) {
        experts *= (double)choice->topk_groups / choice->groups;
        reached =
            fmin(parts, fmax(choice->topk_groups, parts * choice->topk_groups / choice->groups));
    }
    return reached * (1 - chance_of_none(experts, experts / reached, choice->topk));
}
