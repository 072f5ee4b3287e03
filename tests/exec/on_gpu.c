#include "tests/exec/on_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const struct backend *on_gpu_backend(struct err *err)
{
    const struct backend *backend = backend_find("cuda", err);
    return backend && backend->device->is_there(0, err) ? backend : NULL;
}

static bool ask(const char *unused)
{
    struct err err = { 0 };
    (void)unused;
    if (on_gpu_backend(&err))
        return true;
    printf("%s: %s\n", err.where, err.msg);
    return false;
}

bool on_gpu_is_there(void)
{
    return on_gpu_alone("finding the GPU", 60, ask, NULL);
}

bool on_gpu_alone(const char *what, unsigned seconds, bool (*function)(const char *),
                  const char *argument)
{
    int status = -1;
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        alarm(seconds);
        exit(function(argument) ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    if (process < 0 || waitpid(process, &status, 0) != process) {
        perror(what);
        return false;
    }
    if (WIFSIGNALED(status))
        printf("%s: %s, at most %u s after its start\n", what, strsignal(WTERMSIG(status)),
               seconds);
    return status == 0;
}
