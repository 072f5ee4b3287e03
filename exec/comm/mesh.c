/* How processes find each other. Rank 0 listens at an address that all ranks know, the meeting.
 * Every other rank reports its own address there, gets the table of all addresses, and can then
 * connect to any rank. */
#include "exec/comm/mesh.h"

#include "base/arena.h"
#include "base/clock.h"
#include "exec/comm/greeting.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A connection that arrived early: this rank has not made its mesh_connect call yet. */
struct early {
    struct early *next;
    int number, rank, fd;
};

struct mesh {
    struct place place;
    struct comm_waits waits;
    double patience_s;
    struct entrance entrance;
    struct sockaddr_storage *addresses; /* addresses of the ranks' listeners */
    struct early *early;
};

static struct socket_limit limit_of(const struct mesh *mesh)
{
    return (struct socket_limit){ clock_now_s() + mesh->patience_s, mesh->waits.is_over };
}

static bool fail_rank(int rank, struct err *err)
{
    char where[24];
    snprintf(where, sizeof where, "rank %d%s", rank, err->where[0] ? ": " : "");
    err_prefix(err, where);
    return false;
}

__attribute__((format(printf, 2, 3))) static void tell(const struct mesh *mesh, const char *format,
                                                       ...)
{
    char what[400];
    va_list values;
    if (!mesh->waits.tell)
        return;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    mesh->waits.tell(mesh->waits.context, what);
}

/* --- connecting all ranks ------------------------------------------------------------------- */

/* Whether the rank at this connection still waits. It sends nothing after its report. */
static bool is_open(int fd)
{
    char byte;
    return fd >= 0 && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

/* Receives one more rank's report. A second rank with the same number is rejected, so that it
 * cannot disturb the first. */
static bool receive_report(struct mesh *mesh, int *fds, struct socket_limit limit, struct err *err)
{
    for (;;) {
        struct greeting greeting;
        int fd = entrance_next(&mesh->entrance, limit, &greeting, err);
        if (fd < 0)
            return false;
        int *seat = &fds[greeting.rank];
        struct err unheard = { 0 };
        bool is_report = greeting.number == AT_MEETING;
        if (is_report && !is_open(*seat)) {
            struct sockaddr_storage *address = &mesh->addresses[greeting.rank];
            socklen_t size = sizeof *address;
            close(*seat); /* has no effect on -1 */
            *seat = fd;
            getpeername(fd, (struct sockaddr *)address, &size);
            socket_set_port(address, greeting.port);
            return true;
        }
        if (is_report)
            greeting_reply(fd, VERDICT_TAKEN, mesh->place.size, limit, &unheard);
        close(fd);
    }
}

/* The first rank that has not arrived or has disconnected; `size` if there is none. */
static int absent_rank(const struct mesh *mesh, const int *fds)
{
    int rank = 1;
    while (rank < mesh->place.size && is_open(fds[rank]))
        rank++;
    return rank;
}

static bool receive_all(struct mesh *mesh, int *fds, struct socket_limit limit, struct err *err)
{
    for (int rank; (rank = absent_rank(mesh, fds)) < mesh->place.size;) {
        tell(mesh, "for rank %d to report its address", rank);
        if (!receive_report(mesh, fds, limit, err))
            return fail_rank(absent_rank(mesh, fds), err);
    }
    return true;
}

static bool tell_all(struct mesh *mesh, const int *fds, struct socket_limit limit, struct err *err)
{
    int size = mesh->place.size;
    size_t table_bytes = (size_t)size * sizeof *mesh->addresses;
    for (int rank = 1; rank < size; rank++) {
        tell(mesh, "for rank %d to receive all addresses", rank);
        if (!greeting_reply(fds[rank], VERDICT_WELCOME, size, limit, err) ||
            !socket_send(fds[rank], mesh->addresses, table_bytes, limit, err))
            return fail_rank(rank, err);
    }
    return true;
}

static bool host_meeting(struct mesh *mesh, struct err *err)
{
    struct socket_limit limit = limit_of(mesh);
    int size = mesh->place.size;
    int *fds = arena_grow(NULL, (size_t)size * sizeof *fds);
    for (int rank = 0; rank < size; rank++)
        fds[rank] = -1;
    bool ok = receive_all(mesh, fds, limit, err) && tell_all(mesh, fds, limit, err);
    for (int rank = 1; rank < size; rank++)
        close(fds[rank]); /* has no effect on -1 */
    free(fds);
    return ok;
}

/* Listens on the local address that the connection to the meeting uses. If it is the loopback
 * address, only this machine can connect. */
static bool listen_beside(struct mesh *mesh, int meeting, int *port, struct err *err)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    getsockname(meeting, (struct sockaddr *)&own, &size);
    socket_set_port(&own, 0);
    mesh->entrance.listener = socket_listen(&own, err);
    if (mesh->entrance.listener < 0)
        return false;
    size = sizeof own;
    getsockname(mesh->entrance.listener, (struct sockaddr *)&own, &size);
    *port = socket_port(&own);
    return true;
}

