/* Reads a curve of time by message size from the output of nccl-tests or of the OSU
 * micro-benchmarks. */
#include "calibration/measure/bench_output.h"

#include "base/file.h"
#include "base/length.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 24, MOST_HOSTS = 4096 };

/* A file read line by line. */
struct lines {
    const char *path;
    char *next; /* position in the text, which is cut into lines */
    int number;
};

static bool blame(const struct lines *lines, struct err *err)
{
    char where[200];
    snprintf(where, sizeof where, "%.180s:%d", lines->path, lines->number);
    snprintf(err->where, sizeof err->where, "%s", where);
    return false;
}

static char *next_line(struct lines *lines)
{
    char *line = lines->next;
    if (!line || !*line)
        return NULL;
    char *end = strchr(line, '\n');
    if (end)
        *end = '\0';
    lines->next = end ? end + 1 : NULL;
    lines->number++;
    return line;
}

static int cut(char *line, char *words[MOST_WORDS])
{
    int count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t\r", &rest); word && count < MOST_WORDS;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    return count;
}

/* --- finding the collective ---------------------------------------------------------------- */

struct spelling {
    const char *word; /* name of the collective in lower case, without separators */
    int kind;
};
static const struct spelling spellings[] = {
    { "allreduce", COLLECTIVE_ALL_REDUCE },
    { "allgather", COLLECTIVE_ALL_GATHER },
    { "reducescatter", COLLECTIVE_REDUCE_SCATTER },
    { "broadcast", COLLECTIVE_BROADCAST },
    { "bcast", COLLECTIVE_BROADCAST },
    { "sendrecv", CURVE_POINT_TO_POINT },
    { "mpilatency", CURVE_POINT_TO_POINT },
};

/* The kind of collective that a text names; -1: none. */
static int find_kind(const char *text)
{
    char plain[400];
    size_t length = 0;
    for (; *text && length < sizeof plain - 1; text++)
        if (isalnum((unsigned char)*text))
            plain[length++] = (char)tolower((unsigned char)*text);
    plain[length] = '\0';
    for (size_t i = 0; i < LENGTH(spellings); i++)
        if (strstr(plain, spellings[i].word))
            return spellings[i].kind;
    return -1;
}

/* --- rows ---------------------------------------------------------------------------------- */

static bool read_number(const char *word, double *out)
{
    char *end;
    *out = strtod(word, &end);
    return *end == '\0' && end != word && isfinite(*out) && *out >= 0;
}

static bool add_point(struct lines *lines, double bytes, double time_us, struct curve *out,
                      struct err *err)
{
    double last_bytes = out->num_points > 0 ? out->points[out->num_points - 1].bytes : 0;
    if (bytes <= 0 || bytes == last_bytes)
        return true;
    if (time_us <= 0)
        err_set(err, ERR_INPUT, "", "expected a time above 0; found %g us", time_us);
    else if (bytes < last_bytes)
        err_set(err, ERR_INPUT, "", "expected a size above %.0f B; found %.0f B", last_bytes,
                bytes);
    else if (out->num_points == MAX_CURVE_POINTS)
        err_set(err, ERR_INPUT, "", "expected at most %d sizes", MAX_CURVE_POINTS);
    else
        out->points[out->num_points++] =
            (struct curve_point){ bytes, time_us / 1e6, log(bytes), log(time_us / 1e6) };
    return err->code == ERR_NONE || blame(lines, err);
}

static bool check_curve(struct lines *lines, const struct curve *out, struct err *err)
{
    if (out->num_points == 0)
        err_set(err, ERR_INPUT, "", "expected rows of sizes and times; found none");
    else if (out->collective < 0)
        err_set(err, ERR_INPUT, "",
                "neither the file nor its name says which collective was measured; expected "
                "all_reduce, all_gather, reduce_scatter, broadcast or sendrecv in one of them");
    else if (out->num_ranks < 2)
        err_set(err, ERR_INPUT, "", "expected at least 2 ranks; found %d", out->num_ranks);
    else
        return true;
    return blame(lines, err);
}

/* A function that is called for each line of the file. Each format has one. */
typedef bool read_line(struct lines *lines, char *line, struct curve *out, void *context,
                       struct err *err);

static bool read_file(const char *path, read_line *read, void *context, struct curve *out,
                      struct err *err)
{
    char *text = file_read(path, FILE_MAX_BYTES, NULL, err);
    if (!text)
        return false;
    struct lines lines = { path, text, 0 };
    bool ok = true;
    out->num_nodes = 1;
    out->collective = find_kind(file_own_name(path));
    for (char *line = next_line(&lines); line && ok; line = next_line(&lines))
        ok = read(&lines, line, out, context, err);
    ok = ok && check_curve(&lines, out, err);
    free(text);
    return ok;
}

