/* cli/print/apportion.h - rounds parts so that their sum is the rounded total. */
#ifndef CLI_PRINT_APPORTION_H
#define CLI_PRINT_APPORTION_H

/* Rounds each part to a whole number of units, with an error below one unit, so that the sum is the
 * rounded sum of the parts. All parts are rounded down first. The missing units go to the largest
 * remainders; on a tie to the first. */
void apportion(const double *parts, int count, double unit, double *units);

#endif
