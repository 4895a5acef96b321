# ---- tests -----------------------------------------------------------------------------------------------------------
# tests/README.md. The sources are in folders by what they test; their names are unique, for the programs are in one
# folder.
vpath %.c $(wildcard tests/*/)
$(BUILD)/tests/%.o: %.c $(BUILD)/flags
	$(call compile,$(TEST_INCLUDES) -Wno-frame-larger-than)
# -O3 would take twice the time for files that mostly call the library; tests/tools, which compute, have it.
$(BUILD)/tests/%_test.o $(ON_CPU)/tests/%_test.o: private ALL_CFLAGS := $(ALL_CFLAGS:-O3=-O1)
# The sums in float64 that outputs are compared with: with a sanitizer they take ten times as long, without wide vectors
# three times.
REFERENCE_CFLAGS := $(filter-out -fsanitize=% -O1,$(ALL_CFLAGS)) -O3 $(if $(filter x86_64,$(MACHINE)),-march=native)
$(BUILD)/tests/reference.o $(ON_CPU)/tests/reference.o: private ALL_CFLAGS := $(REFERENCE_CFLAGS)
# A test is linked with the helpers of tests/ whose headers it includes, helpers of helpers too, and with the program's
# objects if it includes a header of host/. linked NAMES: these names, and those of their helpers; "host".
INCLUDED := $(shell grep -HoE '^.include "(host/|[a-z0-9_]+[.]h")' tests/*/*.[ch] | \
              sed -E 's|.*/([a-z0-9_]+)[.][ch]:.include "([a-z0-9_]+).*|\1:\2|')
INCLUDED += $(patsubst tests/live/%.c,live_driver:%,$(wildcard tests/live/live_driver_*.c))
linked_once = $(sort $(1) $(foreach n,$(1),$(patsubst $(n):%,%,$(filter $(n):%,$(INCLUDED)))))
linked = $(call linked_once,$(call linked_once,$(call linked_once,$(call linked_once,$(1)))))
TEST_SOURCES := $(wildcard tests/*/*.c)
HELPERS := $(filter-out $(if $(CLAP),,clap_host) $(if $(VST3),,vst3_host),$(filter $(notdir $(basename $(wildcard tests/*/*.h))) live_driver_%,$(notdir $(basename $(TEST_SOURCES)))))
TEST_NAMES := $(notdir $(basename $(filter %_test.c tests/fuzz/fuzz_%.c,$(TEST_SOURCES)))) \
              bank_dump measure lv2_instances jack_stage pipewire_stage take_stage bench_fft bench_plugins bench_offline bench_render
$(foreach t,$(TEST_NAMES),$(eval LINKED_$(t) := $(call linked,$(t))))
# those of TEST_NAMES that are linked with a helper, as programs
tests_with = $(foreach t,$(TEST_NAMES),$(if $(filter $(1),$(LINKED_$(t))),$(BUILD)/tests/$(t)))
WINDOW_TESTS := $(addprefix $(BUILD)/tests/,window_test clap_gui_test lv2_ui_test vst3_gui_test screenshots_test)
TEST_MISSING := $(if $(PROGRAM),,$(call tests_with,host)) $(if $(BUNDLE),,$(call tests_with,lv2_host) $(BUILD)/tests/plugin_core_test) $(if $(CLAP),,$(BUILD)/tests/clap_test) $(if $(VST3),,$(BUILD)/tests/vst3_test) \
                $(if $(HAVE_LO),,$(patsubst %,$(BUILD)/tests/%,osc_test fuzz_osc fuzz_nsm)) \
                $(if $(HAVE_ARCHIVE),,$(BUILD)/tests/fuzz_tar_input) \
                $(if $(and $(WINDOW),$(call pkg_version,xtst)),$(if $(CLAP),,$(BUILD)/tests/clap_gui_test) $(if $(VST3),,$(BUILD)/tests/vst3_gui_test) $(if $(BUNDLE),,$(BUILD)/tests/lv2_ui_test $(BUILD)/tests/screenshots_test),$(WINDOW_TESTS))
