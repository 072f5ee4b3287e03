/* Moves bytes over several sockets at once. */
#include "exec/comm/links.h"

#include "base/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct links links_new(int index, int size)
{
    size_t count = (size_t)size;
    struct links links = { .index = index, .size = size };
    links.fds = arena_grow(NULL, count * sizeof *links.fds);
    for (int i = 0; i < size; i++)
        links.fds[i] = -1;
    links.transfers = arena_grow(NULL, 2 * count * sizeof *links.transfers);
    links.polls = arena_grow(NULL, 2 * count * sizeof *links.polls);
    return links;
}

void links_release(struct links *links)
{
    for (int i = 0; i < links->size; i++)
        close(links->fds[i]); /* has no effect on -1 */
    free(links->fds);
    free(links->transfers);
    free(links->polls);
    free(links->scratch);
}

void links_shut(const struct links *links)
{
    for (int i = 0; i < links->size; i++)
        shutdown(links->fds[i], SHUT_RDWR); /* has no effect on -1 */
}

/* --- moving bytes --------------------------------------------------------------------------- */

/* Moves as many bytes as possible without waiting. Returns the bytes moved, 0 for none, -1 when the
 * connection is lost. */
static ssize_t advance(const struct links *links, struct transfer *transfer,
                       struct lost_member *lost)
{
    int fd = links->fds[transfer->member];
    ssize_t bytes = transfer->from
                        ? send(fd, transfer->from, transfer->left, MSG_DONTWAIT | MSG_NOSIGNAL)
                        : recv(fd, transfer->to, transfer->left, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (bytes <= 0) {
        *lost = (struct lost_member){ transfer->member, "closed its connection" };
        return -1;
    }
    if (transfer->from)
        transfer->from += bytes;
    else
        transfer->to += bytes;
    transfer->left -= (size_t)bytes;
    return bytes;
}

static void wait_for_any(struct links *links, const struct transfer *transfers, int count)
{
    nfds_t num_polls = 0;
    for (int i = 0; i < count; i++)
        if (transfers[i].left > 0)
            links->polls[num_polls++] =
                (struct pollfd){ .fd = links->fds[transfers[i].member],
                                 .events = transfers[i].from ? POLLOUT : POLLIN };
    poll(links->polls, num_polls, -1);
}

bool links_exchange(struct links *links, struct transfer *transfers, int count,
                    struct lost_member *lost)
{
    for (;;) {
        ssize_t moved = 0;
        int unfinished = 0;
        for (int i = 0; i < count; i++) {
            ssize_t bytes = transfers[i].left > 0 ? advance(links, &transfers[i], lost) : 0;
            if (bytes < 0)
                return false;
            moved += bytes;
            links->sent_bytes += transfers[i].from ? (double)bytes : 0;
            unfinished += transfers[i].left > 0;
        }
        if (unfinished == 0)
            return true;
        if (moved == 0)
            wait_for_any(links, transfers, count);
    }
}

struct transfer links_send(int member, const void *from, size_t bytes)
{
    return (struct transfer){ .from = from, .left = bytes, .member = member };
}

struct transfer links_receive(int member, void *to, size_t bytes)
{
    return (struct transfer){ .to = to, .left = bytes, .member = member };
}

char *links_scratch(struct links *links, size_t bytes)
{
    if (bytes > links->scratch_bytes) {
        links->scratch = arena_grow(links->scratch, bytes);
        links->scratch_bytes = bytes;
    }
    return links->scratch;
}
