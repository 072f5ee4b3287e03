/* sim/cost/hardware.h - what training runs on: GPU, cluster, profile, stack.
 *
 * Four sorts of file, so that datasheet, topology, measurement and software never mix:
 *   GPU      calibration/hardware/   datasheet numbers; never edited to match a run
 *   cluster  calibration/clusters/   groups of equal nodes and their network levels
 *   profile  calibration/profiles/   what a GPU and its fabric reach of the datasheet
 *   stack    calibration/stacks/     a software family: what is fused, overlapped, launched, kept
 * All are values, found by name (file name or alias) or by path. */
#ifndef SIM_COST_HARDWARE_H
#define SIM_COST_HARDWARE_H

#include "base/err.h"
#include "base/field.h"
#include "models/layer.h"
#include "models/op.h"
#include "sim/cost/collective.h"
#include "sim/cost/curve.h"
#include "sim/cost/error_widths.h"
#include "sim/cost/generation.h"
#include "sim/cost/kernel.h"
#include "sim/cost/provenance.h"

struct gpu {
    char name[48]; /* "a100-80g-sxm" */
    char source[256];
    char words[6][40]; /* aliases, and the names that measured rows use: "A100-80GB-SXM" */
    int arch;          /* enum gpu_arch */
    char die[24];      /* "gh100": GPUs of one chip share what was measured of it; "": not said */
    double memory_bytes;
    double memory_bytes_per_s;
    int num_sms;
    double clock_hz;
    double l2_bytes;
    double power_w;
    double pcie_bytes_per_s;             /* host link, one direction */
    double peak_flops_per_s[NUM_DTYPES]; /* dense; 0: not supported */
};

enum { MAX_LEVELS = 6 };

/* One network level, inside out: levels[0] joins the GPUs of a node. */
struct level {
    char name[24];
    int size;           /* members of the level below that one of these joins */
    char fabric[32];    /* "nvswitch3", "ib-hdr", "pcie4" ... a word for people */
    double bytes_per_s; /* one direction: of a GPU (levels[0]), of a NIC (above) */
    double latency_s;
    bool in_network_reduction;     /* NVLS within a node, SHARP above */
    double nics_per_gpu;           /* above levels[0]; may be a fraction when GPUs share a NIC */
    double efficiency;             /* above levels[0]: what colliding flows leave; 0: all */
    double oversubscription;       /* >= 1: traffic that leaves a block of `size` gets 1/this */
    int channels;                  /* NCCL's ring channels of a node; 0: two, or one a NIC */
    double channel_bytes_per_s;    /* of one of them; 0: bytes_per_s / channels */
    int nvls_channels;             /* 0: no NVLS */
    double nvls_intra_bytes_per_s; /* NCCL's bwIntra of an NVLS channel */
    double spread;                 /* standard deviation of one transfer's time, relative */
};

struct cluster {
    char name[48];
    char source[256];
    char summary[160];
    char gpu_name[48];
    char profile_name[48];
    char stack_name[48]; /* that the file says runs there; "": it says none */
    int num_nodes;       /* 0: as many as --gpus asks for */
    int segment;         /* of levels[0].size, those that a job takes when not all; 0: all */
    int gpus_per_host;   /* where levels[0] joins several hosts; 0: a node is a host */
    int num_levels;
    struct level levels[MAX_LEVELS];
    bool amd_cpu;            /* NCCL's latencies differ */
    double host_bytes_per_s; /* of host memory, the share of the process of one GPU */
    double price_per_gpu_h;  /* dollars; 0: not stated */
};

/* Tile shapes of matrix products, with what each reaches relative to the best. */
struct gemm_tile {
    int m, n;
    double efficiency;
};
enum { MAX_GEMM_TILES = 8, MAX_GEMM_POINTS = 1024, MAX_FITTED = 1024 };

/* A measured product: corrects the tile model near its shape. */
struct gemm_point {
    double m, n, k, flops_per_s;
};

/* rate = efficiency x peak x s / (s + half_seq), of the causal half's FLOPs. */
struct attention_rate {
    double forward_efficiency, backward_efficiency, half_seq;
};

/* What a calibration saw of other programs, and how far off it was of steps that it held out. */
struct disturbance {
    double core_share;     /* least that a rank got of its core while ops and steps were timed */
    double held_out_error; /* largest |log(predicted / measured)|; 0: nothing was held out */
    double waited_s;       /* for a quiet machine, beforehand */
};

/* Products of a type with fewer than 16 bits. */
struct narrow_rate {
    double efficiency; /* share of gemm_efficiency that is reached of their peak; 0: not known */
    double half_k;     /* 0: gemm_half_k at as many bytes */
};

