/* Time of collectives by the alpha-beta model: a message of S bytes takes alpha + S/B on a link of
 * bandwidth B. */
#include "sim/textbook/communication.h"

#include <math.h>

/* alpha + S/B: latency alpha, S bytes, bandwidth B. Hockney 1994, The communication challenge for
 * MPP. */
double textbook_message_s(const struct textbook_link *link, double message_bytes)
{
    return link->latency_s + message_bytes / link->bytes_per_s;
}

/* Time of one pass around a ring of n ranks: in each of n-1 steps every rank sends 1/n of the
 * buffer to its neighbour. Patarasuk and Yuan 2009. */
static double ring_pass_s(const struct textbook_link *link, int num_ranks, double message_bytes)
{
    double steps = num_ranks - 1;
    double step_bytes = message_bytes / num_ranks;
    return steps * textbook_message_s(link, step_bytes);
}

/* (n-1)(alpha + S/(n B)): the part of each rank goes once around the ring. */
double textbook_ring_all_gather_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes)
{
    return ring_pass_s(link, num_ranks, message_bytes);
}

/* (n-1)(alpha + S/(n B)): each partial sum goes once around the ring. The time of additions is left
 * out. */
double textbook_ring_reduce_scatter_s(const struct textbook_link *link, int num_ranks,
                                      double message_bytes)
{
    return ring_pass_s(link, num_ranks, message_bytes);
}

/* 2(n-1)(alpha + S/(n B)): reduce-scatter, then all-gather. The bandwidth term is nearly 2 S/B for
 * any n; the latency grows with n. */
double textbook_ring_all_reduce_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes)
{
    return textbook_ring_reduce_scatter_s(link, num_ranks, message_bytes) +
           textbook_ring_all_gather_s(link, num_ranks, message_bytes);
}

/* 2 ceil(log2 n) alpha + 2 S/B: the buffer goes up the tree and down again, in pieces, so that all
 * levels work at once and the buffer crosses each link once in each direction. Sanders, Speck and
 * Traeff 2009. */
double textbook_tree_all_reduce_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes)
{
    if (num_ranks == 1)
        return 0;
    double levels = ceil(log2(num_ranks));
    return 2 * levels * link->latency_s + 2 * message_bytes / link->bytes_per_s;
}

/* 2 (n-1) S/(K B): K of the n ranks are servers, and each sums an equal part of the buffer. A
 * server receives its part of the buffer from the n-1 other ranks, servers included, and sends them
 * the sum; its link is the bottleneck. Li et al. 2014. */
double textbook_parameter_server_s(const struct textbook_link *link, int num_ranks, int num_servers,
                                   double message_bytes)
{
    double bytes_per_server = 2 * (num_ranks - 1) * message_bytes / num_servers;
    return bytes_per_server / link->bytes_per_s;
}
