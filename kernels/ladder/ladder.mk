# ---- the kernel ladder -----------------------------------------------------------------------------------------------
# kernels/ladder/README.md. haloconv-ladder links nothing of the library, and is not installed.
RUNGS := $(patsubst kernels/ladder/%.cu,%,$(wildcard kernels/ladder/rung*.cu))
GPU_RUNGS := rung07_texture rung14_tensor # textures, tensor cores: not on the emulator
ladder_objs = $(patsubst %,$(1)/kernels/ladder/%.o,$(2) ladder ladder_check)
LADDER_BENCH := $(call ladder_objs,$(BUILD),bench bench_peers)
RUNG_CHECK := $(call ladder_objs,$(ON_CPU)) $(ON_CPU_DEVICE) $(ON_CPU)/rung.o
$(ON_CPU)/ladder_test: $(call ladder_objs,$(ON_CPU),$(filter-out $(GPU_RUNGS),$(RUNGS))) $(ON_CPU_DEVICE)
.SECONDARY: $(patsubst %,$(ON_CPU)/kernels/ladder/%.cu,$(RUNGS) ladder ladder_check) $(ON_CPU)/rung.o
ladder: $(if $(HAVE_CUDA),$(BUILD)/haloconv-ladder)
	$(if $(HAVE_CUDA),,@echo 'make ladder: it needs nvcc and, without a GPU, CUDA_ARCHS=all; `make rung` needs neither'; exit 1)
$(BUILD)/haloconv-ladder: $(RUNGS:%=$(BUILD)/kernels/ladder/%.o) $(LADDER_BENCH)
	$(call link,-pthread $(CUDA_LIBS) -lm)
# make rung RUNG=03 (or 3, halo, rung03_halo) compiles only the file of this rung: for the GPUs of this machine, or for the emulator.
# A file defines a rung by a line with `NUMBER, "NAME", "IDEA"`.
RUNG_NAME := $(subst _,-,$(shell echo "$(RUNG)" | sed -E "s/^rung([0-9]+)_.*/\1/"))
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
	@echo 'make rung: $(THE_RUNG) needs a GPU: the emulator has no textures and tensor cores'; exit 1
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
