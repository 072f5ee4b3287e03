/* exec/socket.h - TCP connections that are made and greeted within a limit.
 *
 * Sockets do not block, pass small messages on at once, and are not handed to programs that this
 * one starts. */
#ifndef EXEC_SOCKET_H
#define EXEC_SOCKET_H

#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>

/* How long to wait: until the deadline, on the clock of clock_now_s, or until another thread sets
 * `is_over` (NULL: none does). */
struct socket_limit {
    double deadline_s;
    const atomic_bool *is_over;
};
/* Whether there is time left; else ERR_SYSTEM. */
bool socket_has_time(struct socket_limit limit, struct err *err);

/* Looks up HOST:PORT (IPv4 before IPv6); where = "HOST:PORT". */
bool socket_address(const char *host, int port, struct sockaddr_storage *address, struct err *err);
/* In the address; 0 lets the system choose when it is listened on. */
int socket_port(const struct sockaddr_storage *address);
void socket_set_port(struct sockaddr_storage *address, int port);

/* "HOST:PORT" in numbers, for messages. */
enum { SOCKET_TEXT = 80 };
void socket_text(const struct sockaddr_storage *address, char text[SOCKET_TEXT]);

/* Return a descriptor that the caller closes, or -1 with ERR_SYSTEM, where = "HOST:PORT". */
int socket_listen(const struct sockaddr_storage *address, struct err *err);
/* `may_be_early`: tries again while nobody listens there. */
int socket_connect(const struct sockaddr_storage *address, bool may_be_early,
                   struct socket_limit limit, struct err *err);
/* Does not wait: -1 without an error when nobody calls. */
int socket_accept(int listener, struct err *err);

/* All the bytes or false. */
bool socket_send(int fd, const void *bytes, size_t count, struct socket_limit limit,
                 struct err *err);
bool socket_receive(int fd, void *bytes, size_t count, struct socket_limit limit, struct err *err);

#endif
