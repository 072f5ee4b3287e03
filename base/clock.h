/* base/clock.h - clocks; only the difference of two readings has a meaning. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_now_s(void);    /* the machine's clock, which never runs backwards */
double clock_thread_s(void); /* CPU time of the calling thread */

#endif
