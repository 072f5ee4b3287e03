/* base/normal.h - the standard normal distribution, and the largest of several normal numbers. */
#ifndef BASE_NORMAL_H
#define BASE_NORMAL_H

/* 90 % of normal numbers are within normal_90 standard deviations of the mean. */
extern const double normal_90;

double normal_cdf(double z);
double normal_density(double z);
double normal_quantile(double probability); /* probability: 1/2 to 1 */

/* Expected maximum of n standard normals (Blom 1958); 0 for one. */
double expected_maximum(double n);

/* The inverse of expected_maximum: the n >= 1 whose expected maximum is `expected`. */
double maximum_count(double expected);

/* The quantile of the largest of n standard normals at `probability`, in (0, 1). With a uniform
 * random `probability` the result is a random draw of that maximum. Error below 5e-4 (Abramowitz
 * and Stegun 1964, 26.2.23). */
double maximum_quantile(double n, double probability);

#endif
