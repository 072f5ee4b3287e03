/* exec/socket.h - TCP connections that are made and greeted before a deadline.
 *
 * Sockets do not block, pass small messages on at once, and are not handed to programs that this
 * one starts. Deadlines are on the clock of clock_now_s. */
#ifndef EXEC_SOCKET_H
#define EXEC_SOCKET_H

#include "base/err.h"

#include <stddef.h>
#include <sys/socket.h>

/* Looks up HOST:PORT (IPv4 before IPv6); where = "HOST:PORT". */
bool socket_address(const char *host, int port, struct sockaddr_storage *address, struct err *err);
/* In the address; 0 lets the system choose when it is listened on. */
int socket_port(const struct sockaddr_storage *address);
void socket_set_port(struct sockaddr_storage *address, int port);

/* All return a descriptor that the caller closes, or -1 with ERR_SYSTEM. */
int socket_listen(const struct sockaddr_storage *address, struct err *err);
/* Tries again while nobody listens there. */
int socket_connect(const struct sockaddr_storage *address, double deadline_s, struct err *err);
int socket_accept(int listener, double deadline_s, struct err *err);

/* All the bytes or false. */
bool socket_send(int fd, const void *bytes, size_t count, double deadline_s, struct err *err);
bool socket_receive(int fd, void *bytes, size_t count, double deadline_s, struct err *err);

#endif
