#include "sim/textbook/communication.h"

#include <math.h>

/* alpha + S/B. Hockney 1994, The communication challenge for MPP. */
double textbook_message_s(const struct textbook_link *link, double message_bytes)
{
    return link->latency_s + message_bytes / link->bytes_per_s;
}

/* n-1 steps; in each, every rank passes 1/n of the buffer to its neighbour. Patarasuk and Yuan
 * 2009. */
static double ring_pass_s(const struct textbook_link *link, int num_ranks, double message_bytes)
{
    double steps = num_ranks - 1;
    double step_bytes = message_bytes / num_ranks;
    return steps * textbook_message_s(link, step_bytes);
}

/* (n-1)(alpha + S/(n B)): every rank's part goes once around the ring. */
double textbook_ring_all_gather_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes)
{
    return ring_pass_s(link, num_ranks, message_bytes);
}

/* (n-1)(alpha + S/(n B)): a partial sum goes once around the ring. Addition counts as 0. */
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

/* 2 ceil(log2 n) alpha + 2 S/B: up the tree and down again, cut in pieces so that all levels work
 * at once and the buffer crosses a link once each way. Sanders, Speck and Traeff 2009. */
double textbook_tree_all_reduce_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes)
{
    if (num_ranks == 1)
        return 0;
    double levels = ceil(log2(num_ranks));
    return 2 * levels * link->latency_s + 2 * message_bytes / link->bytes_per_s;
}

/* 2 (n-1) S/(K B): K of the n ranks are servers, each of an equal part; the n-1 others send it
 * theirs and fetch the sum through the server's link, which is the bottleneck. Li et al. 2014. */
double textbook_parameter_server_s(const struct textbook_link *link, int num_ranks, int num_servers,
                                   double message_bytes)
{
    double bytes_per_server = 2 * (num_ranks - 1) * message_bytes / num_servers;
    return bytes_per_server / link->bytes_per_s;
}
