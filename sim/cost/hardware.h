/* sim/cost/hardware.h - the hardware and software of a training run: GPU, cluster, profile, stack.
 *
 * Each is described by a file of its own:
 *
 *   GPU      calibration/hardware/   datasheet numbers, never fitted
 *   cluster  calibration/clusters/   groups of equal nodes and their network levels
 *   profile  calibration/profiles/   measured efficiencies of a GPU and its links, relative to the
 *                                    datasheet
 *   stack    calibration/stacks/     a training software: its fused kernels, overlap, launching and
 *                                    memory
 *
 * A file is loaded by name (file name or alias) or by path. */
#ifndef SIM_COST_HARDWARE_H
#define SIM_COST_HARDWARE_H

#include "base/err.h"
#include "base/field.h"
#include "models/layer.h"
#include "models/op.h"
#include "sim/collective/collective.h"
#include "sim/collective/generation.h"
#include "sim/collective/measured_curve.h"
#include "sim/cost/dispatcher.h"
#include "sim/cost/error_widths.h"
#include "sim/cost/kernel.h"
#include "sim/cost/provenance.h"

struct gpu {
    char name[48]; /* such as "a100-80g-sxm" */
    char source[256];
    char words[6][40]; /* aliases, also the names in measured rows, such as "A100-80GB-SXM" */
    int arch;          /* enum gpu_arch */
    /* such as "gh100"; GPUs with the same die share measurements; "": not stated */
    char die[24];
    /* capacity; in a search's copy of the GPU, the largest peak that a plan may have */
    double memory_bytes;
    /* memory that programs can use: what nvidia-smi shows minus the driver's part; 0: all */
    double usable_bytes;
    double memory_bytes_per_s;
    int num_sms;
    double clock_hz;
    double l2_bytes;
    double power_w;
    double pcie_bytes_per_s;             /* host link, one direction */
    double mtbf_s;                       /* mean time between failures of one GPU */
    double peak_flops_per_s[NUM_DTYPES]; /* for dense matrix products; 0: not supported */
};

enum { MAX_LEVELS = 6 };

/* One network level. Levels are ordered from the innermost: levels[0] connects the GPUs of a
 * node. */
struct level {
    char name[24];
    /* number of units of the level below that one unit of this level connects */
    int size;
    /* such as "nvswitch3" or "ib-hdr". Fabrics whose names begin with "pcie" or "mesh" have models
     * of their own. A measured curve applies only to the fabric that it names */
    char fabric[32];
    double bytes_per_s; /* one direction; levels[0]: per GPU, other levels: per network card */
    double latency_s;
    /* the switches can reduce: NVLS within a node, SHARP on higher levels */
    bool in_network_reduction;
    double nics_per_gpu; /* not for levels[0]; a fraction if GPUs share a network card */
    /* not for levels[0]: share of the bandwidth that remains when flows collide in the network; 0:
     * all */
    double efficiency;
    double oversubscription; /* >= 1: traffic that leaves a block of `size` gets 1/oversubscription
                                of the bandwidth */
    /* NCCL's ring channels of a whole node; 0: two within a node (levels[0]), one per network card
     * between nodes */
    int channels;
    double channel_bytes_per_s;    /* bandwidth of one channel; 0: from bytes_per_s */
    int nvls_channels;             /* 0: no NVLS */
    double nvls_intra_bytes_per_s; /* bandwidth of an NVLS channel within a node (NCCL's bwIntra) */
    double spread;                 /* standard deviation of one transfer's time, relative */
    /* levels[0] of a mesh: bandwidth of the link between two GPUs; 0: switches, which give any
     * two GPUs the whole bandwidth */
    double link_bytes_per_s;
    int socket_size; /* levels[0]: GPUs of one CPU socket, consecutive ranks; 0: all */
    /* one direction between two sockets: of one channel, and of all groups together */
    double socket_channel_bytes_per_s, socket_bytes_per_s;
};

