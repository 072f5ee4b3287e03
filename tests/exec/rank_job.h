/* tests/exec/rank_job.h - ranks as threads of a test, over any communicator that takes them. */
#ifndef TESTS_EXEC_RANK_JOB_H
#define TESTS_EXEC_RANK_JOB_H

#include "exec/comm/comm.h"

enum { MOST_JOB_RANKS = 16 };

struct rank_job {
    const struct comm_api *api;
    const struct device_api *device; /* NULL: device_host */
    int size;
    uint64_t seed;
    /* One rank's side; false: the test fails. */
    bool (*run)(struct rank_job *job, const struct comm_options *options);
    void *context; /* of `run` */
    /* Filled by rank_job_run, if they are not yet. */
    struct local_world *world;
    int meeting_fd, meeting_port;
};

/* Every rank's side, each in a thread; all must succeed. */
void rank_job_run(struct rank_job job);
/* Opens rank 0's listening socket, before the ranks exist. */
void rank_job_listen(struct rank_job *job);

#endif
