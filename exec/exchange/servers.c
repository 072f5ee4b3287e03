#include "exec/exchange/exchanger_part.h"

/* Some members are servers too, of an equal part each (Li et al. 2014). In round r every member
 * talks to the one r on, if that is a server, and hears the one r before if it is one itself: whom
 * a server hears comes one after another, as at its port. */
enum { NO_SERVER = -1 };

/* The number of the server that a member is: the i-th is member i x size / num_servers. */
static int server_of(const struct group *group, int num_servers, int member)
{
    int server = (member * num_servers + group->size - 1) / group->size;
    return server * group->size / num_servers == member ? server : NO_SERVER;
}

struct round {
    int to, from;      /* members */
    int to_part, part; /* the parts that `to` and this member are servers of */
};

static struct round round_of(const struct group *group, int num_servers, int r)
{
    int n = group->size, i = group->index;
    return (struct round){ .to = (i + r) % n,
                           .from = (i + n - r) % n,
                           .to_part = server_of(group, num_servers, (i + r) % n),
                           .part = server_of(group, num_servers, i) };
}

static struct span part_of(struct span span, int part, int parts)
{
    size_t count = span.count / (size_t)parts;
    return part == NO_SERVER ? (struct span){ 0 }
                             : (struct span){ span.at + (size_t)part * count, count };
}

static void sum_on_servers(struct exchanger *e, struct group *group, int num_servers,
                           struct span span)
{
    struct span received = { e->received, span.count / (size_t)num_servers };
    for (int r = 1; r < group->size; r++) {
        struct round round = round_of(group, num_servers, r);
        struct span sent = part_of(span, round.to_part, num_servers);
        if (round.to_part != NO_SERVER && round.part != NO_SERVER)
            issue_pass(e, group, round.to, sent.at, round.from, received);
        else if (round.to_part != NO_SERVER)
            issue_send(e, group, round.to, sent);
        else if (round.part != NO_SERVER)
            issue_receive(e, group, round.from, received);
        if (round.part != NO_SERVER)
            exchanger_add(e, part_of(span, round.part, num_servers).at, received.at,
                          received.count);
    }
}

/* The same the other way: a worker hears the server that it told. */
static void send_back(struct exchanger *e, struct group *group, int num_servers, struct span span)
{
    for (int r = 1; r < group->size; r++) {
        struct round round = round_of(group, num_servers, r);
        struct span own = part_of(span, round.part, num_servers);
        struct span received = part_of(span, round.to_part, num_servers);
        if (round.to_part != NO_SERVER && round.part != NO_SERVER)
            issue_pass(e, group, round.from, own.at, round.to, received);
        else if (round.to_part != NO_SERVER)
            issue_receive(e, group, round.to, received);
        else if (round.part != NO_SERVER)
            issue_send(e, group, round.from, own);
    }
}

void servers_all_reduce(struct exchanger *e, struct group *group, int num_servers, struct span span)
{
    sum_on_servers(e, group, num_servers, span);
    send_back(e, group, num_servers, span);
}