struct profile {
    char name[48];
    char gpu_name[48];
    char source[320];
    bool measured; /* some constant was fitted to runs of this GPU */
    struct provenance provenance;
    bool is_disturbed; /* error_log is as wide as the held-out steps were off */
    struct disturbance disturbed;
    double gemm_efficiency; /* of peak, long inner dimension, sustained clock */
    double sustained;       /* share of short runs' product rate that power lets long ones keep */
    double power_w;         /* limit that rates were found at (sim/cost/power.h); 0: not said */
    double gemm_half_k;     /* inner dimension at which half of it is reached */
    struct narrow_rate narrow[NUM_DTYPES]; /* of products of fewer than 16 bits */
    double gemm_unaligned_efficiency; /* of its rate, left when 16 bytes don't divide a dimension */
    double gemm_memory_efficiency;    /* share of memory bandwidth a thin product reaches */
    double batched_gemm_efficiency;   /* scores and context of unfused attention, of peak */
    double batched_gemm_half_dim;     /* head dimension at which half of it is reached */
    double unaligned_efficiency;      /* of them, left when 16 bytes don't divide a head's row */
    double memory_efficiency;         /* share of memory bandwidth of large pointwise kernels */
    double kernel_s;                  /* shortest kernel, start to start, queued */
    double host_copy_efficiency;      /* share of the link to the host, each way, both at once */
    double intra_bandwidth_factor, intra_latency_factor; /* NCCL's model -> measured, in a node */
    double inter_bandwidth_factor, inter_latency_factor; /* ... between nodes */
    double overlap_compute_slowdown; /* compute runs this many times longer beside a collective */
    double overlap_comm_slowdown;
    double chip_spread;  /* standard deviation of sustained speed between chips */
    double pass_spread;  /* ... of one chip's passes over a chunk around their mean, relative */
    double drift_s;      /* variance of a rank's compute time, per second of it: see drift_wait_s */
    double error_log;    /* half width of the 90 % interval, in log time, out of sample */
    double source_error; /* half width of a shift of all its runs, where it was never measured */
    struct attention_rate attention[NUM_ATTENTION_KERNELS]; /* unfused unused */
    int num_gemm_tiles;
    struct gemm_tile gemm_tiles[MAX_GEMM_TILES];
    int num_gemm_points;
    struct gemm_point *gemm_points; /* owned; profile_release() */
    int num_kernels;
    struct kernel *kernels; /* ops as they were measured, instead of the formulas; owned */
    int num_curves;
    struct curve *curves; /* of collectives; owned */
    int num_fitted; /* rows of measured runs that constants were fitted on: "SOURCE" or row ids */
    char (*fitted)[40];
};

enum overlap { OVERLAP_GRAD, OVERLAP_PARAM, OVERLAP_P2P, OVERLAP_TP, NUM_OVERLAPS };
extern const char *const overlap_names[NUM_OVERLAPS + 1];

enum launch { LAUNCH_EAGER, LAUNCH_GRAPHS, LAUNCH_PASSES };

/* When gradients that ZeRO shards are reduced: after each microbatch, or once a step, kept whole
 * until then. */
enum accumulate { ACCUMULATE_REDUCED, ACCUMULATE_NO_SYNC };
/* Stages of a pipeline whose chunks are reduced in buckets; those of the others whole. */
enum pipeline_buckets { PIPELINE_BUCKETS_NONE, PIPELINE_BUCKETS_FIRST, PIPELINE_BUCKETS_ALL };

/* When and how the host launches kernels, and what else it takes. */
struct stack_host {
    int launch;            /* enum launch */
    bool launches_ahead;   /* of what runs: also beyond a layer, and beside a collective */
    double issue_s;        /* to launch one kernel, eager */
    double graph_kernel_s; /* in its place where launch is graphs: from one to the next */
    double checkpoint_s;   /* to save and restore the state of a recomputed layer */
    double microbatch_s;   /* around one forward-backward of a chunk */
    double step_s;         /* and of logging, a step */
};

/* What memory holds of 16-bit weights' gradients where a plan does not say: fp32, or their own. */
enum main_gradients { MAIN_GRADIENTS_FP32, MAIN_GRADIENTS_OWN };
/* The rank whose memory a family's log shows: that of the stage with most, or the last. */
enum logged_stage { LOGGED_MOST, LOGGED_LAST };

/* What is held beside a model's state and activations. */
struct stack_memory {
    double allocator_slack; /* reserved / allocated - 1 */
    double context_bytes;   /* CUDA context, kernels, workspaces of libraries */
    double graph_bytes;     /* pools of captured graphs, where launch is graphs */
    int main_gradients;     /* enum main_gradients */
    bool low_gradients;     /* those in the weights' type stay, beside the fp32 ones they add to */
    bool frees_gradients;   /* a step's gradients are there once they are made; else all the time */
    bool shards_are_master; /* ZeRO-3's shards are fp32 masters, narrowed as they are gathered */
    bool connects_groups;   /* a communicator for each group of ranks, connected for all calls */
    double logits_bytes;    /* per logit held at the loss */
    int logits_rows;        /* most rows of the head at once; 0: all */
};

