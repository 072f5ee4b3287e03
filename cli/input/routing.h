/* cli/input/routing.h - "--routing balanced|random|cv=C|factor=F|in-turn": the distribution of
 * tokens over experts. */
#ifndef CLI_INPUT_ROUTING_H
#define CLI_INPUT_ROUTING_H

#include "base/err.h"
#include "models/routing.h"

bool routing_read(const char *text, struct routing *out, struct err *err);

#endif
