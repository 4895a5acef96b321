# haloconv: `make` prints what it looked for and what it found, and builds with that.
#
#   make demo | test | all | install | clean      make gpu-test (a machine with an NVIDIA GPU)      make emulated-test
#   make kernel-test CUDA_ARCHS=all   every kernel compiled for every GPU, on a machine without one
#   make wheel    the Python module with library and program, for pip, in $(BUILD)/wheel; WHEEL_LIBS=0: it needs the machine's
#                 libsndfile, soxr, ... instead of holding copies. With CUDA_ARCHS=all also a wheel of the GPU module
#   make cross-wheel   the same for 64-bit ARM, in $(BUILD)/aarch64-linux-gnu/wheel, with the ARM libraries that are here
#   make ladder   haloconv-ladder, the bench of the kernel ladder (kernels/ladder/README.md)
#   make rung     RUNG=03: builds and runs one rung of the ladder, on the GPU or, without one, on the CPU
#   make cross-test   the library for 64-bit ARM and the tests that compare its sums, on an emulated processor
#   make check    tests that need no sound card, GPU or package beyond those of the build; installs nothing
#   make deb      the Debian packages, of what is committed, in $(BUILD)/deb (packaging/debian)
#   make lint     clang-tidy, cppcheck and gcc -fanalyzer, beside a base line; clang links the library
#   WITH_CUDA=1 (SNDFILE, SOXR, YAML, MYSOFA, HDF5, SAMPLERATE, JANSSON, ARCHIVE, CAIRO, PORTAUDIO, JACK, ALSA, LO,
#   LV2, MPI likewise): a miss is an error; =0: do without
#   SAN=address,undefined or SAN=thread: a sanitizer build of its own, under build/san-...
#   SETUP=0: demo, test and the benches install no packages     make setup-build | setup-test | setup-lint | setup-bench |
#   setup-cross | setup-deb: only that
#   CUDA code is a module, libhaloconv_cuda.so, which the library loads when a GPU is asked for. It is compiled for the
#   GPUs of this machine, and left out where there are none. CUDA_ARCHS=all: for all kinds of GPU, as packages need it;
#   CUDA_ARCHS="80 90": for these. LINEINFO=1: with line numbers, for a profiler
#   WERROR=1: warnings are errors (CI)     V=1: show the commands
#   Packagers: CFLAGS, CXXFLAGS, CPPFLAGS, LDFLAGS, AR, PKG_CONFIG, INSTALL; PREFIX, LIBDIR, LV2_FOLDER, DESTDIR; STRIP= keeps symbols.
#   CC=aarch64-linux-gnu-gcc cross-compiles; CC_FOR_BUILD compiles what the build itself runs

