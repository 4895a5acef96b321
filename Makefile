# haloconv: `make` prints what it looked for and what it found, and builds with that.
# CONTRIBUTING.md lists the goals. Tests are in tests/tests.mk, wheels, installation and Debian packages in packaging/packaging.mk.
#
#   WITH_CUDA=1 (SNDFILE, SOXR, YAML, MYSOFA, HDF5, SAMPLERATE, JANSSON, ARCHIVE, CAIRO, X11, PORTAUDIO, JACK,
#   PIPEWIRE, ALSA, LO, WEBSOCKETS, LV2, CLAP, VST3 likewise): a miss is an error; =0: do without
#   SAN=address,undefined or SAN=thread: a sanitizer build of its own, under build/san-...
#   SETUP=0: demo, test and the benches install no packages     make setup-build | setup-test | setup-lint | setup-bench |
#   setup-cross | setup-deb | setup-browser | setup-site: only that
#   CUDA code is a module, libhaloconv_cuda.so, which the library loads when a GPU is asked for. It is compiled for the
#   GPUs of this machine, and left out where there are none. CUDA_ARCHS=all: for all kinds of GPU, as packages need it;
#   CUDA_ARCHS="80 90": for these. LINEINFO=1: with line numbers, for a profiler
#   WERROR=1: warnings are errors (CI)     V=1: show the commands
#   Packagers: CFLAGS, CXXFLAGS, CPPFLAGS, LDFLAGS, AR, PKG_CONFIG, INSTALL; PREFIX, LIBDIR, LV2_FOLDER, CLAP_FOLDER, VST3_FOLDER, DESTDIR; STRIP= keeps symbols.
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
CXX := $(if $(filter default,$(origin CXX)),$(CROSS_PREFIX)g++,$(CXX))
PYTHON ?= /usr/bin/python3
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
# find NAME,packages: sets HAVE_NAME to the version of the first package, and reports it
pkg_version = $(shell $(PKG_CONFIG) --modversion $(1) 2>/dev/null)
define find
HAVE_$(1) := $$(if $$(filter 0,$$(WITH_$(1))),,$$(firstword $$(call pkg_version,$(2))))
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
$(eval $(call find,ARCHIVE,libarchive zlib))
$(eval $(call find,CAIRO,cairo))
$(eval $(call find,X11,x11))
$(eval $(call find,PORTAUDIO,portaudio-2.0))
$(eval $(call find,JACK,jack))
$(eval $(call find,PIPEWIRE,libpipewire-0.3))
$(eval $(call find,ALSA,alsa))
$(eval $(call find,LO,liblo))
$(eval $(call find,WEBSOCKETS,libwebsockets))
$(eval $(call find,LV2,lv2))
DPF := /usr/share/dpf/distrho/src
# zlib unpacks compressed tar files. libarchive's readers of other formats load twelve libraries; a static one leaves them out.
ARCHIVE_LIB := $(if $(HAVE_ARCHIVE),$(or $(wildcard $(shell $(PKG_CONFIG) --variable=libdir libarchive)/libarchive.a),\
                 $(shell $(PKG_CONFIG) --libs libarchive)) -lz)
