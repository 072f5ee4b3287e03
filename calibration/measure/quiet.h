/* calibration/measure/quiet.h - waits before the first measurement until other programs leave the
 * cores idle. */
#ifndef CALIBRATION_MEASURE_QUIET_H
#define CALIBRATION_MEASURE_QUIET_H

#include "base/err.h"

/* The functions by which quiet_wait observes the machine; all ranks get the same answers. */
struct quiet_machine {
    void *context;
    /* Gets the smallest share of a core that any rank got while all ranks tried to use a whole
     * core, and the time of this reading. */
    bool (*core_share)(void *context, double *share, double *now_s, struct err *err);
    void (*rest)(void *context, double seconds);
    /* Called before each pause between two readings; may be NULL. */
    void (*tell)(void *context, double share, double left_s);
};

/* Waits until the cores are idle, at most about `most_s`. *waited_s becomes the seconds from the
 * first reading to the last; 0 if the cores were idle at the first. */
bool quiet_wait(const struct quiet_machine *machine, double most_s, double *waited_s,
                struct err *err);

#endif
