# make                 build/release/simsearch
# make run             builds and runs the program; ARGS="..." are its arguments
# make test            every test_*.c and test_*.sh under tests/, then layers, globals and docs
# make test T=units    only test_units.*, in any folder
# make nvcc-tests      test_cuda_ptx and test_cuda_sass: the code that nvcc makes of the CUDA kernels
# make campaign        the tests that otherwise use samples, in full; takes hours. T= selects some
# make check-certificate FILE=...   checks a certificate that `search --certificate` wrote
# make coverage        the tests with VARIANT=cov, then the lines executed per folder
# make gpu-kit         one tarball for a machine with a GPU: programs, libraries, tests/gpu.sh
# make mutants N=300   changes one place of the source at a time and runs the tests. FILES= SEED=
# make same-answers BASE=COMMIT   compares over a hundred answers with those of that commit's program
# make bench           every tests/bench/bench_*.c and bench_*.sh
# make lint | format   clang-tidy, clang-format and shellcheck, where they are installed
# make layers          checks includes against tests/layers.txt, and that files include no cycle
# make globals         checks that base, models, sim and search have no mutable global data
# make docs            writes docs/reference.md from the tables in the program
# make accuracy        writes docs/accuracy.md and .svg from the shipped measurements
# make pictures        writes docs/exchange-*.svg from predictions and runs of a convex problem
# make install         DESTDIR= PREFIX=/usr/local; `make uninstall` removes the installed files
# make deps            installs the required packages and OpenBLAS (`run` and `test` do so too)
# make clean
#
# VARIANT=release|clang|asan|tsan|cov   how to compile; the output is in build/$(VARIANT)
# BUILD=build                     the folder of all output   V=1 shows the commands
# FOLDERS="base models"           builds these folders only (T= must select tests of them)

VARIANT ?= release
PREFIX  ?= /usr/local
BUILD   ?= build
ARGS    ?= --gpus 1024 --model 175b
B       := $(BUILD)/$(VARIANT)
PROGRAM := $(B)/simsearch

CFLAGS_release := -O2 -g1
CFLAGS_clang   := -O2 -g
# Four checks run at every memory access and take a third of clang's compile time. The address
# sanitizer finds most of their faults, so only CAMPAIGN=1 enables them.
CFLAGS_asan    := -O1 -g1 -fno-omit-frame-pointer \
                  -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all \
                  $(if $(CAMPAIGN),,-fno-sanitize=null,alignment,object-size,pointer-overflow)
CFLAGS_tsan    := -O1 -g1 -fsanitize=thread
CFLAGS_cov     := -O1 -g --coverage
ifeq ($(CFLAGS_$(VARIANT)),)
$(error VARIANT is release, clang, asan, tsan or cov, not "$(VARIANT)")
endif
ifeq ($(VARIANT),clang)
CC := clang
endif

# A new warning of a newer compiler must not stop a user, so only CI turns warnings into errors.
# Only clang warns about assert(!"reason"), and about INFINITY, a float, used as a double.
CLANG_ALLOWS := -Wno-string-conversion -Wno-double-promotion
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wdouble-promotion -Wstrict-prototypes \
            -Wmissing-prototypes -Wwrite-strings -Wvla -Wundef $(if $(CI),-Werror) \
            $(if $(findstring clang,$(CC)),$(CLANG_ALLOWS))
# -ffp-contract=off and no -ffast-math: the same plan gets the same bits everywhere.
ALL_CFLAGS := -std=c17 -D_POSIX_C_SOURCE=200809L -I. -ffp-contract=off -fno-common -pthread \
              $(WARNINGS) $(CFLAGS_$(VARIANT)) $(CPPFLAGS) $(CFLAGS)
# libyaml, for `import`; optional.
YAML ?= $(shell echo '\#include <yaml.h>' | $(CC) $(CPPFLAGS) $(CFLAGS) -E -x c - >/dev/null 2>&1 && echo 1 || echo 0)
YAML := $(YAML)
LIBS := -ljansson -lglpk $(if $(filter 1,$(YAML)),-lyaml) -lm -ldl -pthread

# Debian's Check needs its _pic archive, subunit and rt; elsewhere -lcheck suffices. CHECK_LIBS is
# computed when the first test is linked, because `make test` may install Check just before.
comma := ,
has_lib    = $(if $(findstring /,$(shell $(CC) $(LDFLAGS) -print-file-name=lib$1.a) \
                                 $(shell $(CC) $(LDFLAGS) -print-file-name=lib$1.so)),-l$1)
CHECK_LIBS = $(eval CHECK_LIBS := $$(or $$(call has_lib,check_pic),-lcheck) $$(call has_lib,subunit) \
                                  $$(call has_lib,rt) -lm)$(CHECK_LIBS)

# Tests are linked by lld if it is installed, because it is faster. Several are linked at a time, so
# one thread each is cheapest.
TEST_LINKER := $(if $(shell command -v ld.lld),-fuse-ld=lld -Wl$(comma)--threads=1)

# Optional; override with CUDA=0 NCCL=0 MPI=0. `make deps` installs OpenBLAS. The program is not
# linked with it: kernels/host loads it when a run begins, and has its own products, half as fast,
# if it is missing.
CUDA     ?= $(if $(shell command -v nvcc),1,0)
MPI      ?= $(if $(shell command -v mpicc),1,0)
OPENBLAS ?= $(if $(findstring /,$(shell $(CC) -print-file-name=libopenblas.so.0)),1,0)
found     = $(if $(filter 1,$1),yes,no)

