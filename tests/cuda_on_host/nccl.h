/* tests/cuda_on_host/nccl.h - the part of NCCL that exec/cuda/comm_nccl.c needs, instead of the
 * library's header: ranks are threads or processes of this machine and meet in shared memory
 * (nccl_board.h). Sums are made in fp32 or wider, in the order of the ranks. */
#ifndef TESTS_CUDA_ON_HOST_NCCL_H
#define TESTS_CUDA_ON_HOST_NCCL_H

#include <cuda_runtime_api.h>

typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef struct {
    int blocking, minCTAs, maxCTAs;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER ((ncclConfig_t){ 1, 0, 0 })
#define NCCL_SPLIT_NOCOLOR      (-1)

typedef enum {
    ncclSuccess,
    ncclUnhandledCudaError,
    ncclSystemError,
    ncclInternalError,
    ncclInvalidArgument,
    ncclInvalidUsage,
    ncclRemoteError,
    ncclInProgress,
} ncclResult_t;
typedef enum {
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
} ncclDataType_t;
typedef enum { ncclSum = 0, ncclMax = 2 } ncclRedOp_t;

const char *ncclGetErrorString(ncclResult_t result);
const char *ncclGetLastError(ncclComm_t comm); /* "": no error; the communicator is ignored */
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
/* A non-blocking communicator is "in progress" for a while after a call and accepts no call then. A
 * split is made by a thread that writes `members` last. This may be after the caller has stopped
 * waiting, but not after an abort of the parent communicator has returned. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *members,
                           ncclConfig_t *config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
/* ncclCommDestroy and ncclCommAbort return when the communicator's calls, and all earlier work on
 * their streams, have finished and all its ranks have arrived; after an abort they do not wait.
 * Within a group, GroupEnd does this for all communicators at once. Both accept NULL. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream);
/* Calls between GroupStart and GroupEnd, on one communicator and stream, run as one. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

#endif
