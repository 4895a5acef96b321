# ---- the GPU module --------------------------------------------------------------------------------------------------
CUDA_HOME := $(if $(HAVE_CUDA),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
NVCC_FLAGS := -std=c++17 -O3 $(if $(LINEINFO),-lineinfo) $(if $(HAVE_CUDA),$(shell $(NVCC) --help | grep -q -e \
                --compress-mode && echo --compress-mode=size)) -Xptxas -v -Idsp $(addprefix -Ikernels/,backend fft files ladder resident) -I. \
              -Xcompiler -fPIC,-Wall,-Wextra,-Wshadow \
              $(foreach f,$(CPPFLAGS) $(filter-out -O%,$(CXXFLAGS)),-Xcompiler $(subst $(comma),\\$(comma),$(f))) \
              $(if $(WERROR),-Werror all-warnings) \
              $(foreach a,$(CUDA_ARCHS),-gencode=arch=compute_$(a)$(comma)code=sm_$(a)) \
              -gencode=arch=compute_$(lastword $(CUDA_ARCHS))$(comma)code=compute_$(lastword $(CUDA_ARCHS)) $(FEATURES)
CUDA_LIBS := $(if $(HAVE_CUDA),-L$(CUDA_HOME)/lib64 -lcudart_static -lstdc++ -ldl -lrt)

KERNELS := $(wildcard $(addprefix kernels/,$(addsuffix /*.cu,backend fft files tensors module resident)))
CUDA_OBJS := $(if $(HAVE_CUDA),$(KERNELS:%.cu=$(BUILD)/%.o))
CUDA_MODULE := $(if $(HAVE_CUDA),$(BUILD)/libhaloconv_cuda.so)
# The module has its own copies of the functions of dsp/ that kernels call.
MODULE_HELP := $(patsubst %,$(BUILD)/%.o,kernels/module/module dsp/base/error dsp/device/parallel_copy dsp/device/scene_pieces dsp/base/processors dsp/base/priority)
# Library and module belong together if this text is the same in both: it has a checksum of the files that define structs
# which both use. parallel_copy.c is compiled into both and defines one.
MODULE_HEADERS := $(wildcard dsp/haloconv*.h) dsp/bench.h dsp/device/parallel_copy.c \
                  $(addprefix dsp/,$(addsuffix .h,backends/gpu_module device/backend device/plan device/noise device/scene_backend \
                    device/scene_plan device/hc_bank device/scene_pieces device/scene_render_backend device/tensor_backend))
MODULE_HEADERS_GONE := $(filter-out $(wildcard $(MODULE_HEADERS)),$(MODULE_HEADERS))
$(if $(MODULE_HEADERS_GONE),$(error kernels/kernels.mk: $(MODULE_HEADERS_GONE) is gone: name the file that defines the structs now))
MODULE_VERSION := $(VERSION)-$(firstword $(shell cat $(MODULE_HEADERS) | cksum))
MODULE_FLAGS = -DMODULE_VERSION='"$(MODULE_VERSION)"' -DLIBDIR='"$(LIBDIR)"'
# `make install PREFIX=...` keeps the LIBDIR of the build: the module is also found from the places of library and program.
MODULE_AWARE := $(BUILD)/dsp/backends/gpu_module.o $(BUILD)/kernels/module/module.o
$(BUILD)/module_flags: ALL_FLAGS = $(subst ',,$(MODULE_FLAGS))
$(MODULE_AWARE): private ALL_CFLAGS += $(MODULE_FLAGS)
$(MODULE_AWARE): $(if $(filter install,$(MAKECMDGOALS)),,$(BUILD)/module_flags)

$(BUILD)/%.o: %.cu $(BUILD)/cuda_flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@ 2>$(@:.o=.ptxas); status=$$?; \
	  grep -vE '^ptxas info|bytes stack frame' $(@:.o=.ptxas) >&2; exit $$status # the report: tests/cuda/test_kernels.py
# With -z nodelete a host cannot unload the CUDA runtime.
gpu-module: $(CUDA_MODULE)
$(BUILD)/libhaloconv_cuda.so: $(CUDA_OBJS) $(MODULE_HELP) kernels/module/module.map
	$(call link,-shared -Wl$(comma)-Bsymbolic$(comma)-z$(comma)nodelete$(comma)--version-script=kernels/module/module.map \
	  $(CUDA_LIBS) -lm -pthread)