struct cluster {
    char name[48];
    char source[256];
    char summary[160];
    char gpu_name[48];
    char profile_name[48];
    char stack_name[48]; /* stack that the cluster's file names; "": none */
    int num_nodes;       /* 0: as many as --gpus asks for */
    /* number of GPUs of a node or rack that a job uses if no plan divides evenly over all of
     * them; 0: all */
    int segment;
    int gpus_per_host; /* set if levels[0] connects several hosts (as in a rack); 0: a node is a
                          host */
    int num_levels;
    struct level levels[MAX_LEVELS];
    bool amd_cpu;               /* NCCL's model has other latencies for AMD CPUs */
    double host_bytes_per_s;    /* host memory bandwidth that one GPU's process gets */
    double price_per_gpu_h;     /* dollars; 0: not stated */
    double storage_bytes_per_s; /* rate at which all hosts together write to storage; 0: no limit */
    double host_storage_bytes_per_s; /* rate at which one host writes to storage; 0: not stated */
    double
        host_mtbf_s;   /* mean time between failures of a host without its GPUs, and of its links */
    double hosts_lost; /* mean number of hosts that a hardware failure takes out; >= 1 */
    double repair_s;   /* time until a failed host can be used again */
};

/* A tile shape of matrix products, with its speed relative to the best. */
struct gemm_tile {
    int m, n;
    double efficiency;
};
enum { MAX_GEMM_TILES = 8, MAX_GEMM_POINTS = 1024, MAX_FITTED = 1024 };

/* A measured matrix product. It corrects the tile model for shapes near its own. */
struct gemm_point {
    double m, n, k, flops_per_s;
};

/* At sequence length s the rate is efficiency x peak x s / (s + half_seq). FLOPs are those of the
 * causal half. */
struct attention_rate {
    double forward_efficiency, backward_efficiency, half_seq;
};

/* How much other programs disturbed a calibration, and the error of the calibrated profile's
 * predictions for held-out steps. */
struct disturbance {
    /* smallest share of its core that a rank got while ops and steps were timed */
    double core_share;
    double held_out_error; /* largest |log(predicted / measured)| of the held-out steps; 0: nothing
                              was held out */
    /* time that the calibration waited for an idle machine before it began */
    double waited_s;
};

/* Rates of matrix products in a type with fewer than 16 bits. */
struct narrow_rate {
    double efficiency; /* share of the type's peak that is reached, relative to gemm_efficiency; 0:
                          not known */
    /* inner dimension at which half of `efficiency` is reached; 0: the dimension that takes as many
     * bytes as gemm_half_k elements of 16 bits */
    double half_k;
};

/* If set, products' times are replaced by bounds that hold for all constants between those of
 * `slow` and `fast`: lower bounds if is_floor, else upper bounds. The logarithm of a bound is
 * convex in the logarithms of the constants. The profile must have no measured products. */
struct product_range {
    const struct profile *fast, *slow;
    bool is_floor;
};

