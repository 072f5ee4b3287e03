/* sim/textbook/communication.h - time of collectives by latency and bandwidth alone.
 *
 * The alpha-beta model: a message of S bytes takes alpha + S / B on a link that sends and receives
 * at once. `message_bytes` is the whole buffer; when it is sharded, each of n ranks holds 1/n of
 * it. One rank takes no time. Every function is pure. */
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

/* Ranks push gradients to the servers among them, and pull the sum. */
double textbook_parameter_server_s(const struct textbook_link *link, int num_ranks, int num_servers,
                                   double message_bytes);

#endif