TEST_PROGRAMS := $(filter-out $(TEST_MISSING),$(patsubst %,$(BUILD)/tests/%,$(filter %_test,$(TEST_NAMES))))
# Readers of a stranger's bytes: each tests/fuzz/fuzz_NAME.c is linked with replay.c, which runs the files of
# tests/corpus/NAME through it, or with libFuzzer (make fuzz).
FUZZ_TARGETS := $(filter-out $(TEST_MISSING),$(patsubst %,$(BUILD)/tests/%,$(filter fuzz_%,$(TEST_NAMES))))
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
NEIGHBOUR := $(if $(PROGRAM),$(if $(SAN),,$(BUILD)/tests/libneighbour.so))
TEST_TOOLS := $(FAKE_MODULES) $(NEIGHBOUR) $(BUILD)/tests/measure $(BUILD)/tests/bank_dump $(if $(PROGRAM),$(addprefix $(BUILD)/tests/,bench_offline bench_render haloconv_faulty haloconv_faults haloconv_riff fork_server.so)) \
              $(if $(HAVE_JACK),$(addprefix $(BUILD)/tests/,jack_stage callback_trap.so take_stage no_sequencer.so)) \
              $(if $(HAVE_PIPEWIRE),$(addprefix $(BUILD)/tests/,pipewire_stage callback_trap.so))
run-test: all impulses $(TEST_PROGRAMS) $(FUZZ_TARGETS) $(TEST_TOOLS) \
          $(if $(SAN),,$(WHEEL_LIBRARY) $(WHEEL_PROGRAM) $(filter-out %/session_test,$(ON_CPU_TESTS)) $(ON_CPU_PROGRAM))
	@$(TEST_ENV) ON_CPU='$(if $(or $(SAN),$(if $(ON_CPU_TESTS),,none)),,$(ON_CPU))' \
	  tests/run $(TEST_PROGRAMS) $(FUZZ_TARGETS) tests/cuda/emulator/short $(if $(SAN),,tests/models/check) \
	    $(wildcard tests/*/test_*.py)
# For package builders: no test of the JACK servers, the models and the emulated GPU, and none of the wheel.
check: all impulses $(TEST_PROGRAMS) $(FUZZ_TARGETS) $(TEST_TOOLS)
	@$(TEST_ENV) HC_TEST_BACKEND=cpu tests/run $(TEST_PROGRAMS) $(FUZZ_TARGETS) \
	  $(foreach f,masks banks host,$(wildcard tests/$(f)/test_*.py))
# In roots of SUITES (bookworm trixie), as root with debootstrap.
fresh-test:
	@tests/tools/fresh.sh
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
	      $(if $(ON_CPU_PROGRAM),$(patsubst %,tests/host/test_%.py,batch batch_columns plain_files)) && \
	  $(TEST_ENV) CUDA_ON_CPU_SEED=$$seed HC_TEST_BACKEND=cuda:resident HC_TEST_TIMEOUT=7200 \
	    ASAN_OPTIONS=detect_stack_use_after_return=0 \
	    tests/run $(patsubst %,$(ON_CPU)/%_test,api convolution swap tail_levels) \
	    || exit 1; done # detect_stack_use_after_return makes fibers 100 times slower
run-gpu-test: all impulses $(TEST_PROGRAMS) $(TEST_TOOLS) $(WHEEL_LIBRARY) $(WHEEL_PROGRAM)
	@$(TEST_ENV) HC_TEST_BACKEND=cuda tests/run $(TEST_PROGRAMS) $(wildcard tests/*/test_*.py)
	@$(TEST_ENV) HC_TEST_BACKEND=hybrid tests/run \
	  $(patsubst %,$(BUILD)/tests/%_test,convolution tail_levels refusals soak steer swap)
	@$(TEST_ENV) HC_TEST_BACKEND=cuda:launched tests/run \
	  $(patsubst %,$(BUILD)/tests/%_test,convolution tail_levels soak swap)
# Compiles and links every kernel (for the GPUs of CUDA_ARCHS), and tests what can be tested without a GPU: registers,
# sizes, and the refusals of a build with CUDA.
run-kernel-test: $(if $(HAVE_CUDA),all $(BUILD)/haloconv-ladder $(addprefix $(BUILD)/tests/,refusals_test ladder_test))
	$(if $(HAVE_CUDA),,$(error kernel-test needs nvcc and CUDA_ARCHS; with no GPU here: make kernel-test CUDA_ARCHS=all))
	@$(TEST_ENV) tests/run $(BUILD)/tests/refusals_test $(BUILD)/tests/ladder_test $(wildcard tests/cuda/test_*.py) \
	  tests/host/test_program.py::test_devices
