/* Admits connections between ranks. A caller is a connection whose greeting, its first bytes, has
 * not been checked yet. */
#include "exec/comm/greeting.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static const uint64_t greeting_magic = 0x73696d7365617264; /* "simseard": format 2 */

/* Time limit of a greeting; the shorter one applies while no further caller can be accepted. */
static const double patience_s = 5, short_patience_s = 0.2;

struct greeting greeting_of(const struct place *place, int number, int port)
{
    struct greeting greeting = { .magic = greeting_magic,
                                 .number = number,
                                 .rank = place->rank,
                                 .size = place->size,
                                 .port = port };
    memcpy(greeting.token, place->token, sizeof greeting.token);
    return greeting;
}

/* --- the reply ------------------------------------------------------------------------------ */

bool greeting_reply(int fd, enum verdict verdict, int size, struct socket_limit limit,
                    struct err *err)
{
    struct reply reply = { .magic = greeting_magic, .verdict = (int32_t)verdict, .size = size };
    return socket_send(fd, &reply, sizeof reply, limit, err);
}

bool greeting_hear_reply(int fd, int size, struct socket_limit limit, struct err *err)
{
    struct reply reply;
    if (!socket_receive(fd, &reply, sizeof reply, limit, err))
        return false;
    if (reply.magic != greeting_magic)
        return err_set(err, ERR_INPUT, "",
                       "the program that listens there is no rank of simsearch");
    switch ((enum verdict)reply.verdict) {
    case VERDICT_WELCOME:
        return true;
    case VERDICT_OTHER_TOKEN:
        return err_set(err, ERR_INPUT, "",
                       "it belongs to another run, or its SIMSEARCH_TOKEN differs");
    case VERDICT_OTHER_SIZE:
        return err_set(err, ERR_INPUT, "", "its run has %d ranks, but this one has %d", reply.size,
                       size);
    case VERDICT_TAKEN:
        return err_set(err, ERR_INPUT, "", "a rank with this number has already connected");
    }
    return err_set(err, ERR_INPUT, "", "it replied %d, which is not a known reply", reply.verdict);
}

/* --- admitting connections ------------------------------------------------------------------ */

/* Compares in constant time, so that the duration reveals nothing about the token. */
static bool is_same_token(const char *a, const char *b)
{
    unsigned difference = 0;
    for (int i = 0; i < PLACE_TOKEN_BYTES; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}

/* Whether the caller's greeting is correct. If it is not, but the caller may be a rank of another
 * run, the reason is sent to it. */
static bool is_welcome(const struct entrance *entrance, const struct caller *caller)
{
    const struct place *place = entrance->place;
    const struct greeting *greeting = &caller->greeting;
    struct socket_limit at_once = { .deadline_s = 0 };
    struct err unheard = { 0 };
    if (greeting->magic != greeting_magic)
        return false;
    bool is_known = is_same_token(greeting->token, place->token);
    bool is_same_size = greeting->size == place->size;
    if (greeting->number == AT_MEETING && !(is_known && is_same_size))
        greeting_reply(caller->fd, is_known ? VERDICT_OTHER_SIZE : VERDICT_OTHER_TOKEN,
                       is_known ? place->size : 0, at_once, &unheard);
    return is_known && is_same_size && greeting->number >= AT_MEETING && greeting->rank >= 0 &&
           greeting->rank < place->size && greeting->rank != place->rank;
}

static int remove_caller(struct entrance *entrance, int i)
{
    int fd = entrance->callers[i].fd;
    entrance->num_callers--;
    memmove(&entrance->callers[i], &entrance->callers[i + 1],
            (size_t)(entrance->num_callers - i) * sizeof *entrance->callers);
    return fd;
}

static void turn_away(struct entrance *entrance, int i)
{
    close(remove_caller(entrance, i));
}

/* Reads more bytes. Returns 1 when the greeting is complete, 0 when it is not yet, -1 when the
 * connection ended. */
static int hear(struct caller *caller)
{
    char *to = (char *)&caller->greeting + caller->heard;
    size_t left = sizeof caller->greeting - caller->heard;
    ssize_t bytes = recv(caller->fd, to, left, MSG_DONTWAIT);
    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    caller->heard += (size_t)bytes;
    return bytes == 0 ? -1 : caller->heard == sizeof caller->greeting;
}

/* Returns the first caller whose greeting is complete and correct, or -1. */
static int hear_all(struct entrance *entrance, double patience, struct greeting *greeting)
{
    double now_s = clock_now_s();
    for (int i = 0; i < entrance->num_callers;) {
        struct caller *caller = &entrance->callers[i];
        int heard = hear(caller);
        if (heard > 0 && is_welcome(entrance, caller)) {
            *greeting = caller->greeting;
            return remove_caller(entrance, i);
        }
        if (heard != 0 || now_s > caller->came_s + patience)
            turn_away(entrance, i);
        else
            i++;
    }
    return -1;
}

/* Accepts a waiting caller, if any. False when all places are taken, or when accepting fails. */
static bool let_call(struct entrance *entrance, struct err *err)
{
    if (entrance->num_callers == MOST_CALLERS)
        return false;
    int fd = socket_accept(entrance->listener, err);
    if (fd >= 0)
        entrance->callers[entrance->num_callers++] =
            (struct caller){ .fd = fd, .came_s = clock_now_s() };
    return fd >= 0 || err->code == ERR_NONE;
}

static void wait_for_news(const struct entrance *entrance, bool has_room)
{
    enum { SLICE_MS = 50 };
    struct pollfd polls[MOST_CALLERS + 1];
    nfds_t count = 0;
    for (int i = 0; i < entrance->num_callers; i++)
        polls[count++] = (struct pollfd){ .fd = entrance->callers[i].fd, .events = POLLIN };
    if (has_room)
        polls[count++] = (struct pollfd){ .fd = entrance->listener, .events = POLLIN };
    poll(polls, count, SLICE_MS);
}

/* When no place or no file descriptor is free, drops silent callers after short_patience_s. */
int entrance_next(struct entrance *entrance, struct socket_limit limit, struct greeting *greeting,
                  struct err *err)
{
    for (;;) {
        struct err no_room = { 0 };
        int others = entrance->num_callers;
        bool has_room = let_call(entrance, &no_room);
        int fd = hear_all(entrance, has_room ? patience_s : short_patience_s, greeting);
        if (fd >= 0)
            return fd;
        if (!has_room && others == 0) {
            err_pass(err, &no_room);
            return -1;
        }
        if (!socket_has_time(limit, err))
            return -1;
        wait_for_news(entrance, has_room);
    }
}

void entrance_close(struct entrance *entrance)
{
    while (entrance->num_callers > 0)
        turn_away(entrance, 0);
    if (entrance->listener >= 0)
        close(entrance->listener);
    entrance->listener = -1;
}