struct profile {
    char name[48];
    char gpu_name[48];
    char source[320];
    bool measured;   /* whether some constant was fitted to runs of this GPU */
    bool is_missing; /* whether no profile exists and values are placeholders: memory can then be
                        predicted, but no time */
    struct provenance provenance;
    /* whether other programs disturbed the measurement; error_log is then the error of the held-out
     * steps */
    bool is_disturbed;
    struct disturbance disturbed;
    double gemm_efficiency; /* share of peak with a long inner dimension, in short runs */
    /* share of the short-run rate of products that the power limit allows permanently */
    double sustained;
    double power_w; /* power limit at which rates were measured (sim/cost/power.h); 0: not stated */
    double gemm_half_k; /* inner dimension at which half of gemm_efficiency is reached */
    struct narrow_rate narrow[NUM_DTYPES]; /* rates of products in types with fewer than 16 bits */
    /* share of the rate that is reached if a dimension is not a multiple of 16 bytes */
    double gemm_unaligned_efficiency;
    /* share of memory bandwidth that a product with one small dimension reaches */
    double gemm_memory_efficiency;
    /* for a product that is added to an existing sum: share of the sum's memory traffic that does
     * not overlap the multiplications */
    double gemm_sum_exposed;
    double batched_gemm_efficiency; /* share of peak that the products of unfused attention (scores,
                                       context) reach */
    /* head dimension at which half of batched_gemm_efficiency is reached */
    double batched_gemm_half_dim;
    /* share of the rate of unfused attention's products that is reached if a head's row is no
     * multiple of 16 bytes */
    double unaligned_efficiency;
    double memory_efficiency; /* share of memory bandwidth that large pointwise kernels reach */
    double kernel_s; /* shortest time from the start of a queued kernel to the start of the next */
    /* share of the host link that is reached in each direction, with both in use */
    double host_copy_efficiency;
    /* measured bandwidth and latency within a node, each divided by that of NCCL's model */
    double intra_bandwidth_factor, intra_latency_factor;
    /* the same ratios between nodes */
    double inter_bandwidth_factor, inter_latency_factor;
    /* time that an all-to-all of experts' rows between nodes waits for late ranks, in addition to
     * its messages */
    double expert_wait_s;
    double overlap_compute_slowdown; /* factor on compute time while a collective runs */
    double overlap_comm_slowdown;
    double chip_spread; /* standard deviation of sustained speed between chips */
    double pass_spread; /* relative standard deviation of one chip's passes over a chunk */
    /* variance of a rank's compute time per second of compute (drift_wait_s) */
    double drift_s;
    double error_log; /* half width of the 90 % interval in log time, for runs outside the fit */
    /* for a GPU that was never measured: half width, in log time, of the error that all runs on it
     * have in common (the shift) */
    double source_error;
    struct attention_rate attention[NUM_ATTENTION_KERNELS]; /* [ATTENTION_UNFUSED] is not used */
    int num_gemm_tiles;
    struct gemm_tile gemm_tiles[MAX_GEMM_TILES];
    int num_gemm_points;
    struct gemm_point *gemm_points; /* owned; freed by profile_release() */
    int num_kernels;
    struct kernel *kernels; /* measured ops, used instead of the formulas; owned */
    int num_curves;
    struct curve *curves; /* measured times of collectives; owned */
    /* measured rows on which constants were fitted: row ids, or the name of a source of several
     * rows */
    int num_fitted;
    char (*fitted)[40];
    const struct product_range *range; /* bounds of products' times; NULL: exact times; borrowed */
};

enum overlap {
    OVERLAP_GRAD,
    OVERLAP_PARAM,
    OVERLAP_P2P,
    OVERLAP_TP,
    OVERLAP_EP,
    OVERLAP_SHARED,
    NUM_OVERLAPS
};
extern const char *const overlap_names[NUM_OVERLAPS + 1];

enum launch { LAUNCH_EAGER, LAUNCH_GRAPHS, LAUNCH_PASSES };

/* When sharded gradients (ZeRO-2 and 3) are reduced. REDUCED: after each microbatch. NO_SYNC: once
 * per step, with whole gradients kept until then. */
enum accumulate { ACCUMULATE_REDUCED, ACCUMULATE_NO_SYNC };
/* Which pipeline stages reduce the gradients of a chunk in buckets; the other stages reduce a whole
 * chunk at once. */
enum pipeline_buckets { PIPELINE_BUCKETS_NONE, PIPELINE_BUCKETS_FIRST, PIPELINE_BUCKETS_ALL };

/* When and how the host launches kernels, and its other overheads. */
struct stack_host {
    int launch; /* enum launch */
    /* the host launches kernels ahead of the GPU, also across layers and during a collective */
    bool launches_ahead;
    /* the host launches a kernel when the one before has ended (CUDA_LAUNCH_BLOCKING=1), so its
     * time adds to the GPU's */
    bool launches_block;
    double issue_s; /* time to launch one kernel without graphs */
    /* replaces issue_s if kernels are launched as graphs: time from one kernel to the next */
    double graph_kernel_s;
    double checkpoint_s; /* time to save and restore the state of a recomputed layer */
    double microbatch_s; /* overhead of one forward and backward of a chunk */
    /* host time per step of each weight tensor with a gradient, in launches of a kernel: the
     * backward's hook and the optimizer's copies */
    double tensor_launches;
    double step_s; /* overhead and logging per step */
};