# The plugins' window needs pugl's sources, too (plugins/window/window.mk).
PUGL ?= /usr/share/dpf/dgl/src/pugl-upstream
WINDOW := $(if $(and $(HAVE_CAIRO),$(HAVE_X11),$(wildcard $(PUGL)/src/x11_stub.c)),$(BUILD)/libhaloconv_window.a)
NVCC_VERSION = $(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')
# The headers of CLAP: a package of their own, or Debian's dpf-source.
HAVE_CLAP := $(if $(filter 0,$(WITH_CLAP)),,$(or $(call pkg_version,clap),$(if $(wildcard $(DPF)/clap/entry.h),1.1.1)))
ifeq ($(WITH_CLAP)$(HAVE_CLAP),1)
$(error WITH_CLAP=1, but there are no headers of CLAP, in a package clap or in $(DPF); make setup-build installs dpf-source)
endif
FOUND += CLAP=$(or $(HAVE_CLAP),no)
CLAP_FLAGS := $(if $(HAVE_CLAP),$(if $(call pkg_version,clap),$(shell $(PKG_CONFIG) --cflags clap),-isystem $(DPF)))
# The headers of VST3's C interface, travesty.
HAVE_VST3 := $(if $(filter 0,$(WITH_VST3)),,$(if $(wildcard $(DPF)/travesty/component.h),3.7))
ifeq ($(WITH_VST3)$(HAVE_VST3),1)
$(error WITH_VST3=1, but there are no headers of VST3 in $(DPF)/travesty; make setup-build installs dpf-source)
endif
FOUND += VST3=$(or $(HAVE_VST3),no)
# -fms-extensions: travesty's structs contain others without a name.
VST3_FLAGS := $(if $(HAVE_VST3),-isystem $(DPF) -fms-extensions)
HAVE_CUDA := $(if $(filter 0,$(WITH_CUDA)),,$(if $(and $(NVCC),$(CUDA_ARCHS)),$(NVCC_VERSION)))
ifeq ($(WITH_CUDA)$(HAVE_CUDA),1)
$(error WITH_CUDA=1, but there is no nvcc on PATH or in /usr/local/cuda/bin; set NVCC)
endif

CUDA_REPORT = $(if $(HAVE_CUDA),$(HAVE_CUDA) for $(addprefix sm_,$(CUDA_ARCHS)) and PTX $(lastword $(CUDA_ARCHS)),no \
              (CPU only$(if $(filter 0,$(WITH_CUDA)),,; $(if $(NVCC),no GPU here that nvcc compiles for; make \
              CUDA_ARCHS=all compiles for every kind,a GPU needs the CUDA Toolkit))))
MISSING = $(foreach f,$(filter-out WEBSOCKETS,$(patsubst %=no,%,$(filter %=no,$(FOUND)))),$(if $(filter 0,$(WITH_$(f))),,$(f)))
define MISSING_REPORT
$(if $(MISSING),
  left out    the parts marked no; make setup installs their packages)
endef
# Without pkg-config nothing is found, whatever is installed.
NO_PKG_CONFIG := $(if $(shell command -v $(firstword $(PKG_CONFIG)) 2>/dev/null),,$(firstword $(PKG_CONFIG)) is missing$(comma) which finds libraries)
define REPORT
haloconv $(VERSION)
  compiler    $(shell $(CC) --version 2>/dev/null | head -n 1)$(if $(NO_PKG_CONFIG),
  packages    $(NO_PKG_CONFIG); make setup installs it)
  CUDA        $(CUDA_REPORT)
  libsndfile  $(or $(HAVE_SNDFILE),no (no sound files))
  resampler   $(if $(HAVE_SOXR),soxr $(HAVE_SOXR),no (masks must have the rate of the input))
  YAML        $(if $(HAVE_YAML),libyaml $(HAVE_YAML),no (no configurations of CamillaDSP))
  SOFA        $(or $(strip $(if $(HAVE_MYSOFA),libmysofa $(HAVE_MYSOFA)$(if $(HAVE_HDF5),$(comma))) \
              $(if $(HAVE_HDF5),HDF5 $(HAVE_HDF5) ($(HDF5_SONAME)))),no (no banks in SOFA files))
  two clocks  $(if $(HAVE_SAMPLERATE),libsamplerate $(HAVE_SAMPLERATE),no (live: input and output on one device))
  JSON        $(if $(HAVE_JANSSON),jansson $(HAVE_JANSSON),no)
  tar files   $(if $(HAVE_ARCHIVE),libarchive $(HAVE_ARCHIVE),no)
  window      $(if $(WINDOW),pugl on X11 $(HAVE_X11) and Cairo $(HAVE_CAIRO),no (the plugins' window needs Cairo, X11 and pugl's sources))
  PortAudio   $(or $(HAVE_PORTAUDIO),no)
  JACK        $(or $(HAVE_JACK),no)
  PipeWire    $(or $(HAVE_PIPEWIRE),no)
  MIDI        $(if $(HAVE_ALSA),ALSA $(HAVE_ALSA),no (live: no MIDI))
  OSC         $(if $(HAVE_LO),liblo $(HAVE_LO),no)
  panel       $(if $(HAVE_WEBSOCKETS),libwebsockets $(HAVE_WEBSOCKETS),no (no page in the browser; libwebsockets-dev brings it))
  LV2         $(or $(HAVE_LV2),no)
  CLAP        $(or $(HAVE_CLAP),no)
  VST3        $(or $(HAVE_VST3),no)$(MISSING_REPORT)
endef
SETUP_GOALS := demo test panel-test pictures site models lint kernel-test gpu-test emulated-test race-test fault-test pipewire-test coverage soak fuzz cross-test \
               bench-files bench-live bench-zita bench-lv2 bench-plugins bench-batch bench-moving bench-shapes bench-tensors bench-neighbour bench-fft plot
ifeq ($(filter clean setup setup-% uninstall rung cross-wheel deb fresh-test release $(SETUP_GOALS),$(MAKECMDGOALS)),)
ifeq ($(TARGET),)
$(error $(CC) is missing or does not run; make setup installs gcc, CC=... names another compiler)
endif
ifeq ($(QUIET),)
$(info $(REPORT))
endif
endif

# ---- flags -----------------------------------------------------------------------------------------------------------
IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
# clang's -Wextra has it from version 19 on; an enum is how this code names an integer constant, also one beside floats.
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla $(if $(IS_CLANG),-Wno-enum-float-conversion) $(if $(WERROR),-Werror)
OPT ?= $(if $(SAN),-O1 -g1 -fno-omit-frame-pointer,-O3 -g)
PARTS := SNDFILE SOXR YAML MYSOFA HDF5 SAMPLERATE JANSSON ARCHIVE CAIRO PORTAUDIO JACK PIPEWIRE ALSA LO WEBSOCKETS LV2 CLAP VST3
FEATURES := $(foreach f,$(PARTS),$(if $(HAVE_$(f)),-DHC_WITH_$(f))) \
            $(if $(HAVE_HDF5),-DHC_HDF5_SONAME=$(HDF5_SONAME))
LIB_PKGS := $(if $(HAVE_SNDFILE),sndfile) $(if $(HAVE_SOXR),soxr) $(if $(HAVE_YAML),yaml-0.1) \
            $(if $(HAVE_MYSOFA),libmysofa)
HOST_PKGS := $(if $(HAVE_SNDFILE),sndfile) $(if $(HAVE_JANSSON),jansson) \
             $(if $(HAVE_PORTAUDIO),portaudio-2.0) $(if $(HAVE_JACK),jack) $(if $(HAVE_ALSA),alsa) \
             $(if $(HAVE_LO),liblo) $(if $(HAVE_SAMPLERATE),samplerate)
pkg = $(if $(strip $(2)),$(shell $(PKG_CONFIG) $(1) $(2)))
# The macros of PipeWire's headers do not compile without warnings; clang counts a macro as a part of the file that uses it.
PIPEWIRE_FLAGS := $(if $(HAVE_PIPEWIRE),$(patsubst -I%,-isystem%,$(call pkg,--cflags,libpipewire-0.3)) $(if $(IS_CLANG),-Wno-gnu-statement-expression))
CFLAGS ?=
# Every distribution has -O2 in CFLAGS, which replaces the -O3 of OPT: files take 1.7 times as long with it, live blocks 1.2
# times. SPEED stands behind CFLAGS where samples are computed. A level such as -O0 or -Og stays.
SPEED := $(if $(filter -O2,$(CFLAGS)),-O3)
# gcc defines these macros itself.
SAN_MACROS := $(if $(and $(SAN),$(IS_CLANG)),\
                $(if $(findstring address,$(SAN)),-D__SANITIZE_ADDRESS__=1) \
                $(if $(findstring thread,$(SAN)),-D__SANITIZE_THREAD__=1))
ALL_CFLAGS := -std=c11 -D_GNU_SOURCE $(OPT) $(WARN) -fPIC -fno-math-errno -pthread -MMD -MP -Idsp -I. $(FEATURES) \
              $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all $(SAN_MACROS)) \
              $(call pkg,--cflags,$(LIB_PKGS) $(if $(HAVE_HDF5),$(HDF5_PKG)) $(HOST_PKGS)) $(PIPEWIRE_FLAGS) $(CPPFLAGS) $(CFLAGS)
