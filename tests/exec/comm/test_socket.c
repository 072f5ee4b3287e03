/* Tests addresses, time limits and faults of TCP connections. */
#include "exec/comm/socket.h"

#include "base/clock.h"
#include "tests/check_ok.h"
#include "tests/testing.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct socket_limit within_s(double time_s)
{
    return (struct socket_limit){ clock_now_s() + time_s, NULL };
}

/* --- addresses -------------------------------------------------------------------------------- */

static const struct {
    const char *host;
    int port, family;
    const char *text;
} named[] = {
    { "127.0.0.1", 80, AF_INET, "127.0.0.1:80" },
    { "10.1.2.3", 65535, AF_INET, "10.1.2.3:65535" },
    { "::1", 4321, AF_INET6, "[::1]:4321" },
    { "fe80::12", 0, AF_INET6, "[fe80::12]:0" },
};

START_TEST(an_address_has_a_host_and_a_port_of_either_version)
{
    struct sockaddr_storage address;
    struct err err = { 0 };
    char text[SOCKET_TEXT];
    check_ok(socket_address(named[_i].host, named[_i].port, &address, &err), &err);
    ck_assert_int_eq(address.ss_family, named[_i].family);
    ck_assert_int_eq(socket_port(&address), named[_i].port);
    socket_text(&address, text);
    ck_assert_str_eq(text, named[_i].text);
    socket_set_port(&address, 513);
    ck_assert_int_eq(socket_port(&address), 513);
    in_port_t port = address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                                  : ((struct sockaddr_in6 *)&address)->sin6_port;
    ck_assert_int_eq(port, htons(513));
}
END_TEST

START_TEST(an_invalid_host_is_refused_by_its_name)
{
    struct sockaddr_storage address;
    struct err err = { 0 };
    ck_assert(!socket_address("256.256.256.256.", 12, &address, &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, "256.256.256.256.:12");
    ck_assert_ptr_nonnull(strstr(err.msg, "no such host: "));
}
END_TEST

/* --- connections ------------------------------------------------------------------------------ */

static struct sockaddr_storage address;
static int listener;

/* Opens a socket that listens on a port that the system chose. */
static void listen_here(const char *host)
{
    struct err err = { 0 };
    socklen_t size = sizeof address;
    check_ok(socket_address(host, 0, &address, &err), &err);
    listener = socket_listen(&address, &err);
    check_ok(listener >= 0, &err);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
}

static void check_options(int fd)
{
    int no_delay = 0;
    socklen_t size = sizeof no_delay;
    ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size), 0);
    ck_assert(no_delay);
}

/* Connects two sockets of this process. */
static void connect_ends(int ends[2])
{
    struct err err = { 0 };
    listen_here("127.0.0.1");
    ck_assert_int_eq(socket_accept(listener, &err), -1);
    ck_assert_int_eq(err.code, ERR_NONE);
    ends[0] = socket_connect(&address, false, within_s(10), &err);
    check_ok(ends[0] >= 0, &err);
    poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 10000);
    ends[1] = socket_accept(listener, &err);
    check_ok(ends[1] >= 0, &err);
    check_options(ends[0]);
    check_options(ends[1]);
    check_options(listener);
    close(listener);
}

enum { MANY = 8 << 20 };

static void *send_many(void *fd)
{
    struct err err = { 0 };
    unsigned char *bytes = malloc(MANY);
    for (size_t i = 0; i < MANY; i++)
        bytes[i] = (unsigned char)(i * 7 + (i >> 12));
    bool ok = socket_send(*(int *)fd, bytes, MANY, within_s(60), &err);
    free(bytes);
    return ok ? fd : NULL;
}

