/* calibration/measure/host.h - the whole calibration of this machine, as one of its ranks. */
#ifndef CALIBRATION_MEASURE_HOST_H
#define CALIBRATION_MEASURE_HOST_H

#include "calibration/measure/host_profile.h"

struct host_calibration {
    const char *backend; /* name of a backend in exec/plugin/backend.h */
    /* the calibration takes about one minute on a host's cores and two on GPUs; otherwise 4 and
     * 8. If other programs run, shapes are skipped to stay within that time */
    bool is_quick;
    const struct model *model; /* the shapes of this model's ops are measured too; NULL: none */
    const struct stack *stack; /* the executor's stack on that backend */
    const char *resume_path; /* file of the shapes already measured, so that an interrupted pass can
                                be resumed; NULL: none */
    /* Called on rank 0 before each part, with the share of the pass that is done (0 to 1), the
     * expected remaining time and the name of the next part. May be NULL. */
    void (*progress)(double share, double left_s, const char *what);
};

/* All ranks of `place` call it together; *out is the cluster file on rank 0, NULL on others. The
 * caller frees. */
bool host_calibrate(const struct place *place, const struct host_calibration *options, json_t **out,
                    struct err *err);

#endif