# ThreadSanitizer over storms of changes, and files. It has a build folder of its own.
RACING := a_storm_leaves_the_core_whole core_gpu_back jack_swap_during_a_longer_mask portaudio_other_block clap_swap_during_a_longer_mask vst3_swap_during_a_longer_mask
RACES := session_test:a_storm_of_changes_leaves_the_audio_whole swap_test:swap_storm_keeps_the_audio_whole \
         parallel_copy_test:blocks_arrive_whole tail_levels_cost_test:threads_catch_up_to_the_same_frames \
         wakeup_test:blocks_at_any_time_are_played_whole freewheel_test:two_bounces_are_the_same \
         live_steer_test:a_storm_of_moves_and_changes_leaves_the_last \
         hybrid_test:a_swap_waits_for_a_late_device api_test:info_during_mask_make \
         steer_test:a_storm_of_steering_keeps_the_audio_whole \
         hybrid_scene_test:a_bank_lives_until_a_late_device_is_done_with_it \
         $(if $(BUNDLE),plugin_promises_test:lv2_masks_come_while_blocks_play$(comma)clap_masks_come_while_blocks_play$(comma)vst3_masks_come_while_blocks_play) \
         $(if $(VST3),vst3_test:the_window_works_while_blocks_play) \
         $(if $(and $(shell command -v Xvfb),$(filter %/vst3_gui_test,$(TEST_PROGRAMS))),vst3_gui_test:presets_and_values_are_set_while_blocks_play) \
         $(if $(and $(BUNDLE),$(PROGRAM)),live_scenarios_test:$(subst $(space),$(comma),$(RACING)))
run-race-test:
	@$(MAKE) --no-print-directory QUIET=1 SAN=thread WITH_CUDA=0 BUILD=$(BUILD)/races race-storms
race-storms: $(foreach r,$(RACES),$(BUILD)/tests/$(firstword $(subst :, ,$(r)))) $(PROGRAM) $(BUILD)/tests/measure \
             $(filter %/resident_test,$(ON_CPU_TESTS))
	@$(foreach r,$(RACES),HC_TEST_NAME=$(lastword $(subst :, ,$(r))) HC_TEST_BACKEND=cpu \
	  HALOCONV_COSTS=builtin $(BUILD)/tests/$(firstword $(subst :, ,$(r))) &&) true
	@$(if $(ON_CPU_TESTS),HC_TEST_BACKEND=cuda HALOCONV_COSTS=builtin $(ON_CPU)/resident_test)
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
# The node of PipeWire: its daemon killed 20 times, and a minute of the callback under the trap.
run-pipewire-test: all $(TEST_TOOLS)
	@$(TEST_ENV) HC_PIPEWIRE_DEATHS=20 HC_TRAP_SECONDS=60 tests/run tests/live/test_pipewire.py tests/live/test_desktop.py
# The tests of the projects that haloconv.patch() knows, without and with it; those that PYTHON has. ADAPTER_SOURCES: a folder
# with their sources, which are cloned otherwise.
adapter-test: all
	@$(TEST_ENV) $(PYTHON) tests/plugins/upstream.py $(if $(ADAPTER_SOURCES),--sources '$(ADAPTER_SOURCES)')
# Which lines of dsp/ and host/ the tests run, with gcc's counters; a build folder of its own.
run-coverage:
	-@$(MAKE) --no-print-directory QUIET=1 WITH_CUDA=0 BUILD=$(BUILD)/coverage OPT='-O1 -g' \
	  CFLAGS=--coverage LDFLAGS=--coverage run-test
	@$(PYTHON) tests/tools/coverage.py $(BUILD)/coverage
