/* Reads a network's speed from the words of a measured row, such as "4x 100 Gb/s RoCE per node". */
#include "calibration/rows/link_speed.h"

#include "base/length.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- words --------------------------------------------------------------------------------- */

/* Reads a unit such as "Gb", but not "GB", as 80GB is a memory size. NULL if there is no unit. */
static const char *read_unit(const char *text, double *bits)
{
    static const struct {
        const char *word;
        double bits;
    } units[] = {
        { "Gb/s", 1e9 },  { "Gbit/s", 1e9 },  { "Gbps", 1e9 },  { "Gb", 1e9 },
        { "Tb/s", 1e12 }, { "Tbit/s", 1e12 }, { "Tbps", 1e12 }, { "Tb", 1e12 },
    };
    text += strspn(text, " ");
    for (size_t i = 0; i < LENGTH(units); i++) {
        size_t length = strlen(units[i].word);
        if (strncmp(text, units[i].word, length) == 0 && !isalnum((unsigned char)text[length])) {
            *bits = units[i].bits;
            return text + length;
        }
    }
    return NULL;
}

/* Reads whether the speed is per node or per GPU, up to a separator or another number. */
static bool read_owner(const char *text, bool *is_of_node)
{
    static const struct {
        const char *word;
        bool is_of_node;
    } owners[] = {
        { "per node", true }, { "/node", true }, { "a node", true },
        { "per GPU", false }, { "/GPU", false }, { "a GPU", false },
    };
    for (size_t left = strcspn(text, ",;:()0123456789"); left > 0; left--, text++)
        for (size_t i = 0; i < LENGTH(owners); i++)
            if (left >= strlen(owners[i].word) &&
                strncasecmp(text, owners[i].word, strlen(owners[i].word)) == 0) {
                *is_of_node = owners[i].is_of_node;
                return true;
            }
    return false;
}

/* The number of network cards in "4x 100", "4x OmniPath 100" or "8x400": the number before an x in
 * the same phrase. */
static int cards_before(const char *words, const char *number)
{
    const char *at = number;
    while (at > words && !strchr(",;:(", at[-1])) {
        at--;
        bool ends = at + 1 == number || at[1] == ' ';
        if ((*at == 'x' || *at == 'X') && ends && at > words && isdigit((unsigned char)at[-1])) {
            while (at > words && isdigit((unsigned char)at[-1]))
                at--;
            return (int)strtol(at, NULL, 10);
        }
    }
    return 0;
}

static bool starts_number(const char *words, const char *at)
{
    if (!isdigit((unsigned char)*at))
        return false;
    if (at == words)
        return true;
    if (tolower((unsigned char)at[-1]) == 'x')
        return at - 1 > words && isdigit((unsigned char)at[-2]);
    return !isalnum((unsigned char)at[-1]) && at[-1] != '.';
}

struct link_speed link_speed_read(const char *words)
{
    enum { MOST_CARDS = 64 };
    struct link_speed none = { 0 };
    for (const char *at = words; *at; at++) {
        char *end;
        double bits;
        struct link_speed speed = { 0 };
        if (!starts_number(words, at))
            continue;
        double number = strtod(at, &end);
        const char *rest = read_unit(end, &bits);
        if (!rest || number <= 0 || !read_owner(rest, &speed.is_of_node))
            continue;
        speed.cards = cards_before(words, at);
        if (speed.cards > MOST_CARDS)
            return none;
        speed.bytes_per_s = number * bits / 8 * (speed.cards > 0 ? speed.cards : 1);
        return speed;
    }
    return none;
}

/* --- levels -------------------------------------------------------------------------------- */

double link_speed_of_gpu(const struct link_speed *speed, int node_gpus)
{
    return speed->is_of_node ? speed->bytes_per_s / node_gpus : speed->bytes_per_s;
}

static double level_bytes_per_s(const struct level *level)
{
    return level->nics_per_gpu * level->bytes_per_s;
}

bool link_speed_differs(const struct link_speed *speed, const struct cluster *cluster,
                        int node_gpus)
{
    const double rounding = 0.01;
    for (int i = 1; i < cluster->num_levels && speed->bytes_per_s > 0; i++) {
        double own = level_bytes_per_s(&cluster->levels[i]);
        if (fabs(link_speed_of_gpu(speed, node_gpus) / own - 1) > rounding)
            return true;
    }
    return false;
}

void link_speed_set(const struct link_speed *speed, struct cluster *cluster, int node_gpus)
{
    double of_gpu = link_speed_of_gpu(speed, node_gpus);
    for (int i = 1; i < cluster->num_levels; i++) {
        struct level *level = &cluster->levels[i];
        double ratio = of_gpu / level_bytes_per_s(level);
        if (speed->cards > 0) {
            double nics = speed->is_of_node ? (double)speed->cards / node_gpus : speed->cards;
            double channels = level->channels * nics / level->nics_per_gpu;
            level->channels = level->channels > 0 ? (int)fmax(1, round(channels)) : 0;
            ratio *= level->nics_per_gpu / nics;
            level->nics_per_gpu = nics;
        }
        level->bytes_per_s *= ratio;
        level->channel_bytes_per_s *= ratio;
    }
}
