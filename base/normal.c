/* The standard normal distribution, and the largest of several normal numbers. */
#include "base/normal.h"

#include <math.h>

const double normal_90 = 1.6448536269514722;

double normal_cdf(double z)
{
    return 0.5 * erfc(-z / sqrt(2.0));
}

double normal_density(double z)
{
    return exp(-z * z / 2) / sqrt(2 * acos(-1));
}

/* Computes the quantile by bisection. Speed is unimportant, because it is called once per
 * search. */
double normal_quantile(double probability)
{
    double low = 0;
    double high = 10;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (normal_cdf(middle) < probability)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double expected_maximum(double n)
{
    return n <= 1 ? 0 : normal_quantile((n - 0.375) / (n + 0.25));
}

double maximum_count(double expected)
{
    double below = normal_cdf(expected);
    return expected <= 0 ? 1 : (0.375 + 0.25 * below) / (1 - below);
}

/* The value that a standard normal exceeds with probability `tail` <= 0.5. */
static double normal_exceeded(double tail)
{
    double t = sqrt(-2 * log(tail));
    double above = 2.515517 + t * (0.802853 + t * 0.010328);
    double below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308));
    return t - above / below;
}

double maximum_quantile(double n, double probability)
{
    /* the log of the probability that a single number is below the quantile */
    double each = log(probability) / n;
    double tail = -expm1(each);
    return tail <= 0.5 ? normal_exceeded(tail) : -normal_exceeded(exp(each));
}
