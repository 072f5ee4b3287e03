/* Measures how fast all ranks together can write files. */
#include "calibration/measure/disk_rate.h"

#include "base/arena.h"
#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20 };

/* Fills in data that no file system can compress or deduplicate. */
static void fill_piece(char *piece, uint32_t *state)
{
    for (size_t i = 0; i < PIECE_BYTES; i += sizeof *state) {
        *state = *state * 1664525U + 1013904223U;
        memcpy(piece + i, state, sizeof *state);
    }
}

static bool write_all(int file, const char *piece, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(file, piece, bytes);
        if (written <= 0)
            return false;
        piece += written;
        bytes -= (size_t)written;
    }
    return true;
}

/* Returns the seconds of the writes and fsync; negative on failure. */
static double write_file(int file, size_t bytes, uint32_t seed)
{
    char *piece = arena_grow(NULL, PIECE_BYTES);
    double took_s = 0;
    uint32_t state = seed;
    for (size_t done = 0; done < bytes && took_s >= 0; done += PIECE_BYTES) {
        fill_piece(piece, &state);
        double start_s = clock_now_s();
        bool ok = write_all(file, piece, bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES);
        took_s = ok ? took_s + clock_now_s() - start_s : -1;
    }
    double start_s = clock_now_s();
    bool ok = took_s >= 0 && fsync(file) == 0;
    free(piece);
    return ok ? took_s + clock_now_s() - start_s : -1;
}

static double write_in(const char *folder, size_t bytes, int rank)
{
    size_t length = strlen(folder) + 64;
    char *path = arena_grow(NULL, length);
    snprintf(path, length, "%s/.simsearch-disk-%d-XXXXXX", folder, rank);
    int file = mkstemp(path);
    double took_s = file >= 0 ? write_file(file, bytes, (uint32_t)rank + 1) : -1;
    if (file >= 0) {
        close(file);
        unlink(path);
    }
    free(path);
    return took_s;
}

/* All ranks write at the same time, so the rate is the sum of their bytes divided by the mean of
 * their times. */
bool disk_rate_measure(struct host_rank *host, const char *folder, double bytes,
                       double *bytes_per_s, struct err *err)
{
    struct stream *stream = host->api->stream_new(host->device, "disk", err);
    bool ok = stream && host_rank_meet(host, stream, err);
    host->api->stream_free(stream);
    if (!ok)
        return false;
    double took_s = write_in(folder, (size_t)(bytes / host->place.size), host->place.rank);
    double means[] = { took_s, took_s < 0 };
    ok = host_rank_average(host, means, 2, err);
    *bytes_per_s = ok && means[1] == 0 && means[0] > 0 ? bytes / means[0] : 0;
    return ok;
}
