# ---- the plugins -----------------------------------------------------------------------------------------------------
CLAP_FLAGS := $(if $(HAVE_CLAP),$(if $(call pkg_version,clap),$(shell $(PKG_CONFIG) --cflags clap),-isystem $(DPF)))
# -fms-extensions: travesty's structs contain others without a name.
VST3_FLAGS := $(if $(HAVE_VST3),-isystem $(DPF) -fms-extensions)
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
