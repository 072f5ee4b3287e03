/* The exchange of gradients by parameter servers. A span is a range of elements. */
#include "exec/exchange/exchanger_part.h"

/* Parameter servers (Li et al. 2014): some members are also servers, each for an equal part. In
 * round r every member sends to the member r places after it if that member is a server, and a
 * server receives from the member r places before it. So a server receives one message after
 * another, as its network port would. */
enum { NO_SERVER = -1 };

/* The server number of a member: server i is member i x size / num_servers. */
static int server_of(const struct group *group, int num_servers, int member)
{
    int server = (member * num_servers + group->size - 1) / group->size;
    return server * group->size / num_servers == member ? server : NO_SERVER;
}

struct round {
    int to, from;      /* indices of members */
    int to_part, part; /* the parts served by `to` and by this member */
};

static struct round round_of(const struct group *group, int num_servers, int r)
{
    int n = group->size, i = group->index;
    return (struct round){ .to = (i + r) % n,
                           .from = (i + n - r) % n,
                           .to_part = server_of(group, num_servers, (i + r) % n),
                           .part = server_of(group, num_servers, i) };
}

/* The part of a server; empty for a member that is no server. */
static struct span part_of(struct span span, int server, int num_servers)
{
    return server == NO_SERVER ? (struct span){ 0 } : span_part(span, server, num_servers);
}

/* Sends and receives the spans that are not empty. */
static void issue_both(struct exchanger *e, struct group *group, int to, struct span sent, int from,
                       struct span received)
{
    if (sent.at && received.at)
        issue_pass(e, group, to, sent.at, from, received);
    else if (sent.at)
        issue_send(e, group, to, sent);
    else if (received.at)
        issue_receive(e, group, from, received);
}

static void sum_on_servers(struct exchanger *e, struct group *group, int num_servers,
                           struct span span)
{
    for (int r = 1; r < group->size; r++) {
        struct round round = round_of(group, num_servers, r);
        struct span own = part_of(span, round.part, num_servers);
        struct span received = { own.at ? e->received : NULL, own.count };
        issue_both(e, group, round.to, part_of(span, round.to_part, num_servers), round.from,
                   received);
        if (own.at)
            exchanger_add(e, own.at, received.at, own.count);
    }
}

/* Sends the results back: a worker receives from the server that it sent to. */
static void send_back(struct exchanger *e, struct group *group, int num_servers, struct span span)
{
    for (int r = 1; r < group->size; r++) {
        struct round round = round_of(group, num_servers, r);
        issue_both(e, group, round.from, part_of(span, round.part, num_servers), round.to,
                   part_of(span, round.to_part, num_servers));
    }
}

void servers_all_reduce(struct exchanger *e, struct group *group, int num_servers, struct span span)
{
    sum_on_servers(e, group, num_servers, span);
    send_back(e, group, num_servers, span);
}
