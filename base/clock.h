/* base/clock.h - seconds that pass: differences mean something, values do not. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_now_s(void);    /* of the machine's clock, which never goes back */
double clock_thread_s(void); /* that the calling thread has computed */

#endif
