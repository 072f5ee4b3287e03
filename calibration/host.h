/* calibration/host.h - the whole calibration of this machine, as one of its ranks. */
#ifndef CALIBRATION_HOST_H
#define CALIBRATION_HOST_H

#include "calibration/host_profile.h"

struct host_calibration {
    const char *backend; /* of exec/backend.h */
    bool is_quick;       /* about a minute on a host's cores, two on GPUs; else 4 and 8. Beside
                            other programs shapes are left out to keep it */
    const struct model *model; /* whose own shapes are measured too; NULL: none */
    const struct stack *stack; /* the executor's on that backend */
    const char *resume_path;   /* a file that holds the ops of shapes that are done, so that a pass
                                  which was cut short goes on; NULL: none */
    /* Called before each part, by rank 0 alone: how much is done (0 to 1), how long the rest is
     * likely to take, and what comes. May be NULL. */
    void (*progress)(double share, double left_s, const char *what);
};

/* All ranks of the place call it together; *out is the cluster file on rank 0, NULL on others. The
 * caller frees. */
bool host_calibrate(const struct place *place, const struct host_calibration *options, json_t **out,
                    struct err *err);

#endif
