# ---- impulses and the demo -------------------------------------------------------------------------------------------
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
