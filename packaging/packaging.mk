# ---- the Python wheels -----------------------------------------------------------------------------------------------
# plugins/python/haloconv_build.py puts the shared libraries that library and program need into libs/ beside them.
# haloconv-adapters, a package of its own, has Python files only: one wheel for every machine.
OLD_HYPOT := $(BUILD)/plugins/python/old_hypot.o
$(WHEEL_LIBRARY) $(WHEEL_PROGRAM): private ALL_LDFLAGS += -Wl,-s,--disable-new-dtags,--wrap=hypot \
  '-Wl,-rpath,$$ORIGIN/libs'
$(WHEEL_LIBRARY): private ALL_LDFLAGS += $(OLD_HYPOT)
$(WHEEL_LIBRARY) $(WHEEL_PROGRAM): $(OLD_HYPOT)
# The program of a wheel has no live sessions: libjack must be that of the machine's server, and PortAudio needs it.
WHEEL_WITHOUT := JACK PIPEWIRE PORTAUDIO ALSA LO SAMPLERATE WEBSOCKETS CAIRO LV2 CLAP VST3
WHEEL_HOST := $(patsubst %.c,$(BUILD)/wheel/%.o,$(shell grep -rlE --include='*.c' \
                'HC_WITH_($(subst $(space),|,$(WHEEL_WITHOUT)))|HC_PARTS' host))
$(WHEEL_HOST): $(BUILD)/wheel/%.o: %.c $(BUILD)/flags
	$(call compile,$(WHEEL_WITHOUT:%=-UHC_WITH_%) -DHC_IN_WHEEL,for the wheel)
$(BUILD)/wheel/host/main/main.o: private ALL_CFLAGS += -DHC_PARTS=$(call names,$(filter-out $(WHEEL_WITHOUT),$(PARTS)))
$(WHEEL_PROGRAM): $(WHEEL_HOST) $(filter-out $(WHEEL_HOST:$(BUILD)/wheel/%=$(BUILD)/%),$(HOST_OBJS)) $(BUILD)/libhaloconv.a
	$(call link,$(WHEEL_HOST_LIBS) $(LIB_LIBS) -ldl)
WHEEL_HOST_LIBS = $(ARCHIVE_LIB) $(call pkg,--libs,$(if $(PROGRAM),sndfile jansson))
WHEEL_ARCHIVES = $(if $(WHEEL_PROGRAM),$(filter %.a,$(ARCHIVE_LIB))) $(if $(WHEEL_INSIDE),$(WHEEL_CUDART))
WHEEL_CUDART = $(if $(CUDA_MODULE),$(CUDA_HOME)/lib64/libcudart_static.a)
WHEEL_FOLDER ?= $(BUILD)/wheel
# WHEEL_MODULE=inside: the GPU module, if it is built, is in the wheel of the library (pip builds one wheel of a source).
WHEEL_INSIDE := $(and $(CUDA_MODULE),$(WHEEL_MODULE))
WHEEL_CUDA := $(CUDA_MODULE:$(BUILD)/%=$(BUILD)/wheel/%)
$(WHEEL_CUDA): $(CUDA_MODULE)
	@mkdir -p $(@D)
	$(Q)strip -o $@ $<
wheel_make = $(Q)CC='$(CC)' $(PYTHON) plugins/python/haloconv_build.py $(1) '$(WHEEL_FOLDER)'
WHEEL_LIBRARIES = $(if $(filter 0,$(WHEEL_LIBS)),system,copies)
wheel: $(WHEEL_LIBRARY) $(WHEEL_PROGRAM) $(WHEEL_CUDA) $(if $(WHEEL_PROGRAM),$(BUILD)/impulses/made)
	$(call say,WHL,$(WHEEL_FOLDER))
	$(call wheel_make,haloconv) $(WHEEL_LIBRARIES) $(WHEEL_LIBRARY) $(WHEEL_PROGRAM) $(if $(WHEEL_INSIDE),$(WHEEL_CUDA)) \
	  $(WHEEL_ARCHIVES) $(if $(WHEEL_PROGRAM),$(BUILD)/impulses)
	$(if $(WHEEL_MODULE),,$(call wheel_make,haloconv-adapters))
	$(if $(WHEEL_MODULE),,$(if $(WHEEL_CUDA),$(call wheel_make,haloconv-cuda) $(WHEEL_CUDA) $(WHEEL_CUDART),\
	  @echo 'haloconv-cuda is not made: it needs nvcc and, without a GPU, CUDA_ARCHS=all'))
