/* What a plugin and the program must agree on: the Makefile computes a digest of all headers that
 * this file includes, directly or not, and passes it in. */
#include "exec/device/kernels.h"
#include "exec/plugin/plugin.h"

const uint64_t simsearch_tables = TABLES_DIGEST;
