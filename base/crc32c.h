/* base/crc32c.h - a checksum that shows whether bytes have changed.
 *
 * CRC-32C (Castagnoli, Braeuer and Herrmann 1993; RFC 3720, appendix B.4): it finds every change of
 * up to 32 neighbouring bits, and others with probability 1 - 2^-32. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of all bytes so far. `before` is the checksum of the earlier bytes, 0 at the
 * start. */
uint32_t crc32c(uint32_t before, const void *bytes, size_t length);

#endif
