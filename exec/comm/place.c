/* Reads this process's rank, the number of ranks and the address at which they meet from the
 * environment that the launcher set. The token is a secret of the run, which admits its ranks. */
#include "exec/comm/place.h"

#include "base/length.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place place_alone(void)
{
    return (struct place){ .launcher = "", .size = 1, .local_size = 1, .meeting_fd = -1 };
}

/* Reads a whole number from `least` to `most`. */
static bool read_number(const char *name, long least, long most, int *out, struct err *err)
{
    const char *text = getenv(name);
    if (!text)
        return err_set(err, ERR_INPUT, name,
                       "is not set, although its launcher has set other variables");
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most)
        return err_set(err, ERR_INPUT, name,
                       "expected a whole number from %ld to %ld; found \"%s\"", least, most, text);
    *out = (int)number;
    return true;
}

/* The same as read_number, but leaves *out unchanged when the variable is not set. */
static bool read_optional(const char *name, long least, long most, int *out, struct err *err)
{
    return !getenv(name) || read_number(name, least, most, out, err);
}

/* "HOST:PORT" */
static bool read_meeting(const char *name, struct place *place, struct err *err)
{
    const char *text = getenv(name);
    const char *colon = text ? strrchr(text, ':') : NULL;
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof place->meeting_host)
        return err_set(err, ERR_INPUT, name, "expected HOST:PORT; found \"%s\"", text ? text : "");
    memcpy(place->meeting_host, text, (size_t)(colon - text));
    place->meeting_port = atoi(colon + 1);
    return place->meeting_port > 0 ||
           err_set(err, ERR_INPUT, name, "expected HOST:PORT; found \"%s\"", text);
}

static bool read_own(struct place *place, struct err *err)
{
    return read_number("SIMSEARCH_RANKS", 1, INT_MAX, &place->size, err) &&
           read_number("SIMSEARCH_RANK", 0, place->size - 1, &place->rank, err) &&
           read_meeting("SIMSEARCH_MEETING", place, err) &&
           read_optional("SIMSEARCH_MEETING_FD", 0, INT_MAX, &place->meeting_fd, err);
}

/* Ranks of mpirun meet through MPI, so they have no meeting address. */
static bool read_mpirun(struct place *place, struct err *err)
{
    return read_number("OMPI_COMM_WORLD_SIZE", 1, INT_MAX, &place->size, err) &&
           read_number("OMPI_COMM_WORLD_RANK", 0, place->size - 1, &place->rank, err) &&
           read_optional("OMPI_COMM_WORLD_LOCAL_SIZE", 1, INT_MAX, &place->local_size, err) &&
           read_optional("OMPI_COMM_WORLD_LOCAL_RANK", 0, INT_MAX, &place->local_rank, err);
}

/* The first name of "node[03-05,9],other": "node03". */
static void first_of_nodes(const char *list, char *host, size_t size)
{
    size_t name = strcspn(list, "[,");
    size_t number = list[name] == '[' ? strcspn(list + name + 1, "-,]") : 0;
    snprintf(host, size, "%.*s%.*s", (int)name, list, (int)number,
             number > 0 ? list + name + 1 : "");
}

/* Chooses the port of a Slurm job step, as steps that share a node need different ports. */
static int port_of_job(int job, int step)
{
    return 20000 + (int)(((unsigned)job * 31u + (unsigned)step) % 20000u);
}

static bool read_srun(struct place *place, struct err *err)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    const char *nodes = getenv("SLURM_STEP_NODELIST");
    int job = 0, step = 0;
    if (!read_number(tasks, 1, INT_MAX, &place->size, err) ||
        !read_number("SLURM_PROCID", 0, place->size - 1, &place->rank, err) ||
        !read_optional("SLURM_LOCALID", 0, INT_MAX, &place->local_rank, err) ||
        !read_optional("SLURM_JOB_ID", 0, INT_MAX, &job, err) ||
        !read_optional("SLURM_STEP_ID", 0, INT_MAX, &step, err))
        return false;
    first_of_nodes(nodes ? nodes : "localhost", place->meeting_host, sizeof place->meeting_host);
    place->meeting_port = port_of_job(job, step);
    snprintf(place->token, sizeof place->token, "srun %d.%d", job, step);
    return true;
}

/* If TORCHELASTIC_USE_AGENT_STORE is True, torchrun itself listens on MASTER_PORT, so the ranks
 * meet at MASTER_PORT + 1; else at MASTER_PORT. */
static bool read_torchrun(struct place *place, struct err *err)
{
    const char *host = getenv("MASTER_ADDR");
    if (!read_number("WORLD_SIZE", 1, INT_MAX, &place->size, err) ||
        !read_number("RANK", 0, place->size - 1, &place->rank, err) ||
        !read_optional("LOCAL_WORLD_SIZE", 1, INT_MAX, &place->local_size, err) ||
        !read_optional("LOCAL_RANK", 0, INT_MAX, &place->local_rank, err) ||
        !read_number("MASTER_PORT", 1, 65534, &place->meeting_port, err))
        return false;
    if (!host || host[0] == '\0')
        return err_set(err, ERR_INPUT, "MASTER_ADDR", "is not set, although RANK is");
    snprintf(place->meeting_host, sizeof place->meeting_host, "%s", host);
    const char *run = getenv("TORCHELASTIC_RUN_ID"); /* random only with torchrun --standalone */
    snprintf(place->token, sizeof place->token, "torchrun %s", run ? run : "");
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    place->meeting_port += store && strcmp(store, "True") == 0;
    return true;
}

/* Reads the token; an empty one would admit anybody, so it is refused. */
static bool read_token(struct place *place, struct err *err)
{
    static const char name[] = "SIMSEARCH_TOKEN";
    const char *token = getenv(name);
    size_t length = token ? strlen(token) : 0;
    if (!token)
        return true;
    if (length == 0 || length >= sizeof place->token)
        return err_set(err, ERR_INPUT, name, "expected 1 to %d characters; found %zu",
                       PLACE_TOKEN_BYTES - 1, length);
    memset(place->token, 0, sizeof place->token);
    memcpy(place->token, token, length);
    return true;
}

/* `sign` is a variable that is set only in the ranks that the launcher started. For Slurm it is the
 * variable of the job's step, as a shell inside a job has SLURM_NTASKS but no step. */
static const struct {
    const char *name, *sign;
    bool (*read)(struct place *place, struct err *err);
} launchers[] = {
    { "simsearch", "SIMSEARCH_RANK", read_own },
    { "mpirun", "OMPI_COMM_WORLD_RANK", read_mpirun },
    { "torchrun", "RANK", read_torchrun },
    { "srun", "SLURM_STEP_ID", read_srun },
};

bool place_of_environment(struct place *place, struct err *err)
{
    *place = place_alone();
    for (size_t i = 0; i < LENGTH(launchers); i++) {
        if (!getenv(launchers[i].sign))
            continue;
        place->launcher = launchers[i].name;
        place->local_size = 0;
        place->local_rank = -1;
        if (!launchers[i].read(place, err) || !read_token(place, err))
            return false;
        if (place->local_size == 0)
            place->local_size = place->size;
        if (place->local_rank < 0)
            place->local_rank = place->rank % place->local_size;
        return true;
    }
    return true;
}

const char *place_comm(const struct place *place)
{
    return strcmp(place->launcher, "mpirun") == 0 ? "mpi" : "tcp";
}