/* There are more bytes than a socket's buffer holds, so both ends must wait for each other. */
START_TEST(many_bytes_arrive_in_order)
{
    int ends[2];
    struct err err = { 0 };
    connect_ends(ends);
    pthread_t sender;
    void *sent;
    unsigned char *bytes = malloc(MANY);
    ck_assert_int_eq(pthread_create(&sender, NULL, send_many, &ends[0]), 0);
    check_ok(socket_receive(ends[1], bytes, MANY, within_s(60), &err), &err);
    pthread_join(sender, &sent);
    ck_assert_ptr_nonnull(sent);
    for (size_t i = 0; i < MANY; i++)
        if (bytes[i] != (unsigned char)(i * 7 + (i >> 12)))
            ck_abort_msg("byte %zu was received with another value", i);
    free(bytes);
    close(ends[0]);
    ck_assert(!socket_receive(ends[1], &err, 1, within_s(10), &err));
    ck_assert_str_eq(err.msg, "closed its connection");
    close(ends[1]);
}
END_TEST

/* Each single byte arrives once. Then the other end resets the connection. */
START_TEST(single_bytes_arrive_until_a_reset)
{
    int ends[2];
    char bytes[4];
    struct err err = { 0 };
    connect_ends(ends);
    for (int i = 0; i < 4; i++)
        check_ok(socket_send(ends[1], &"abcd"[i], 1, within_s(10), &err), &err);
    check_ok(socket_receive(ends[0], bytes, 3, within_s(10), &err), &err);
    check_ok(socket_receive(ends[0], bytes + 3, 1, within_s(10), &err), &err);
    ck_assert_mem_eq(bytes, "abcd", 4);
    struct linger at_once = { .l_onoff = 1 };
    setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(ends[1]);
    ck_assert(!socket_receive(ends[0], bytes, 1, within_s(10), &err));
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.msg, "receiving: Connection reset by peer");
    close(ends[0]);
}
END_TEST

/* A time limit ends a wait for bytes that never come. An interruption also ends it, with another
 * message. */
