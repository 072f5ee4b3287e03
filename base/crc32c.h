/* base/crc32c.h - a sum that tells whether bytes have changed.
 *
 * CRC-32C (Castagnoli, Braeuer and Herrmann 1993; RFC 3720, appendix B.4): finds every change of up
 * to 32 neighbouring bits, others with probability 1 - 2^-32. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes that follow those whose sum is `before`; 0 at the beginning. */
uint32_t crc32c(uint32_t before, const void *bytes, size_t length);

#endif