/* How gradients are reduced and shards gathered. */
struct stack_shards {
    double bucket_bytes;       /* gradient bucket for overlapped reductions; 0: a whole chunk */
    int pipeline_buckets;      /* enum pipeline_buckets */
    int layer_messages;        /* collectives that a layer's parameters travel in (ZeRO-3) */
    double message_per_rank_s; /* host time of each of them for every member of the group */
    bool copies;               /* parameters are sharded one by one: shard_copies() */
    bool reshard;              /* ZeRO-3 drops a layer's weights after its forward */
    int prefetch;              /* layers that it gathers ahead of the one that runs */
    int accumulate;            /* enum accumulate */
};

/* What is taken for granted where nothing is said. */
struct stack_unstated {
    bool flash_default; /* what an absent attn= means */
    bool sp_default;    /* a measured run has sequence parallelism with tp */
    int zero_default;   /* ZeRO stage of a measured run */
    int logged_stage;   /* enum logged_stage: of its memory */
    int fp8_default;    /* enum precision of a measured run in fp8 of no stated recipe */
};

struct stack {
    char name[48];
    char source[320];
    char summary[160];
    int attention;              /* enum attention_kernel when the plan says attn=flash */
    unsigned fusions;           /* bit set of enum fusion */
    struct unfused_ops unfused; /* what is not fused costs */
    unsigned overlaps;          /* bit set of enum overlap: what an absent overlap= means */
    int runtime;                /* index of runtimes[] (sim/cost/runtime.h) */
    struct stack_host host;
    struct stack_memory memory;
    struct stack_shards shards;
    struct stack_unstated unstated;
    double product_efficiency; /* share of the profile's GEMM rate that its libraries reach */
    double optimizer_passes;   /* traffic of the step relative to one fused pass */
    bool scatter_gather_p2p;   /* pipeline messages split over tensor ranks, gathered in the node */
    bool leaves_vocab_odd;     /* a tensor rank's vocabulary is not padded */
    bool tied_reduce;          /* tied embeddings are all-reduced between first and last stage */
    bool post_validation;    /* split backwards: a stage updates before the norm of all is known */
    bool gradients_in_dtype; /* fp16 gradients accumulate and are reduced in fp16; bf16 in fp32 */
    bool keeps_quantized;    /* weights are kept and gathered as such, where the recipe can */
    double error_log;        /* as a profile's, of this family's runs; 0: not known */
    struct error_widths widths; /* in its place, by part; 0: not known */
    double source_error;        /* as a profile's */
    int num_fitted;             /* as in a profile */
    char (*fitted)[40];
};

/* What a plan is costed on: every part resolved. */
struct system {
    struct gpu gpu;
    struct cluster cluster;
    struct profile profile;
    struct stack stack;
    int num_gpus;
};

bool gpu_load(const char *name, struct gpu *out, struct err *err);
bool cluster_load(const char *name, struct cluster *out, struct err *err);
bool profile_load(const char *name, struct profile *out, struct err *err);
bool stack_load(const char *name, struct stack *out, struct err *err);

/* Cluster, its GPU and profile, and the stack; NULL: the one that the cluster's file holds or
 * names, ERR_USAGE when it has none. Release with system_release. */
bool system_load(const char *cluster, const char *stack, int num_gpus, struct system *out,
                 struct err *err);
void system_release(struct system *system);

/* Checks a system that was put together otherwise: its profile must have the speed of the fused
 * kernel that its stack asks for. */
bool system_check_attention(const struct system *system, struct err *err);

/* The same from and to the objects of a plan file. where = the key. */
bool gpu_read(const json_t *object, struct gpu *out, struct err *err);
bool cluster_read(const json_t *object, struct cluster *out, struct err *err);
bool profile_read(const json_t *object, struct profile *out, struct err *err);
bool stack_read(const json_t *object, struct stack *out, struct err *err);
json_t *gpu_write(const struct gpu *gpu);
json_t *cluster_write(const struct cluster *cluster);
json_t *profile_write(const struct profile *profile);
json_t *stack_write(const struct stack *stack);
void profile_release(struct profile *profile);
void stack_release(struct stack *stack);

/* Keys of the files, for reading, writing and the reference page: a cluster's groups[] and their
 * levels[], and a profile's rates of an attention kernel, have their own. */
extern const struct field gpu_fields[], cluster_fields[], group_fields[], level_fields[],
    profile_fields[], attention_fields[], disturbance_fields[], stack_fields[];
extern const size_t num_gpu_fields, num_cluster_fields, num_group_fields, num_level_fields,
    num_profile_fields, num_attention_fields, num_disturbance_fields, num_stack_fields;

/* GPUs of a node, which is what levels[0] joins: the rack of an NVL72. */
int cluster_node_size(const struct cluster *cluster);
int cluster_host_size(const struct cluster *cluster); /* GPUs of one operating system */
/* GPUs of a node that a job of so many gets. Racks of several hosts give it equal shares, of whole
 * hosts and half a rack or more, so that groups line up: 64 of 72. Else the node's size. */
int cluster_node_share(const struct cluster *cluster, int num_gpus);

/* The kernel that runs for attn=flash on this GPU: what the stack has, or the best of it that the
 * GPU can run; ATTENTION_UNFUSED before Ampere. */
enum attention_kernel stack_attention(const struct stack *stack, const struct gpu *gpu);

#endif