MAKEFLAGS += --no-builtin-rules
VERSION := $(shell sed -n 's/^#define HC_VERSION "\(.*\)"/\1/p' dsp/haloconv.h)
comma := ,
space := $() $()
BUILD ?= build$(if $(SAN),/san-$(subst $(comma),-,$(SAN)))
PREFIX ?= /usr/local
# The GPU module is installed in LIBDIR/haloconv, where the library looks for it.
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))
# The machine that is compiled for: x86_64, aarch64. If it is another one than this, CROSS_PREFIX is the beginning of its
# tools' names, and programs that the build runs are compiled by CC_FOR_BUILD.
TARGET := $(shell $(CC) -dumpmachine 2>/dev/null)
MACHINE := $(firstword $(subst -, ,$(TARGET)))
CC_FOR_BUILD ?= $(or $(firstword $(foreach c,gcc cc clang,$(if $(shell command -v $(c) 2>/dev/null),$(c)))),$(CC))
CROSS_PREFIX := $(if $(filter-out $(firstword $(subst -, ,$(shell $(CC_FOR_BUILD) -dumpmachine 2>/dev/null))),$(MACHINE)),$(TARGET)-)
AR := $(if $(filter default,$(origin AR)),$(CROSS_PREFIX)ar,$(AR))
PKG_CONFIG ?= $(CROSS_PREFIX)pkg-config
PKG_CONFIG_FOR_BUILD ?= pkg-config
NVCC ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))
ALL_CUDA_ARCHS := 75 80 86 89 90
# The kinds of GPU in this machine that nvcc can compile for: 90 for an H100.
GPU_ARCHS := $(if $(filter 0,$(WITH_CUDA)),,$(if $(NVCC),$(filter $(shell $(NVCC) --list-gpu-arch 2>/dev/null | sed 's/compute_//'),$(sort \
               $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)[.]\([0-9]\)$$/\1\2/p')))))
CUDA_ARCHS ?= $(or $(GPU_ARCHS),$(if $(filter 1,$(WITH_CUDA)),all))
override CUDA_ARCHS := $(if $(filter all,$(CUDA_ARCHS)),$(ALL_CUDA_ARCHS),$(CUDA_ARCHS))

# ---- what is found ---------------------------------------------------------------------------------------------------
# find NAME,package: sets HAVE_NAME to the version, and reports it
pkg_version = $(shell $(PKG_CONFIG) --modversion $(1) 2>/dev/null)
define find
HAVE_$(1) := $$(if $$(filter 0,$$(WITH_$(1))),,$$(call pkg_version,$(2)))
ifeq ($$(WITH_$(1)),1)
ifeq ($$(HAVE_$(1)),)
$$(error WITH_$(1)=1, but pkg-config finds no $(2); make setup-build and setup-test install packages)
endif
endif
FOUND += $(1)=$$(or $$(HAVE_$(1)),no)
endef
$(eval $(call find,SNDFILE,sndfile))
$(eval $(call find,SOXR,soxr))
$(eval $(call find,YAML,yaml-0.1))
$(eval $(call find,MYSOFA,libmysofa))
# Debian names the package of the serial build hdf5-serial.
HDF5_PKG := $(if $(call pkg_version,hdf5-serial),hdf5-serial,hdf5)
$(eval $(call find,HDF5,$(HDF5_PKG)))
# The library loads HDF5 when a file needs it: linked, it would bring 38 libraries into every program and plugin.
HDF5_DIR := $(if $(HAVE_HDF5),$(patsubst -L%,%,$(firstword $(shell $(PKG_CONFIG) --libs-only-L $(HDF5_PKG)) \
              -L$(shell $(PKG_CONFIG) --variable=libdir $(HDF5_PKG)))))
HDF5_SONAME := $(if $(HAVE_HDF5),$(or $(shell $(CROSS_PREFIX)objdump -p $(HDF5_DIR)/libhdf5.so 2>/dev/null | \
                 sed -n 's/^ *SONAME *//p'),libhdf5.so))
$(eval $(call find,SAMPLERATE,samplerate))
$(eval $(call find,JANSSON,jansson))
$(eval $(call find,ARCHIVE,libarchive))
$(eval $(call find,CAIRO,cairo))
$(eval $(call find,PORTAUDIO,portaudio-2.0))
$(eval $(call find,JACK,jack))
$(eval $(call find,ALSA,alsa))
$(eval $(call find,LO,liblo))
$(eval $(call find,LV2,lv2))
$(eval $(call find,MPI,ompi-c))
# libarchive's readers of other formats load twelve libraries; a static one leaves them out.
ARCHIVE_LIB := $(if $(HAVE_ARCHIVE),$(or $(wildcard $(shell $(PKG_CONFIG) --variable=libdir libarchive)/libarchive.a),\
                 $(shell $(PKG_CONFIG) --libs libarchive)))
NVCC_VERSION = $(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
HAVE_CUDA := $(if $(filter 0,$(WITH_CUDA)),,$(if $(and $(NVCC),$(CUDA_ARCHS)),$(NVCC_VERSION)))
ifeq ($(WITH_CUDA)$(HAVE_CUDA),1)
$(error WITH_CUDA=1, but there is no nvcc on PATH or in /usr/local/cuda/bin; set NVCC)
endif

CUDA_REPORT = $(if $(HAVE_CUDA),$(HAVE_CUDA) for $(addprefix sm_,$(CUDA_ARCHS)) and PTX $(lastword $(CUDA_ARCHS)),no \
              (CPU only$(if $(filter 0,$(WITH_CUDA)),,; $(if $(NVCC),no GPU here that nvcc compiles for; make \
              CUDA_ARCHS=all compiles for every kind,a GPU needs the CUDA Toolkit))))
MISSING = $(foreach f,$(filter-out MPI,$(patsubst %=no,%,$(filter %=no,$(FOUND)))),$(if $(filter 0,$(WITH_$(f))),,$(f)))
define MISSING_REPORT
$(if $(MISSING),
  left out    the parts marked no; make setup installs their packages)
endef
define REPORT
haloconv $(VERSION)
  compiler    $(shell $(CC) --version 2>/dev/null | head -n 1)
  CUDA        $(CUDA_REPORT)
  libsndfile  $(or $(HAVE_SNDFILE),no (no sound files))
  resampler   $(if $(HAVE_SOXR),soxr $(HAVE_SOXR),no (masks must have the rate of the input))
  YAML        $(if $(HAVE_YAML),libyaml $(HAVE_YAML),no (no configurations of CamillaDSP))
  SOFA        $(or $(strip $(if $(HAVE_MYSOFA),libmysofa $(HAVE_MYSOFA)$(if $(HAVE_HDF5),$(comma))) \
              $(if $(HAVE_HDF5),HDF5 $(HAVE_HDF5) ($(HDF5_SONAME)))),no (no banks in SOFA files))
  two clocks  $(if $(HAVE_SAMPLERATE),libsamplerate $(HAVE_SAMPLERATE),no (live: input and output on one device))
  JSON        $(if $(HAVE_JANSSON),jansson $(HAVE_JANSSON),no)
  tar files   $(if $(HAVE_ARCHIVE),libarchive $(HAVE_ARCHIVE),no)
  plots       SVG$(if $(HAVE_CAIRO), and PNG (Cairo $(HAVE_CAIRO)), (no Cairo for PNG))
  PortAudio   $(or $(HAVE_PORTAUDIO),no)
  JACK        $(or $(HAVE_JACK),no)
  MIDI        $(if $(HAVE_ALSA),ALSA $(HAVE_ALSA),no (live: no MIDI))
  OSC         $(if $(HAVE_LO),liblo $(HAVE_LO),no)
  LV2         $(or $(HAVE_LV2),no)
  MPI         $(if $(HAVE_MPI),Open MPI $(HAVE_MPI),no (batches share their work by --shard; libopenmpi-dev brings MPI))$(MISSING_REPORT)
endef
SETUP_GOALS := demo test models lint kernel-test gpu-test emulated-test race-test fault-test coverage soak fuzz cross-test \
               bench-files bench-live bench-zita bench-lv2 bench-batch bench-moving bench-shapes bench-tensors bench-fft plot
ifeq ($(filter clean setup uninstall rung cross-wheel $(SETUP_GOALS),$(MAKECMDGOALS))$(QUIET),)
$(info $(REPORT))
endif

# ---- flags -----------------------------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla $(if $(WERROR),-Werror)
OPT ?= $(if $(SAN),-O1 -g1 -fno-omit-frame-pointer,-O3 -g)
PARTS := SNDFILE SOXR YAML MYSOFA HDF5 SAMPLERATE JANSSON ARCHIVE CAIRO PORTAUDIO JACK ALSA LO LV2 MPI
FEATURES := $(foreach f,$(PARTS),$(if $(HAVE_$(f)),-DHC_WITH_$(f))) \
            $(if $(HAVE_HDF5),-DHC_HDF5_SONAME=$(HDF5_SONAME))
LIB_PKGS := $(if $(HAVE_SNDFILE),sndfile) $(if $(HAVE_SOXR),soxr) $(if $(HAVE_YAML),yaml-0.1) \
            $(if $(HAVE_MYSOFA),libmysofa)
HOST_PKGS := $(if $(HAVE_SNDFILE),sndfile) $(if $(HAVE_JANSSON),jansson) \
             $(if $(HAVE_PORTAUDIO),portaudio-2.0) $(if $(HAVE_JACK),jack) $(if $(HAVE_ALSA),alsa) \
             $(if $(HAVE_LO),liblo) $(if $(HAVE_SAMPLERATE),samplerate)
pkg = $(if $(strip $(2)),$(shell $(PKG_CONFIG) $(1) $(2)))
CFLAGS ?=
# Every distribution has -O2 in CFLAGS, which replaces the -O3 of OPT: files take 1.7 times as long with it, live blocks 1.2
# times. SPEED stands behind CFLAGS where samples are computed. A level such as -O0 or -Og stays.
SPEED := $(if $(filter -O2,$(CFLAGS)),-O3)
# gcc defines these macros itself.
SAN_MACROS := $(if $(and $(SAN),$(findstring clang,$(shell $(CC) --version 2>/dev/null))),\
                $(if $(findstring address,$(SAN)),-D__SANITIZE_ADDRESS__=1) \
                $(if $(findstring thread,$(SAN)),-D__SANITIZE_THREAD__=1))
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -fPIC -fno-math-errno -pthread -MMD -MP -Idsp -I. $(FEATURES) \
              $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all $(SAN_MACROS)) \
              $(call pkg,--cflags,$(LIB_PKGS) $(if $(HAVE_HDF5),$(HDF5_PKG)) $(HOST_PKGS)) $(CPPFLAGS) $(CFLAGS)
CUDA_HOME := $(if $(HAVE_CUDA),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
NVCC_FLAGS := -std=c++17 -O3 $(if $(LINEINFO),-lineinfo) $(if $(HAVE_CUDA),$(shell $(NVCC) --help | grep -q -e \
                --compress-mode && echo --compress-mode=size)) -Xptxas -v -Idsp $(addprefix -Ikernels/,backend files ladder) -I. \
              -Xcompiler -fPIC,-Wall,-Wextra,-Wshadow \
              $(foreach f,$(CPPFLAGS) $(filter-out -O%,$(CXXFLAGS)),-Xcompiler $(subst $(comma),\\$(comma),$(f))) \
              $(if $(WERROR),-Werror all-warnings) \
              $(foreach a,$(CUDA_ARCHS),-gencode=arch=compute_$(a)$(comma)code=sm_$(a)) \
              -gencode=arch=compute_$(lastword $(CUDA_ARCHS))$(comma)code=compute_$(lastword $(CUDA_ARCHS)) $(FEATURES)
CUDA_LIBS := $(if $(HAVE_CUDA),-L$(CUDA_HOME)/lib64 -lcudart_static -lstdc++ -ldl -lrt)
LIB_LIBS := $(call pkg,--libs,$(LIB_PKGS)) $(if $(HAVE_HDF5),-lz) -ldl -lm -pthread
TEST_INCLUDES := $(addprefix -Itests/,tools live plugins fuzz)
HOST_LIBS := $(ARCHIVE_LIB) $(call pkg,--libs,$(HOST_PKGS))
ALL_LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

# ---- what is built ---------------------------------------------------------------------------------------------------
# The inner loops are built once for each instruction set; dsp/base/isa.c chooses one when the program starts.
SIMD_FILES := base/samples cpu/simd cpu/scene_simd fft/fft_steps fft/fft_products
ISAS := base $(if $(filter x86_64,$(MACHINE)),v3 v4)
SIMD_FLAGS_base := -ffp-contract=fast
SIMD_FLAGS_v3 := -ffp-contract=fast -march=x86-64-v3
SIMD_FLAGS_v4 := -ffp-contract=fast -march=x86-64-v4 -mprefer-vector-width=512
# Short transforms: instruction set, lanes of a vector, points of a channel in them (dsp/fft/fft_short.c).
SHORT_FFTS := base_4_4 $(if $(filter v4,$(ISAS)),v3_4_4 v3_8_8 v3_8_4 v4_4_4 v4_8_8 v4_16_8 v4_16_4)
SIMD_OBJS := $(foreach l,$(ISAS),$(SIMD_FILES:%=$(BUILD)/dsp/%_$(l).o)) $(SHORT_FFTS:%=$(BUILD)/dsp/fft/fft_short_%.o)
DSP_FILES := $(filter-out dsp/examples/% $(SIMD_FILES:%=dsp/%.c) dsp/fft/fft_short.c,$(wildcard dsp/*.c dsp/*/*.c))
DSP_OBJS := $(DSP_FILES:%.c=$(BUILD)/%.o) $(SIMD_OBJS)
KERNELS := $(wildcard $(addprefix kernels/,$(addsuffix /*.cu,backend files tensors module)))
CUDA_OBJS := $(if $(HAVE_CUDA),$(KERNELS:%.cu=$(BUILD)/%.o))
CUDA_MODULE := $(if $(HAVE_CUDA),$(BUILD)/libhaloconv_cuda.so)
# The module has its own copies of the functions of dsp/ that kernels call.
MODULE_HELP := $(patsubst %,$(BUILD)/%.o,kernels/module/module dsp/base/error dsp/device/parallel_copy dsp/base/processors)
# Library and module belong together if this text is the same in both: it has a checksum of the files that define structs
# which both use. parallel_copy.c is compiled into both and defines one.
MODULE_HEADERS := $(wildcard dsp/haloconv*.h) dsp/bench.h dsp/device/parallel_copy.c \
                  $(addprefix dsp/,$(addsuffix .h,backends/gpu_module device/backend device/plan device/noise device/scene_backend \
                    device/scene_plan device/render_backend device/tensor_backend))
MODULE_VERSION := $(VERSION)-$(firstword $(shell cat $(MODULE_HEADERS) | cksum))
MODULE_FLAGS = -DMODULE_VERSION='"$(MODULE_VERSION)"' -DLIBDIR='"$(LIBDIR)"'
HOST_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard host/*.c host/*/*.c))
$(DSP_OBJS) $(filter $(BUILD)/host/files/%,$(HOST_OBJS)): private ALL_CFLAGS += $(SPEED)
PROGRAM := $(if $(and $(HAVE_SNDFILE),$(HAVE_JANSSON)),$(BUILD)/haloconv)
MAN_PAGE := $(if $(PROGRAM),$(BUILD)/haloconv.1)
COMPLETION := $(if $(PROGRAM),$(BUILD)/haloconv.bash)
MPI_PART := $(if $(and $(PROGRAM),$(HAVE_MPI)),$(BUILD)/haloconv_mpi.so)
PLOT_PART := $(if $(and $(PROGRAM),$(HAVE_CAIRO)),$(BUILD)/haloconv_plot.so)

# The plugin needs libsndfile for the masks that it ships with.
BUNDLE := $(if $(and $(HAVE_LV2),$(HAVE_SNDFILE)),$(BUILD)/haloconv.lv2)
PLUGIN_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/describe.c,$(wildcard plugins/haloconv.lv2/*.c)))

WHEEL_LIBRARY := $(BUILD)/wheel/libhaloconv.so
WHEEL_PROGRAM := $(if $(PROGRAM),$(BUILD)/wheel/haloconv)

SETUPS := $(addprefix setup-,build test lint bench cross deb)
.PHONY: gpu-module race-storms cross-programs fuzz-targets all setup $(SETUPS) $(SETUP_GOALS) $(SETUP_GOALS:%=run-%) impulses wheel wheel-metadata cross-wheel install uninstall clean \
        ladder rung run-rung check deb
.DELETE_ON_ERROR:
all: $(BUILD)/libhaloconv.a $(BUILD)/libhaloconv.so $(CUDA_MODULE) $(PROGRAM) $(MAN_PAGE) $(COMPLETION) $(MPI_PART) $(PLOT_PART) \
     $(BUNDLE:%=%/manifest.ttl)
ifeq ($(PROGRAM),)
	@echo "haloconv: the program needs libsndfile and jansson; only the library was built (make setup installs them)"
endif

# A change of the flags, or of the packages that were found, rebuilds everything. A change of $(BUILD)/cuda_flags rebuilds
# the kernels and the tests that contain HC_WITH_CUDA. (private: the flags of one object are not those of its prerequisites)
$(BUILD)/flags: ALL_FLAGS = $(CC) $(ALL_CFLAGS) $(SIMD_FLAGS_v4) $(LDFLAGS)
$(BUILD)/cuda_flags: ALL_FLAGS = $(if $(HAVE_CUDA),$(NVCC_FLAGS))
$(BUILD)/flags $(BUILD)/cuda_flags $(BUILD)/module_flags: FORCE
	@mkdir -p $(@D); echo '$(ALL_FLAGS)' | cmp -s - $@ || echo '$(ALL_FLAGS)' >$@
FORCE:
CUDA_AWARE := $(shell grep -rl --include='*.c' HC_WITH_CUDA tests | sed -E 's|^tests/.*/|tests/|; s|c$$|o|')
CUDA_AWARE := $(addprefix $(BUILD)/,$(CUDA_AWARE))
$(CUDA_AWARE): $(BUILD)/cuda_flags
$(CUDA_AWARE): private ALL_CFLAGS += $(if $(HAVE_CUDA),-DHC_WITH_CUDA)
# `make install PREFIX=...` keeps the LIBDIR of the build: the module is also found from the places of library and program.
MODULE_AWARE := $(BUILD)/dsp/backends/gpu_module.o $(BUILD)/kernels/module/module.o
$(BUILD)/module_flags: ALL_FLAGS = $(subst ',,$(MODULE_FLAGS))
$(MODULE_AWARE): private ALL_CFLAGS += $(MODULE_FLAGS)
$(MODULE_AWARE): $(if $(filter install,$(MAKECMDGOALS)),,$(BUILD)/module_flags)

Q := $(if $(V),,@)
say = @printf '  %-4s %s\n' '$(1)' '$(strip $(2))'
# compile FLAGS,MESSAGE and link LIBRARIES,COMPILER (gcc unless given): the recipes of an object and of a program
define compile
@mkdir -p $(@D)
$(call say,CC,$< $(2))
$(Q)$(CC) $(ALL_CFLAGS) $(1) -c $< -o $@
endef
define link
$(call say,LD,$@)
$(Q)$(or $(2),$(CC)) $(ALL_LDFLAGS) $(filter %.o %.a,$^) $(1) -o $@
endef
# Compiles and links a program that the build runs.
CC_THAT_RUNS = $(if $(CROSS_PREFIX),$(CC_FOR_BUILD) -std=c11 -D_GNU_SOURCE -O2 -Idsp -I. $(CFLAGS_FOR_BUILD),$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS))
$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call compile)
define simd_rule
$(BUILD)/dsp/$(1)_$(2).o: dsp/$(1).c $(BUILD)/flags
	$$(call compile,$$(SIMD_FLAGS_$(2)) -DISA=$(2),for $(2))
endef
$(foreach f,$(SIMD_FILES),$(foreach l,$(ISAS),$(eval $(call simd_rule,$(f),$(l)))))
define short_fft_rule # ISA_LANES_SUB,ISA,LANES,SUB
$(BUILD)/dsp/fft/fft_short_$(1).o: dsp/fft/fft_short.c $(BUILD)/flags
	$$(call compile,$$(SIMD_FLAGS_$(2)) -DISA=$(1) -DLANES=$(3) -DSUB=$(4),for $(1))
endef
short_fft = $(call short_fft_rule,$(1),$(word 1,$(2)),$(word 2,$(2)),$(word 3,$(2)))
$(foreach s,$(SHORT_FFTS),$(eval $(call short_fft,$(s),$(subst _, ,$(s)))))
$(BUILD)/%.o: %.cu $(BUILD)/cuda_flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ 2>$(@:.o=.ptxas); status=$$?; \
	  grep -vE '^ptxas info|bytes stack frame' $(@:.o=.ptxas) >&2; exit $$status # the report: tests/cuda/test_kernels.py
$(BUILD)/libhaloconv.a: $(DSP_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/libhaloconv.so $(WHEEL_LIBRARY): $(DSP_OBJS) dsp/haloconv.map
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libhaloconv.so.1 -Wl,--version-script=dsp/haloconv.map $(ALL_LDFLAGS) \
	  $(DSP_OBJS) $(LIB_LIBS) -o $@
# With -z nodelete a host cannot unload the CUDA runtime.
gpu-module: $(CUDA_MODULE)
$(BUILD)/libhaloconv_cuda.so: $(CUDA_OBJS) $(MODULE_HELP) kernels/module/module.map
	$(call link,-shared -Wl$(comma)-Bsymbolic$(comma)-z$(comma)nodelete$(comma)--version-script=kernels/module/module.map \
	  $(CUDA_LIBS) -lm -pthread)
$(BUILD)/libhaloconv.so.1: $(BUILD)/libhaloconv.so
	$(Q)ln -sf $(<F) $@
# The program uses the shared library. Filters, transforms and resampling that the library does not export are its own.
$(BUILD)/haloconv: $(HOST_OBJS) $(BUILD)/libhaloconv.so | $(BUILD)/libhaloconv.a $(BUILD)/libhaloconv.so.1
	$(call link,$(BUILD)/libhaloconv.so $(BUILD)/libhaloconv.a $(HOST_LIBS) $(LIB_LIBS) -ldl '-Wl$(comma)-rpath$(comma)$$ORIGIN:$$ORIGIN/../lib')
# The program writes its options into its man page and its completion for bash: @haloconv COMMAND@ becomes the options of
# that command, as its --help has them; @haloconv@ the synopsis. When cross-compiling, a program for this machine does it:
# HALOCONV_FOR_BUILD, or one that is compiled here, with this machine's libsndfile and jansson; without them the build fails.
WRITER := $(if $(CROSS_PREFIX),$(or $(HALOCONV_FOR_BUILD),$(BUILD)/native/haloconv),$(PROGRAM))
$(MAN_PAGE) $(COMPLETION): $(BUILD)/haloconv.%: host/haloconv.%.in $(WRITER)
	$(call say,$(if $(filter 1,$*),MAN,BASH),$@)
	$(Q)sed 's|@VERSION@|$(VERSION)|' $< | while IFS= read -r line; do case $$line in \
	  @haloconv*@) words=$${line#@haloconv}; words=$${words%@}; \
	    case $$words in *--_*) ;; *) words="$$words --_man" ;; esac; $(WRITER) $$words || exit 1 ;; \
	  *) printf '%s\n' "$$line" ;; esac; done >$@
ifneq ($(CROSS_PREFIX),)
$(BUILD)/native/haloconv: FORCE
	@$(MAKE) --no-print-directory QUIET=1 BUILD=$(BUILD)/native CC='$(CC_FOR_BUILD)' AR=ar PKG_CONFIG='$(PKG_CONFIG_FOR_BUILD)' \
	  CPPFLAGS= CFLAGS='$(CFLAGS_FOR_BUILD)' LDFLAGS= WITH_CUDA=0 WITH_SNDFILE=1 WITH_JANSSON=1 $@
endif
# The calls of MPI are in a library of their own, which the program loads only under mpirun.
$(BUILD)/haloconv_mpi.so: host/batch/mpi/ranks_mpi.c host/batch/ranks.h $(BUILD)/flags
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -shared $(ALL_LDFLAGS) $< $(call pkg,--cflags --libs,ompi-c) -o $@
# Cairo is in a library of its own, too: the program loads it to write a PNG.
$(BUILD)/haloconv_plot.so: host/plot/cairo/png_cairo.c $(wildcard host/plot/*.h host/plot/cairo/*.h) $(BUILD)/flags
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -shared $(ALL_LDFLAGS) $< $(call pkg,--cflags --libs,cairo) -lm -o $@

# ---- the LV2 bundle --------------------------------------------------------------------------------------------------
# The bundle exports only lv2_descriptor.
$(PLUGIN_OBJS): private ALL_CFLAGS += -fvisibility=hidden
$(BUILD)/haloconv.lv2/haloconv.so: $(PLUGIN_OBJS) $(BUILD)/libhaloconv.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,--exclude-libs,ALL $(ALL_LDFLAGS) $^ $(LIB_LIBS) -o $@
$(BUILD)/plugins/describe: plugins/haloconv.lv2/describe.c plugins/haloconv.lv2/ports.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC_THAT_RUNS) $< -o $@
$(BUILD)/haloconv.lv2/manifest.ttl: $(BUILD)/plugins/describe $(BUILD)/haloconv.lv2/haloconv.so $(BUILD)/impulses/made \
                                    plugins/haloconv.lv2/through.txt
	$(Q)$< $(@D) haloconv.so $(VERSION)
	$(Q)cp $(patsubst %,$(BUILD)/impulses/%.wav,cabinet chamber hall plate room spring) \
	  plugins/haloconv.lv2/through.txt $(@D)/
	$(Q)cp -r $(BUILD)/impulses/head $(@D)/

# ---- impulses and the demo -------------------------------------------------------------------------------------------
# Goals of SETUP_GOALS first install the packages that they need and that are missing, unless SETUP=0. A second make then
# does the work, because the first one has already looked for packages.
ifneq ($(SETUP),0)
WITH_PEERS := bench-files bench-live bench-zita bench-lv2 bench-fft plot
demo: setup-build
lint fuzz: setup-lint
cross-test: setup-cross
deb: setup-deb
$(WITH_PEERS): setup-bench
$(filter-out demo lint cross-test $(WITH_PEERS),$(SETUP_GOALS)): setup-test
endif
$(SETUP_GOALS):
	@+$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) run-$@
$(SETUPS): setup-%:
	@.ci/setup $*
setup: setup-build

impulses: $(BUILD)/impulses/made
$(BUILD)/impulses/made: $(BUILD)/synthesis
	@mkdir -p $(@D)
	$< $(@D) && touch $@
$(BUILD)/synthesis: impulses/synthesis.c $(BUILD)/flags
	$(call say,LD,$@)
	$(Q)$(CC_THAT_RUNS) $< $(if $(CROSS_PREFIX),$(shell $(PKG_CONFIG_FOR_BUILD) --cflags --libs sndfile),$(call pkg,--libs,sndfile)) -lm -o $@
DEMO = $(BUILD)/haloconv convolve $(BUILD)/impulses/drums.wav $(BUILD)/impulses/hall.wav -o demo.wav
run-demo: all impulses
	@echo; echo '$$ $(DEMO)'
	@$(DEMO)
	@echo 'Listen to demo.wav: drums in a hall. The drums alone are in $(BUILD)/impulses/drums.wav;' \
	  'more masks beside them.'

# ---- CUDA on the CPU: the backend and its kernels compiled by g++, for tests -----------------------------------------
CXX := $(if $(filter default,$(origin CXX)),$(CROSS_PREFIX)g++,$(CXX))
PYTHON ?= /usr/bin/python3
ON_CPU := $(BUILD)/cuda_on_cpu
ON_CPU_NAMES := api convolution swap steer steer_shapes render tail_levels files pcm refusals ladder session costs transform \
                tensors
# Without a C++ compiler or Python these tests are left out.
ON_CPU_NEEDS := $(and $(shell command -v $(CXX) 2>/dev/null),$(shell command -v $(PYTHON) 2>/dev/null))
ON_CPU_TESTS := $(if $(ON_CPU_NEEDS),$(ON_CPU_NAMES:%=$(ON_CPU)/%_test))
# The program on the emulated device, for tests/host/test_batch*.py.
ON_CPU_PROGRAM := $(if $(and $(ON_CPU_TESTS),$(PROGRAM)),$(ON_CPU)/haloconv)
ON_CPU_KERNELS := $(KERNELS:kernels/%.cu=%)
ON_CPU_HEADERS := $(patsubst kernels/%,$(ON_CPU)/kernels/%,$(filter-out %/async_copy.cuh %/team_barrier.cuh,$(wildcard kernels/*/*.cuh)))
ON_CPU_CXXFLAGS := -std=c++17 -O2 -g1 -fPIC $(if $(filter x86_64,$(MACHINE)),-march=native) -ffp-contract=fast \
                   -fno-math-errno -fno-strict-aliasing -pthread -Wall -Wextra -Wshadow -MMD -MP \
                   $(addprefix -I$(ON_CPU)/kernels/,backend files tensors module ladder) -Itests/cuda/emulator \
                   $(addprefix -Ikernels/,backend files tensors module ladder) -Idsp -I. $(CPPFLAGS) $(CXXFLAGS) \
                   $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all)