# What pip asks before it builds: the licences are those of the libraries that the linker would take.
wheel-metadata:
	@mkdir -p $(BUILD)/wheel
	$(Q)$(CC) -shared -Wl,--no-as-needed $(WHEEL_HOST_LIBS) $(LIB_LIBS) -o $(BUILD)/wheel/needs.so
	$(call wheel_make,metadata) $(WHEEL_LIBRARIES) $(BUILD)/wheel/needs.so $(WHEEL_ARCHIVES)
cross-wheel:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/$(CROSS) CC=$(CROSS)-gcc WITH_CUDA=0 \
	  PKG_CONFIG='env PKG_CONFIG_LIBDIR=/usr/lib/$(CROSS)/pkgconfig pkg-config' wheel

# ---- the site --------------------------------------------------------------------------------------------------------
# SITE_PYTHON: a Python that has the packages of requirements.txt; else pip puts them below build/.
SITE_VENV := $(BUILD)/site-venv
SITE_PYTHON ?= $(SITE_VENV)/bin/python
$(SITE_VENV)/made: packaging/site/requirements.txt
	$(call say,PIP,$(SITE_VENV))
	$(Q)$(PYTHON) -m venv --clear $(SITE_VENV) && $(SITE_VENV)/bin/pip install -q -r $< && touch $@
run-site: all impulses $(if $(filter $(SITE_VENV)/%,$(SITE_PYTHON)),$(SITE_VENV)/made)
	$(call say,SITE,$(BUILD)/site)
	$(Q)BUILD=$(BUILD) $(SITE_PYTHON) -m mkdocs build -q -f packaging/site/mkdocs.yml -d $(abspath $(BUILD))/site

# ---- install ---------------------------------------------------------------------------------------------------------
PUBLIC_HEADERS := $(wildcard dsp/haloconv*.h)
SO := libhaloconv.so
SO_NAME := $(SO).1
TO = $(DESTDIR)$(PREFIX)
TO_LIB = $(DESTDIR)$(LIBDIR)
LV2_FOLDER ?= $(LIBDIR)/lv2
CLAP_FOLDER ?= $(LIBDIR)/clap
VST3_FOLDER ?= $(LIBDIR)/vst3
TO_COMPLETIONS = $(TO)/share/bash-completion/completions
METAINFO := org.freedesktop.LinuxAudio.Plugins.haloconv.metainfo.xml
INSTALL ?= install
STRIP ?= $(CROSS_PREFIX)strip
INSTALL_BINARY = $(INSTALL) -m 755 $(if $(STRIP),-s $(if $(filter-out strip,$(STRIP)),--strip-program=$(STRIP)))
# The folder below PREFIX where Python looks for modules; empty without Python: the module is not installed.
PYTHON_FOLDER ?= $(shell $(PYTHON) -c 'import sysconfig; print("$(PREFIX)/lib/python%s/%s" % \
                   (sysconfig.get_python_version(), sysconfig.get_path("purelib").rsplit("/", 1)[1]))' 2>/dev/null)
PYTHON_PACKAGES := haloconv haloconv_adapters haloconv_adapters/projects
# Folders of systemd's units: those of its pkg-config file, moved to PREFIX. unit WHOSE,OTHERS: one of the two units.
unit_folder = $(or $(shell $(PKG_CONFIG) --define-variable=prefix=$(PREFIX) --define-variable=root_prefix=$(PREFIX) \
                --define-variable=rootprefix=$(PREFIX) --variable=$(1) systemd 2>/dev/null),$(2))
