/* cli/print/apportion.h - rounded parts that add up to the rounded whole. */
#ifndef CLI_PRINT_APPORTION_H
#define CLI_PRINT_APPORTION_H

/* Each part as a whole number of units, less than one unit off, the sum of all being the parts' sum
 * rounded. The units that rounding down leaves go to the largest remainders, of equal ones to the
 * first. */
void apportion(const double *parts, int count, double unit, double *units);

#endif