ON_CPU_DEVICE := $(patsubst %,$(ON_CPU)/%.o,device grid memory streams)
ON_CPU_OBJS := $(ON_CPU_DEVICE) $(ON_CPU_KERNELS:%=$(ON_CPU)/kernels/%.o)
# The GPU module on the emulated device. It lies beside the tests and the program, which find it as they find the real one.
ON_CPU_MODULE := $(ON_CPU)/libhaloconv_cuda.so
$(ON_CPU)/kernels/%: kernels/% tests/cuda/emulator/translate.py
	@mkdir -p $(@D)
	$(Q)$(PYTHON) tests/cuda/emulator/translate.py $< $@
$(ON_CPU)/kernels/%.o: $(ON_CPU)/kernels/%.cu $(ON_CPU_HEADERS) $(BUILD)/flags
	$(call say,C++,kernels/$*.cu for the CPU)
	$(Q)$(CXX) $(ON_CPU_CXXFLAGS) -Wno-enum-compare -Wno-uninitialized -Wno-maybe-uninitialized -x c++ -c $< -o $@
# The emulator's memory.cpp has its own device_cut: the bytes behind each piece of device memory must not be written.
$(ON_CPU)/kernels/backend/device_memory.o: ON_CPU_CXXFLAGS += -Ddevice_cut=device_cut_alone
$(ON_CPU)/kernels/backend/cuda_transfer.o: ON_CPU_CXXFLAGS += -DOVERLAPPED_BYTES=1048576
# Filters above 512 taps take the way of those above 16384 on a GPU. The tests of tensors and of the ladder run for less
# time than -O1 would take to compile the long unrolled functions.
$(ON_CPU)/kernels/tensors/%.o: ON_CPU_CXXFLAGS += -DLONG_ROW=7 -DFUSED_UP_TO=9 -O0
$(ON_CPU)/kernels/ladder/%.o: ON_CPU_CXXFLAGS += -O0
$(ON_CPU)/%.o: tests/cuda/emulator/%.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,C++,$<)
	$(Q)$(CXX) $(ON_CPU_CXXFLAGS) $(if $(WERROR),-Werror) -c $< -o $@
