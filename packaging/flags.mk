# ---- flags -----------------------------------------------------------------------------------------------------------
IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
# -Wframe-larger-than: a thread of musl has a stack of 128 KiB; sanitizers widen frames.
# clang's -Wextra has it from version 19 on; an enum is how this code names an integer constant, also one beside floats.
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wvla $(if $(SAN),,-Wframe-larger-than=65536) $(if $(IS_CLANG),-Wno-enum-float-conversion) $(if $(WERROR),-Werror)
OPT ?= $(if $(SAN),-O1 -g1 -fno-omit-frame-pointer,-O3 -g)
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
LIB_LIBS := $(call pkg,--libs,$(LIB_PKGS)) $(if $(HAVE_HDF5),-lz) -ldl -lm -pthread
TEST_INCLUDES := $(addprefix -Itests/,tools live plugins fuzz)
HOST_LIBS := $(ARCHIVE_LIB) $(call pkg,--libs,$(HOST_PKGS) $(if $(HAVE_PIPEWIRE),libpipewire-0.3))
ALL_LDFLAGS := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

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
