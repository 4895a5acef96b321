# ---- the library -----------------------------------------------------------------------------------------------------
# The inner loops are built once for each instruction set; dsp/base/isa.c chooses one when the program starts.
SIMD_FILES := base/samples cpu/simd fft/fft_long fft/fft_products
ISAS := base $(if $(filter x86_64,$(MACHINE)),v3 v4)
SIMD_FLAGS_base := -ffp-contract=fast
SIMD_FLAGS_v3 := -ffp-contract=fast -march=x86-64-v3
SIMD_FLAGS_v4 := -ffp-contract=fast -march=x86-64-v4 -mprefer-vector-width=512
# Short transforms: instruction set, lanes of a vector, points of a channel in them (dsp/fft/fft_short.c).
SHORT_FFTS := base_4_4 $(if $(filter v4,$(ISAS)),v3_4_4 v3_8_8 v3_8_4 v4_4_4 v4_8_8 v4_16_8 v4_16_4)
SIMD_OBJS := $(foreach l,$(ISAS),$(SIMD_FILES:%=$(BUILD)/dsp/%_$(l).o)) $(SHORT_FFTS:%=$(BUILD)/dsp/fft/fft_short_%.o)
DSP_FILES := $(filter-out dsp/examples/% $(SIMD_FILES:%=dsp/%.c) dsp/fft/fft_short.c,$(wildcard dsp/*.c dsp/*/*.c))
DSP_OBJS := $(DSP_FILES:%.c=$(BUILD)/%.o) $(SIMD_OBJS)

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
$(BUILD)/libhaloconv.a: $(DSP_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/libhaloconv.so $(WHEEL_LIBRARY): $(DSP_OBJS) dsp/haloconv.map
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libhaloconv.so.1 -Wl,--version-script=dsp/haloconv.map $(ALL_LDFLAGS) \
	  $(DSP_OBJS) $(LIB_LIBS) -o $@
$(BUILD)/libhaloconv.so.1: $(BUILD)/libhaloconv.so
	$(Q)ln -sf $(<F) $@