/* The data type of the gradients of 16-bit weights if the plan does not state it: fp32, or that of
 * the weights. */
enum main_gradients { MAIN_GRADIENTS_FP32, MAIN_GRADIENTS_OWN };
/* The pipeline stage whose memory a training software logs: the stage with the most memory, or the
 * last one. */
enum logged_stage { LOGGED_MOST, LOGGED_LAST };

/* Memory in addition to a model's state and activations. */
struct stack_memory {
    double allocator_slack; /* fragmentation: reserved / allocated - 1 */
    double error;           /* half width of the 90 % interval of log(peak / predicted) */
    double shift;           /* expected log(peak / predicted) */
    double context_bytes;   /* CUDA context, kernels, workspaces of libraries */
    double graph_bytes;     /* pools of captured graphs, if kernels are launched as graphs */
    int main_gradients;     /* enum main_gradients */
    /* gradients in the weights' type are kept in addition to the fp32 gradients to which they
     * are added */
    bool low_gradients;
    /* Adam with 16-bit moments copies 16-bit gradients to fp32, as every other optimizer does */
    bool widens_gradients;
    /* Adam with 16-bit moments stores only those 16 bits of an fp32 master weight that the bf16
     * weight lacks */
    bool stores_remainders;
    /* gradients are freed after the optimizer; otherwise their buffers stay allocated */
    bool frees_gradients;
    /* ZeRO-3 shards the fp32 master weights and converts them to 16 bits when it gathers them */
    bool shards_are_master;
    /* each group of ranks has a communicator whose buffers for all algorithms are allocated */
    bool connects_groups;
    double logits_bytes; /* bytes held per logit at the loss */
    int logits_rows;     /* maximum number of rows of logits computed at once; 0: all */
};

/* How gradients are reduced and shards gathered. */
struct stack_shards {
    double bucket_bytes;  /* gradient bucket for overlapped reductions; 0: a whole chunk */
    int pipeline_buckets; /* enum pipeline_buckets */
    /* number of collectives in which a layer's parameters are gathered (ZeRO-3) */
    int layer_messages;
    /* host overhead of each such collective, per rank of its group */
    double message_per_rank_s;
    /* each parameter is sharded by itself, so gathered weights and gradients are copied from and to
     * a buffer (shard_copies()) */
    bool copies;
    /* ZeRO-1 gives each weight tensor whole to one rank (whole_tensors_comm()) */
    bool whole_tensors;
    bool reshard;      /* ZeRO-3 drops a layer's weights after its forward */
    int prefetch;      /* layers that ZeRO-3 gathers ahead of the running one */
    int accumulate;    /* enum accumulate */
    int pipeline_zero; /* highest ZeRO stage that the software supports with a pipeline */
};

/* How checkpoints are taken. BLOCKING: training stops until a checkpoint is in storage. ASYNC:
 * training stops only while it is copied to the host. MEMORY: as ASYNC, but most checkpoints go
 * only to another host's memory. */
enum checkpointing { CHECKPOINT_BLOCKING, CHECKPOINT_ASYNC, CHECKPOINT_MEMORY, NUM_CHECKPOINTING };
extern const char *const checkpointing_names[NUM_CHECKPOINTING + 1];

/* How often the software fails, and the time that a failure costs in addition to lost work and
 * loading. */
struct stack_recovery {
    int checkpointing; /* enum checkpointing */
    double mtbf_s;     /* mean time between software failures, for one host */
    double detect_s;   /* time until a failure is noticed */
    double relaunch_s; /* time until all processes run again: hosts replaced, communicators made */
    double warm_up_s;  /* extra time of the first steps */
};

/* Values for properties that a plan or a measured run does not state. */
struct stack_unstated {
    bool flash_default; /* whether a plan without attn= uses flash attention */
    bool sp_default;    /* whether a measured run with tp has sequence parallelism */
    int zero_default;   /* ZeRO stage of a measured run */
    /* whether searches try recompute=op-selective instead of recomputing attention's core */
    bool per_op;
    /* whether selective recompute can repeat any set of a block's modules, of which searches choose
     * the best */
    bool modules;
    int logged_stage; /* enum logged_stage: whose memory a measured run states */
    int fp8_default;  /* enum precision of a measured run in fp8 that states no recipe */
};