USER_UNITS ?= $(call unit_folder,systemduserunitdir,$(PREFIX)/lib/systemd/user)
SYSTEM_UNITS ?= $(call unit_folder,systemdsystemunitdir,$(PREFIX)/lib/systemd/system)
unit = sed -e '/^@$(2)@/d' -e 's|^@$(1)@||' -e 's|@PREFIX@|$(PREFIX)|' host/haloconv@.service.in
MAN_SECTIONS := $(patsubst .%,%,$(sort $(suffix $(MAN_PAGES))))
# man_names COMMAND: for each further name that the NAME line of a page has, which becomes a link to the page
man_names = @for page in $(notdir $(MAN_PAGES)); do n=$${page\#\#*.}; folder=$(TO)/share/man/man$$n; \
  for name in $$(sed -n '/^.SH NAME/{n;s/ \\-.*//;s/\\//g;s/[^,]*,*//;s/,//g;p;}' $(BUILD)/$$page); do $(1); done; done
# The program looks for its parts in ../lib/haloconv, whatever LIBDIR is.
install: all impulses
	$(INSTALL) -d $(addprefix $(TO)/,bin include share/haloconv/impulses) $(TO_LIB)/pkgconfig
	$(if $(PROGRAM),$(INSTALL_BINARY) $(PROGRAM) $(TO)/bin/haloconv)
	$(if $(PANEL_PART),$(INSTALL) -d $(TO)/lib/haloconv && \
	  $(INSTALL_BINARY) $(PANEL_PART) $(TO)/lib/haloconv/)
	$(if $(CUDA_MODULE),$(INSTALL) -d $(TO_LIB)/haloconv && $(INSTALL_BINARY) $(CUDA_MODULE) $(TO_LIB)/haloconv/)
	$(INSTALL) -m 644 $(PUBLIC_HEADERS) $(TO)/include/
	$(INSTALL) -m 644 $(BUILD)/libhaloconv.a $(TO_LIB)/
	$(if $(STRIP),$(STRIP) -g $(TO_LIB)/libhaloconv.a)
	$(INSTALL_BINARY) $(BUILD)/$(SO) $(TO_LIB)/$(SO).$(VERSION)
	ln -sf $(SO).$(VERSION) $(TO_LIB)/$(SO_NAME)
	ln -sf $(SO_NAME) $(TO_LIB)/$(SO)
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' -e 's|@VERSION@|$(VERSION)|' \
	  -e 's|@LIBS@|$(strip $(LIB_LIBS))|' dsp/haloconv.pc.in >$(TO_LIB)/pkgconfig/haloconv.pc
	$(foreach n,$(MAN_SECTIONS),$(INSTALL) -d $(TO)/share/man/man$(n) && \
	  $(INSTALL) -m 644 $(filter %.$(n),$(MAN_PAGES)) $(TO)/share/man/man$(n)/ &&) true
	$(call man_names,ln -sf $$page $$folder/$$name.$$n)
	$(if $(COMPLETION),$(INSTALL) -d $(TO_COMPLETIONS) && $(INSTALL) -m 644 $(COMPLETION) $(TO_COMPLETIONS)/haloconv)
	$(if $(PYTHON_FOLDER),$(foreach folder,$(PYTHON_PACKAGES),$(INSTALL) -d $(DESTDIR)$(PYTHON_FOLDER)/$(folder) && \
	  $(INSTALL) -m 644 $(wildcard plugins/python/$(folder)/*.py plugins/python/$(folder)/py.typed) \
	  $(DESTDIR)$(PYTHON_FOLDER)/$(folder)/ &&) true)
	$(INSTALL) -m 644 $(BUILD)/impulses/*.wav impulses/README.md $(TO)/share/haloconv/impulses/
	$(INSTALL) -d $(TO)/share/haloconv/impulses/head
	$(INSTALL) -m 644 $(BUILD)/impulses/head/*.wav $(TO)/share/haloconv/impulses/head/
ifneq ($(PROGRAM),)
	$(INSTALL) -d $(DESTDIR)$(USER_UNITS) $(DESTDIR)$(SYSTEM_UNITS)
	$(call unit,user,system) >$(DESTDIR)$(USER_UNITS)/haloconv@.service
	$(call unit,system,user) >$(DESTDIR)$(SYSTEM_UNITS)/haloconv@.service
endif
ifneq ($(BUNDLE),)
	$(INSTALL) -d $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2 $(TO)/share/metainfo
	$(INSTALL) -m 644 plugins/haloconv.lv2/$(METAINFO) $(TO)/share/metainfo/
	$(INSTALL_BINARY) $(BUNDLE)/haloconv.so $(LV2_WINDOW) $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/
	$(INSTALL) -m 644 $(BUNDLE)/*.ttl $(BUNDLE)/*.wav $(BUNDLE)/*.txt $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/
	$(INSTALL) -d $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/head
	$(INSTALL) -m 644 $(BUNDLE)/head/*.wav $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2/head/
	$(if $(CLAP),$(INSTALL) -d $(DESTDIR)$(CLAP_FOLDER) && $(INSTALL_BINARY) $(CLAP) $(DESTDIR)$(CLAP_FOLDER)/)
	$(if $(VST3),$(INSTALL) -d $(DESTDIR)$(dir $(VST3:$(BUILD)/%=$(VST3_FOLDER)/%)) && \
	  $(INSTALL_BINARY) $(VST3) $(DESTDIR)$(VST3:$(BUILD)/%=$(VST3_FOLDER)/%) && \
	  $(INSTALL) -D -m 644 $(VST3_INFO) $(DESTDIR)$(VST3_INFO:$(BUILD)/%=$(VST3_FOLDER)/%))
	$(if $(VST3_MASKS),cd $(dir $(VST3_MASKS)) && find . -type f -exec $(INSTALL) -D -m 644 {} \
	  $(abspath $(DESTDIR)$(dir $(VST3_MASKS:$(BUILD)/%=$(VST3_FOLDER)/%)))/{} ';')
endif
uninstall:
	rm -f $(TO)/bin/haloconv $(PUBLIC_HEADERS:dsp/%=$(TO)/include/%)
	rm -f $(TO_LIB)/libhaloconv.a $(TO_LIB)/pkgconfig/haloconv.pc
	rm -f $(TO_LIB)/$(SO) $(TO_LIB)/$(SO_NAME) $(TO_LIB)/$(SO).$(VERSION)
	rm -f $(foreach n,$(MAN_SECTIONS),$(patsubst $(BUILD)/%,$(TO)/share/man/man$(n)/%,$(filter %.$(n),$(MAN_PAGES))))
	$(call man_names,rm -f $$folder/$$name.$$n)
	rm -f $(TO_COMPLETIONS)/haloconv $(TO)/share/metainfo/$(METAINFO)
	rm -f $(DESTDIR)$(USER_UNITS)/haloconv@.service $(DESTDIR)$(SYSTEM_UNITS)/haloconv@.service
	rm -f $(TO_LIB)/haloconv/libhaloconv_cuda.so
	rm -rf $(TO)/share/haloconv $(TO)/lib/haloconv $(DESTDIR)$(LV2_FOLDER)/haloconv.lv2
	rm -f $(DESTDIR)$(CLAP_FOLDER)/haloconv.clap
	rm -rf $(DESTDIR)$(VST3_FOLDER)/haloconv.vst3
	$(if $(PYTHON_FOLDER),rm -rf $(addprefix $(DESTDIR)$(PYTHON_FOLDER)/,$(PYTHON_PACKAGES)))

# ---- Debian packages -------------------------------------------------------------------------------------------------
# Of the last commit. DEB_BUILD_OPTIONS=nocheck: without `make check`. DEB_BUILD_PROFILES=pkg.haloconv.cuda: also
# libhaloconv-cuda, with nvcc. Packages that are not uploaded close no bug of Debian's, which lintian would like; the
# project's address is missing in the metainfo until there is one (packaging/RELEASE.md), and nothing else is; lintian of
# Debian 12 does not know Static-Built-Using.
DEB := $(BUILD)/deb
DEB_SOURCE := $(DEB)/haloconv-$(VERSION)
deb:
	@rm -rf $(DEB) && mkdir -p $(DEB)
	$(call say,TAR,$(DEB)/haloconv_$(VERSION).orig.tar.gz)
	$(Q)git archive --format=tar.gz --prefix=haloconv-$(VERSION)/ -o $(DEB)/haloconv_$(VERSION).orig.tar.gz HEAD
	$(Q)tar -C $(DEB) -xf $(DEB)/haloconv_$(VERSION).orig.tar.gz
	$(Q)cp -r $(DEB_SOURCE)/packaging/debian $(DEB_SOURCE)/debian
	$(Q)cd $(DEB_SOURCE) && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES dpkg-buildpackage -us -uc
	$(Q)lintian --allow-root --fail-on none --suppress-tags initial-upload-closes-no-bugs $(DEB)/*.changes | tee $(DEB)/lintian.txt
	@! grep '^[EW]:' $(DEB)/lintian.txt | grep -vE 'appstream-metadata-validation-failed|unknown-field Static-Built-Using'
	@! appstreamcli validate --no-net plugins/haloconv.lv2/*.metainfo.xml | grep '^[EW]:' | grep -v url-homepage-missing

# ---- a release -------------------------------------------------------------------------------------------------------
# Of the last commit, into build/release; packaging/RELEASE.md has the other steps. KINDS="deb wheel": only these are tried.
release:
	@packaging/release.sh build
release-test: all impulses
	@BUILD='$(BUILD)' packaging/release.sh test $(KINDS)

# ---- the library's ABI -----------------------------------------------------------------------------------------------
# tests/host/test_release.py compares the library with packaging/libhaloconv.abi by abidiff. `make abi` (abigail-tools) stores
# that description anew: after a release, so that calls which are new in it are held, too.
ABI_OPTIONS := --exported-interfaces-only --no-architecture --suppressions packaging/libhaloconv.abignore
abi: $(BUILD)/libhaloconv.so
	$(Q)rm -rf $(BUILD)/abi && mkdir -p $(BUILD)/abi && cp $(PUBLIC_HEADERS) $(BUILD)/abi/
	$(Q)abidw $(ABI_OPTIONS) --headers-dir $(BUILD)/abi --drop-private-types --no-comp-dir-path --no-corpus-path --no-elf-needed \
	  --no-parameter-names --short-locs --out-file packaging/libhaloconv.abi $<
