#include "base/crc32c.h"

#include <string.h>

/* Processes eight bytes at a time: for each value of a byte, table t has the checksum of that byte
 * followed by t zero bytes. */
enum { NUM_TABLES = 8 };

static void make_tables(uint32_t tables[NUM_TABLES][256])
{
    static const uint32_t polynomial = 0x82f63b78; /* 0x1edc6f41, bits reversed */
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? polynomial : 0);
        tables[0][byte] = sum;
    }
    for (int t = 1; t < NUM_TABLES; t++)
        for (int byte = 0; byte < 256; byte++)
            tables[t][byte] = tables[t - 1][byte] >> 8 ^ tables[0][tables[t - 1][byte] & 0xff];
}

static uint32_t eight_bytes(uint32_t tables[NUM_TABLES][256], uint32_t sum,
                            const unsigned char *bytes)
{
    unsigned char mixed[NUM_TABLES];
    memcpy(mixed, bytes, sizeof mixed);
    for (int i = 0; i < 4; i++)
        mixed[i] ^= (unsigned char)(sum >> 8 * i);
    uint32_t out = 0;
    for (int i = 0; i < NUM_TABLES; i++)
        out ^= tables[NUM_TABLES - 1 - i][mixed[i]];
    return out;
}

uint32_t crc32c(uint32_t before, const void *bytes, size_t length)
{
    uint32_t tables[NUM_TABLES][256];
    const unsigned char *at = bytes;
    uint32_t sum = ~before;
    make_tables(tables);
    for (; length >= NUM_TABLES; length -= NUM_TABLES, at += NUM_TABLES)
        sum = eight_bytes(tables, sum, at);
    for (; length > 0; length--, at++)
        sum = sum >> 8 ^ tables[0][(sum ^ *at) & 0xff];
    return ~sum;
}
