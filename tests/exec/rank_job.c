#include "tests/exec/rank_job.h"

#include "exec/comm/socket.h"
#include "tests/testing.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

struct rank_thread {
    struct rank_job *job;
    int rank;
    bool ok;
    pthread_t thread;
};

static void *run_rank(void *argument)
{
    struct rank_thread *own = argument;
    struct rank_job *job = own->job;
    struct place place = { .launcher = "test",
                           .rank = own->rank,
                           .size = job->size,
                           .meeting_host = "127.0.0.1",
                           .meeting_port = job->meeting_port,
                           .meeting_fd = own->rank == 0 ? job->meeting_fd : -1 };
    snprintf(place.token, sizeof place.token, "%llu", (unsigned long long)job->seed);
    own->ok =
        job->run(job, &(struct comm_options){ .place = &place,
                                              .device = job->device ? job->device : &device_host,
                                              .local_world = job->world,
                                              .patience_s = 10 });
    return NULL;
}

void rank_job_listen(struct rank_job *job)
{
    struct err err = { 0 };
    struct sockaddr_storage address;
    ck_assert(socket_address("127.0.0.1", 0, &address, &err));
    job->meeting_fd = socket_listen(&address, &err);
    ck_assert_msg(job->meeting_fd >= 0, "%s", err.msg);
    socklen_t size = sizeof address;
    getsockname(job->meeting_fd, (struct sockaddr *)&address, &size);
    job->meeting_port = socket_port(&address);
}

void rank_job_run(struct rank_job job)
{
    if (job.api == &comm_local)
        job.world = local_world_new(job.size);
    else if (job.size > 1 && job.meeting_port == 0)
        rank_job_listen(&job);
    else if (job.size == 1)
        job.meeting_fd = -1;
    struct rank_thread ranks[MOST_JOB_RANKS];
    for (int i = 0; i < job.size; i++) {
        ranks[i] = (struct rank_thread){ .job = &job, .rank = i };
        pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]);
    }
    for (int i = 0; i < job.size; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < job.size; i++)
        ck_assert_msg(ranks[i].ok, "rank %d failed", i);
    local_world_free(job.world);
    if (job.api != &comm_local && job.meeting_fd >= 0)
        close(job.meeting_fd);
}