/* Communication between pipeline stages. */
struct stack_pipeline {
    /* each tensor rank sends a part of a message; receivers gather the parts within their node */
    bool scatter_gather_p2p;
    /* gradients of tied embeddings are all-reduced between first and last stage */
    bool tied_reduce;
    bool post_validation; /* with a split backward, stages do not wait for the global norm */
};

/* Half widths of 90 % intervals in log time; 0: not known. */
struct stack_errors {
    /* half width of a step's interval, for runs of this stack that were not in a fit */
    double log;
    struct error_widths widths; /* by class of time in a step; used instead of `log` if present */
    /* for a stack that was never fitted: half width of the error that all its runs have in common
     * (the shift) */
    double source;
    /* further half width of this shift for each factor e by which a tensor rank's slice of a matrix
     * is wider or narrower than `usual_slice` */
    double slice;
    double usual_slice; /* columns: hidden size / tensor ranks */
    /* half width of the error that all runs with experts have in common, as none of them was
     * fitted */
    double of_experts;
};

/* Factors on all times, learned from the user's runs (sim/cost/learned.h); 0: none. */
struct stack_learned {
    double time_ratio;
    double expert_time_ratio; /* factor for models with experts */
};

struct stack {
    char name[48];
    char family[48]; /* name of the stack of which this stack is a version; "": none */
    char source[320];
    char summary[160];
    int attention;              /* enum attention_kernel that runs if the plan has attn=flash */
    unsigned fusions;           /* bit set of enum fusion */
    struct unfused_ops unfused; /* cost of ops that are not fused */
    unsigned overlaps;          /* bit set of enum overlap, for plans without overlap= */
    int dispatcher;             /* enum dispatcher_kind */
    int runtime;                /* index of runtimes[] (sim/cost/runtime.h) */
    struct stack_host host;
    struct stack_memory memory;
    struct stack_shards shards;
    struct stack_recovery recovery;
    struct stack_unstated unstated;
    /* share of the profile's GEMM rate that the stack's libraries reach */
    double product_efficiency;
    double expert_efficiency; /* the rate of experts' products relative to that of other products */
    /* rate of forward products and input gradients in fewer than 16 bits, relative to that of
     * Transformer Engine */
    double quantized_efficiency;
    /* attention rates of the stack's own kernels, relative to those of the profile */
    double attention_forward_efficiency, attention_backward_efficiency;
    double optimizer_passes; /* memory traffic of the optimizer relative to one fused pass */
    bool leaves_vocab_odd;   /* whether the vocabulary is not padded */
    /* whether ranks that share an expert (etp) sum their parts of its rows in 16 bits */
    bool sums_rows_in_dtype;
    bool launches_each_expert; /* whether the host launches one product per expert */
    bool sends_quantized;      /* whether rows are sent to their experts quantised, if linear layers
                                  multiply in fewer than 16 bits */
    bool pads_rows; /* rows of experts are copied to aligned blocks before they are quantised */
    bool norms_in_products, norm_reads_twice; /* as in struct layer_options (models/layer.h) */
    bool user_buffers; /* overlapped tensor collectives run in pieces (sim/cost/user_buffers.h) */
    /* if linear layers multiply in fewer than 16 bits, how values are kept for the backward
     * (models/quantised_storage.h): enum input_store, and enum storage for attention's output and
     * for the inputs of activations */
    int input_store, attention_store, activation_store;
    bool remakes_activations,
        transposes_apart; /* as in struct stores (models/quantised_storage.h) */
    /* full recompute also repeats ops whose results the backward does not read */
    bool recomputes_unread;
    bool keeps_gathered;  /* gathered inputs of products are kept gathered for the backward */
    bool keeps_quantized; /* weights are kept and gathered quantised where the recipe allows it */
    bool gradients_in_dtype; /* fp16 gradients accumulate and are reduced in fp16; bf16 in fp32 */
    struct stack_pipeline pipeline;
    struct stack_errors errors;
    struct stack_learned learned;
    int num_fitted; /* as in struct profile */
    char (*fitted)[40];
};