ON_CPU_FLAGS := -DHC_WITH_CUDA -DCUDA_ON_CPU -isystem tests/cuda/emulator
$(ON_CPU_MODULE): $(ON_CPU_OBJS) $(MODULE_HELP)
	$(call link,-shared -Wl$(comma)-Bsymbolic$(comma)-z$(comma)nodelete$(comma)-soname$(comma)$(@F) -pthread,$(CXX))
$(ON_CPU)/tests/%.o: %.c $(BUILD)/flags
	$(call compile,$(ON_CPU_FLAGS) $(TEST_INCLUDES),for CUDA on the CPU)
$(ON_CPU)/%_test: $(ON_CPU)/tests/%_test.o $(patsubst %,$(ON_CPU)/tests/%.o,check player reference moving) \
                  $(BUILD)/libhaloconv.a | $(ON_CPU_MODULE)
	$(call link,$(HELP_LIBS) $(LIB_LIBS),$(CXX))
# These tests call the kernels, and those call the device.
$(ON_CPU)/transform_test: $(ON_CPU_OBJS)
$(patsubst %,$(ON_CPU)/%_test,costs tensors): HELP_LIBS = $(ON_CPU_MODULE) '-Wl,-rpath,$$ORIGIN'
$(ON_CPU)/haloconv: $(BUILD)/haloconv $(BUILD)/libhaloconv.so.1 $(MPI_PART) | $(ON_CPU_MODULE)
	$(Q)cp -L $^ $(@D)
.SECONDARY: $(ON_CPU_OBJS) $(ON_CPU_HEADERS) $(ON_CPU_KERNELS:%=$(ON_CPU)/kernels/%.cu) \
            $(patsubst %,$(ON_CPU)/tests/%.o,check player reference moving $(ON_CPU_NAMES:%=%_test))

# ---- the kernel ladder -----------------------------------------------------------------------------------------------
# kernels/ladder/README.md. haloconv-ladder links nothing of the library, and is not installed.
RUNGS := $(patsubst kernels/ladder/%.cu,%,$(wildcard kernels/ladder/rung*.cu))
GPU_RUNGS := rung07_texture rung14_tensor rung16_overlap_save # textures, tensor cores, PTX: not on the emulator
ladder_objs = $(patsubst %,$(1)/kernels/ladder/%.o,$(2) ladder ladder_check)
LADDER_BENCH := $(call ladder_objs,$(BUILD),bench bench_peers)
RUNG_CHECK := $(call ladder_objs,$(ON_CPU)) $(ON_CPU_DEVICE) $(ON_CPU)/rung.o
$(ON_CPU)/ladder_test: $(call ladder_objs,$(ON_CPU),$(filter-out $(GPU_RUNGS),$(RUNGS))) $(ON_CPU_DEVICE)
.SECONDARY: $(patsubst %,$(ON_CPU)/kernels/ladder/%.cu,$(RUNGS) ladder ladder_check) $(ON_CPU)/rung.o
ladder: $(if $(HAVE_CUDA),$(BUILD)/haloconv-ladder)
	$(if $(HAVE_CUDA),,@echo 'make ladder: it needs nvcc and, without a GPU, CUDA_ARCHS=all; `make rung` needs neither'; exit 1)
$(BUILD)/haloconv-ladder: $(RUNGS:%=$(BUILD)/kernels/ladder/%.o) $(LADDER_BENCH)
	$(call link,-pthread $(CUDA_LIBS) -lm)
# make rung RUNG=03 (or 3, halo) compiles only the file of this rung: for the GPUs of this machine, or for the emulator.
# A file defines a rung by a line with `NUMBER, "NAME", "IDEA"`.
RUNG_NAME := $(subst _,-,$(RUNG))
THE_RUNG := $(if $(RUNG),$(patsubst kernels/ladder/%.cu,%,$(shell \
              grep -lE '(\{|^ *)($(RUNG_NAME:0%=%), "|[0-9]+, "$(RUNG_NAME)",)' $(RUNGS:%=kernels/ladder/%.cu))))
RUNG_ON_GPU := $(and $(HAVE_CUDA),$(GPU_ARCHS))
rung:
ifeq ($(RUNG),)
	@echo 'make rung RUNG=03 (or halo) checks a rung of kernels/ladder, and times it if there is a GPU'; exit 1
else ifeq ($(THE_RUNG),)
	@echo 'make rung: $(RUNG) is not a rung; these are:'; \
	  sed -nE 's/^(.*\{| *)([0-9]+), "([a-z0-9-]+)", ".*/  \2 \3/p' kernels/ladder/rung*.cu; exit 1
else ifneq ($(if $(RUNG_ON_GPU),,$(filter $(GPU_RUNGS),$(THE_RUNG))),)
	@echo 'make rung: $(THE_RUNG) needs a GPU: the emulator has no textures, tensor cores and PTX'; exit 1
else
	@+$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) \
	  $(if $(RUNG_ON_GPU),BUILD=$(BUILD)/gpu_rung CUDA_ARCHS='$(GPU_ARCHS)') QUIET=1 run-rung
endif
run-rung: $(THE_RUNG:%=$(if $(RUNG_ON_GPU),$(BUILD),$(ON_CPU))/rungs/%)
	@$(foreach r,$^,$(r) $(if $(RUNG_ON_GPU),--rung $(RUNG_NAME)) &&) true
$(BUILD)/rungs/%: $(BUILD)/kernels/ladder/%.o $(LADDER_BENCH)
	@mkdir -p $(@D)
	$(call link,-pthread $(CUDA_LIBS) -lm)
$(ON_CPU)/rungs/%: $(ON_CPU)/kernels/ladder/%.o $(RUNG_CHECK)
	@mkdir -p $(@D)
	$(call link,-pthread,$(CXX))

# ---- tests -----------------------------------------------------------------------------------------------------------
# tests/README.md. The sources are in folders by what they test; their names are unique, for the programs are in one
# folder.
TEST_FOLDERS := $(filter-out tests/README.md tests/run tests/conftest.py,$(wildcard tests/*))
vpath %.c $(TEST_FOLDERS)
$(BUILD)/tests/%.o: %.c $(BUILD)/flags
	$(call compile,$(TEST_INCLUDES))
# -O3 would take twice the time for files that mostly call the library; tests/tools, which compute, have it.
$(BUILD)/tests/%_test.o $(ON_CPU)/tests/%_test.o: private ALL_CFLAGS := $(ALL_CFLAGS:-O3=-O1)
TEST_HELP := $(patsubst %,$(BUILD)/tests/%.o,check player reference moving)
# The sums in float64 that outputs are compared with: with a sanitizer they take ten times as long, without wide vectors
# three times.
REFERENCE_CFLAGS := $(filter-out -fsanitize=% -O1,$(ALL_CFLAGS)) -O3 $(if $(filter x86_64,$(MACHINE)),-march=native)
$(BUILD)/tests/reference.o $(ON_CPU)/tests/reference.o: private ALL_CFLAGS := $(REFERENCE_CFLAGS)
TRAP_TESTS := realtime lv2 lv2_binaural
TEST_PROGRAMS := $(filter-out $(if $(BUNDLE),,%/lv2_test %/lv2_binaural_test %/lv2_device_test %/lv2_module_test) \
                   $(if $(and $(BUNDLE),$(PROGRAM)),,%/live_scenarios_test %/jack_reconnect_test %/midi_test \
                     %/portaudio_busy_test) \
                   $(if $(and $(BUNDLE),$(PROGRAM),$(HAVE_LO)),,%/osc_test) \
                   $(if $(PROGRAM),,%/output_test %/capacity_test %/progress_test %/journal_test),\
                   $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(wildcard tests/*/*_test.c))))
# Readers of a stranger's bytes: each tests/fuzz/fuzz_NAME.c is linked with replay.c, which runs the files of
# tests/corpus/NAME through it, or with libFuzzer (make fuzz).
FUZZ_TARGETS := $(filter-out $(if $(PROGRAM),,$(addprefix %/fuzz_,journal manifest midi_map preset sound_in \
                                                                 plain_text sweep session_state osc nsm path_csv)) \
                  $(if $(HAVE_ARCHIVE),,%/fuzz_tar_input) $(if $(HAVE_LO),,%/fuzz_osc %/fuzz_nsm),\
                  $(patsubst tests/fuzz/%.c,$(BUILD)/tests/%,$(wildcard tests/fuzz/fuzz_*.c)))
