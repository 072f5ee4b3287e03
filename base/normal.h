/* base/normal.h - the standard normal distribution, and the largest of several such numbers. */
#ifndef BASE_NORMAL_H
#define BASE_NORMAL_H

/* Nine in ten lie within so many standard deviations of the mean. */
extern const double normal_90;

double normal_cdf(double z);
double normal_density(double z);
double normal_quantile(double probability); /* of 1/2 to 1 */

/* Expected maximum of n standard normals (Blom 1958); 0 for one. */
double expected_maximum(double n);

/* The inverse: the n whose expected maximum is `expected`; 1 or more. */
double maximum_count(double expected);

/* The quantile of the largest of n standard normals at `probability`, in (0, 1). At a uniform
 * random number it is a draw of that maximum. Within 5e-4 (Abramowitz and Stegun 1964, 26.2.23). */
double maximum_quantile(double n, double probability);

#endif
