/* exec/device/host_graph.h - graphs of exec/device/device.h on the host: a list of calls with
 * copies of their arguments, which a stream's thread runs in order. Only exec/device/device_host.c
 * includes it. */
#ifndef EXEC_DEVICE_HOST_GRAPH_H
#define EXEC_DEVICE_HOST_GRAPH_H

#include "exec/device/host_stream.h"

void host_capture_begin(struct stream *stream);
struct graph *host_capture_end(struct stream *stream);
void host_graph_launch(struct stream *stream, struct graph *graph);
void host_graph_free(struct graph *graph);
void host_graph_verify_begin(struct stream *stream, struct graph *graph);
bool host_graph_verify_end(struct stream *stream);

#endif