/* The system that a plan is costed on, with all parts loaded. */
struct system {
    struct gpu gpu;
    struct cluster cluster;
    struct profile profile;
    struct stack stack;
    int num_gpus;
    double fits_bytes; /* memory that plans must fit in; 0: what programs can use of the GPU */
};

/* Factor on all predicted times of a model; 1 unless `learn` found one. */
static inline double time_ratio_of(const struct system *system, const struct model *model)
{
    const struct stack *stack = &system->stack;
    double ratio =
        model->experts > 0 ? stack->learned.expert_time_ratio : stack->learned.time_ratio;
    return ratio > 0 ? ratio : 1;
}

double gpu_usable_bytes(const struct gpu *gpu);

/* Bandwidth of all network cards of a host; 0 if there is no network. */
double cluster_host_network_bytes_per_s(const struct cluster *cluster);

/* Rate at which a host writes to storage: the value in the cluster's file. If it states none, 2
 * GB/s or, if that is less, the rate of the host's network cards. */
double cluster_host_storage_bytes_per_s(const struct cluster *cluster);
/* The rate at which `hosts` hosts together write, at most the storage's limit; and whether this
 * rate is based on the assumed 2 GB/s per host. */
double cluster_storage_bytes_per_s(const struct cluster *cluster, int hosts);
bool cluster_assumes_storage(const struct cluster *cluster, int hosts);

bool gpu_load(const char *name, struct gpu *out, struct err *err);
bool cluster_load(const char *name, struct cluster *out, struct err *err);
bool profile_load(const char *name, struct profile *out, struct err *err);
bool stack_load(const char *name, struct stack *out, struct err *err);
/* A placeholder for a cluster without a profile: memory can then be predicted, but no time. */
struct profile profile_missing(const char *gpu);

/* Loads a cluster, its GPU and profile, and the stack. `stack` NULL: the one that the cluster's
 * file holds or names, ERR_USAGE when it has none. Release with system_release. */
bool system_load(const char *cluster, const char *stack, int num_gpus, struct system *out,
                 struct err *err);
void system_release(struct system *system);

/* Checks that the profile has the rates of the fused attention kernel that the stack uses. For
 * systems that were not loaded by system_load. */
bool system_check_attention(const struct system *system, struct err *err);

/* Read and write a GPU, cluster, profile or stack as a JSON object. If reading fails, err->where is
 * the key. */
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
/* The name of the stack of which this one is a version, or its own name. */
const char *stack_family(const struct stack *stack);

/* Keys of the files, for reading, writing and the reference page. A cluster's groups[] and levels[]
 * and a profile's rates of an attention kernel have tables of their own. */
extern const struct field gpu_fields[], cluster_fields[], group_fields[], level_fields[],
    profile_fields[], attention_fields[], disturbance_fields[], stack_fields[];
extern const size_t num_gpu_fields, num_cluster_fields, num_group_fields, num_level_fields,
    num_profile_fields, num_attention_fields, num_disturbance_fields, num_stack_fields;

/* Number of GPUs that levels[0] connects; for NVL72 this is a rack. */
int cluster_node_size(const struct cluster *cluster);
/* number of GPUs of one host (one operating system) */
int cluster_host_size(const struct cluster *cluster);
/* Number of GPUs that a job of `num_gpus` uses on each node. On racks of several hosts it uses
 * whole hosts, at least half of each rack and equally many on each, so that groups of ranks align
 * with racks, such as 64 of 72. If no such number divides the job, it uses the whole rack. */
int cluster_node_share(const struct cluster *cluster, int num_gpus);

/* The kernel that runs for attn=flash on this GPU: the stack's, or an older one if the GPU cannot
 * run that; ATTENTION_UNFUSED before Ampere. */
enum attention_kernel stack_attention(const struct stack *stack, const struct gpu *gpu);

/* The stack's way to keep values for the backward. */
struct stores stack_stores(const struct stack *stack);

#endif