# Pictures of the plugins' window and of the panel's page, in docs/pictures/ and in screenshots/ of the build; the colours that
# tests compare with are stored anew. Look at the pictures before a commit.
run-pictures: all $(BUILD)/tests/screenshots_test $(TEST_TOOLS)
	@mkdir -p docs/pictures
	@HC_TEST_PICTURES=new $(TEST_ENV) tests/run $(BUILD)/tests/screenshots_test \
	  tests/live/test_panel_page.py::test_the_picture_of_the_page_in_docs_is_what_the_page_draws \
	  tests/live/test_panel_page.py::test_mean_colours_of_pictures_are_those_that_are_stored
	@ls -l docs/pictures/*.png $(BUILD)/screenshots/*.png
# The panel's page in a browser: each control, and ten pages for PANEL_SECONDS beside the trap of the callback.
PANEL_SECONDS ?= 20
run-panel-test: all $(TEST_TOOLS)
	@$(TEST_ENV) HC_PANEL_SECONDS=$(PANEL_SECONDS) tests/run tests/live/test_panel_page.py
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
	@$(if $(PROGRAM),$(TEST_ENV) HC_TEST_LONG=1 tests/run tests/host/test_convolve.py::test_more_than_4_gib_becomes_rf64 \
	  $(if $(PANEL_PART),$(if $(HAVE_JACK),tests/live/test_panel.py::test_a_flood_takes_a_tenth_of_a_core_and_no_message_is_lost)))
# The findings of tests/tools/lint beyond its base line, which holds for a build without CUDA. clang, if it is here, must
# build the library and the program, and one test must run with them.
LINT_FILES := $(wildcard dsp/*.c dsp/*/*.c $(if $(PROGRAM),impulses/*.c host/*.c host/*/*.c host/live/*/*.c) \
                $(if $(PANEL_PART),host/*/lws/*.c) \
                $(if $(BUNDLE),$(filter-out $(if $(CLAP),,plugins/haloconv.clap/%) $(if $(VST3),,plugins/haloconv.vst3/%) $(if $(WINDOW),,plugins/window/% %_window.c %/ui.c %/clap_gui.c %/vst3_view.c),$(wildcard plugins/*/*.c))))
LINT_FLAGS = $(filter-out -MMD -MP -Werror,$(ALL_CFLAGS)) -DISA=base -DSUB=4 -DMODULE_VERSION=\"$(MODULE_VERSION)\" -DLIBDIR=\"\" \
             $(CLAP_FLAGS) $(VST3_FLAGS) $(if $(WINDOW),-DHC_WITH_WINDOW) -DHC_PLUGIN_MASKS -DHC_MASKS_TAR=\"LICENSE\" -DHC_MASKS_ID=\"0\" $(WINDOW_FLAGS)
CLANG_TEST := $(if $(shell command -v clang),$(BUILD)/clang/tests/swap_test)
run-lint:
	@$(if $(CLANG_TEST),$(MAKE) --no-print-directory QUIET=1 CC=clang OPT=-O1 WERROR=1 WITH_CUDA=0 BUILD=$(BUILD)/clang \
	  all $(CLANG_TEST) || rm -f $(CLANG_TEST)) # no program: a failure
	@BUILD='$(BUILD)' LINT_FILES='$(LINT_FILES)' LINT_FLAGS='$(LINT_FLAGS)' HC_TEST_BACKEND=cpu \
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
# Live blocks beside other work of the GPU, with a Python that has torch: PYTHON=...
run-bench-neighbour: all $(NEIGHBOUR)
	@$(RECORD) 'Beside a training job' $(PYTHON) tests/bench/bench_neighbour.py $(NEIGHBOUR_OPTIONS)

# The transform beside FFTW, pffft and MKL, with AVX2 and with the best instructions; bench_fft.c says where peers come from.
run-bench-fft: $(BUILD)/tests/bench_fft
	@HALOCONV_SIMD=avx2 $< >&2
	@$(RECORD) 'Transforms' $<

# zita-convolver has a C++ interface.
run-bench-zita: $(BUILD)/libhaloconv.a
	$(Q)mkdir -p $(BUILD)/tests
	$(Q)$(CXX) -std=c++17 -O2 -Wall -Wextra -pthread -Idsp $(CPPFLAGS) $(CXXFLAGS) $(ALL_LDFLAGS) tests/bench/bench_zita.cpp \
	  $(BUILD)/libhaloconv.a -lzita-convolver $(LIB_LIBS) -o $(BUILD)/tests/bench_zita
	@$(RECORD) 'Live, beside zita-convolver' $(BUILD)/tests/bench_zita
# The plot of docs/method.md: a minute of blocks of a 16 x 16 matrix.
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
# The same mask in our LV2, CLAP and VST3 plugins, after bench-lv2: BENCH_SECONDS=3 takes less than three minutes.
run-bench-plugins: run-bench-lv2
	@$(MAKE) --no-print-directory QUIET=1 $(BUILD)/tests/bench_plugins
	@$(RECORD) 'One mask in LV2, CLAP and VST3' $(BUILD)/tests/bench_plugins $(BUILD)/bench-lv2/mask.wav \
	  $(or $(BENCH_SECONDS),10) 1,64 1,256 50,256
