# ---- CUDA on the CPU: the backend and its kernels compiled by g++, for tests -----------------------------------------
ON_CPU := $(BUILD)/cuda_on_cpu
ON_CPU_NAMES := api convolution swap steer steer_shapes render tail_levels files pcm refusals ladder costs transform tensors \
                resident $(if $(PROGRAM),session)
# Without a C++ compiler or Python these tests are left out.
ON_CPU_NEEDS := $(and $(shell command -v $(CXX) 2>/dev/null),$(shell command -v $(PYTHON) 2>/dev/null))
ON_CPU_TESTS := $(if $(ON_CPU_NEEDS),$(ON_CPU_NAMES:%=$(ON_CPU)/%_test))
# The program on the emulated device, for tests/host/test_batch*.py.
ON_CPU_PROGRAM := $(if $(and $(ON_CPU_TESTS),$(PROGRAM)),$(ON_CPU)/haloconv)
ON_CPU_KERNELS := $(KERNELS:kernels/%.cu=%)
ON_CPU_HEADERS := $(patsubst kernels/%,$(ON_CPU)/kernels/%,$(filter-out %/async_copy.cuh %/team_barrier.cuh %/words.cuh,$(wildcard kernels/*/*.cuh)))
ON_CPU_CXXFLAGS = -std=c++17 -O2 -g1 -fPIC $(if $(filter x86_64,$(MACHINE)),-march=native) -ffp-contract=fast \
                   -fno-math-errno -fno-strict-aliasing -pthread -Wall -Wextra -Wshadow -MMD -MP \
                   $(addprefix -I$(ON_CPU)/kernels/,backend fft files tensors module ladder resident) -Itests/cuda/emulator \
                   $(addprefix -Ikernels/,backend fft files tensors module ladder resident) -Idsp -I. $(CPPFLAGS) $(CXXFLAGS) \
                   $(if $(ON_CPU_SAN),-fsanitize=$(ON_CPU_SAN) -fno-sanitize-recover=all)
# ThreadSanitizer cannot follow the fibers: it checks the library, and the host's side of the resident kernel.
ON_CPU_SAN = $(filter-out thread,$(SAN))
$(patsubst %,$(ON_CPU)/kernels/resident/resident_%.o,head service): ON_CPU_SAN = $(SAN)
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
$(ON_CPU)/kernels/tensors/%.o: ON_CPU_CXXFLAGS += -DLONG_ROW=7 -DFUSED_UP_TO=9 -DGRADIENTS_FROM=7 -DBANK_UP_TO=131072 -O0
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
$(ON_CPU_TESTS): $(ON_CPU)/%: $(ON_CPU)/tests/%.o $(BUILD)/libhaloconv.a | $(ON_CPU_MODULE)
	$(call link_test,$(TEST_LIBS),$(CXX))
# These tests call the kernels, and those call the device.
$(ON_CPU)/transform_test: $(ON_CPU_OBJS)
# An absolute path: a set-user-ID copy of costs_test ignores $$ORIGIN.
$(patsubst %,$(ON_CPU)/%_test,costs tensors): TEST_LIBS = $(ON_CPU_MODULE) '-Wl,-rpath,$(abspath $(ON_CPU))'
$(ON_CPU)/haloconv: $(BUILD)/haloconv $(BUILD)/libhaloconv.so.1 | $(ON_CPU_MODULE)
	$(Q)cp -L $^ $(@D)
.SECONDARY: $(ON_CPU_HEADERS) $(ON_CPU_KERNELS:%=$(ON_CPU)/kernels/%.cu)
