/* sim/textbook/communication.h - time of collectives by latency and bandwidth alone.
 *
 * The alpha-beta model: a message of S bytes takes alpha + S / B on a link that can send and
 * receive at the same time. `message_bytes` is the size of the whole buffer; in an all-gather or
 * reduce-scatter each of n ranks holds 1/n of it. With one rank every collective takes 0 s. Every
 * function is pure. */
#ifndef SIM_TEXTBOOK_COMMUNICATION_H
#define SIM_TEXTBOOK_COMMUNICATION_H

struct textbook_link {
    double latency_s;   /* alpha */
    double bytes_per_s; /* B, one direction */
};

double textbook_message_s(const struct textbook_link *link, double message_bytes);

double textbook_ring_all_gather_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes);
double textbook_ring_reduce_scatter_s(const struct textbook_link *link, int num_ranks,
                                      double message_bytes);
double textbook_ring_all_reduce_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes);
double textbook_tree_all_reduce_s(const struct textbook_link *link, int num_ranks,
                                  double message_bytes);

/* All ranks send gradients to the `num_servers` of them that are servers, and fetch the sums. */
double textbook_parameter_server_s(const struct textbook_link *link, int num_ranks, int num_servers,
                                   double message_bytes);

#endif