$(BUILD)/tests/bench_lv2: tests/bench/bench_lv2.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(call pkg,--cflags,lilv-0) $< $(call pkg,--libs,lilv-0) -lm -o $@

# ---- how tests are linked --------------------------------------------------------------------------------------------
# link_test LIBRARIES,COMPILER: objects come before archives, so that a test's own functions replace those of archives.
# The constructor of fault_calls.o must run last. With a sanitizer a test links every library: libgomp (of soxr) would leak
# where a plugin is unloaded. A stand-in for JACK or PortAudio has all calls that are made; that for PipeWire lacks streams.
define link_test
$(call say,LD,$@)
$(Q)$(or $(2),$(CC)) $(ALL_LDFLAGS) $(if $(filter %/lv2_host.o %/clap_host.o %/vst3_host.o,$^),-rdynamic) $(filter-out %/fault_calls.o,$(filter %.o,$^)) \
  $(filter %/libhost.a,$^) $(filter %/libhaloconv.a,$^) $(filter %/fault_calls.o,$^) $(1) $(if $(SAN),,-Wl$(comma)--as-needed) \
  $(if $(filter %/libhost.a,$^),$(if $(filter %/fake_jack.o,$^),$(FAKED_LIBS),$(HOST_LIBS))) $(LIB_LIBS) -o $@
endef
FAKED_LIBS := $(ARCHIVE_LIB) $(call pkg,--libs,$(filter-out portaudio-2.0 jack,$(HOST_PKGS)) $(if $(HAVE_PIPEWIRE),libpipewire-0.3))
# link_with FOLDER,NAME: the objects of a test beside its own
link_with = $(patsubst %,$(1)/%.o,$(filter $(HELPERS),$(LINKED_$(2)))) \
            $(if $(filter host,$(LINKED_$(2))),$(BUILD)/libhost.a)
$(foreach t,$(TEST_NAMES),$(eval $(BUILD)/tests/$(t): $(call link_with,$(BUILD)/tests,$(t))))
$(patsubst %,$(BUILD)/tests/%,$(filter-out bare_test,$(TEST_NAMES))): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libhaloconv.a
	$(call link_test,$(TEST_LIBS))
$(foreach t,$(ON_CPU_NAMES:%=%_test),$(eval $(ON_CPU)/$(t): $(call link_with,$(ON_CPU)/tests,$(t))))
$(FUZZ_TARGETS): $(if $(findstring fuzzer,$(SAN)),,$(BUILD)/tests/replay.o)
# The files of the corpus are small: here sound_in reads plain files of any size by the places of their frames.
FUZZ_SOUND_IN := $(BUILD)/tests/placed/sound_in.o
$(FUZZ_SOUND_IN): host/files/sound_in.c $(BUILD)/flags
	$(call compile,-DMIN_READ_AT=1,for small files)