START_TEST(a_wait_ends_at_its_limit)
{
    int ends[2];
    char byte;
    atomic_bool is_over = true;
    struct err late = { 0 }, interrupted = { 0 }, full = { 0 };
    connect_ends(ends);
    ck_assert(!socket_receive(ends[0], &byte, 1, within_s(0.01), &late));
    ck_assert_int_eq(late.code, ERR_SYSTEM);
    ck_assert_str_eq(late.msg, "did not connect in time");
    struct socket_limit limit = within_s(60);
    limit.is_over = &is_over;
    ck_assert(!socket_receive(ends[0], &byte, 1, limit, &interrupted));
    ck_assert_str_eq(interrupted.msg, "the wait was interrupted");
    atomic_store(&is_over, false);
    ck_assert(socket_has_time(limit, &interrupted));
    char *bytes = calloc(MANY, 1);
    ck_assert(!socket_send(ends[0], bytes, MANY, within_s(0.01), &full));
    ck_assert_str_eq(full.msg, "did not connect in time");
    free(bytes);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(sending_to_a_closed_connection_is_an_error)
{
    int ends[2];
    struct err err = { 0 };
    char *bytes = calloc(MANY, 1);
    connect_ends(ends);
    close(ends[1]);
    ck_assert(!socket_send(ends[0], bytes, MANY, within_s(60), &err));
    ck_assert_msg(strncmp(err.msg, "sending: ", 9) == 0, "%s", err.msg);
    free(bytes);
    close(ends[0]);
}
END_TEST

/* The next descriptor that the system would give. */
static int next_descriptor(void)
{
    int fd = dup(listener);
    close(fd);
    return fd;
}

/* In a program whose standard input is closed, the next socket gets descriptor 0: the listening
 * socket, the calling socket or the accepted socket. */
START_TEST(a_socket_may_have_descriptor_0)
{
    struct err err = { 0 };
    char byte;
    if (_i == 0)
        close(0);
    listen_here("127.0.0.1");
    if (_i == 1)
        close(0);
    int caller = socket_connect(&address, false, within_s(10), &err);
    check_ok(caller >= 0, &err);
    poll(&(struct pollfd){ .fd = listener, .events = POLLIN }, 1, 10000);
    if (_i == 2)
        close(0);
    int accepted = socket_accept(listener, &err);
    check_ok(accepted >= 0, &err);
    ck_assert_int_eq(_i == 0 ? listener : _i == 1 ? caller : accepted, 0);
    for (int fd = 0; fd <= accepted; fd++)
        if (fd == listener || fd == caller || fd == accepted)
            check_options(fd);
    check_ok(socket_send(caller, "z", 1, within_s(10), &err), &err);
    check_ok(socket_receive(accepted, &byte, 1, within_s(10), &err), &err);
    ck_assert_int_eq(byte, 'z');
}
END_TEST

/* The descriptor of a socket that cannot listen or connect is free again, even descriptor 0. */
START_TEST(a_socket_that_fails_is_closed)
{
    struct err err = { 0 };
    listen_here("127.0.0.1");
    if (_i == 0)
        close(0);
    int next = next_descriptor();
    ck_assert_int_eq(socket_listen(&address, &err), -1);
    ck_assert_int_eq(next_descriptor(), next);
    struct sockaddr_storage nobody = address;
    socket_set_port(&nobody, 1);
    ck_assert_int_eq(socket_connect(&nobody, false, within_s(10), &err), -1);
    ck_assert_int_eq(next_descriptor(), next);
}
END_TEST

START_TEST(a_port_in_use_cannot_be_listened_on)
{
    struct err err = { 0 };
    char text[SOCKET_TEXT];
    listen_here("127.0.0.1");
    socket_text(&address, text);
    ck_assert_int_eq(socket_listen(&address, &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_str_eq(err.where, text);
    ck_assert_ptr_nonnull(strstr(err.msg, "cannot be listened on: "));
    close(listener);
}
END_TEST

static void *listen_late(void *unused)
{
    struct err err = { 0 };
    (void)unused;
    nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
    int fd = socket_listen(&address, &err);
    poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000);
    int end = socket_accept(fd, &err);
    close(fd);
    close(end);
    return NULL;
}

/* No process listens on a port that was closed. A caller that may be early retries until one does.
 */
START_TEST(a_caller_retries_until_somebody_listens)
{
    struct err err = { 0 };
    pthread_t late;
    char text[SOCKET_TEXT];
    listen_here("127.0.0.1");
    socket_text(&address, text);
    close(listener);
    ck_assert_int_eq(socket_connect(&address, false, within_s(60), &err), -1);
    ck_assert_str_eq(err.where, text);
    ck_assert_str_eq(err.msg, "cannot be reached: Connection refused");
    err = (struct err){ 0 };
    ck_assert_int_eq(socket_connect(&address, true, within_s(0.02), &err), -1);
    ck_assert_int_eq(err.code, ERR_SYSTEM);
    ck_assert_int_eq(pthread_create(&late, NULL, listen_late, NULL), 0);
    err = (struct err){ 0 };
    int fd = socket_connect(&address, true, within_s(60), &err);
    check_ok(fd >= 0, &err);
    pthread_join(late, NULL);
    close(fd);
}
END_TEST

static Suite *suite(void)
{
    TCase *tc = tcase_create("socket");
    tcase_set_timeout(tc, 60);
    tcase_set_tags(tc, THREADS);
    tcase_add_loop_test(tc, an_address_has_a_host_and_a_port_of_either_version, 0, LENGTH(named));
    tcase_add_test(tc, an_invalid_host_is_refused_by_its_name);
    tcase_add_test(tc, many_bytes_arrive_in_order);
    tcase_add_test(tc, single_bytes_arrive_until_a_reset);
    tcase_add_test(tc, a_wait_ends_at_its_limit);
    tcase_add_test(tc, sending_to_a_closed_connection_is_an_error);
    tcase_add_loop_test(tc, a_socket_may_have_descriptor_0, 0, 3);
    tcase_add_loop_test(tc, a_socket_that_fails_is_closed, 0, 2);
    tcase_add_test(tc, a_port_in_use_cannot_be_listened_on);
    tcase_add_test(tc, a_caller_retries_until_somebody_listens);
    Suite *s = suite_create("exec/comm/socket");
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(suite)