# A GPU module that plays its input, and one of another version with the library that it belongs to.
FAKE := $(BUILD)/tests/module
FAKE_MODULES := $(FAKE)/libhaloconv_cuda.so $(FAKE)/other/libhaloconv_cuda.so $(FAKE)/other/libhaloconv.so
FAKE_OBJS := $(foreach f,$(FAKE) $(FAKE)/other,$(f)/fake_gpu.o $(f)/module.o) $(FAKE)/other/gpu_module.o
fake_compile = $(call compile,$(MODULE_FLAGS) $(if $(findstring /other/,$@),-UMODULE_VERSION -DMODULE_VERSION='"0.0.1-1"'),\
                 for $(@D))
$(FAKE_OBJS): $(BUILD)/flags $(BUILD)/module_flags
$(filter %/fake_gpu.o,$(FAKE_OBJS)): tests/tools/fake_gpu.c
	$(fake_compile)
$(filter %/module.o,$(FAKE_OBJS)): kernels/module/module.c
	$(fake_compile)
$(FAKE)/other/gpu_module.o: dsp/backends/gpu_module.c
	$(fake_compile)
$(filter %_cuda.so,$(FAKE_MODULES)): %/libhaloconv_cuda.so: %/fake_gpu.o %/module.o $(filter %/error.o,$(MODULE_HELP))
	$(call link,-shared -Wl$(comma)-Bsymbolic$(comma)-z$(comma)nodelete$(comma)--version-script=kernels/module/module.map)
$(FAKE)/other/libhaloconv.so: $(filter-out %/gpu_module.o,$(DSP_OBJS)) $(FAKE)/other/gpu_module.o
	$(call link,-shared -Wl$(comma)--version-script=dsp/haloconv.map $(LIB_LIBS))
$(patsubst %,$(BUILD)/tests/%_test,gpu_module lv2_module): | $(FAKE_MODULES)
TEST_ENV = BUILD='$(BUILD)' SAN='$(SAN)' CC='$(CC)' PYTHON='$(PYTHON)'
TEST_TOOLS := $(FAKE_MODULES) $(BUILD)/tests/measure $(BUILD)/tests/bank_dump $(if $(PROGRAM),$(addprefix $(BUILD)/tests/,haloconv_faulty haloconv_faults haloconv_riff)) \
              $(if $(HAVE_JACK),$(addprefix $(BUILD)/tests/,jack_stage callback_trap.so take_stage))
run-test: all impulses $(TEST_PROGRAMS) $(FUZZ_TARGETS) $(TEST_TOOLS) \
          $(if $(SAN),,$(WHEEL_LIBRARY) $(WHEEL_PROGRAM) $(filter-out %/session_test,$(ON_CPU_TESTS)) $(ON_CPU_PROGRAM))
	@$(TEST_ENV) ON_CPU='$(if $(or $(SAN),$(if $(ON_CPU_TESTS),,none)),,$(ON_CPU))' \
	  tests/run $(TEST_PROGRAMS) $(FUZZ_TARGETS) tests/cuda/emulator/short $(if $(SAN),,tests/models/check) \
	    $(wildcard tests/*/test_*.py)
# For package builders: no test of the JACK servers, the models and the emulated GPU, and none of the wheel.
check: all impulses $(TEST_PROGRAMS) $(FUZZ_TARGETS) $(TEST_TOOLS)
	@$(TEST_ENV) HC_TEST_BACKEND=cpu tests/run $(TEST_PROGRAMS) $(FUZZ_TARGETS) \
	  $(foreach f,masks banks host,$(wildcard tests/$(f)/test_*.py))
# The lock-free protocols as models, each with its mutations; spin searches all states.
run-models:
	@$(TEST_ENV) tests/run tests/models/check
# The CUDA backend and its kernels on the CPU, once for each seed: tests/cuda/emulator/README.md.
SEEDS ?= 0 1 2 3
run-emulated-test: $(ON_CPU_TESTS) $(ON_CPU_PROGRAM) $(BUILD)/tests/measure
	@for seed in $(SEEDS); do echo "seed $$seed"; \
	  $(TEST_ENV) CUDA_ON_CPU_SEED=$$seed HC_TEST_BACKEND=cuda HC_TEST_TIMEOUT=7200 HALOCONV=$(ON_CPU)/haloconv \
	    ASAN_OPTIONS=detect_stack_use_after_return=0 \
	    tests/run $(ON_CPU_TESTS) \
	      $(if $(ON_CPU_PROGRAM),$(patsubst %,tests/host/test_%.py,batch batch_columns plain_files)) \
	    || exit 1; done # detect_stack_use_after_return makes fibers 100 times slower
run-gpu-test: all impulses $(TEST_PROGRAMS) $(TEST_TOOLS) $(WHEEL_LIBRARY) $(WHEEL_PROGRAM)
	@$(TEST_ENV) HC_TEST_BACKEND=cuda tests/run $(TEST_PROGRAMS) $(wildcard tests/*/test_*.py)
	@$(TEST_ENV) HC_TEST_BACKEND=hybrid tests/run \
	  $(patsubst %,$(BUILD)/tests/%_test,convolution tail_levels refusals soak steer swap)
# Compiles and links every kernel (for the GPUs of CUDA_ARCHS), and tests what can be tested without a GPU: registers,
# sizes, and the refusals of a build with CUDA.
run-kernel-test: $(if $(HAVE_CUDA),all $(BUILD)/haloconv-ladder $(addprefix $(BUILD)/tests/,refusals_test ladder_test))
	$(if $(HAVE_CUDA),,$(error kernel-test needs nvcc and CUDA_ARCHS; with no GPU here: make kernel-test CUDA_ARCHS=all))
	@$(TEST_ENV) tests/run $(BUILD)/tests/refusals_test $(BUILD)/tests/ladder_test $(wildcard tests/cuda/test_*.py) \
	  tests/host/test_program.py::test_devices
# ThreadSanitizer over storms of changes, and files. It has a build folder of its own.
RACING := a_storm_leaves_the_core_whole core_gpu_back jack_swap_during_a_longer_mask portaudio_other_block
RACES := session_test:a_storm_of_changes_leaves_the_audio_whole swap_test:swap_storm_keeps_the_audio_whole \
         parallel_copy_test:blocks_arrive_whole tail_levels_cost_test:threads_catch_up_to_the_same_frames \
         wakeup_test:blocks_at_any_time_are_played_whole freewheel_test:two_bounces_are_the_same \
         live_steer_test:a_storm_of_moves_and_changes_leaves_the_last \
         hybrid_test:a_swap_waits_for_a_late_device api_test:info_during_mask_make \
         steer_test:a_storm_of_steering_keeps_the_audio_whole \
         hybrid_scene_test:a_bank_lives_until_a_late_device_is_done_with_it \
         $(if $(and $(BUNDLE),$(PROGRAM)),live_scenarios_test:$(subst $(space),$(comma),$(RACING)))
run-race-test:
	@$(MAKE) --no-print-directory QUIET=1 SAN=thread WITH_CUDA=0 BUILD=$(BUILD)/races race-storms
race-storms: $(foreach r,$(RACES),$(BUILD)/tests/$(firstword $(subst :, ,$(r)))) $(PROGRAM) $(BUILD)/tests/measure
	@$(foreach r,$(RACES),HC_TEST_NAME=$(lastword $(subst :, ,$(r))) HC_TEST_BACKEND=cpu \
	  HALOCONV_COSTS=builtin $(BUILD)/tests/$(firstword $(subst :, ,$(r))) &&) true
	@$(if $(PROGRAM),$(TEST_ENV) HC_TEST_BACKEND=cpu tests/run tests/host/test_plain_files.py)
# The inner loops with the vectors of another machine: the library for it, without optional parts, and the tests that
# compare its sums, run by qemu. A build folder of its own.
CROSS := aarch64-linux-gnu
CROSS_EMULATOR = qemu-$(firstword $(subst -, ,$(CROSS))) -L /usr/$(CROSS)
CROSS_TESTS := $(patsubst %,$(BUILD)/tests/%_test,fft convolution tail_levels steer render tensors)
run-cross-test:
	@$(MAKE) --no-print-directory QUIET=1 BUILD=$(BUILD)/$(CROSS) CC=$(CROSS)-gcc WITH_CUDA=0 \
	  $(PARTS:%=WITH_%=0) cross-programs
cross-programs: $(CROSS_TESTS) wheel
	@$(TEST_ENV) HC_TEST_BACKEND=cpu HC_TEST_EMULATOR='$(CROSS_EMULATOR)' HC_TEST_TIMEOUT=7200 tests/run $(CROSS_TESTS) \
	  tests/plugins/test_wheel.py::test_a_wheel_for_another_processor_is_for_it
# Every allocation, thread and input/output call fails in turn; `make test` takes a sample.
run-fault-test: all $(BUILD)/tests/haloconv_faults $(BUILD)/tests/faults_test
	@$(TEST_ENV) HC_TEST_FAULTS=all tests/run $(BUILD)/tests/faults_test tests/host/test_faults.py
# Which lines of dsp/ and host/ the tests run, with gcc's counters; a build folder of its own.
run-coverage:
	-@$(MAKE) --no-print-directory QUIET=1 WITH_CUDA=0 BUILD=$(BUILD)/coverage OPT='-O1 -g' \
	  CFLAGS=--coverage LDFLAGS=--coverage run-test
	@$(PYTHON) tests/tools/coverage.py $(BUILD)/coverage
SOAK_SECONDS ?= 600
# Random engines (each backend takes half of the time), and beside them live sessions under storms of changes; then two
# clocks for an hour, and a file of more than 4 GiB.
run-soak: all $(patsubst %,$(BUILD)/tests/%_test,soak session live_steer async_resampler)
	export HC_TEST_SEED=$${HC_TEST_SEED:-$$(date +%s)}; \
	HC_SOAK_SECONDS=$$(($(SOAK_SECONDS) / 2)) $(BUILD)/tests/soak_test & engines=$$!; \
	HC_SOAK_SECONDS=$(SOAK_SECONDS) HC_TEST_NAME=sessions_last $(BUILD)/tests/session_test 2>$(BUILD)/soak.log; \
	sessions=$$?; wait $$engines && exit $$sessions
	HC_SOAK_SECONDS=$(SOAK_SECONDS) HC_TEST_NAME=a_storm_of_moves_and_changes_leaves_the_last $(BUILD)/tests/live_steer_test
	HC_SOAK_SECONDS=$(SOAK_SECONDS) $(BUILD)/tests/async_resampler_test
	@$(if $(PROGRAM),$(TEST_ENV) HC_TEST_LONG=1 tests/run tests/host/test_convolve.py::test_more_than_4_gib_becomes_rf64)
