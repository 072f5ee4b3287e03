/* tests/exec/rank_job.h - runs ranks as threads of a test, over any communicator that supports
 * threads. */
#ifndef TESTS_EXEC_RANK_JOB_H
#define TESTS_EXEC_RANK_JOB_H

#include "exec/comm/comm.h"

enum { MOST_JOB_RANKS = 16 };

struct rank_job {
    const struct comm_api *api;
    const struct device_api *device; /* NULL: device_host */
    int size;
    uint64_t seed;
    /* Does the work of one rank; if it returns false, the test fails. */
    bool (*run)(struct rank_job *job, const struct comm_options *options);
    void *context; /* context of `run` */
    /* Filled in by rank_job_run unless already set. */
    struct local_world *world;
    int meeting_fd, meeting_port;
};

/* Calls `run` for every rank, each in a thread of its own; all calls must succeed. */
void rank_job_run(struct rank_job job);
/* Opens rank 0's listening socket, before the ranks exist. */
void rank_job_listen(struct rank_job *job);

#endif
