/* exec/comm/socket.h - TCP connections with a time limit.
 *
 * Sockets are non-blocking, send small messages at once (TCP_NODELAY) and are closed on exec. */
#ifndef EXEC_COMM_SOCKET_H
#define EXEC_COMM_SOCKET_H

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>

/* How long to wait: until the deadline on the clock of clock_now_s, or until another thread sets
 * `is_over` (NULL: never). */
struct socket_limit {
    double deadline_s;
    const atomic_bool *is_over;
};
/* Whether there is time left before the limit; if not, false with ERR_SYSTEM. */
bool socket_has_time(struct socket_limit limit, struct err *err);

/* Looks up HOST:PORT (IPv4 before IPv6); where = "HOST:PORT". */
bool socket_address(const char *host, int port, struct sockaddr_storage *address, struct err *err);
/* The port of an address; listening on port 0 lets the system choose. */
int socket_port(const struct sockaddr_storage *address);
void socket_set_port(struct sockaddr_storage *address, int port);

/* "HOST:PORT" in numbers, for messages. */
enum { SOCKET_TEXT = 80 };
void socket_text(const struct sockaddr_storage *address, char text[SOCKET_TEXT]);

/* These return a descriptor that the caller closes, or -1 with ERR_SYSTEM, where = "HOST:PORT". */
int socket_listen(const struct sockaddr_storage *address, struct err *err);
/* `may_be_early`: retries while no process listens there. */
int socket_connect(const struct sockaddr_storage *address, bool may_be_early,
                   struct socket_limit limit, struct err *err);
/* Returns at once: -1 without an error when nobody is connecting. */
int socket_accept(int listener, struct err *err);

/* Sends all bytes, else returns false with err. */
bool socket_send(int fd, const void *bytes, size_t count, struct socket_limit limit,
                 struct err *err);
bool socket_receive(int fd, void *bytes, size_t count, struct socket_limit limit, struct err *err);

#endif
