/* Measures how long the threads of a process ran, and how long they waited for a core. */
#include "base/core_share.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

const double quiet_core_share = 0.8;

/* Longest wake-up time on a free core; a halted core of a virtual machine must be resumed first. A
 * time slice of another program takes milliseconds. */
static const double wake_s = 50e-6;

struct core_time core_time_of(int thread)
{
    char text[128];
    double ran_ns, ready_ns, slices;
    ssize_t length = thread >= 0 ? pread(thread, text, sizeof text - 1, 0) : -1;
    if (length <= 0)
        return (struct core_time){ 0 };
    text[length] = '\0';
    if (sscanf(text, "%lf %lf %lf", &ran_ns, &ready_ns, &slices) != 3)
        return (struct core_time){ 0 };
    return (struct core_time){ 1e-9 * ran_ns, 1e-9 * ready_ns, slices, true };
}

static bool add_thread(const char *folder, const char *name, struct core_time *to)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s/schedstat", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct core_time thread = core_time_of(fd);
    if (fd >= 0)
        close(fd);
    to->ran_s += thread.ran_s;
    to->ready_s += thread.ready_s;
    to->slices += thread.slices;
    return thread.is_known;
}

/* Threads that end during the reading are ignored. */
struct core_time core_time_read(const char *folder)
{
    struct core_time out = { 0 };
    DIR *threads = opendir(folder);
    for (struct dirent *at; threads && (at = readdir(threads));)
        if (at->d_name[0] != '.' && add_thread(folder, at->d_name, &out))
            out.is_known = true;
    if (threads)
        closedir(threads);
    return out;
}

struct core_time core_time_now(void)
{
    return core_time_read("/proc/self/task");
}

int core_time_open(void)
{
    return open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
}

double core_kept_s(const struct core_time *before, const struct core_time *after)
{
    double waking_s = wake_s * fmax(0, after->slices - before->slices);
    bool is_known = before->is_known && after->is_known;
    return is_known ? fmax(0, after->ready_s - before->ready_s - waking_s) : 0;
}

static double ran_between_s(const struct core_time *before, const struct core_time *after)
{
    return fmax(0, after->ran_s - before->ran_s);
}

double core_quiet_s(double wall_s, const struct core_time *before, const struct core_time *after)
{
    double quiet_s = wall_s - core_kept_s(before, after);
    return fmin(wall_s, fmax(quiet_s, ran_between_s(before, after)));
}

double core_share(const struct core_time *before, const struct core_time *after)
{
    double ran_s = ran_between_s(before, after);
    if (!before->is_known || !after->is_known)
        return -1;
    return ran_s > 0 ? ran_s / (ran_s + core_kept_s(before, after)) : 1;
}