# The folders of the CUDA toolkit and of NCCL. They differ if NCCL comes with PyTorch's wheels.
CUDA_HOME ?= $(patsubst %/bin/nvcc,%,$(realpath $(shell command -v nvcc)))
NCCL_HOME ?= $(CUDA_HOME)
NCCL      ?= $(if $(filter 1,$(CUDA)),$(if $(wildcard $(NCCL_HOME)/include/nccl.h),1,0),0)
# Compute capabilities to compile for. `make CUDA_ARCHS=90a` compiles for one GPU and is faster.
# Architectures that the toolkit does not know are omitted. The last one without a letter is also
# stored as PTX, which the driver compiles for later GPUs.
CUDA_ARCHS ?= 80 90a 100

FOLDERS ?= base models sim interchange search exec kernels calibration cli
# These sources need a library that may be absent, so they are compiled into plugins.
CUDA_SRC   := $(wildcard exec/cuda/*.c kernels/cuda/*.c)
CUDA_CU    := $(wildcard kernels/cuda/*.cu)
PLUGIN_SRC := exec/mpi/comm_mpi.c $(CUDA_SRC)
KERNEL_SRC := $(CUDA_CU) $(wildcard kernels/cuda/*.cuh)
# Plugins are not built with sanitizers, which would report faults inside MPI and CUDA.
PLUGINS    := $(if $(filter exec,$(FOLDERS)),\
                $(if $(filter release clang,$(VARIANT)),$(if $(filter 1,$(MPI)),$(B)/simsearch-mpi.so)) \
                $(if $(filter release,$(VARIANT)),$(if $(filter 1,$(CUDA)),$(if $(CUDA_CU),$(B)/simsearch-cuda.so))))
# A plugin cannot call functions of the program, so the sources that it uses are linked into it too.
MPI_PLUGIN_SRC := exec/mpi/comm_mpi.c exec/comm/comm.c exec/comm/failure.c exec/comm/reduce.c \
                  exec/plugin/tables.c kernels/host/round.c base/arena.c base/err.c base/plain.c
CUDA_SHARED_SRC := $(addprefix exec/comm/,comm.c comm_tcp.c failure.c greeting.c links.c mesh.c place.c reduce.c \
                    socket.c tcp_collective.c) \
                  $(addprefix exec/device/,device_host.c host_graph.c host_stream.c region.c) \
                  exec/plugin/plugin.c exec/plugin/tables.c \
                  kernels/host/round.c \
                  $(addprefix base/,arena.c clock.c err.c file.c plain.c random.c text.c)
CUDA_PLUGIN_SRC := $(filter-out $(if $(filter 1,$(NCCL)),,exec/cuda/comm_nccl.c),$(CUDA_SRC))
LIB_SRC    := $(sort $(filter-out $(PLUGIN_SRC) cli/main.c, \
                $(wildcard $(addsuffix /*.c,$(FOLDERS)) $(addsuffix /*/*.c,$(FOLDERS)))))