# The findings of tests/tools/lint beyond its base line, which holds for a build without CUDA. clang, if it is here, must
# build the library and the program, and one test must run with them.
LINT_FILES := $(wildcard dsp/*.c dsp/*/*.c $(if $(PROGRAM),impulses/*.c host/*.c host/*/*.c) \
                $(if $(MPI_PART),host/*/mpi/*.c) $(if $(PLOT_PART),host/*/cairo/*.c) $(if $(BUNDLE),plugins/*/*.c))
LINT_FLAGS = $(filter-out -MMD -MP -Werror,$(ALL_CFLAGS)) -DISA=base -DSUB=4 -DMODULE_VERSION=\"$(MODULE_VERSION)\" -DLIBDIR=\"\" \
             $(if $(MPI_PART),$(call pkg,--cflags,ompi-c)) $(if $(PLOT_PART),$(call pkg,--cflags,cairo))
CLANG_TEST := $(if $(shell command -v clang),$(BUILD)/clang/tests/swap_test)
run-lint:
	@$(if $(CLANG_TEST),$(MAKE) --no-print-directory QUIET=1 CC=clang OPT=-O1 WERROR=1 WITH_CUDA=0 BUILD=$(BUILD)/clang \
	  all $(CLANG_TEST) || rm -f $(CLANG_TEST)) # no program: a failure
	@LINT_FILES='$(LINT_FILES)' LINT_FLAGS='$(LINT_FLAGS)' HC_TEST_BACKEND=cpu \
	  tests/run tests/tools/lint $(CLANG_TEST)
# libFuzzer on the readers of a stranger's bytes, for FUZZ_SECONDS (or SECONDS) each; FUZZ="osc nsm": these only.
FUZZ_SECONDS ?= $(or $(SECONDS),60)
FUZZ_BUILD = QUIET=1 CC=clang SAN=fuzzer-no-link,address,undefined WITH_CUDA=0 BUILD=$(BUILD)/fuzz \
             LDFLAGS='$(LDFLAGS) -fsanitize=fuzzer'
run-fuzz:
	@command -v clang >/dev/null || { echo 'make fuzz: there is no clang; install the package clang'; exit 1; }
	@$(MAKE) --no-print-directory $(FUZZ_BUILD) fuzz-targets
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run $(BUILD)/fuzz/tests $(FUZZ)
fuzz-targets: $(FUZZ_TARGETS)
# Each bench prints its result; record.py records it in tests/bench/results/, in a folder for each machine.
RECORD = $(TEST_ENV) $(PYTHON) tests/bench/record.py
run-bench-batch: all $(BUILD)/tests/measure
	@$(RECORD) 'Many files' $(PYTHON) tests/bench/bench_batch.py
run-bench-moving: all
	@$(RECORD) 'Moving sources, offline' $(PYTHON) tests/bench/bench_moving.py
run-bench-files: all $(BUILD)/tests/measure
	@$(RECORD) 'Files beside other programs' $(PYTHON) tests/bench/bench_files.py
run-bench-live: all $(TEST_TOOLS)
	@LIVE_SECONDS='$(or $(LIVE_SECONDS),60)' $(RECORD) 'A session on JACK' $(PYTHON) tests/bench/bench_live.py
run-bench-shapes: all
	@$(RECORD) 'Engines by the clock' $(PYTHON) tests/bench/bench_shapes.py $(SHAPES)
# On a GPU, with a Python that has torch: PYTHON=...
run-bench-tensors: all
	@$(RECORD) 'Convolution of tensors' $(PYTHON) tests/bench/bench_tensors.py $(TENSORS)

# The transform beside FFTW, pffft and MKL, with AVX2 and with the best instructions; bench_fft.c says where peers come from.
run-bench-fft: $(BUILD)/tests/bench_fft
	@HALOCONV_SIMD=avx2 $< >&2
	@$(RECORD) 'Transforms' $<
$(BUILD)/tests/bench_fft: $(BUILD)/tests/bench_fft.o $(BUILD)/tests/check.o $(BUILD)/libhaloconv.a
	$(call link,$(LIB_LIBS) -ldl)

# zita-convolver has a C++ interface.
run-bench-zita: $(BUILD)/libhaloconv.a
	$(Q)mkdir -p $(BUILD)/tests
	$(Q)$(CXX) -std=c++17 -O2 -Wall -Wextra -pthread -Idsp $(CPPFLAGS) $(CXXFLAGS) $(ALL_LDFLAGS) tests/bench/bench_zita.cpp \
	  $(BUILD)/libhaloconv.a -lzita-convolver $(LIB_LIBS) -o $(BUILD)/tests/bench_zita
	@$(RECORD) 'Live, beside zita-convolver' $(BUILD)/tests/bench_zita
# README.md's plot: a minute of blocks of a 16 x 16 matrix.
run-plot: run-bench-zita
	@$(BUILD)/tests/bench_zita --matrix 16 --time 60 --trace $(BUILD)/block_times.csv
	$(PYTHON) tests/bench/plot_block_times.py $(BUILD)/block_times.csv dsp/pictures/block_times.svg 64
# A stereo mask of 3 s in this plugin and in others, BENCH_SECONDS of real time each.
run-bench-lv2: all
	@$(MAKE) --no-print-directory QUIET=1 $(BUILD)/tests/bench_lv2
	@mkdir -p $(BUILD)/bench-lv2 && ln -sfn $(abspath $(BUNDLE)) $(BUILD)/bench-lv2/haloconv.lv2
	@$(BUILD)/haloconv design room --rt60 3 --length 3 -o $(BUILD)/bench-lv2/mask.wav
	@LV2_PATH=$(abspath $(BUILD)/bench-lv2):/usr/lib/lv2 \
	  $(RECORD) 'LV2 plugins' $(BUILD)/tests/bench_lv2 $(BUILD)/bench-lv2/mask.wav $(or $(BENCH_SECONDS),10) 64 256
$(BUILD)/tests/bench_lv2: tests/bench/bench_lv2.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(call pkg,--cflags,lilv-0) $< $(call pkg,--libs,lilv-0) -lm -o $@

$(BUILD)/tests/%_test: $(BUILD)/tests/%_test.o $(TEST_HELP) $(BUILD)/libhaloconv.a
	$(call link,$(HELP_LIBS) $(LIB_LIBS))
FUZZ_HELP := $(patsubst %,$(BUILD)/tests/%.o,fuzz packets $(if $(findstring fuzzer,$(SAN)),,replay))
# The files of the corpus are small: here sound_in reads plain files of any size by the places of their frames.
FUZZ_SOUND_IN := $(BUILD)/tests/placed/sound_in.o
$(FUZZ_SOUND_IN): host/files/sound_in.c $(BUILD)/flags
	$(call compile,-DLEAST_PLACED=1,for small files)
# The program's objects: a test gets those that it needs.
$(BUILD)/tests/host.a: $(filter-out %/main.o,$(HOST_OBJS))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(FUZZ_TARGETS): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(FUZZ_HELP) $(if $(PROGRAM),$(FUZZ_SOUND_IN) $(BUILD)/tests/host.a) \
                                   $(BUILD)/libhaloconv.a
	$(call link,$(FUZZ_WRAP:%=-Wl$(comma)--wrap=%) $(if $(PROGRAM),$(HOST_LIBS)) $(LIB_LIBS) -ldl)
