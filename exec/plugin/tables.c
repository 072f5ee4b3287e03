/* A plugin and the program must be built from the same headers. The Makefile computes a digest of
 * all headers that this file includes, directly or not, and defines it as a macro. */
#include "exec/device/kernels.h"
#include "exec/plugin/plugin.h"

const uint64_t simsearch_tables = TABLES_DIGEST;