MAIN_SRC   := $(if $(filter cli,$(FOLDERS)),$(wildcard cli/main.c))
# The files that match a pattern in tests/ and its folders, which mirror the source folders.
in_tests    = $(wildcard tests/$1 tests/*/$1 tests/*/*/$1)
ALL_TESTS  := $(call in_tests,test_*.c) $(call in_tests,test_*.sh)
TEST_SRC   := $(call in_tests,test_$(or $(T),*).c)
# A test with a line "not under VARIANT: reason" is not run in that variant, unless T= names it.
# The thread sanitizer runs only tests that are tagged THREADS (tests/testing.h).
NOT_HERE   := $(if $(T),,$(shell grep -l -E '^(/\*|\#) not under ([a-z]+, )*$(VARIANT)[,:]' $(ALL_TESTS)))
ifeq ($(VARIANT)$(T),tsan)
NOT_HERE   := $(shell grep -L -w THREADS $(ALL_TESTS))
endif
TEST_SRC   := $(filter-out $(NOT_HERE),$(TEST_SRC))
# Tests of CUDA kernels compile them as C++ for the host, so they need a C++ compiler.
CUDA_TESTS := $(filter $(call in_tests,test_cuda_*.c),$(TEST_SRC))
ifeq ($(shell command -v $(CXX)),)
TEST_SRC   := $(filter-out $(CUDA_TESTS),$(TEST_SRC))
endif
TEST_SH    := $(if $(MAIN_SRC),$(filter-out $(NOT_HERE),$(call in_tests,test_$(or $(T),*).sh)))
$(if $(T),$(if $(TEST_SRC)$(TEST_SH),,$(error T=$(T): there is no test_$(T).c or .sh under tests/)))
BENCH_SRC  := $(wildcard tests/bench/bench_*.c)
BENCH_SH   := $(if $(MAIN_SRC),$(wildcard tests/bench/bench_*.sh))
# These programs need a GPU; tests/gpu.sh builds and runs them.
GPU_SRC    := $(wildcard tests/gpu/*.c)
# The other sources are helpers for tests; a test is linked with those that it uses.
HELPER_SRC := $(filter-out $(ALL_TESTS) $(BENCH_SRC) $(GPU_SRC) tests/cuda% tests/mutants/%,$(call in_tests,*.c))
ON_HOST_C  := $(wildcard tests/cuda_on_host/*.c)
ALL_SRC    := $(LIB_SRC) $(MAIN_SRC) $(TEST_SRC) $(BENCH_SRC) $(GPU_SRC) $(HELPER_SRC) $(ON_HOST_C)
HEADERS    := $(filter-out build/%,$(wildcard */*.h */*/*.h */*/*/*.h))

LIB_OBJ    := $(LIB_SRC:%.c=$(B)/%.o)
CUDA_SHARED_OBJ := $(CUDA_SHARED_SRC:%.c=$(B)/%.o)
HELPER_OBJ := $(HELPER_SRC:%.c=$(B)/%.o)
HELPERS    := $(B)/tests/libhelpers.a
GLOBALS_OBJ := $(filter $(addprefix $(B)/,base/% models/% sim/% search/%),$(LIB_OBJ))
PROGRAMS   := $(if $(MAIN_SRC),$(PROGRAM)) $(TEST_SRC:%.c=$(B)/%)
BENCHES    := $(BENCH_SRC:%.c=$(B)/%)

Q     := $(if $(V),,@)
shown  = $(if $(V),,@echo "  $1")

# Targets that build first install the packages, then run this Makefile again in the same folder.
# Only then is it known what is installed, and only a new make can get -j if the user gave none.
# This is not recursion over folders: every rule is in this file and sees the whole graph.
NPROC  = $(shell nproc 2>/dev/null || echo 2)
again  = $(MAKE) $(if $(V),,-s) --no-print-directory -Otarget \
         $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$1)
AGAIN  = $(call again,$(NPROC))
# Some tests wait for other processes, so one test more than there are cores runs at a time.
AGAIN_TESTS = $(call again,$(shell expr $(NPROC) + 1))

all: needed
	+@$(AGAIN) $(PROGRAM) $(PLUGINS)
	@echo "$(PROGRAM) is ready. Found here, and not required:" \
	      "CUDA $(call found,$(CUDA)), NCCL $(call found,$(NCCL)), MPI $(call found,$(MPI)), OpenBLAS $(call found,$(OPENBLAS))."

# CUDA's kernels take minutes to compile and the first answer does not need them.
run: deps-program
	+@$(AGAIN) $(PROGRAM) $(filter-out %-cuda.so,$(PLUGINS))
	@$(PROGRAM) $(ARGS)

help:
	@awk '!/^#/ { exit } { sub(/^# ?/, ""); print }' Makefile

# --- compiling ------------------------------------------------------------------------------

$(PROGRAM): $(MAIN_SRC:%.c=$(B)/%.o) $(B)/libsimsearch.a
	$(call shown,LINK $@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/simsearch-mpi.so: $(MPI_PLUGIN_SRC) $(wildcard exec/*.h exec/*/*.h kernels/host/*.h base/*.h) $(B)/flags
	@mkdir -p $(@D)
	$(call shown,PLUGIN $@)
	$(Q)OMPI_CC="$(CC)" MPICH_CC="$(CC)" mpicc $(ALL_CFLAGS) $(VECTOR_CFLAGS) $(TABLES) \
	    -fPIC -fvisibility=hidden $(LDFLAGS) -shared -Wl,--no-undefined -o $@ $(MPI_PLUGIN_SRC)

# A checksum of all headers that exec/plugin/tables.c includes, directly or indirectly. Program and
# plugin must have the same one.
$(B)/tables: exec/plugin/tables.c $(HEADERS)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -MM exec/plugin/tables.c | tr -d '\\\n' | tr -s ' ' '\n' | grep '\.h$$' | LC_ALL=C sort -u | \
	    xargs cat | sha256sum | sed 's/^\(.\{16\}\).*/0x\1/' >$@
TABLES = -DTABLES_DIGEST=$$(cat $(B)/tables)
$(B)/exec/plugin/tables.o: private ALL_CFLAGS += $(TABLES)
$(B)/exec/plugin/tables.o $(B)/simsearch-mpi.so: $(B)/tables

# gcc compiles the C sources and nvcc only the kernels. -isystem: no warnings about toolkit headers.
CUDA_C_FLAGS  = -isystem $(CUDA_HOME)/include -isystem $(NCCL_HOME)/include \
                $(if $(filter 1,$(NCCL)),-DHAS_NCCL)
KNOWN_ARCHS   = $(subst compute_,,$(shell nvcc --list-gpu-arch))
ARCHS_HERE    = $(foreach arch,$(CUDA_ARCHS),$(if $(filter $(KNOWN_ARCHS),$(arch:%a=%)),$(arch)))
PTX_ARCH      = $(lastword $(foreach arch,$(ARCHS_HERE),$(if $(filter %a,$(arch)),,$(arch))))
NVCC_FLAGS_ALL = -std=c++17 -O2 -t0 -I. -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
                $(if $(CI),-Werror all-warnings) $(CPPFLAGS)
NVCC_FLAGS    = $(NVCC_FLAGS_ALL) \
                $(foreach arch,$(ARCHS_HERE),-gencode arch=compute_$(arch),code=sm_$(arch)) \
                $(foreach arch,$(PTX_ARCH),-gencode arch=compute_$(arch),code=compute_$(arch))
found_in      = $(foreach folder,$(wildcard $1/lib64 $1/lib),-L$(folder) -Wl,-rpath,$(folder))
NCCL_LIBS     = $(call found_in,$(NCCL_HOME)) -lnccl
CUDA_LIBS     = $(call found_in,$(CUDA_HOME)) -lcublasLt -lcudart_static \
                $(if $(filter 1,$(NCCL)),$(NCCL_LIBS)) -lstdc++ -lm -lpthread -ldl -lrt
$(B)/simsearch-cuda.so: $(CUDA_PLUGIN_SRC:%.c=$(B)/pic/%.o) $(CUDA_SHARED_OBJ) $(CUDA_CU:%.cu=$(BUILD)/nvcc/%.cu.o)
	$(call shown,PLUGIN $@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,--no-undefined -o $@ $^ $(CUDA_LIBS)

$(B)/pic/%.o: %.c $(BUILD)/nvcc/flags $(B)/flags
	@mkdir -p $(@D)
	$(call shown,CC $< for the plugin)
	$(Q)$(CC) $(ALL_CFLAGS) $(CUDA_C_FLAGS) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

$(BUILD)/nvcc/%.cu.o: %.cu $(BUILD)/nvcc/flags
	@mkdir -p $(@D)
	$(call shown,NVCC $<)
	$(Q)nvcc $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c -o $@ $<

# Tests need no machine code of the kernels: tests/kernels/ptx executes their PTX, of one architecture
# only, as all are compiled from the same source. The rest of the plugin is linked without kernels, to
# test that it links and loads. A campaign builds the plugin as a whole.
PTX_OF        := 90a
# Tests compile fewer kinds of attention's kernels, which take a third of nvcc's time.
TILES         := $(if $(CAMPAIGN),,-DFEWER_TILES)
PTX_FILES     := $(if $(filter 1,$(CUDA)),$(if $(filter $(PTX_OF:%a=%),$(KNOWN_ARCHS)),$(CUDA_CU:%.cu=$(BUILD)/nvcc/%.ptx)))
$(BUILD)/nvcc/%.ptx: %.cu $(BUILD)/nvcc/ptx_flags
	@mkdir -p $(@D)
	$(call shown,NVCC $< to PTX)
	$(Q)nvcc $(NVCC_FLAGS_ALL) $(TILES) -arch=compute_$(PTX_OF) -MMD -MP -MF $@.d -MT $@ -ptx -o $@ $<
NO_KERNELS_SO := $(B)/no_kernels/simsearch-cuda.so
$(NO_KERNELS_SO): $(CUDA_PLUGIN_SRC:%.c=$(B)/pic/%.o) $(CUDA_SHARED_OBJ) $(B)/pic/tests/cuda12/left_out.o
	@mkdir -p $(@D)
	$(call shown,PLUGIN $@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -shared -Wl,--no-undefined -o $@ $^ $(CUDA_LIBS)
TEST_PLUGINS   = $(if $(CAMPAIGN),$(PLUGINS),$(patsubst %/simsearch-cuda.so,$(NO_KERNELS_SO),$(PLUGINS)))

# A library is made anew and renamed, so it is complete and has no objects of removed sources.
$(B)/libsimsearch.a: $(LIB_OBJ)
$(HELPERS): $(HELPER_OBJ)
$(B)/libsimsearch.a $(HELPERS): $(B)/sources
	$(call shown,AR $@)
	$(Q)$(RM) $@.new && $(AR) rcs $@.new $(filter %.o,$^) && mv $@.new $@

# Sources of both the program and the CUDA plugin are compiled once.
SHARED_CFLAGS := -fPIC -fvisibility=hidden
$(CUDA_SHARED_OBJ): private ALL_CFLAGS += $(SHARED_CFLAGS)
# Code that reads and writes text runs briefly, and at -O1 compiles in two thirds of the time.
TEXT_CFLAGS   := $(if $(filter release clang,$(VARIANT)),-O1)
$(B)/cli/%.o $(B)/interchange/%.o: private VECTOR_CFLAGS := $(TEXT_CFLAGS)
# With these flags gcc vectorises loops over arrays at -O3. The results have the same bits.
$(B)/kernels/host/%.o $(B)/simsearch-mpi.so: VECTOR_CFLAGS := \
    -fno-math-errno -fno-trapping-math $(if $(filter release clang,$(VARIANT)),-O3)
$(B)/interchange/yaml.o: private ALL_CFLAGS += $(if $(filter 1,$(YAML)),-DHAS_YAML)
# These folders start no threads and write no shared data, so they are compiled without the thread
# sanitizer.
ifeq ($(VARIANT),tsan)
$(patsubst %.c,$(B)/%.o,$(filter models/% interchange/% cli/%,$(LIB_SRC))): private CFLAGS_tsan := -O1 -g1
endif
# Compiling a test takes longer than running it, so tests are not optimised. The tested code is, and
# so are the helpers, which have loops.
$(TEST_SRC:%.c=$(B)/%.o): private TEST_CFLAGS := $(if $(filter cov,$(VARIANT)),,-O0 -g1)
$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call shown,CC $<)
	$(Q)$(CC) $(ALL_CFLAGS) $(VECTOR_CFLAGS) $(TEST_CFLAGS) -MMD -MP -c -o $@ $<

$(TEST_SRC:%.c=$(B)/%): %: %.o $(HELPERS) $(B)/libsimsearch.a
	$(call shown,LINK $@)
	$(Q)$(CC) $(ALL_CFLAGS) $(TEST_LINKER) $(LDFLAGS) -o $@ $^ $(LIBS) $(CHECK_LIBS)

$(GPU_SRC:%.c=$(B)/%): %: %.o $(HELPERS) $(B)/libsimsearch.a
	$(call shown,LINK $@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS) $(CHECK_LIBS)

# CUDA's unchanged kernels, compiled for the host with replacements of the toolkit's headers and
# libraries (tests/cuda_on_host), and the CUDA plugin with them, which uses this machine as a GPU.
ON_HOST       := -Itests/cuda_on_host
# The kernels are templates with many cases, each of which runs briefly. Optimising them takes longer
# than it saves (clang with the address sanitizer: over a minute for one file).
ON_HOST_OPT   := $(if $(filter asan,$(VARIANT)),-O0,-O1) -g1
ON_HOST_OBJ   := $(patsubst %,$(B)/on_host/%.o,$(ON_HOST_C) $(wildcard kernels/cuda/*.c) $(CUDA_CU))
ON_HOST_SO    := $(B)/on_host/simsearch-cuda.so
ON_HOST_SO_OBJ := $(ON_HOST_OBJ) $(patsubst %,$(B)/on_host/%.o,$(wildcard exec/cuda/*.c)) $(CUDA_SHARED_OBJ)
ON_HOST_FLAGS  = -std=c++17 -D_POSIX_C_SOURCE=200809L -I. $(ON_HOST) $(TILES) -ffp-contract=off -pthread \
                 -fno-exceptions -fno-rtti -Wall -Wextra -Wshadow -Wno-unknown-pragmas \
                 $(if $(CI),-Werror) $(CFLAGS_$(VARIANT)) $(ON_HOST_OPT) $(CPPFLAGS) $(CXXFLAGS) \
                 $(if $(findstring clang,$(CXX)),-fno-sanitize=function) -fPIC -fvisibility=hidden
$(ON_HOST_SO): $(ON_HOST_SO_OBJ)
	$(call shown,PLUGIN $@)
	$(Q)$(CXX) $(CFLAGS_$(VARIANT)) $(LDFLAGS) -shared -Wl,--no-undefined -o $@ $^ -lm -lpthread -ldl -lrt
$(B)/on_host/%.c.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call shown,CC $< for the host)
	$(Q)$(CC) $(ALL_CFLAGS) $(ON_HOST) -DHAS_NCCL -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<
$(B)/on_host/%.cu.o: %.cu $(B)/on_host/flags
	@mkdir -p $(@D)
	$(call shown,CXX $< for the host)
	$(Q)$(CXX) -x c++ $(ON_HOST_FLAGS) -MMD -MP -c -o $@ $<
$(CUDA_TESTS:%.c=$(B)/%.o): private ALL_CFLAGS += $(ON_HOST)
$(CUDA_TESTS:%.c=$(B)/%): private LIBS := $(B)/libsimsearch.a $(LIBS)
$(CUDA_TESTS:%.c=$(B)/%): $(ON_HOST_OBJ)

# Benches use no helper that needs Check, so they are linked without it.
$(BENCHES): %: %.o $(HELPERS) $(B)/libsimsearch.a
	$(call shown,LINK $@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

# Files that change only when their text does: new flags recompile, and a removed source relinks.
stamp = @mkdir -p $(@D); echo '$1' | cmp -s - $@ || echo '$1' >$@
$(B)/flags: FORCE
	$(call stamp,$(CC) $(ALL_CFLAGS) $(SHARED_CFLAGS) $(TEXT_CFLAGS))
$(BUILD)/nvcc/flags: FORCE
	$(call stamp,$(CUDA_C_FLAGS) $(NVCC_FLAGS))
$(BUILD)/nvcc/ptx_flags: FORCE
	$(call stamp,$(NVCC_FLAGS_ALL) $(TILES))
$(B)/on_host/flags: FORCE
	$(call stamp,$(CXX) $(ON_HOST_FLAGS))
$(B)/sources: FORCE
	$(call stamp,$(LIB_SRC) $(HELPER_SRC))
FORCE:

# --- testing --------------------------------------------------------------------------------

# Check forks for each test, in every variant. So a crash, a leak (ASan) or a race (TSan) fails only
# the test in which it happens, and tests of signals and exits are possible. Sanitizers are slow, so
# Check's limit of 4 s per test is multiplied.
# gcc's TSan can stop with "unexpected memory mapping" if addresses are randomised; setarch -R
# switches that off.
LAUNCH_tsan = $(if $(shell setarch -R true 2>/dev/null && echo yes),setarch -R)
LAUNCH      = $(if $(filter tsan,$(VARIANT)$(T)),CK_INCLUDE_TAGS=threads) CK_TIMEOUT_MULTIPLIER=$(if $(CAMPAIGN),5000,$(if $(filter release clang,$(VARIANT)),5,20)) \
              ASAN_OPTIONS=allocator_may_return_null=1:$$ASAN_OPTIONS \
              TSAN_OPTIONS=allocator_may_return_null=1:$$TSAN_OPTIONS \
              UBSAN_OPTIONS=print_stacktrace=1:$$UBSAN_OPTIONS \
              SIMSEARCH=$(abspath $(PROGRAM)) VARIANT=$(VARIANT) CAMPAIGN=$(CAMPAIGN) SIMSEARCH_GEMM_TABLE= \
              SIMSEARCH_PLUGINS=$(abspath $(B)) SIMSEARCH_PTX=$(if $(PTX_FILES),$(abspath $(BUILD)/nvcc/kernels/cuda)) \
              $(if $(filter-out build,$(BUILD)),SIMSEARCH_DATA=$(CURDIR)) \
              $(LAUNCH_$(VARIANT)) timeout $(if $(CAMPAIGN),1d,600)

R       := $(B)/results
TEST_RESULTS := $(TEST_SRC:tests/%.c=$(R)/%)
RESULTS := $(TEST_SH:tests/%=$(R)/%) $(TEST_RESULTS) \
           $(if $(T),,$(R)/layers.check $(if $(filter release,$(VARIANT)),$(R)/globals.check) \
                      $(if $(wildcard docs/reference.md),$(R)/docs-current.check))

# The files that these tests load are built before all tests, because scripts take longest and start
# first.
ifeq ($(VARIANT)$(if $(shell command -v $(CXX)),,no),release)
ON_EMULATED_GPU := $(filter $(addprefix %/,test_cuda_run.sh test_gpu_calibration test_gpu_comm \
                     test_gpu_device test_gpu_script.sh),$(RESULTS))
GPU_CHECKS      := $(B)/tests/gpu/gpu_ops $(B)/tests/gpu/gpu_step
endif
ON_PTX := $(filter %/test_cuda_ptx %/test_cuda_sass,$(RESULTS))
$(ON_PTX): $(PTX_FILES)
LOADED := $(if $(ON_PTX),$(PTX_FILES)) $(if $(ON_EMULATED_GPU),$(ON_HOST_SO)) $(if $(filter %/test_gpu_script.sh,$(ON_EMULATED_GPU)),$(GPU_CHECKS))

# All tests run, even if some fail; tests/summary.awk then counts them and sets the exit status. A
# test that does not build has no result, which counts as a failure; its errors are shown only once.
test: deps
	@$(RM) -r $(R) && mkdir -p $(dir $(RESULTS))
	+@if $(AGAIN) -k $(LOADED) $(PROGRAMS) $(TEST_PLUGINS); then $(AGAIN_TESTS) -k $(RESULTS); \
	  else $(AGAIN_TESTS) -k $(RESULTS) 2>/dev/null; fi; \
	  for result in $(RESULTS); do [ -f $$result ] || echo "exit 1: does not build" >$$result; done; \
	  $(if $(T),,$(if $(PTX_FILES),echo "The code that nvcc makes of the CUDA kernels is tested by make nvcc-tests.";)) \
	  awk -f tests/summary.awk $(RESULTS)

# These tests have their own target because only they need nvcc, and nvcc takes as long as a tenth of
# all other tests. .ci/run makes it too.
nvcc-tests:
	+@$(MAKE) --no-print-directory test T='cuda_[ps]*'

# A result file has the output, then the exit status. Of a passing test only Check's lines are shown,
# because the error messages that it provokes look like faults. Passing scripts and checks show one
# line each.
keep       = >$@.part 2>&1; echo "exit $$?" >>$@.part; mv $@.part $@
show_short = @case $$(tail -n 1 $@) in \
	       "exit 0") echo "$1: passed" ;; \
	       "exit 77") echo "$1: not run"; sed '$$d' $@ ;; \
	       *) echo "$1: failed"; cat $@ ;; \
	     esac
$(R)/%.sh: tests/%.sh $(PROGRAM) FORCE
	@$(LAUNCH) bash $< $(keep)
	$(call show_short,$<)
$(ON_EMULATED_GPU): $(ON_HOST_SO)
$(filter %/test_gpu_script.sh,$(RESULTS)): $(GPU_CHECKS)
$(R)/globals.check: $(GLOBALS_OBJ)
$(R)/docs-current.check: $(PROGRAM)
$(R)/%.check: FORCE
	@{ $(check_$*); } $(keep)
	$(call show_short,make $*)
$(TEST_RESULTS): $(R)/%: $(B)/tests/% $(if $(MAIN_SRC),$(PROGRAM)) FORCE
	@$(LAUNCH) $< $(keep)
	@if [ "$$(tail -n 1 $@)" = "exit 0" ]; then grep -E '^(Running suite|[0-9]+%: Checks)' $@; \
	  else sed '$$ s|^exit|tests/$*: exit|' $@; fi

# A test that uses is_campaign(), SAMPLED or is_spared (tests/testing.h), or a script that reads
# $CAMPAIGN, usually runs a sample of its cases; a campaign runs all of them.
CAMPAIGNS = $(basename $(patsubst test_%,%,$(notdir $(shell grep -l -i -e campaign -e SAMPLED -e is_spared \
              $(call in_tests,test_$(or $(T),*).c) $(call in_tests,test_$(or $(T),*).sh)))))
campaign:
	+@status=0; for test in $(CAMPAIGNS); do \
	    $(MAKE) --no-print-directory test CAMPAIGN=1 T=$$test || status=1; done; exit $$status

coverage:
	@find $(BUILD)/cov -name '*.gcda' -delete 2>/dev/null || true
	+@$(MAKE) --no-print-directory test VARIANT=cov
	@for source in $(filter base/% models/% sim/% search/%,$(LIB_SRC)); do \
	    gcov -n -o $(BUILD)/cov/$${source%.c}.o $$source; done 2>/dev/null | awk -f tests/coverage.awk

gpu-tests: needed
	+@$(AGAIN) $(GPU_SRC:%.c=$(B)/%)

# Contains the kernels for all architectures. MPI is omitted, as its library must be the machine's own.
gpu-kit: needed
	+@$(AGAIN) MPI=0 $(PROGRAM) $(B)/simsearch-cuda.so $(GPU_SRC:%.c=$(B)/%)
	@BUILT=$(abspath $(B)) tests/gpu.sh pack $(BUILD)/simsearch-gpu-kit.tar.gz

# QUESTIONS='^simulate' selects questions by a pattern; KEEP=FOLDER keeps both answers.
same-answers: needed
	+@$(AGAIN) $(PROGRAM)
	@SIMSEARCH=$(abspath $(PROGRAM)) BUILD=$(abspath $(BUILD)) tests/same_answers.sh $(BASE) '$(QUESTIONS)'

# Works in build/mutants; takes hours if N is large. MUTANTS="--list" lists the mutants, "--skip 50"
# continues after the first 50.
mutants: needed
	@python3 tests/mutants/mutants.py $(if $(N),-n $(N)) $(if $(SEED),--seed $(SEED)) $(MUTANTS) $(FILES)

# FILE: one or more files that `search --certificate` wrote.
check-certificate: deps
	+@$(AGAIN) $(B)/tests/search/test_certificate
	@$(B)/tests/search/test_certificate $(FILE)

bench: needed
	+@$(AGAIN) $(BENCHES) $(if $(MAIN_SRC),$(PROGRAM))
	@for bench in $(BENCHES); do echo "$$bench"; $$bench || exit 1; done
	@for bench in $(BENCH_SH); do echo "$$bench"; \
	    SIMSEARCH=$(abspath $(PROGRAM)) SIMSEARCH_PLUGINS=$(abspath $(B)) \
	    $(if $(filter-out build,$(BUILD)),SIMSEARCH_DATA=$(CURDIR)) bash $$bench || \
	    [ $$? = 77 ] || exit 1; done

EVERY_SOURCE = $(ALL_SRC) $(PLUGIN_SRC) $(KERNEL_SRC) $(HEADERS)
check_layers = awk -f tests/layers.awk tests/layers.txt $(EVERY_SOURCE) && \
               awk -f tests/circles.awk $(EVERY_SOURCE)
layers:
	@$(check_layers)

# Only for VARIANT=release, as sanitizers and coverage add global data.
check_globals = objdump -t $(GLOBALS_OBJ) | awk -f tests/globals.awk
globals: $(GLOBALS_OBJ)
	@$(check_globals)

# --- docs, style ----------------------------------------------------------------------------

REFERENCE = $(PROGRAM) list reference
docs: needed
	+@$(AGAIN) $(PROGRAM)
	@$(REFERENCE) >$(B)/reference.md && mv $(B)/reference.md docs/reference.md
check_docs-current = $(REFERENCE) >$(B)/reference.md && diff docs/reference.md $(B)/reference.md || \
	  { echo 'docs/reference.md is not what `$(REFERENCE)` prints; `make docs` writes it'; false; }
docs-current: $(PROGRAM)
	@$(check_docs-current)
accuracy: needed
	+@$(AGAIN) $(PROGRAM)
	@$(PROGRAM) fit -o calibration >/dev/null
	@$(PROGRAM) fit --leave-out all -o calibration >/dev/null
	@$(PROGRAM) fit -o calibration >/dev/null
	@$(PROGRAM) validate --report docs/accuracy >/dev/null

PICTURES = $(B)/tests/bench/bench_exchange_pictures $(B)/tests/bench/bench_convex
pictures: needed
	+@$(AGAIN) $(PICTURES)
	@for program in $(PICTURES); do SIMSEARCH_DATA=$(CURDIR) $$program docs || exit 1; done

CUDA_TIDY = $(if $(filter 1,$(CUDA)),$(filter exec/cuda/% kernels/cuda/%,$(CUDA_PLUGIN_SRC)))
SCRIPTS := .ci/run $(call in_tests,*.sh)
# Clang's analyzer follows the paths of a function up to 225,000 states, which takes nine tenths of
# the time of `make lint`. The limit here is 10,000, unless CAMPAIGN=1.
TIDY_DEPTH = $(if $(CAMPAIGN),,-Xclang -analyzer-config -Xclang max-nodes=10000)
# All tools run, even if one fails.
lint:
	+@$(AGAIN) -k lint-tidy lint-format lint-scripts

lint-format:
	@if command -v clang-format >/dev/null; then \
	    clang-format --dry-run -Werror $(ALL_SRC) $(PLUGIN_SRC) $(KERNEL_SRC) $(HEADERS); \
	else echo "clang-format is not installed: left out"; fi
lint-scripts:
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); \
	else echo "shellcheck is not installed: left out"; fi
lint-tidy: $(if $(shell command -v clang-tidy),$(patsubst %.c,%.tidy,$(LIB_SRC) $(MAIN_SRC) $(CUDA_TIDY)))
	@$(if $^,,echo "clang-tidy is not installed: left out")
%.tidy: %.c FORCE
	@clang-tidy --quiet $< -- -std=c17 -D_POSIX_C_SOURCE=200809L -DTABLES_DIGEST=0 -I. $(TIDY_DEPTH) \
	    $(CUDA_C_FLAGS) 2>/dev/null

format:
	clang-format -i $(ALL_SRC) $(PLUGIN_SRC) $(KERNEL_SRC) $(HEADERS)

# --- installing -----------------------------------------------------------------------------

BIN   := $(DESTDIR)$(PREFIX)/bin
LIB   := $(DESTDIR)$(PREFIX)/lib/simsearch
SHARE := $(DESTDIR)$(PREFIX)/share
DATA_FOLDERS := models/presets models/texts $(addprefix calibration/,hardware profiles clusters stacks measured papers)
DATA := $(wildcard $(addsuffix /*.json,$(DATA_FOLDERS)) calibration/match.json calibration/fit.json calibration/left_out.json \
                   calibration/measured/*.csv models/texts/*.txt)
MAN  := $(wildcard docs/simsearch.1)
# Scripts that the program prints: SHELL:FILE.
COMPLETIONS := bash:bash-completion/completions/simsearch zsh:zsh/site-functions/_simsearch \
               fish:fish/vendor_completions.d/simsearch.fish

install: all
	+@$(MAKE) --no-print-directory install-files

# Installs files that are already built; tests/cli/test_install.sh uses it too.
install-files:
	install -D -m 755 $(PROGRAM) $(BIN)/simsearch
	@for plugin in $(wildcard $(PLUGINS)); do \
	    install -D -m 755 $$plugin $(LIB)/$${plugin##*/} || exit 1; done
	@for file in $(DATA); do install -D -m 644 $$file $(SHARE)/simsearch/$$file || exit 1; done
	$(if $(MAN),install -D -m 644 $(MAN) $(SHARE)/man/man1/simsearch.1)
	@for script in $(COMPLETIONS); do file=$(SHARE)/$${script#*:}; \
	    mkdir -p $${file%/*} && $(PROGRAM) list completion-$${script%%:*} >$$file && \
	    chmod 644 $$file || exit 1; done

uninstall:
	$(RM) $(BIN)/simsearch $(SHARE)/man/man1/simsearch.1 \
	      $(foreach script,$(COMPLETIONS),$(SHARE)/$(lastword $(subst :, ,$(script))))
	@$(RM) $(addprefix $(SHARE)/simsearch/,$(DATA))
	@$(RM) $(LIB)/simsearch-*.so
	@-rmdir $(LIB) $(addprefix $(SHARE)/simsearch/,$(DATA_FOLDERS) models calibration) $(SHARE)/simsearch \
	  2>/dev/null || true

clean:
	$(RM) -r $(BUILD)

# --- packages -------------------------------------------------------------------------------

# HEADER:PACKAGE, or LIBRARY:PACKAGE. apt is called only if one of them is missing.
NEED_PROGRAM := stdlib.h:libc6-dev jansson.h:libjansson-dev glpk.h:libglpk-dev
NEED_TESTS   := check.h:check
NEED_SPEED   := libopenblas.so.0:libopenblas0-pthread
NEED_YAML    := yaml.h:libyaml-dev
find_missing = missing=; command -v $(firstword $(CC)) >/dev/null || \
	    case "$(firstword $(CC))" in *clang*) missing=" clang" ;; *) missing=" gcc" ;; esac; \
	for need in $1; do header=$${need%:*}; \
	    case $$header in *.so.*) case $$($(CC) -print-file-name=$$header) in */*) ;; \
	        *) missing="$$missing $${need\#*:}" ;; esac; continue ;; esac; \
	    [ -e /usr/include/$$header ] || \
	    echo "\#include <$$header>" | $(CC) $(CPPFLAGS) $(CFLAGS) -E -x c - >/dev/null 2>&1 || \
	    missing="$$missing $${need\#*:}"; \
	done
install_missing = $(find_missing); \
	[ "$$missing" ] || exit 0; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	if ! command -v apt-get >/dev/null || ! command -v $${sudo:-true} >/dev/null; then \
	    echo "Please install$$missing (Debian's names), then try again." >&2; exit 1; fi; \
	echo "Installing$$missing with $${sudo:+sudo }apt-get ..."; \
	log=$$(mktemp); \
	$$sudo env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq; \
	    apt-get install -y -qq --no-install-recommends $$missing" >$$log 2>&1 || \
	    { cat $$log; rm -f $$log; echo "apt-get could not install$$missing" >&2; exit 1; }; \
	rm -f $$log
install_speed = ( $(call install_missing,$(NEED_SPEED)) ) || echo "Going on without: products on the host take twice as long."

install_yaml  = ( $(call install_missing,$(NEED_YAML)) ) || echo "Going on without: import reads no YAML."

deps:
	@$(call install_missing,$(NEED_PROGRAM) $(NEED_TESTS))
	@$(install_yaml)
	@$(install_speed)
deps-program:
	@$(call install_missing,$(NEED_PROGRAM))
	@$(install_yaml)
	@$(install_speed)
needed:
	@$(call find_missing,$(NEED_PROGRAM)); [ -z "$$missing" ] || \
	  { echo "Missing:$$missing (Debian's names). \`make deps\` installs them." >&2; exit 1; }

.PHONY: all run help test nvcc-tests campaign check-certificate coverage gpu-tests gpu-kit same-answers mutants bench layers globals docs docs-current accuracy pictures lint lint-format lint-scripts lint-tidy format install \
        install-files uninstall clean deps deps-program needed FORCE
.SECONDARY:
.DELETE_ON_ERROR:
-include $(patsubst %.c,$(B)/%.d,$(ALL_SRC)) $(CUDA_PLUGIN_SRC:%.c=$(B)/pic/%.d) \
         $(CUDA_CU:%.cu=$(BUILD)/nvcc/%.cu.d) $(PTX_FILES:=.d) $(ON_HOST_SO_OBJ:.o=.d)
