#include "exec/comm/local_meeting.h"

#include "base/arena.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct local_world *local_world_new(int size)
{
    struct local_world *world = arena_grow(NULL, sizeof *world);
    *world = (struct local_world){ .size = size };
    pthread_mutex_init(&world->mutex, NULL);
    failure_init(&world->failure);
    return world;
}

void local_world_free(struct local_world *world)
{
    if (!world)
        return;
    assert(!world->meetings && "groups must be freed before their communicator");
    pthread_mutex_destroy(&world->mutex);
    failure_release(&world->failure);
    free(world);
}

void local_world_fail(struct local_world *world, const struct err *err)
{
    failure_keep(&world->failure, err);
    pthread_mutex_lock(&world->mutex);
    for (struct meeting *meeting = world->meetings; meeting; meeting = meeting->next) {
        pthread_mutex_lock(&meeting->mutex);
        pthread_cond_broadcast(&meeting->changed);
        pthread_mutex_unlock(&meeting->mutex);
    }
    pthread_mutex_unlock(&world->mutex);
}

static struct meeting *meeting_new(struct local_world *world, int number, const int *ranks,
                                   int size)
{
    struct meeting *meeting = arena_grow(NULL, sizeof *meeting);
    *meeting = (struct meeting){ .world = world, .number = number, .size = size };
    meeting->ranks = arena_grow(NULL, (size_t)size * sizeof *ranks);
    memcpy(meeting->ranks, ranks, (size_t)size * sizeof *ranks);
    meeting->calls = arena_grow(NULL, (size_t)size * sizeof(struct comm_call *));
    size_t mailboxes_bytes = (size_t)size * (size_t)size * sizeof *meeting->mailboxes;
    meeting->mailboxes = arena_grow(NULL, mailboxes_bytes);
    memset(meeting->mailboxes, 0, mailboxes_bytes);
    pthread_mutex_init(&meeting->mutex, NULL);
    pthread_cond_init(&meeting->changed, NULL);
    meeting->next = world->meetings;
    world->meetings = meeting;
    return meeting;
}

static void meeting_free(struct meeting *meeting)
{
    pthread_cond_destroy(&meeting->changed);
    pthread_mutex_destroy(&meeting->mutex);
    free(meeting->mailboxes);
    free(meeting->calls);
    free(meeting->ranks);
    free(meeting);
}

/* Groups with one number share no rank, so the first rank tells them apart. */
static struct meeting *find_meeting(struct local_world *world, int number, const int *ranks,
                                    int size)
{
    for (struct meeting *meeting = world->meetings; meeting; meeting = meeting->next)
        if (meeting->number == number && meeting->ranks[0] == ranks[0])
            return meeting;
    return meeting_new(world, number, ranks, size);
}

struct meeting *meeting_join(struct local_world *world, int number, const int *ranks, int size)
{
    pthread_mutex_lock(&world->mutex);
    struct meeting *meeting = find_meeting(world, number, ranks, size);
    meeting->num_members++;
    pthread_mutex_unlock(&world->mutex);
    return meeting;
}

void meeting_leave(struct meeting *meeting)
{
    struct local_world *world = meeting->world;
    pthread_mutex_lock(&world->mutex);
    if (--meeting->num_members == 0) {
        struct meeting **link = &world->meetings;
        while (*link != meeting)
            link = &(*link)->next;
        *link = meeting->next;
        meeting_free(meeting);
    }
    pthread_mutex_unlock(&world->mutex);
}

bool meeting_has_failed(const struct meeting *meeting)
{
    return failure_is_kept(&meeting->world->failure);
}
