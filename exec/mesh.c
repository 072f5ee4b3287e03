#include "exec/mesh.h"

#include "base/arena.h"
#include "base/clock.h"
#include "exec/socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first bytes on every connection. Ranks run the same program on the same kind of machine, so
 * they are sent as they lie in memory; `magic` is how that is known. */
struct greeting {
    uint64_t magic, token;
    int32_t number; /* of mesh_connect; AT_MEETING: of nothing */
    int32_t rank, size;
    int32_t port; /* where the rank listens */
};
static const uint64_t greeting_magic = 0x73696d7365617263; /* "simsearc" */
enum { AT_MEETING = -1 };
static const double greeting_patience_s = 5;

/* A rank that was quicker: it connects for what this one will ask for later. */
struct early {
    struct early *next;
    int number, rank, fd;
};

struct mesh {
    int rank, size;
    uint64_t token;
    double patience_s;
    int listener;
    struct sockaddr_storage *addresses; /* of each rank's listener */
    struct early *early;
};

static struct greeting greeting_of(const struct mesh *mesh, int number, int port)
{
    return (struct greeting){ .magic = greeting_magic,
                              .token = mesh->token,
                              .number = number,
                              .rank = mesh->rank,
                              .size = mesh->size,
                              .port = port };
}

static bool fail_rank(int rank, struct err *err)
{
    char where[24];
    snprintf(where, sizeof where, "rank %d", rank);
    err_prefix(err, where);
    return false;
}

/* The next rank of this job that connects; strangers, and who says nothing, are turned away. */
static int accept_rank(const struct mesh *mesh, double deadline_s, struct greeting *greeting,
                       struct err *err)
{
    for (;;) {
        int fd = socket_accept(mesh->listener, deadline_s, err);
        if (fd < 0)
            return -1;
        struct err unheard = { 0 };
        double greeted_s = clock_now_s() + greeting_patience_s;
        if (socket_receive(fd, greeting, sizeof *greeting, greeted_s, &unheard) &&
            greeting->magic == greeting_magic && greeting->token == mesh->token &&
            greeting->rank >= 0 && greeting->rank < mesh->size && greeting->rank != mesh->rank)
            return fd;
        close(fd);
    }
}

/* --- the meeting ---------------------------------------------------------------------------- */

static bool receive_report(struct mesh *mesh, int *fds, double deadline_s, struct err *err)
{
    struct greeting greeting;
    int fd = accept_rank(mesh, deadline_s, &greeting, err);
    if (fd < 0)
        return false;
    struct sockaddr_storage *address = &mesh->addresses[greeting.rank];
    socklen_t size = sizeof *address;
    if (greeting.size != mesh->size || fds[greeting.rank] >= 0) {
        close(fd);
        return err_set(err, ERR_SYSTEM, "meeting",
                       "two ranks call themselves %d, or one of %d ranks met one of %d",
                       greeting.rank, mesh->size, greeting.size);
    }
    fds[greeting.rank] = fd;
    getpeername(fd, (struct sockaddr *)address, &size);
    socket_set_port(address, greeting.port);
    return true;
}

/* Which ranks have not come, for the message. */
static void blame_absent(const struct mesh *mesh, const int *fds, struct err *err)
{
    for (int rank = 1; rank < mesh->size; rank++)
        if (fds[rank] < 0) {
            fail_rank(rank, err);
            return;
        }
}

static bool host_meeting(struct mesh *mesh, double deadline_s, struct err *err)
{
    int *fds = arena_grow(NULL, (size_t)mesh->size * sizeof *fds);
    for (int rank = 0; rank < mesh->size; rank++)
        fds[rank] = -1;
    bool ok = true;
    for (int i = 1; i < mesh->size && ok; i++)
        ok = receive_report(mesh, fds, deadline_s, err);
    if (!ok)
        blame_absent(mesh, fds, err);
    size_t table_bytes = (size_t)mesh->size * sizeof *mesh->addresses;
    for (int rank = 1; rank < mesh->size && ok; rank++)
        ok = socket_send(fds[rank], mesh->addresses, table_bytes, deadline_s, err) ||
             fail_rank(rank, err);
    for (int rank = 1; rank < mesh->size; rank++)
        if (fds[rank] >= 0)
            close(fds[rank]);
    free(fds);
    return ok;
}

/* Listens on the address that the meeting is reached from: on this machine alone when that is the
 * loopback. */
static bool listen_beside(struct mesh *mesh, int meeting, int *port, struct err *err)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    getsockname(meeting, (struct sockaddr *)&own, &size);
    socket_set_port(&own, 0);
    mesh->listener = socket_listen(&own, err);
    if (mesh->listener < 0)
        return false;
    size = sizeof own;
    getsockname(mesh->listener, (struct sockaddr *)&own, &size);
    *port = socket_port(&own);
    return true;
}

