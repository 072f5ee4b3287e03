/* calibration/quiet.h - waits, before anything is measured, for other programs to leave the
 * cores. */
#ifndef CALIBRATION_QUIET_H
#define CALIBRATION_QUIET_H

#include "base/err.h"

/* A machine answers these; all ranks get the same answers. */
struct quiet_machine {
    void *context;
    /* The share of a core that the rank with the least got while all wanted one, and when. */
    bool (*core_share)(void *context, double *share, double *now_s, struct err *err);
    void (*rest)(void *context, double seconds);
    /* Called before each rest; may be NULL. */
    void (*tell)(void *context, double share, double left_s);
};

/* Seconds from the first answer to the last, about `most_s` at most; 0 where the machine was quiet
 * from the first. */
bool quiet_wait(const struct quiet_machine *machine, double most_s, double *waited_s,
                struct err *err);

#endif
