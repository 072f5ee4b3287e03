#define _GNU_SOURCE // SOCK_CLOEXEC, accept4; NOLINT(bugprone-reserved-identifier)
#include "exec/comm/socket.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool fail(const char *what, struct err *err)
{
    return err_set(err, ERR_SYSTEM, "", "%s: %s", what, strerror(errno));
}

bool socket_has_time(struct socket_limit limit, struct err *err)
{
    if (limit.is_over && atomic_load(limit.is_over))
        return err_set(err, ERR_SYSTEM, "", "the wait was interrupted");
    return clock_now_s() < limit.deadline_s ||
           err_set(err, ERR_SYSTEM, "", "did not connect in time");
}

/* Waits until the descriptor is ready. It waits in short intervals, so that it notices when another
 * thread ends the wait. */
static bool wait_until(int fd, short events, struct socket_limit limit, struct err *err)
{
    enum { SLICE_MS = 50 };
    while (socket_has_time(limit, err)) {
        struct pollfd wait = { .fd = fd, .events = events };
        int ready = poll(&wait, 1, SLICE_MS);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return fail("waiting", err);
    }
    return false;
}

bool socket_address(const char *host, int port, struct sockaddr_storage *address, struct err *err)
{
    struct addrinfo *found = NULL;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_INET };
    int status = getaddrinfo(host, NULL, &hints, &found);
    if (status != 0) {
        hints.ai_family = AF_UNSPEC;
        status = getaddrinfo(host, NULL, &hints, &found);
    }
    if (status != 0) {
        char where[300];
        snprintf(where, sizeof where, "%s:%d", host, port);
        return err_set(err, ERR_SYSTEM, where, "no such host: %s", gai_strerror(status));
    }
    memset(address, 0, sizeof *address);
    memcpy(address, found->ai_addr, found->ai_addrlen);
    socket_set_port(address, port);
    freeaddrinfo(found);
    return true;
}

int socket_port(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

void socket_set_port(struct sockaddr_storage *address, int port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

void socket_text(const struct sockaddr_storage *address, char text[SOCKET_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v6 = address->ss_family == AF_INET6;
    const void *numbers = is_v6 ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                                : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    inet_ntop(address->ss_family, numbers, host, sizeof host);
    snprintf(text, SOCKET_TEXT, is_v6 ? "[%s]:%d" : "%s:%d", host, socket_port(address));
}

static bool fail_at(const struct sockaddr_storage *address, const char *what, struct err *err)
{
    char where[SOCKET_TEXT];
    int cause = errno;
    socket_text(address, where);
    return err_set(err, ERR_SYSTEM, where, "%s: %s", what, strerror(cause));
}

static socklen_t address_size(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static int new_socket(const struct sockaddr_storage *address)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

int socket_listen(const struct sockaddr_storage *address, struct err *err)
{
    int fd = new_socket(address);
    int on = 1;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)address, address_size(address)) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    fail_at(address, "cannot be listened on", err);
    close(fd); /* has no effect on -1 */
    return -1;
}

/* Returns 0 or errno. */
static int connect_once(int fd, const struct sockaddr_storage *address, struct socket_limit limit,
                        struct err *err)
{
    if (connect(fd, (const struct sockaddr *)address, address_size(address)) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return errno;
    if (!wait_until(fd, POLLOUT, limit, err))
        return ETIMEDOUT;
    int status = 0;
    socklen_t size = sizeof status;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &status, &size);
    return status;
}

int socket_connect(const struct sockaddr_storage *address, bool may_be_early,
                   struct socket_limit limit, struct err *err)
{
    for (;;) {
        int fd = new_socket(address);
        int status = fd < 0 ? errno : connect_once(fd, address, limit, err);
        if (status == 0)
            return fd;
        close(fd); /* has no effect on -1 */
        struct err late = { 0 };
        bool tries_again = fd >= 0 && status == ECONNREFUSED && may_be_early;
        if (!tries_again || !socket_has_time(limit, &late)) {
            errno = status;
            fail_at(address, "cannot be reached", err);
            return -1;
        }
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
}

int socket_accept(int listener, struct err *err)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int on = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        fail("accepting", err);
    return fd;
}

bool socket_send(int fd, const void *bytes, size_t count, struct socket_limit limit,
                 struct err *err)
{
    for (const char *at = bytes; count > 0;) {
        ssize_t sent = send(fd, at, count, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            count -= (size_t)sent;
        } else if (errno != EAGAIN && errno != EINTR) {
            return fail("sending", err);
        } else if (!wait_until(fd, POLLOUT, limit, err)) {
            return false;
        }
    }
    return true;
}

bool socket_receive(int fd, void *bytes, size_t count, struct socket_limit limit, struct err *err)
{
    for (char *at = bytes; count > 0;) {
        ssize_t received = recv(fd, at, count, 0);
        if (received > 0) {
            at += received;
            count -= (size_t)received;
        } else if (received == 0) {
            return err_set(err, ERR_SYSTEM, "", "closed its connection");
        } else if (errno != EAGAIN && errno != EINTR) {
            return fail("receiving", err);
        } else if (!wait_until(fd, POLLIN, limit, err)) {
            return false;
        }
    }
    return true;
}