static bool attend_meeting(struct mesh *mesh, const struct sockaddr_storage *where,
                           double deadline_s, struct err *err)
{
    int port;
    int fd = socket_connect(where, deadline_s, err);
    if (fd < 0)
        return fail_rank(0, err);
    bool ok = listen_beside(mesh, fd, &port, err);
    struct greeting greeting = greeting_of(mesh, AT_MEETING, ok ? port : 0);
    size_t table_bytes = (size_t)mesh->size * sizeof *mesh->addresses;
    if (ok)
        ok = (socket_send(fd, &greeting, sizeof greeting, deadline_s, err) &&
              socket_receive(fd, mesh->addresses, table_bytes, deadline_s, err)) ||
             fail_rank(0, err);
    mesh->addresses[0] = *where;
    close(fd);
    return ok;
}

static bool meet(struct mesh *mesh, const struct place *place, struct err *err)
{
    double deadline_s = clock_now_s() + mesh->patience_s;
    struct sockaddr_storage where;
    if (place->rank == 0 && place->meeting_fd >= 0) {
        mesh->listener = fcntl(place->meeting_fd, F_DUPFD_CLOEXEC, 0);
        return host_meeting(mesh, deadline_s, err);
    }
    if (!socket_address(place->meeting_host, place->meeting_port, &where, err))
        return false;
    if (place->rank > 0)
        return attend_meeting(mesh, &where, deadline_s, err);
    mesh->listener = socket_listen(&where, err);
    return mesh->listener >= 0 && host_meeting(mesh, deadline_s, err);
}

struct mesh *mesh_new(const struct place *place, double patience_s, struct err *err)
{
    if (place->size > 1 && place->meeting_fd < 0 && place->meeting_host[0] == '\0') {
        err_set(err, ERR_UNAVAILABLE, "tcp", "%s does not say where its ranks can meet",
                place->launcher);
        return NULL;
    }
    struct mesh *mesh = arena_grow(NULL, sizeof *mesh);
    *mesh = (struct mesh){ .rank = place->rank,
                           .size = place->size,
                           .token = place->token,
                           .patience_s = patience_s,
                           .listener = -1 };
    size_t table_bytes = (size_t)mesh->size * sizeof *mesh->addresses;
    mesh->addresses = arena_grow(NULL, table_bytes);
    memset(mesh->addresses, 0, table_bytes);
    if (mesh->size == 1 || meet(mesh, place, err))
        return mesh;
    mesh_free(mesh);
    return NULL;
}

void mesh_free(struct mesh *mesh)
{
    if (!mesh)
        return;
    for (struct early *early = mesh->early, *next; early; early = next) {
        next = early->next;
        close(early->fd);
        free(early);
    }
    if (mesh->listener >= 0)
        close(mesh->listener);
    free(mesh->addresses);
    free(mesh);
}

/* --- connections ---------------------------------------------------------------------------- */

static int call_rank(const struct mesh *mesh, int number, int rank, double deadline_s,
                     struct err *err)
{
    struct greeting greeting = greeting_of(mesh, number, 0);
    int fd = socket_connect(&mesh->addresses[rank], deadline_s, err);
    if (fd < 0 || socket_send(fd, &greeting, sizeof greeting, deadline_s, err))
        return fd;
    close(fd);
    return -1;
}

static int take_early(struct mesh *mesh, int number, int rank)
{
    for (struct early **link = &mesh->early; *link; link = &(*link)->next) {
        struct early *early = *link;
        if (early->number != number || early->rank != rank)
            continue;
        int fd = early->fd;
        *link = early->next;
        free(early);
        return fd;
    }
    return -1;
}

static int await_rank(struct mesh *mesh, int number, int rank, double deadline_s, struct err *err)
{
    int fd;
    while ((fd = take_early(mesh, number, rank)) < 0) {
        struct greeting greeting;
        int any = accept_rank(mesh, deadline_s, &greeting, err);
        if (any < 0)
            return -1;
        struct early *early = arena_grow(NULL, sizeof *early);
        *early = (struct early){ mesh->early, greeting.number, greeting.rank, any };
        mesh->early = early;
    }
    return fd;
}

static void close_all(int *fds, int count)
{
    for (int i = 0; i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Each calls those before it in the list, which need not be waiting yet: the system holds calls
 * until they are accepted. */
bool mesh_connect(struct mesh *mesh, int number, const int *ranks, int num_ranks, int *fds,
                  struct err *err)
{
    double deadline_s = clock_now_s() + mesh->patience_s;
    bool calls = true;
    for (int i = 0; i < num_ranks; i++)
        fds[i] = -1;
    for (int i = 0; i < num_ranks; i++) {
        if (ranks[i] == mesh->rank) {
            calls = false;
            continue;
        }
        fds[i] = calls ? call_rank(mesh, number, ranks[i], deadline_s, err)
                       : await_rank(mesh, number, ranks[i], deadline_s, err);
        if (fds[i] < 0) {
            close_all(fds, i);
            return fail_rank(ranks[i], err);
        }
    }
    return true;
}