$(filter $(FUZZ_TARGETS),$(call tests_with,host)): $(FUZZ_SOUND_IN)
$(FUZZ_TARGETS): TEST_LIBS = $(FUZZ_WRAP:%=-Wl$(comma)--wrap=%)
# The program's objects without main: a test gets those that it needs.
$(BUILD)/libhost.a: $(filter-out %/main.o,$(HOST_OBJS))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/tests/fuzz_manifest: FUZZ_WRAP = glob
$(BUILD)/tests/fuzz_uri: $(BUILD)/plugins/window/uri.o
$(BUILD)/tests/fuzz_osc: FUZZ_WRAP = hc_live_request
$(BUILD)/tests/fuzz_panel: FUZZ_WRAP = hc_live_request panel_send panel_set_hello panel_set_session
$(BUILD)/tests/fuzz_nsm: FUZZ_WRAP = osc_open_to
$(BUILD)/tests/fuzz_preset: FUZZ_WRAP = message_usage message_error
$(BUILD)/tests/fuzz_plugin_state $(BUILD)/tests/plugin_core_test: $(CORE_OBJS)
$(BUILD)/tests/plugin_core_test: TEST_LIBS = $(addprefix -Wl$(comma)--wrap=,hc_live_load hc_live_process_changes powf)
$(BUILD)/tests/ladder_test: $(if $(HAVE_CUDA),$(call ladder_objs,$(BUILD),$(RUNGS)))
$(BUILD)/tests/transform_test: $(CUDA_OBJS)
$(patsubst %,$(BUILD)/tests/%_test,ladder transform tensors): TEST_LIBS = $(CUDA_LIBS)
# A device that fails; it replaces "cuda" in every program that is linked with it.
FAULTY := $(BUILD)/tests/faulty_device.o
$(BUILD)/tests/plugin_core_test: $(FAULTY)
# The bundle with that device. With -Bsymbolic it calls its own engine, not the engine of the test that loads it.
$(BUILD)/tests/faulty.lv2/haloconv.so: $(PLUGIN_OBJS) $(FAULTY) $(BUILD)/libhaloconv.a \
                                       $(BUILD)/haloconv.lv2/manifest.ttl
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-Bsymbolic,--exclude-libs,ALL $(ALL_LDFLAGS) $(filter %.o %.a,$^) $(LIB_LIBS) -o $@
	$(Q)cp -r $(BUILD)/haloconv.lv2/*.wav $(BUILD)/haloconv.lv2/*.txt $(BUILD)/haloconv.lv2/head $(@D)/
	$(if $(HAVE_CUDA),$(Q)ln -sf ../../libhaloconv_cuda.so $(@D)/)
# The player of the bench: its copy of the library serves it alone.
$(NEIGHBOUR): $(BUILD)/tests/neighbour_player.o $(BUILD)/libhost.a $(BUILD)/libhaloconv.a
	$(call link,-shared -Wl$(comma)-Bsymbolic$(comma)--exclude-libs$(comma)ALL$(comma)--as-needed $(HOST_LIBS) $(LIB_LIBS))
# They have the tables of the plugins, and load the bundle and this one. With -rdynamic its calls reach the functions of trap.c.
$(call tests_with,lv2_host): $(BUILD)/plugins/core/controls.o | $(BUILD)/tests/faulty.lv2/haloconv.so
# The CLAP and the VST3 plugin, and with that device.
WITH_FAULTY := $(CORE_OBJS) $(FAULTY) $(WINDOW) $(BUILD)/libhaloconv.a | $(BUILD)/tests/faulty.lv2/haloconv.so
$(BUILD)/tests/faulty.clap: $(CLAP_OBJS) $(WITH_FAULTY)
$(BUILD)/tests/faulty.vst3: $(VST3_OBJS) $(WITH_FAULTY)
$(BUILD)/tests/faulty.clap $(BUILD)/tests/faulty.vst3:
	$(call link,-shared -Wl$(comma)-Bsymbolic$(comma)--exclude-libs$(comma)ALL $(LIB_LIBS) $(WINDOW_LIBS))
$(call tests_with,clap_host): $(BUILD)/plugins/core/controls.o | $(if $(CLAP),$(BUILD)/tests/faulty.clap $(CLAP))
$(patsubst %,$(BUILD)/tests/%.o,clap_host clap_test clap_gui_test): private ALL_CFLAGS += $(CLAP_FLAGS)
$(call tests_with,vst3_host): $(BUILD)/plugins/core/controls.o | $(if $(VST3),$(BUILD)/tests/faulty.vst3 $(VST3) $(VST3_INFO))
$(patsubst %,$(BUILD)/tests/%.o,vst3_host vst3_test vst3_gui_test plugin_driver live_driver_plugins): private ALL_CFLAGS += $(VST3_FLAGS) $(CLAP_FLAGS)
$(patsubst %,$(BUILD)/tests/%_test.o,ladder transform tensors): private ALL_CFLAGS += $(if $(HAVE_CUDA),-isystem $(CUDA_HOME)/include)
# freewheel_test is linked with engine threads that wake up late.
LATE := $(patsubst %,$(BUILD)/tests/late/%.o,base/realtime_pool device/device_queue)
$(LATE): $(BUILD)/tests/late/%.o: dsp/%.c $(BUILD)/flags
	$(call compile,-Dsem_wait=late_sem_wait -Dsem_post=late_sem_post,for threads that wake up late)
$(BUILD)/tests/freewheel_test: $(LATE)
# bare_test is linked with a library that has no optional part, and with no other library.
BARE := $(patsubst dsp/%.c,%.o,$(shell grep -rlE --include='*.c' 'HC_WITH_|HC_HDF5' dsp))
$(BARE:%=$(BUILD)/tests/bare/%): $(BUILD)/tests/bare/%.o: dsp/%.c $(BUILD)/flags
	$(call compile,-UHC_HDF5_SONAME $(patsubst -D%,-U%,$(filter-out %=$(HDF5_SONAME),$(FEATURES))),without optional libraries)
$(BUILD)/tests/bare_test: $(BUILD)/tests/bare_test.o $(BARE:%=$(BUILD)/tests/bare/%) \
                          $(filter-out $(BARE:%=$(BUILD)/dsp/%),$(DSP_OBJS))
	$(call link,-lm -pthread)
# Time is virtual in this test, and so is the engine.
$(BUILD)/tests/capacity_test: TEST_LIBS = $(addprefix -Wl$(comma)--wrap=,clock_gettime clock_nanosleep getrusage \
                                sched_setscheduler hc_open hc_close hc_plan hc_get_info hc_mask_make_noise \
                                hc_mask_swap hc_process)
$(BUILD)/tests/two_copies_test: $(BUILD)/libhaloconv.so
$(WINDOW_TESTS:%=%.o) $(patsubst %,$(BUILD)/tests/%.o,x_server gui_frame): private ALL_CFLAGS += $(WINDOW_FLAGS)
$(WINDOW_TESTS): $(WINDOW)
$(filter-out %/window_test,$(WINDOW_TESTS)): $(CORE_OBJS)
$(BUILD)/tests/screenshots_test: | $(BUILD)/haloconv.lv2/manifest.ttl
$(BUILD)/tests/lv2_ui_test: $(BUILD)/plugins/haloconv.lv2/messages.o | $(LV2_WINDOW)
$(WINDOW_TESTS): TEST_LIBS = $(WINDOW) $(BUILD)/libhaloconv.a $(WINDOW_LIBS) $(call pkg,--libs,xtst fontconfig)
$(BUILD)/tests/no_memory_test: TEST_LIBS = $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc \
                                             posix_memalign fft_get)
# For this program a RIFF file ends after 1 MB.
RIFF_SOUND_OUT := $(BUILD)/tests/riff/sound_out.o
$(RIFF_SOUND_OUT): host/files/sound_out.c $(BUILD)/flags
	$(call compile,-DRIFF_BYTES=1e6,for short RIFF files)
# Calls to these functions fail on demand: tests/tools/fault_calls.h.
FAULTY_CALLS := malloc calloc realloc aligned_alloc posix_memalign strdup strndup realpath newlocale mmap tsearch glob \
                asprintf pthread_create access stat lstat fstat dup fallocate fdatasync flock fsync ftruncate linkat \
                madvise mkdir mkostemp mkostemps pipe2 readlink rename unlink fopen fdopen close fclose open openat \
                fcntl pread pwrite tee fflush fgets fputs fread fwrite getc __uflow putc putchar puts printf fprintf
FAULTS := $(FAULTY_CALLS:%=-Wl,--wrap=%)
# These programs are haloconv with a device that fails, short RIFF files, calls that fail.
$(patsubst %,$(BUILD)/tests/haloconv_%,faulty riff faults): $(filter %/main.o,$(HOST_OBJS)) $(BUILD)/libhost.a $(BUILD)/libhaloconv.a
	$(call link_test,$(TEST_LIBS))
$(BUILD)/tests/haloconv_faulty: $(FAULTY)
$(BUILD)/tests/haloconv_riff: $(RIFF_SOUND_OUT)
$(BUILD)/tests/haloconv_faults: $(BUILD)/tests/fault_calls.o
# The allocations of a static libarchive would fail, too, and it ends the program then.
$(BUILD)/tests/haloconv_faults: private HOST_LIBS := $(patsubst %/libarchive.a,-larchive,$(HOST_LIBS))
$(patsubst %,$(BUILD)/tests/%,haloconv_faults faults_test): TEST_LIBS = $(FAULTS)
$(BUILD)/tests/callback_trap.so: $(BUILD)/tests/callback_trap.o $(BUILD)/tests/trap.o
	$(call link,-shared -ldl -pthread)
$(patsubst %,$(BUILD)/tests/%.so,no_sequencer fork_server): %.so: %.o
	$(call link,-shared)
$(BUILD)/tests/jack_stage: TEST_LIBS = $(call pkg,--libs,jack)