static bool report(struct mesh *mesh, int meeting, int port, struct socket_limit limit,
                   struct err *err)
{
    struct greeting greeting = greeting_of(&mesh->place, AT_MEETING, port);
    size_t table_bytes = (size_t)mesh->place.size * sizeof *mesh->addresses;
    tell(mesh, "for rank 0 to send all addresses");
    return socket_send(meeting, &greeting, sizeof greeting, limit, err) &&
           greeting_hear_reply(meeting, mesh->place.size, limit, err) &&
           socket_receive(meeting, mesh->addresses, table_bytes, limit, err);
}

static bool attend_meeting(struct mesh *mesh, const struct sockaddr_storage *where, bool *is_lost,
                           struct err *err)
{
    struct socket_limit limit = limit_of(mesh);
    char text[SOCKET_TEXT];
    int port;
    socket_text(where, text);
    tell(mesh, "for rank 0 to listen at %s", text);
    int fd = socket_connect(where, true, limit, err);
    if (fd < 0)
        return fail_rank(0, err);
    bool ok = listen_beside(mesh, fd, &port, err);
    if (ok && !report(mesh, fd, port, limit, err)) {
        *is_lost = err->code == ERR_SYSTEM;
        err_prefix(err, text);
        ok = fail_rank(0, err);
    }
    mesh->addresses[0] = *where;
    close(fd);
    return ok;
}

static bool meet(struct mesh *mesh, bool *is_lost, struct err *err)
{
    const struct place *place = &mesh->place;
    struct sockaddr_storage where;
    int *listener = &mesh->entrance.listener;
    if (place->rank == 0 && place->meeting_fd >= 0) {
        *listener = fcntl(place->meeting_fd, F_DUPFD_CLOEXEC, 0);
    } else {
        if (!socket_address(place->meeting_host, place->meeting_port, &where, err))
            return false;
        if (place->rank > 0)
            return attend_meeting(mesh, &where, is_lost, err);
        *listener = socket_listen(&where, err);
    }
    if (*listener < 0)
        return err_set(err, ERR_SYSTEM, "meeting", "cannot open a socket to listen on");
    *is_lost = !host_meeting(mesh, err);
    return !*is_lost;
}

struct mesh *mesh_new(const struct comm_options *options, bool *is_lost, struct err *err)
{
    const struct place *place = options->place;
    *is_lost = false;
    if (place->size > 1 && place->meeting_fd < 0 && place->meeting_host[0] == '\0') {
        err_set(err, ERR_UNAVAILABLE, "tcp", "%s states no address at which its ranks can connect",
                place->launcher);
        return NULL;
    }
    struct mesh *mesh = arena_grow(NULL, sizeof *mesh);
    *mesh = (struct mesh){ .place = *place,
                           .waits = options->waits,
                           .patience_s = options->patience_s,
                           .entrance = { .listener = -1 } };
    mesh->entrance.place = &mesh->place;
    size_t table_bytes = (size_t)place->size * sizeof *mesh->addresses;
    mesh->addresses = arena_grow(NULL, table_bytes);
    memset(mesh->addresses, 0, table_bytes);
    if (place->size == 1 || meet(mesh, is_lost, err))
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
    entrance_close(&mesh->entrance);
    free(mesh->addresses);
    free(mesh);
}

/* --- connections ---------------------------------------------------------------------------- */

/* Connects to a rank. All ranks listen before they meet, so a rank that refuses a connection has
 * ended. */
static int call_rank(const struct mesh *mesh, int number, int rank, struct socket_limit limit,
                     struct err *err)
{
    struct greeting greeting = greeting_of(&mesh->place, number, 0);
    tell(mesh, "to connect to rank %d", rank);
    int fd = socket_connect(&mesh->addresses[rank], false, limit, err);
    if (fd < 0 || socket_send(fd, &greeting, sizeof greeting, limit, err))
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

static int await_rank(struct mesh *mesh, int number, int rank, struct socket_limit limit,
                      struct err *err)
{
    int fd;
    tell(mesh, "for rank %d to connect", rank);
    while ((fd = take_early(mesh, number, rank)) < 0) {
        struct greeting greeting;
        int any = entrance_next(&mesh->entrance, limit, &greeting, err);
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

/* Each rank connects to the earlier ranks of the list. These need not be waiting yet: the system
 * queues connections until they are accepted. */
bool mesh_connect(struct mesh *mesh, int number, const int *ranks, int num_ranks, int *fds,
                  struct err *err)
{
    struct socket_limit limit = limit_of(mesh);
    bool calls = true;
    for (int i = 0; i < num_ranks; i++) {
        if (ranks[i] == mesh->place.rank) {
            calls = false;
            continue;
        }
        fds[i] = calls ? call_rank(mesh, number, ranks[i], limit, err)
                       : await_rank(mesh, number, ranks[i], limit, err);
        if (fds[i] < 0) {
            close_all(fds, i);
            return fail_rank(ranks[i], err);
        }
    }
    return true;
}