/* --- nccl-tests ---------------------------------------------------------------------------- */

struct hosts {
    char *names[MOST_HOSTS];
    int count;
};

/* Reads a line such as "#  Rank  3 Group  0 Pid 1234 on  node-7 device  3 [0x8a] NVIDIA H100". */
static void read_rank(char *line, struct curve *out, struct hosts *hosts)
{
    char *words[MOST_WORDS];
    int count = cut(line, words);
    if (count < 3 || strcmp(words[1], "Rank") != 0 || !isdigit((unsigned char)words[2][0]))
        return;
    out->num_ranks++;
    for (int i = 3; i + 2 < count; i++) {
        if (strcmp(words[i], "on") != 0 || strcmp(words[i + 2], "device") != 0)
            continue;
        for (int j = 0; j < hosts->count; j++)
            if (strcmp(hosts->names[j], words[i + 1]) == 0)
                return;
        if (hosts->count < MOST_HOSTS)
            hosts->names[hosts->count++] = words[i + 1];
        out->num_nodes = hosts->count;
    }
}

/* Columns: size, count, type, for some collectives redop and root, then twice time, algbw, busbw
 * and #wrong: first out of place, then in place. */
static bool read_nccl_row(struct lines *lines, char *line, struct curve *out, struct err *err)
{
    char *words[MOST_WORDS];
    int count = cut(line, words);
    double bytes, time_us;
    if (count == 0)
        return true;
    int at = count >= 11 ? count - 8 : -1;
    if (at >= 0 && read_number(words[0], &bytes) && read_number(words[at], &time_us))
        return add_point(lines, bytes, time_us, out, err);
    if (!isdigit((unsigned char)words[0][0]))
        return true; /* other lines, such as messages of mpirun or a driver, are ignored */
    err_set(err, ERR_INPUT, "",
            "expected 11 columns or more: size, count, type, perhaps redop and root, then twice "
            "time, algbw, busbw and #wrong; found %d columns",
            count);
    return blame(lines, err);
}

static bool read_nccl_line(struct lines *lines, char *line, struct curve *out, void *context,
                           struct err *err)
{
    const char *start = line + strspn(line, " \t");
    if (*start != '#') {
        if (strstr(line, "_perf") && find_kind(line) >= 0)
            out->collective = find_kind(line);
        return read_nccl_row(lines, line, out, err);
    }
    if (strstr(line, "_perf") && find_kind(line) >= 0)
        out->collective = find_kind(line);
    if (strstr(line, " Rank "))
        read_rank(line, out, context);
    return true;
}

bool bench_output_read_nccl(const char *path, struct curve *out, struct err *err)
{
    struct hosts hosts = { .count = 0 };
    *out = (struct curve){ 0 };
    return read_file(path, read_nccl_line, &hosts, out, err);
}

/* --- OSU ----------------------------------------------------------------------------------- */

/* The size of the whole buffer. For all-gather, OSU prints the size of one rank's part. */
static double whole_bytes(const struct curve *curve, double bytes)
{
    return curve->collective == COLLECTIVE_ALL_GATHER ? bytes * curve->num_ranks : bytes;
}

static bool read_osu_line(struct lines *lines, char *line, struct curve *out, void *context,
                          struct err *err)
{
    char *words[MOST_WORDS];
    double bytes, time_us;
    (void)context;
    if (*line == '#') {
        if (strstr(line, "OSU") && find_kind(line) >= 0)
            out->collective = find_kind(line);
        if (out->collective == CURVE_POINT_TO_POINT)
            out->num_ranks = 2;
        return true;
    }
    int count = cut(line, words);
    if (count == 0 || !isdigit((unsigned char)words[0][0]))
        return true;
    if (count >= 2 && read_number(words[0], &bytes) && read_number(words[1], &time_us))
        return add_point(lines, whole_bytes(out, bytes), time_us, out, err);
    err_set(err, ERR_INPUT, "", "expected a size and a time in us; found %d columns", count);
    return blame(lines, err);
}

bool bench_output_read_osu(const char *path, int num_ranks, struct curve *out, struct err *err)
{
    *out = (struct curve){ .num_ranks = num_ranks };
    return read_file(path, read_osu_line, NULL, out, err);
}
