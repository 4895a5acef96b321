# ---- the window of the plugins ---------------------------------------------------------------------------------
# libhaloconv_window.a has the window and pugl, whose sources are those of
# Debian's package dpf-source (PUGL: another folder of them). A plugin is linked with it, then with libhaloconv.a and
# WINDOW_LIBS; nothing of it is visible outside of the plugin. pugl reads its events by window_next_event (window.c).
WINDOW_OBJS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard plugins/window/*.c))
PUGL_OBJS := $(patsubst %,$(BUILD)/pugl/%.o,common internal x11 x11_stub)
WINDOW_FLAGS := $(if $(WINDOW),-isystem $(PUGL)/include $(call pkg,--cflags,cairo x11) \
                  -DPUGL_API= -DPUGL_DISABLE_DEPRECATED)
WINDOW_LIBS := $(if $(WINDOW),$(call pkg,--libs,cairo x11) -lm -pthread)
$(WINDOW_OBJS): private ALL_CFLAGS += -fvisibility=hidden $(WINDOW_FLAGS)
$(PUGL_OBJS): $(BUILD)/pugl/%.o: $(PUGL)/src/%.c $(BUILD)/flags plugins/window/window.mk
	$(call compile,-w -fvisibility=hidden -DXNextEvent=window_next_event $(WINDOW_FLAGS))
$(BUILD)/libhaloconv_window.a: $(WINDOW_OBJS) $(PUGL_OBJS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^
