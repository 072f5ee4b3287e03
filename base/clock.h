/* base/clock.h - clocks: only differences of two readings are meaningful. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_now_s(void);    /* the machine's clock, which never runs backwards */
double clock_thread_s(void); /* CPU time of the calling thread */

#endif
