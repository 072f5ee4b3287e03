/* What a plugin and the program must agree on: the Makefile digests the text of all headers that
 * this file includes, and of those that they include, and hands the digest in. */
#include "exec/kernels.h"
#include "exec/plugin.h"

const uint64_t simsearch_tables = TABLES_DIGEST;
