# haloconv: `make` prints what it looked for and what it found, and builds with that.
# CONTRIBUTING.md lists the goals. Each folder has the rules of its files in a .mk; packaging/ also has the optional parts
# (parts.mk), the flags (flags.mk), wheels, installation and Debian packages (packaging.mk).
#
#   WITH_CUDA=1 (or another name of packaging/parts.mk): a miss is an error; =0: do without
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

.DEFAULT_GOAL := all
include packaging/parts.mk

# ---- goals -----------------------------------------------------------------------------------------------------------
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

# packaging/packaging.mk: a wheel has its own library and program
WHEEL_LIBRARY := $(BUILD)/wheel/libhaloconv.so
include packaging/flags.mk dsp/dsp.mk kernels/kernels.mk host/host.mk plugins/plugins.mk
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

include impulses/impulses.mk tests/cuda/emulator.mk kernels/ladder/ladder.mk plugins/window/window.mk tests/tests.mk packaging/packaging.mk

clean:
	rm -rf build
-include $(wildcard $(patsubst %,$(BUILD)/%/*.d,* */* */*/*))