$(BUILD)/tests/fuzz_manifest: FUZZ_WRAP = glob
$(BUILD)/tests/fuzz_osc: FUZZ_WRAP = hc_live_request
$(BUILD)/tests/fuzz_nsm: FUZZ_WRAP = osc_open_to
$(BUILD)/tests/fuzz_preset: FUZZ_WRAP = message_usage message_error
$(BUILD)/tests/ladder_test: $(if $(HAVE_CUDA),$(call ladder_objs,$(BUILD),$(RUNGS)))
$(BUILD)/tests/transform_test: $(CUDA_OBJS)
$(patsubst %,$(BUILD)/tests/%_test,ladder transform tensors): HELP_LIBS = $(CUDA_LIBS)
$(TRAP_TESTS:%=$(BUILD)/tests/%_test): $(BUILD)/tests/trap.o
# These programs load the bundle. With -rdynamic its calls reach the functions of trap.c.
$(patsubst %,$(BUILD)/tests/%,lv2_test lv2_binaural_test lv2_instances): $(BUILD)/tests/lv2_host.o $(BUILD)/haloconv.lv2/manifest.ttl
# A device that fails; it replaces "cuda" in every program that is linked with it.
FAULTY := $(BUILD)/tests/faulty_device.o
# The bundle with that device. With -Bsymbolic it calls its own engine, not the engine of the test that loads it.
$(BUILD)/tests/faulty.lv2/haloconv.so: $(PLUGIN_OBJS) $(FAULTY) $(BUILD)/libhaloconv.a \
                                       $(BUILD)/haloconv.lv2/manifest.ttl
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-Bsymbolic,--exclude-libs,ALL $(ALL_LDFLAGS) $(filter %.o %.a,$^) $(LIB_LIBS) -o $@
	$(Q)cp -r $(BUILD)/haloconv.lv2/*.wav $(BUILD)/haloconv.lv2/*.txt $(BUILD)/haloconv.lv2/head $(@D)/
	$(if $(HAVE_CUDA),$(Q)ln -sf ../../libhaloconv_cuda.so $(@D)/)
$(BUILD)/tests/lv2_device_test: $(BUILD)/tests/lv2_host.o $(BUILD)/tests/trap.o $(BUILD)/tests/faulty.lv2/haloconv.so
$(BUILD)/tests/lv2_module_test: $(BUILD)/tests/lv2_host.o $(BUILD)/tests/trap.o $(BUILD)/haloconv.lv2/manifest.ttl
$(BUILD)/tests/lv2_device_test $(BUILD)/tests/lv2_module_test: HELP_LIBS = -rdynamic -ldl
$(BUILD)/tests/lv2_instances: $(BUILD)/tests/lv2_instances.o $(BUILD)/tests/trap.o $(TEST_HELP) $(BUILD)/libhaloconv.a
	$(call link,-rdynamic $(LIB_LIBS) -ldl)
$(BUILD)/tests/lv2_test $(BUILD)/tests/lv2_binaural_test: ALL_LDFLAGS += -rdynamic
$(BUILD)/tests/lv2_test $(BUILD)/tests/lv2_binaural_test: HELP_LIBS = $(call pkg,--libs,sndfile) -ldl
$(patsubst %,$(BUILD)/tests/%_test.o,ladder transform tensors): private ALL_CFLAGS += $(if $(HAVE_CUDA),-isystem $(CUDA_HOME)/include)
$(BUILD)/tests/bank_dump: $(BUILD)/tests/bank_dump.o $(BUILD)/libhaloconv.a
	$(call link,$(LIB_LIBS))
$(BUILD)/tests/measure: $(BUILD)/tests/measure.o
	$(call link)
SESSION_OBJS := $(patsubst %,$(BUILD)/host/%.o,live/session live/live_scene live/listener live/realtime live/watch message)
$(patsubst %,$(BUILD)/tests/%_test,default_wait hybrid hybrid_scene wakeup process_clean realtime): $(FAULTY)
# freewheel_test is linked with engine threads that wake up late.
LATE := $(patsubst %,$(BUILD)/tests/late/%.o,base/realtime_pool device/device_queue)
$(LATE): $(BUILD)/tests/late/%.o: dsp/%.c $(BUILD)/flags
	$(call compile,-Dsem_wait=late_sem_wait -Dsem_post=late_sem_post,for threads that wake up late)
$(BUILD)/tests/freewheel_test: $(BUILD)/tests/freewheel_test.o $(LATE) $(TEST_HELP) $(BUILD)/libhaloconv.a
	$(call link,$(LIB_LIBS))
# bare_test is linked with a library that has no optional part, and with no other library.
BARE := $(patsubst dsp/%.c,%.o,$(shell grep -rlE --include='*.c' 'HC_WITH_|HC_HDF5' dsp))
$(BARE:%=$(BUILD)/tests/bare/%): $(BUILD)/tests/bare/%.o: dsp/%.c $(BUILD)/flags
	$(call compile,-UHC_HDF5_SONAME $(patsubst -D%,-U%,$(filter-out %=$(HDF5_SONAME),$(FEATURES))),without optional libraries)
$(BUILD)/tests/bare_test: $(BUILD)/tests/bare_test.o $(BARE:%=$(BUILD)/tests/bare/%) \
                          $(filter-out $(BARE:%=$(BUILD)/dsp/%),$(DSP_OBJS)) $(TEST_HELP)
	$(call link,-lm -pthread)
$(patsubst %,$(BUILD)/tests/%_test,session ready live_steer): $(BUILD)/tests/trap.o
$(patsubst %,$(BUILD)/tests/%_test,session failover ready live_steer): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_HELP) \
                                                      $(SESSION_OBJS) $(FAULTY) $(BUILD)/libhaloconv.a
	$(call link,$(LIB_LIBS))
$(BUILD)/tests/live_test: $(SESSION_OBJS)
$(BUILD)/tests/glide_test: $(SESSION_OBJS)
$(BUILD)/tests/listener_test: $(BUILD)/host/live/listener.o
# The commands jack and live, with stand-ins of the test for the JACK server and for PortAudio.
SCENARIO_OBJS := $(patsubst %,$(BUILD)/tests/%.o,live_take live_driver_core live_driver_program live_driver_lv2 \
                   fake_jack fake_portaudio lv2_host trap) \
                 $(filter $(BUILD)/host/live/%,$(HOST_OBJS))
SCENARIO_PKGS := $(filter-out portaudio-2.0 jack,$(HOST_PKGS))
$(patsubst %,$(BUILD)/tests/%_test,live_scenarios jack_reconnect portaudio_busy midi osc): $(BUILD)/tests/%: \
                       $(BUILD)/tests/%.o $(SCENARIO_OBJS) $(TEST_HELP) $(FAULTY) $(BUILD)/tests/host.a \
                       $(BUILD)/libhaloconv.a $(BUILD)/tests/faulty.lv2/haloconv.so
	$(call link,-rdynamic $(call pkg,--libs,$(SCENARIO_PKGS)) $(LIB_LIBS) -ldl)
# progress_test has a batch_worker of its own, which comes before that of the program.
$(patsubst %,$(BUILD)/tests/%_test,progress journal capacity): $(BUILD)/tests/host.a
$(patsubst %,$(BUILD)/tests/%_test,progress journal): HELP_LIBS = $(BUILD)/tests/host.a $(BUILD)/libhaloconv.a $(HOST_LIBS) -ldl
$(BUILD)/tests/acoustics_test: $(patsubst %,$(BUILD)/host/acoustics/%.o,acoustics decay octave)
$(BUILD)/tests/acoustics_test: HELP_LIBS = $(BUILD)/libhaloconv.a
$(BUILD)/tests/sample_test: $(patsubst %,$(BUILD)/host/files/%.o,sample sample_24)
$(BUILD)/tests/output_test: $(filter-out %/convolve.o %/moving.o %/pipeline.o %/files_read.o %/mask_diagnostics.o %/format_option.o,$(filter $(BUILD)/host/files/%,$(HOST_OBJS))) \
                            $(BUILD)/host/message.o
$(BUILD)/tests/output_test: HELP_LIBS = $(call pkg,--libs,sndfile)
# Time is virtual in this test, and so is the engine.
$(BUILD)/tests/capacity_test: HELP_LIBS = $(addprefix -Wl$(comma)--wrap=,clock_gettime clock_nanosleep getrusage \
                                sched_setscheduler hc_open hc_close hc_plan hc_get_info hc_mask_make_noise \
                                hc_mask_swap hc_process) $(BUILD)/tests/host.a $(BUILD)/libhaloconv.a $(HOST_LIBS) -ldl
$(BUILD)/tests/two_copies_test: $(BUILD)/libhaloconv.so
$(BUILD)/tests/two_copies_test: HELP_LIBS = -ldl
$(BUILD)/tests/no_memory_test: HELP_LIBS = $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc \
                                             posix_memalign fft_get)
$(BUILD)/tests/async_resampler_test: $(patsubst %,$(BUILD)/host/%.o,live/async_resampler live/clock message)
$(BUILD)/tests/async_resampler_test: HELP_LIBS = $(call pkg,--libs,samplerate)
ON_CPU_FAULTY := session_test faulty_device check reference
$(ON_CPU)/session_test: $(ON_CPU_FAULTY:%=$(ON_CPU)/tests/%.o) $(SESSION_OBJS) \
                        $(BUILD)/tests/trap.o $(BUILD)/libhaloconv.a | $(ON_CPU_MODULE)
	$(call link,$(LIB_LIBS),$(CXX))
$(BUILD)/tests/haloconv_faulty: $(HOST_OBJS) $(FAULTY) $(BUILD)/libhaloconv.a
	$(call link,$(HOST_LIBS) $(LIB_LIBS))
# For this program a RIFF file ends after 1 MB.
RIFF_SOUND_OUT := $(BUILD)/tests/riff/sound_out.o
$(RIFF_SOUND_OUT): host/files/sound_out.c $(BUILD)/flags
	$(call compile,-DRIFF_BYTES=1e6,for short RIFF files)
$(BUILD)/tests/haloconv_riff: $(filter-out %/sound_out.o,$(HOST_OBJS)) $(RIFF_SOUND_OUT) $(BUILD)/libhaloconv.a
	$(call link,$(HOST_LIBS) $(LIB_LIBS))
# Calls to these functions fail on demand: tests/tools/fault_calls.h.
FAULTY_CALLS := malloc calloc realloc aligned_alloc posix_memalign strdup strndup realpath newlocale mmap tsearch glob \
                asprintf pthread_create access stat lstat fstat dup fallocate fdatasync flock fsync ftruncate linkat \
                madvise mkdir mkostemp mkostemps pipe2 readlink rename unlink fopen fdopen close fclose open openat \
                fcntl pread pwrite tee fflush fgets fputs fread fwrite getc __uflow putc putchar puts printf fprintf
FAULTS := $(FAULTY_CALLS:%=-Wl,--wrap=%)
# fault_calls.o is linked last: its constructor must run after all others.
$(BUILD)/tests/haloconv_faults: $(HOST_OBJS) $(BUILD)/libhaloconv.a $(BUILD)/tests/fault_calls.o
	$(call link,$(FAULTS) $(HOST_LIBS) $(LIB_LIBS))
$(BUILD)/tests/faults_test: $(BUILD)/tests/fault_calls.o
$(BUILD)/tests/faults_test: HELP_LIBS = $(FAULTS)
$(BUILD)/tests/callback_trap.so: $(BUILD)/tests/callback_trap.o $(BUILD)/tests/trap.o
	$(call link,-shared -ldl -pthread)
$(BUILD)/tests/jack_stage: $(BUILD)/tests/jack_stage.o
	$(call link,$(call pkg,--libs,jack) -pthread)
$(BUILD)/tests/take_stage: $(BUILD)/tests/take_stage.o $(BUILD)/tests/host.a $(BUILD)/libhaloconv.a
	$(call link,$(HOST_LIBS) $(LIB_LIBS) -ldl)
.SECONDARY: $(TEST_HELP) $(BUILD)/tests/trap.o $(TEST_PROGRAMS:%=%.o) \
            $(filter-out %haloconv_faulty.o %haloconv_faults.o %haloconv_riff.o,$(patsubst %,%.o,$(basename $(TEST_TOOLS))))

# ---- the Python wheels -----------------------------------------------------------------------------------------------
# plugins/python/haloconv_build.py puts the shared libraries that library and program need into libs/ beside them.
OLD_HYPOT := $(BUILD)/plugins/python/old_hypot.o
$(WHEEL_LIBRARY) $(WHEEL_PROGRAM): private ALL_LDFLAGS += -Wl,-s,--disable-new-dtags,--wrap=hypot \
  '-Wl,-rpath,$$ORIGIN/libs'
$(WHEEL_LIBRARY): private ALL_LDFLAGS += $(OLD_HYPOT)
$(WHEEL_LIBRARY) $(WHEEL_PROGRAM): $(OLD_HYPOT)
# The program of a wheel has no live sessions: libjack must be that of the machine's server, and PortAudio needs it.
WHEEL_WITHOUT := JACK PORTAUDIO ALSA LO SAMPLERATE CAIRO MPI LV2
WHEEL_HOST := $(patsubst %.c,$(BUILD)/wheel/%.o,$(shell grep -rlE --include='*.c' \
                'HC_WITH_($(subst $(space),|,$(WHEEL_WITHOUT)))' host))
$(WHEEL_HOST): $(BUILD)/wheel/%.o: %.c $(BUILD)/flags
	$(call compile,$(WHEEL_WITHOUT:%=-UHC_WITH_%),for the wheel)
$(WHEEL_PROGRAM): $(WHEEL_HOST) $(filter-out $(WHEEL_HOST:$(BUILD)/wheel/%=$(BUILD)/%),$(HOST_OBJS)) $(BUILD)/libhaloconv.a
	$(call link,$(WHEEL_HOST_LIBS) $(LIB_LIBS) -ldl)
WHEEL_HOST_LIBS = $(ARCHIVE_LIB) $(call pkg,--libs,$(if $(PROGRAM),sndfile jansson))
WHEEL_ARCHIVES = $(if $(WHEEL_PROGRAM),$(filter %.a,$(ARCHIVE_LIB))) $(if $(WHEEL_INSIDE),$(WHEEL_CUDART))
WHEEL_CUDART = $(if $(CUDA_MODULE),$(CUDA_HOME)/lib64/libcudart_static.a)
WHEEL_FOLDER ?= $(BUILD)/wheel
# WHEEL_MODULE=inside: the GPU module, if it is built, is in the wheel of the library (pip builds one wheel of a source).
WHEEL_INSIDE := $(and $(CUDA_MODULE),$(WHEEL_MODULE))
WHEEL_CUDA := $(CUDA_MODULE:$(BUILD)/%=$(BUILD)/wheel/%)
$(WHEEL_CUDA): $(CUDA_MODULE)
	@mkdir -p $(@D)
	$(Q)strip -o $@ $<
wheel_make = $(Q)CC='$(CC)' $(PYTHON) plugins/python/haloconv_build.py $(1) '$(WHEEL_FOLDER)'
WHEEL_LIBRARIES = $(if $(filter 0,$(WHEEL_LIBS)),system,copies)
wheel: $(WHEEL_LIBRARY) $(WHEEL_PROGRAM) $(WHEEL_CUDA) $(if $(WHEEL_PROGRAM),$(BUILD)/impulses/made)
	$(call say,WHL,$(WHEEL_FOLDER))
	$(call wheel_make,haloconv) $(WHEEL_LIBRARIES) $(WHEEL_LIBRARY) $(WHEEL_PROGRAM) $(if $(WHEEL_INSIDE),$(WHEEL_CUDA)) \
	  $(WHEEL_ARCHIVES) $(if $(WHEEL_PROGRAM),$(BUILD)/impulses)
	$(if $(WHEEL_MODULE),,$(if $(WHEEL_CUDA),$(call wheel_make,haloconv-cuda) $(WHEEL_CUDA) $(WHEEL_CUDART),\
	  @echo 'haloconv-cuda is not made: it needs nvcc and, without a GPU, CUDA_ARCHS=all'))
# What pip asks before it builds: the licences are those of the libraries that the linker would take.
wheel-metadata:
	@mkdir -p $(BUILD)/wheel
	$(Q)$(CC) -shared -Wl,--no-as-needed $(WHEEL_HOST_LIBS) $(LIB_LIBS) -o $(BUILD)/wheel/needs.so
	$(call wheel_make,metadata) $(WHEEL_LIBRARIES) $(BUILD)/wheel/needs.so $(WHEEL_ARCHIVES)
cross-wheel:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/$(CROSS) CC=$(CROSS)-gcc WITH_CUDA=0 \
	  PKG_CONFIG='env PKG_CONFIG_LIBDIR=/usr/lib/$(CROSS)/pkgconfig pkg-config' wheel

# ---- install ---------------------------------------------------------------------------------------------------------
PUBLIC_HEADERS := $(wildcard dsp/haloconv*.h)
SO := libhaloconv.so
SO_NAME := $(SO).1
TO = $(DESTDIR)$(PREFIX)
TO_LIB = $(DESTDIR)$(LIBDIR)
LV2_FOLDER ?= $(LIBDIR)/lv2
TO_COMPLETIONS = $(TO)/share/bash-completion/completions
METAINFO := org.freedesktop.LinuxAudio.Plugins.haloconv.metainfo.xml
INSTALL ?= install
STRIP ?= $(CROSS_PREFIX)strip
INSTALL_BINARY = $(INSTALL) -m 755 $(if $(STRIP),-s $(if $(filter-out strip,$(STRIP)),--strip-program=$(STRIP)))
# The folder below PREFIX where Python looks for modules; empty without Python: the module is not installed.
PYTHON_FOLDER ?= $(shell $(PYTHON) -c 'import sysconfig; print("$(PREFIX)/lib/python%s/%s" % \
                   (sysconfig.get_python_version(), sysconfig.get_path("purelib").rsplit("/", 1)[1]))' 2>/dev/null)
# Folders of systemd's units: those of its pkg-config file, moved to PREFIX. unit WHOSE,OTHERS: one of the two units.
unit_folder = $(or $(shell $(PKG_CONFIG) --define-variable=prefix=$(PREFIX) --define-variable=root_prefix=$(PREFIX) \
                --define-variable=rootprefix=$(PREFIX) --variable=$(1) systemd 2>/dev/null),$(2))
USER_UNITS ?= $(call unit_folder,systemduserunitdir,$(PREFIX)/lib/systemd/user)
SYSTEM_UNITS ?= $(call unit_folder,systemdsystemunitdir,$(PREFIX)/lib/systemd/system)
unit = sed -e '/^@$(2)@/d' -e 's|^@$(1)@||' -e 's|@PREFIX@|$(PREFIX)|' host/haloconv@.service.in
# The program looks for its parts in ../lib/haloconv, whatever LIBDIR is.
install: all impulses
	$(INSTALL) -d $(addprefix $(TO)/,bin include share/man/man1 share/haloconv/impulses) $(TO_LIB)/pkgconfig
	$(if $(PROGRAM),$(INSTALL_BINARY) $(PROGRAM) $(TO)/bin/haloconv)
	$(if $(MPI_PART)$(PLOT_PART),$(INSTALL) -d $(TO)/lib/haloconv && \
	  $(INSTALL_BINARY) $(MPI_PART) $(PLOT_PART) $(TO)/lib/haloconv/)
	$(if $(CUDA_MODULE),$(INSTALL) -d $(TO_LIB)/haloconv && $(INSTALL_BINARY) $(CUDA_MODULE) $(TO_LIB)/haloconv/)
	$(INSTALL) -m 644 $(PUBLIC_HEADERS) $(TO)/include/
	$(INSTALL) -m 644 $(BUILD)/libhaloconv.a $(TO_LIB)/
	$(if $(STRIP),$(STRIP) -g $(TO_LIB)/libhaloconv.a)
	$(INSTALL_BINARY) $(BUILD)/$(SO) $(TO_LIB)/$(SO).$(VERSION)
	ln -sf $(SO).$(VERSION) $(TO_LIB)/$(SO_NAME)
	ln -sf $(SO_NAME) $(TO_LIB)/$(SO)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' -e 's|@VERSION@|$(VERSION)|' \
	  -e 's|@LIBS@|$(strip $(LIB_LIBS))|' dsp/haloconv.pc.in >$(TO_LIB)/pkgconfig/haloconv.pc
	$(if $(MAN_PAGE),$(INSTALL) -m 644 $(MAN_PAGE) $(TO)/share/man/man1/)
	$(if $(COMPLETION),$(INSTALL) -d $(TO_COMPLETIONS) && $(INSTALL) -m 644 $(COMPLETION) $(TO_COMPLETIONS)/haloconv)
	$(if $(PYTHON_FOLDER),$(INSTALL) -d $(DESTDIR)$(PYTHON_FOLDER)/haloconv && \
	  $(INSTALL) -m 644 plugins/python/haloconv/*.py plugins/python/haloconv/py.typed $(DESTDIR)$(PYTHON_FOLDER)/haloconv/)
	$(INSTALL) -m 644 $(BUILD)/impulses/*.wav impulses/README.md $(TO)/share/haloconv/impulses/
	$(INSTALL) -d $(TO)/share/haloconv/impulses/head
	$(INSTALL) -m 644 $(BUILD)/impulses/head/*.wav $(TO)/share/haloconv/impulses/head/
ifneq ($(PROGRAM),)
	$(INSTALL) -d $(DESTDIR)$(USER_UNITS) $(DESTDIR)$(SYSTEM_UNITS)
	$(call unit,user,system) >$(DESTDIR)$(USER_UNITS)/haloconv@.service
	$(call unit,system,user) >$(DESTDIR)$(SYSTEM_UNITS)/haloconv@.service
endif
ifneq ($(BUNDLE),)
	$(INSTALL) -d $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2 $(TO)/share/metainfo
	$(INSTALL) -m 644 plugins/haloconv.lv2/$(METAINFO) $(TO)/share/metainfo/
	$(INSTALL_BINARY) $(BUNDLE)/haloconv.so $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/
	$(INSTALL) -m 644 $(BUNDLE)/*.ttl $(BUNDLE)/*.wav $(BUNDLE)/*.txt $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/
	$(INSTALL) -d $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/head
	$(INSTALL) -m 644 $(BUNDLE)/head/*.wav $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/head/
endif
uninstall:
	rm -f $(TO)/bin/haloconv $(PUBLIC_HEADERS:dsp/%=$(TO)/include/%)
	rm -f $(TO_LIB)/libhaloconv.a $(TO_LIB)/pkgconfig/haloconv.pc
	rm -f $(TO_LIB)/$(SO) $(TO_LIB)/$(SO_NAME) $(TO_LIB)/$(SO).$(VERSION) $(TO)/share/man/man1/haloconv.1
	rm -f $(TO_COMPLETIONS)/haloconv $(TO)/share/metainfo/$(METAINFO)
	rm -f $(DESTDIR)$(USER_UNITS)/haloconv@.service $(DESTDIR)$(SYSTEM_UNITS)/haloconv@.service
	rm -f $(TO_LIB)/haloconv/libhaloconv_cuda.so
	rm -rf $(TO)/share/haloconv $(TO)/lib/haloconv $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2
	$(if $(PYTHON_FOLDER),rm -rf $(DESTDIR)$(PYTHON_FOLDER)/haloconv)

# ---- Debian packages -------------------------------------------------------------------------------------------------
# Of the last commit. DEB_BUILD_OPTIONS=nocheck: without `make check`. DEB_BUILD_PROFILES=pkg.haloconv.cuda: also
# libhaloconv-cuda, with nvcc. Packages that are not uploaded close no bug of Debian's, which lintian would like.
DEB := $(BUILD)/deb
DEB_SOURCE := $(DEB)/haloconv-$(VERSION)
deb:
	@rm -rf $(DEB) && mkdir -p $(DEB)
	$(call say,TAR,$(DEB)/haloconv_$(VERSION).orig.tar.gz)
	$(Q)git archive --format=tar.gz --prefix=haloconv-$(VERSION)/ -o $(DEB)/haloconv_$(VERSION).orig.tar.gz HEAD
	$(Q)tar -C $(DEB) -xf $(DEB)/haloconv_$(VERSION).orig.tar.gz
	$(Q)cp -r $(DEB_SOURCE)/packaging/debian $(DEB_SOURCE)/debian
	$(Q)cd $(DEB_SOURCE) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES dpkg-buildpackage -us -uc
	$(Q)lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs $(DEB)/*.changes

clean:
	rm -rf build
-include $(wildcard $(patsubst %,$(BUILD)/%/*.d,* */* */*/*))