CUDA_HOME := $(if $(HAVE_CUDA),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
NVCC_FLAGS := -std=c++17 -O3 $(if $(LINEINFO),-lineinfo) $(if $(HAVE_CUDA),$(shell $(NVCC) --help | grep -q -e \
                --compress-mode && echo --compress-mode=size)) -Xptxas -v -Idsp $(addprefix -Ikernels/,backend fft files ladder resident) -I. \
              -Xcompiler -fPIC,-Wall,-Wextra,-Wshadow \
              $(foreach f,$(CPPFLAGS) $(filter-out -O%,$(CXXFLAGS)),-Xcompiler $(subst $(comma),\\$(comma),$(f))) \
              $(if $(WERROR),-Werror all-warnings) \
              $(foreach a,$(CUDA_ARCHS),-gencode=arch=compute_$(a)$(comma)code=sm_$(a)) \
              -gencode=arch=compute_$(lastword $(CUDA_ARCHS))$(comma)code=compute_$(lastword $(CUDA_ARCHS)) $(FEATURES)
CUDA_LIBS := $(if $(HAVE_CUDA),-L$(CUDA_HOME)/lib64 -lcudart_static -lstdc++ -ldl -lrt)
LIB_LIBS := $(call pkg,--libs,$(LIB_PKGS)) $(if $(HAVE_HDF5),-lz) -ldl -lm -pthread
TEST_INCLUDES := $(addprefix -Itests/,tools live plugins fuzz)
HOST_LIBS := $(ARCHIVE_LIB) $(call pkg,--libs,$(HOST_PKGS) $(if $(HAVE_PIPEWIRE),libpipewire-0.3))
ALL_LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

# ---- what is built ---------------------------------------------------------------------------------------------------
# The inner loops are built once for each instruction set; dsp/base/isa.c chooses one when the program starts.
SIMD_FILES := base/samples cpu/simd cpu/scene_simd fft/fft_long fft/fft_products
ISAS := base $(if $(filter x86_64,$(MACHINE)),v3 v4)
SIMD_FLAGS_base := -ffp-contract=fast
SIMD_FLAGS_v3 := -ffp-contract=fast -march=x86-64-v3
SIMD_FLAGS_v4 := -ffp-contract=fast -march=x86-64-v4 -mprefer-vector-width=512
# Short transforms: instruction set, lanes of a vector, points of a channel in them (dsp/fft/fft_short.c).
SHORT_FFTS := base_4_4 $(if $(filter v4,$(ISAS)),v3_4_4 v3_8_8 v3_8_4 v4_4_4 v4_8_8 v4_16_8 v4_16_4)
SIMD_OBJS := $(foreach l,$(ISAS),$(SIMD_FILES:%=$(BUILD)/dsp/%_$(l).o)) $(SHORT_FFTS:%=$(BUILD)/dsp/fft/fft_short_%.o)
DSP_FILES := $(filter-out dsp/examples/% $(SIMD_FILES:%=dsp/%.c) dsp/fft/fft_short.c,$(wildcard dsp/*.c dsp/*/*.c))
DSP_OBJS := $(DSP_FILES:%.c=$(BUILD)/%.o) $(SIMD_OBJS)
KERNELS := $(wildcard $(addprefix kernels/,$(addsuffix /*.cu,backend fft files tensors module resident)))
CUDA_OBJS := $(if $(HAVE_CUDA),$(KERNELS:%.cu=$(BUILD)/%.o))
CUDA_MODULE := $(if $(HAVE_CUDA),$(BUILD)/libhaloconv_cuda.so)
# The module has its own copies of the functions of dsp/ that kernels call.
MODULE_HELP := $(patsubst %,$(BUILD)/%.o,kernels/module/module dsp/base/error dsp/device/parallel_copy dsp/device/scene_pieces dsp/base/processors dsp/base/priority)
# Library and module belong together if this text is the same in both: it has a checksum of the files that define structs
# which both use. parallel_copy.c is compiled into both and defines one.
MODULE_HEADERS := $(wildcard dsp/haloconv*.h) dsp/bench.h dsp/device/parallel_copy.c \
                  $(addprefix dsp/,$(addsuffix .h,backends/gpu_module device/backend device/plan device/noise device/scene_backend \
                    device/scene_plan device/hc_bank device/scene_pieces device/render_backend device/tensor_backend))
MODULE_VERSION := $(VERSION)-$(firstword $(shell cat $(MODULE_HEADERS) | cksum))
MODULE_FLAGS = -DMODULE_VERSION='"$(MODULE_VERSION)"' -DLIBDIR='"$(LIBDIR)"'
HOST_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard host/*.c host/*/*.c)) $(BUILD)/host/panel/panel_pages.o
$(DSP_OBJS) $(filter $(BUILD)/host/files/%,$(HOST_OBJS)): private ALL_CFLAGS += $(SPEED)
PROGRAM := $(if $(and $(HAVE_SNDFILE),$(HAVE_JANSSON)),$(BUILD)/haloconv)
MAN_PAGES := $(if $(PROGRAM),$(patsubst host/man/%.in,$(BUILD)/%,$(wildcard host/man/*.in)))
COMPLETION := $(if $(PROGRAM),$(BUILD)/haloconv.bash)
PANEL_PART := $(if $(and $(PROGRAM),$(HAVE_WEBSOCKETS)),$(BUILD)/haloconv_panel.so)

# The plugin needs libsndfile for the masks that it ships with.
BUNDLE := $(if $(and $(HAVE_LV2),$(HAVE_SNDFILE)),$(BUILD)/haloconv.lv2)
CORE_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(if $(WINDOW),,%_window.c),$(wildcard plugins/core/*.c)))
PLUGIN_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/describe.c %/ui.c,$(wildcard plugins/haloconv.lv2/*.c))) $(CORE_OBJS)
# The window has a file of its own, so that the plugin does not load the libraries of X11.
LV2_WINDOW := $(if $(WINDOW),$(BUNDLE:%=%/haloconv_ui.so))
# The CLAP file and the VST3 bundle have the masks of the LV2 bundle inside: each is one thing to copy. PLUGIN_MASKS=0: they
# play those of an LV2 bundle beside them, for packages that depend on it.
PLUGIN_MASKS ?= 1
INSIDE := $(filter-out 0,$(PLUGIN_MASKS))
CLAP := $(if $(and $(HAVE_CLAP),$(BUNDLE)),$(BUILD)/haloconv.clap)
CLAP_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(if $(WINDOW),,%/clap_gui.c) $(if $(INSIDE),,%/clap_masks.c),$(wildcard plugins/haloconv.clap/*.c)))
VST3 := $(if $(and $(HAVE_VST3),$(BUNDLE)),$(BUILD)/haloconv.vst3/Contents/$(MACHINE)-linux/haloconv.so)
VST3_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/describe_module.c $(if $(WINDOW),,%/vst3_view.c),$(wildcard plugins/haloconv.vst3/*.c)))
VST3_INFO := $(if $(VST3),$(BUILD)/haloconv.vst3/Contents/Resources/moduleinfo.json)
VST3_MASKS := $(if $(INSIDE),$(VST3_INFO:%/moduleinfo.json=%/masks/hall.wav))

WHEEL_LIBRARY := $(BUILD)/wheel/libhaloconv.so
WHEEL_PROGRAM := $(if $(PROGRAM),$(BUILD)/wheel/haloconv)

SETUPS := $(addprefix setup-,build test lint bench cross deb browser site)
.PHONY: gpu-module race-storms cross-programs fuzz-targets all setup $(SETUPS) $(SETUP_GOALS) $(SETUP_GOALS:%=run-%) impulses wheel wheel-metadata cross-wheel install uninstall clean \
        ladder rung run-rung check deb fresh-test release release-test abi adapter-test
.DELETE_ON_ERROR:
all: $(BUILD)/libhaloconv.a $(BUILD)/libhaloconv.so $(CUDA_MODULE) $(PROGRAM) $(MAN_PAGES) $(COMPLETION) $(PANEL_PART) \
     $(BUNDLE:%=%/manifest.ttl) $(CLAP) $(VST3) $(VST3_INFO) $(VST3_MASKS) $(WINDOW)
ifeq ($(PROGRAM),)
	@echo "haloconv: $(or $(NO_PKG_CONFIG),the program needs libsndfile and jansson); only the library was built (make setup installs them)"
endif

# A change of the flags, or of the packages that were found, rebuilds everything. A change of $(BUILD)/cuda_flags rebuilds
# the kernels and the tests that contain HC_WITH_CUDA. (private: the flags of one object are not those of its prerequisites)
$(BUILD)/flags: ALL_FLAGS = $(CC) $(ALL_CFLAGS) $(SIMD_FLAGS_v4) $(LDFLAGS)
$(BUILD)/cuda_flags: ALL_FLAGS = $(if $(HAVE_CUDA),$(NVCC_FLAGS))
$(BUILD)/window_flags: ALL_FLAGS = $(WINDOW_FLAGS) $(INSIDE)
$(BUILD)/flags $(BUILD)/cuda_flags $(BUILD)/module_flags $(BUILD)/window_flags: FORCE
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
# The program writes its options into its man pages and its completion for bash: @haloconv COMMAND@ becomes the options of
# that command, as its --help has them; @haloconv --_man PAGE@ the synopsis of a page; @haloconv --_man@ the list of commands.
# When cross-compiling, a program for this machine does it: HALOCONV_FOR_BUILD, or one that is compiled here, with this machine's
# libsndfile and jansson; without them the build fails.
WRITER := $(if $(CROSS_PREFIX),$(or $(HALOCONV_FOR_BUILD),$(BUILD)/native/haloconv),$(PROGRAM))
$(MAN_PAGES): $(BUILD)/%: host/man/%.in
$(COMPLETION): $(BUILD)/%: host/%.in
$(MAN_PAGES) $(COMPLETION): $(WRITER)
	$(call say,$(if $(filter %.bash,$@),BASH,MAN),$@)
	$(Q)sed 's|@VERSION@|$(VERSION)|' $(filter %.in,$^) | while IFS= read -r line; do case $$line in \
	  @haloconv*@) words=$${line#@haloconv}; words=$${words%@}; \
	    case $$words in *--_*) ;; *) words="$$words --_man" ;; esac; $(WRITER) $$words || exit 1 ;; \
	  *) printf '%s\n' "$$line" ;; esac; done >$@
ifneq ($(CROSS_PREFIX),)
$(BUILD)/native/haloconv: FORCE
	@$(MAKE) --no-print-directory QUIET=1 BUILD=$(BUILD)/native CC='$(CC_FOR_BUILD)' AR=ar PKG_CONFIG='$(PKG_CONFIG_FOR_BUILD)' \
	  CPPFLAGS= CFLAGS='$(CFLAGS_FOR_BUILD)' LDFLAGS= ARCHIVE_LIB= WITH_ARCHIVE=0 WITH_CUDA=0 WITH_SNDFILE=1 WITH_JANSSON=1 $@
endif
# libwebsockets is in a library of its own, which the program loads for --panel.
$(BUILD)/haloconv_panel.so: host/panel/lws/panel_lws.c $(wildcard host/panel/*.h) $(BUILD)/flags
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -shared $(ALL_LDFLAGS) $< $(call pkg,--cflags --libs,libwebsockets) -o $@
# The files of the panel's page, as arrays of bytes.
PANEL_PAGES := $(sort $(wildcard host/panel/page/*))
$(BUILD)/host/panel/panel_pages.c: $(PANEL_PAGES) host/panel/panel_pages.h Makefile
	@mkdir -p $(@D)
	$(call say,PAGE,$@)
	$(Q){ i=0; echo '#include "host/panel/panel_pages.h"'; \
	  for f in $(PANEL_PAGES); do echo "static const unsigned char bytes_$$((i += 1))[] = {"; od -An -v -tu1 $$f | tr -s ' \n' ',' | sed 's/^,//'; \
	    echo '};'; done; i=0; echo 'const struct panel_page panel_pages[] = {'; for f in $(PANEL_PAGES); do i=$$((i + 1)); \
	    echo "{\"$${f##*/}\", bytes_$$i, sizeof bytes_$$i},"; done; echo '{0}};'; } >$@
$(BUILD)/host/panel/panel_pages.o: $(BUILD)/host/panel/panel_pages.c $(BUILD)/flags
	$(call compile)

# ---- the plugins -----------------------------------------------------------------------------------------------------
# They export only their standard's entry: lv2_descriptor, clap_entry, and the three functions of VST3.
$(PLUGIN_OBJS) $(CLAP_OBJS) $(VST3_OBJS) $(BUILD)/plugins/haloconv.lv2/ui.o: private ALL_CFLAGS += -fvisibility=hidden
$(CLAP_OBJS): private ALL_CFLAGS += $(CLAP_FLAGS)
$(CLAP_OBJS) $(VST3_OBJS): private ALL_CFLAGS += $(if $(WINDOW),-DHC_WITH_WINDOW) $(if $(INSIDE),-DHC_PLUGIN_MASKS)
$(CLAP_OBJS) $(VST3_OBJS): $(BUILD)/window_flags
$(BUILD)/haloconv.clap: plugins/haloconv.clap/clap.map $(CLAP_OBJS) $(CORE_OBJS) $(WINDOW) $(BUILD)/libhaloconv.a | $(BUILD)/haloconv.lv2/manifest.ttl
	$(call link,-shared -Wl$(comma)--version-script=$< $(LIB_LIBS) $(WINDOW_LIBS))
$(BUILD)/plugins/haloconv.clap/clap_masks.o: plugins/haloconv.clap/clap_masks.c $(BUILD)/masks.tar
	$(call compile,-DHC_MASKS_TAR='"$(BUILD)/masks.tar"' -DHC_MASKS_ID='"'"$$(cksum <$(BUILD)/masks.tar | cut -d' ' -f1)"'"')
$(BUILD)/masks.tar: $(BUILD)/haloconv.lv2/manifest.ttl
	$(Q)tar --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cf $@ -C $(<D) $(MASKS)
$(VST3_MASKS): $(BUILD)/haloconv.lv2/manifest.ttl
	@mkdir -p $(@D)
	$(Q)cd $(<D) && cp -r $(MASKS) $(abspath $(@D))/
$(VST3_OBJS): private ALL_CFLAGS += $(VST3_FLAGS)
$(VST3): plugins/haloconv.vst3/vst3.map $(VST3_OBJS) $(CORE_OBJS) $(WINDOW) $(BUILD)/libhaloconv.a | $(BUILD)/haloconv.lv2/manifest.ttl
	@mkdir -p $(@D)
	$(call link,-shared -Wl$(comma)--version-script=$< $(LIB_LIBS) $(WINDOW_LIBS))
$(BUILD)/plugins/describe_module: $(patsubst %,plugins/haloconv.vst3/%.c,describe_module vst3_classes) plugins/core/controls.c \
                                  plugins/haloconv.vst3/vst3_classes.h plugins/core/controls.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC_THAT_RUNS) $(filter %.c,$^) -o $@
$(VST3_INFO): $(BUILD)/plugins/describe_module
	@mkdir -p $(@D)
	$(Q)$< >$@
$(BUILD)/haloconv.lv2/haloconv.so: $(PLUGIN_OBJS) $(BUILD)/libhaloconv.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,--exclude-libs,ALL $(ALL_LDFLAGS) $^ $(LIB_LIBS) -o $@
$(BUILD)/haloconv.lv2/haloconv_ui.so: plugins/haloconv.lv2/ui.map $(patsubst %,$(BUILD)/plugins/%.o,haloconv.lv2/ui \
                   haloconv.lv2/messages core/plugin_window core/controls core/control_text) $(WINDOW) $(BUILD)/libhaloconv.a
	@mkdir -p $(@D)
	$(call link,-shared -Wl$(comma)--version-script=$< $(LIB_LIBS) $(WINDOW_LIBS))
$(BUILD)/plugins/describe: plugins/haloconv.lv2/describe.c plugins/core/controls.c plugins/haloconv.lv2/ports.h \
                           plugins/core/controls.h $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC_THAT_RUNS) $(filter %.c,$^) -o $@
MASKS := $(addsuffix .wav,cabinet chamber hall plate room spring) through.txt head
$(BUILD)/haloconv.lv2/manifest.ttl: $(BUILD)/plugins/describe $(BUILD)/haloconv.lv2/haloconv.so $(BUILD)/impulses/made \
                                    plugins/haloconv.lv2/through.txt $(LV2_WINDOW) $(BUILD)/window_flags
	$(Q)$< $(@D) haloconv.so $(VERSION) $(notdir $(LV2_WINDOW))
	$(Q)cp -r $(addprefix $(BUILD)/impulses/,$(filter-out %.txt,$(MASKS))) plugins/haloconv.lv2/through.txt $(@D)/

# ---- impulses and the demo -------------------------------------------------------------------------------------------
# Goals of SETUP_GOALS first install the packages that they need and that are missing, unless SETUP=0. A second make then
# does the work, because the first one has already looked for packages.
ifneq ($(SETUP),0)
WITH_PEERS := bench-files bench-live bench-zita bench-lv2 bench-plugins bench-fft plot
demo: setup-build
site: setup-site
lint fuzz: setup-lint
cross-test: setup-cross
panel-test pictures: setup-browser
deb: setup-deb
$(WITH_PEERS): setup-bench
$(filter-out demo lint cross-test panel-test pictures site $(WITH_PEERS),$(SETUP_GOALS)): setup-test
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

# ---- tests, emulated GPU, ladder, packages ---------------------------------------------------------------------------
include tests/cuda/emulator.mk kernels/ladder/ladder.mk plugins/window/window.mk tests/tests.mk packaging/packaging.mk

clean:
	rm -rf build
-include $(wildcard $(patsubst %,$(BUILD)/%/*.d,* */* */*/*))
