# ---- the program -----------------------------------------------------------------------------------------------------
HOST_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard host/*.c host/*/*.c host/live/*/*.c)) $(BUILD)/host/panel/panel_pages.o
$(BUILD)/host/main/main.o: private ALL_CFLAGS += -DHC_PARTS=$(call names,$(PARTS))
$(DSP_OBJS) $(filter $(BUILD)/host/files/%,$(HOST_OBJS)): private ALL_CFLAGS += $(SPEED)
PROGRAM := $(if $(and $(HAVE_SNDFILE),$(HAVE_JANSSON)),$(BUILD)/haloconv)
MAN_PAGES := $(if $(PROGRAM),$(patsubst host/man/%.in,$(BUILD)/%,$(wildcard host/man/*.in)))
COMPLETION := $(if $(PROGRAM),$(BUILD)/haloconv.bash)
PANEL_PART := $(if $(and $(PROGRAM),$(HAVE_WEBSOCKETS)),$(BUILD)/haloconv_panel.so)

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
$(MAN_PAGES) $(COMPLETION): $(WRITER) host/man/expand.sh
	$(call say,$(if $(filter %.bash,$@),BASH,MAN),$@)
	$(Q)host/man/expand.sh $(VERSION) $(WRITER) <$(filter %.in,$^) >$@
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
$(BUILD)/host/panel/panel_pages.c: $(PANEL_PAGES) host/panel/pages.sh
	@mkdir -p $(@D)
	$(call say,PAGE,$@)
	$(Q)host/panel/pages.sh $(PANEL_PAGES) >$@
$(BUILD)/host/panel/panel_pages.o: $(BUILD)/host/panel/panel_pages.c $(BUILD)/flags
	$(call compile)
