# ---- the optional parts: a line for each -----------------------------------------------------------------------------
# part NAME,PACKAGES,LINKED BY,WHAT IT IS,WITHOUT IT
#
#   NAME         WITH_NAME=1: a miss is an error; 0: do without. HAVE_NAME is the version of its first package, HC_WITH_NAME
#                the macro of the sources, and "name" the word of haloconv --version
#   LINKED BY    library, program or both; nothing: another way, which stands where it is used
#   WHAT IT IS   in the report, before the version; WITHOUT IT: what the build cannot do
pkg_version = $(shell $(PKG_CONFIG) --modversion $(1) 2>/dev/null)
define newline


endef
define part
$(call part_found,$(1),$$(firstword $$(call pkg_version,$(2))),pkg-config finds no $(2); make setup-build and setup-test install packages,$(4),$(5))
LIB_PKGS += $(if $(filter library,$(3)),$$(if $$(HAVE_$(1)),$(firstword $(2))))
HOST_PKGS += $(if $(filter program,$(3)),$$(if $$(HAVE_$(1)),$(firstword $(2))))
endef
# part_found NAME,VERSION,WHY NOT,WHAT IT IS,WITHOUT IT: a part that is found in another way
define part_found
HAVE_$(1) := $$(if $$(filter 0,$$(WITH_$(1))),,$(2))
ifeq ($$(WITH_$(1))$$(HAVE_$(1)),1)
$$(error WITH_$(1)=1, but $(3))
endif
PARTS += $(1)
REPORT_$(1) = $$(newline)  $(4) $$(or $$(HAVE_$(1)),no$(if $(5), ($(5))))
endef
# Debian names the package of the serial build hdf5-serial.
HDF5_PKG := $(if $(call pkg_version,hdf5-serial),hdf5-serial,hdf5)
$(eval $(call part,SNDFILE,sndfile,library program,libsndfile ,no sound files and no program))
$(eval $(call part,SOXR,soxr,library,resampler   soxr,masks must have the rate of the input))
$(eval $(call part,YAML,yaml-0.1,library,YAML        libyaml,no configurations of CamillaDSP))
$(eval $(call part,MYSOFA,libmysofa,library,SOFA        libmysofa,no banks in SOFA files))
$(eval $(call part,HDF5,$(HDF5_PKG),,SOFA        HDF5,only the SOFA files that libmysofa reads))
$(eval $(call part,SAMPLERATE,samplerate,program,two clocks  libsamplerate,live: input and output on one device))
$(eval $(call part,JANSSON,jansson,program,JSON        jansson,no program))
$(eval $(call part,ARCHIVE,libarchive zlib,,tar files   libarchive,batches read no tar files))
$(eval $(call part,CAIRO,cairo,,,))
$(eval $(call part,X11,x11,,,))
$(eval $(call part,PORTAUDIO,portaudio-2.0,program,PortAudio  ,no `haloconv live`))
$(eval $(call part,JACK,jack,program,JACK       ,no `haloconv jack`))
$(eval $(call part,PIPEWIRE,libpipewire-0.3,,PipeWire   ,no `haloconv pipewire`))
$(eval $(call part,ALSA,alsa,program,MIDI        ALSA,live: no MIDI))
$(eval $(call part,LO,liblo,program,OSC         liblo,live: no OSC))
$(eval $(call part,WEBSOCKETS,libwebsockets,,panel       libwebsockets,no page in the browser; libwebsockets-dev brings it))
$(eval $(call part,LV2,lv2,,LV2        ,no plugins))
# The headers of CLAP: a package of their own, or Debian's dpf-source. It also has those of VST3's C interface, travesty.
DPF := /usr/share/dpf/distrho/src
$(eval $(call part_found,CLAP,$$(or $$(call pkg_version,clap),$$(if $$(wildcard $$(DPF)/clap/entry.h),1.1.1)),there are no headers of CLAP$(comma) in a package clap or in $(DPF); make setup-build installs dpf-source,CLAP       ,))
$(eval $(call part_found,VST3,$$(if $$(wildcard $$(DPF)/travesty/component.h),3.7),there are no headers of VST3 in $(DPF)/travesty; make setup-build installs dpf-source,VST3       ,))
# The plugins' window needs pugl's sources, too (plugins/window/window.mk).
PUGL ?= /usr/share/dpf/dgl/src/pugl-upstream
WINDOW := $(if $(and $(HAVE_CAIRO),$(HAVE_X11),$(wildcard $(PUGL)/src/x11_stub.c)),$(BUILD)/libhaloconv_window.a)
REPORT_CAIRO = $(newline)  windows     $(if $(WINDOW),pugl on X11 $(HAVE_X11)$(comma) Cairo $(HAVE_CAIRO),no (the plugins' windows need Cairo$(comma) X11 and pugl's sources))
HAVE_CUDA := $(if $(filter 0,$(WITH_CUDA)),,$(if $(and $(NVCC),$(CUDA_ARCHS)),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')))
ifeq ($(WITH_CUDA)$(HAVE_CUDA),1)
$(error WITH_CUDA=1, but there is no nvcc on PATH or in /usr/local/cuda/bin; set NVCC)
endif

# The library loads HDF5 when a file needs it: linked, it would bring 38 libraries into every program and plugin.
HDF5_DIR := $(if $(HAVE_HDF5),$(patsubst -L%,%,$(firstword $(shell $(PKG_CONFIG) --libs-only-L $(HDF5_PKG)) \
              -L$(shell $(PKG_CONFIG) --variable=libdir $(HDF5_PKG)))))
HDF5_SONAME := $(if $(HAVE_HDF5),$(or $(shell $(CROSS_PREFIX)objdump -p $(HDF5_DIR)/libhdf5.so 2>/dev/null | \
                 sed -n 's/^ *SONAME *//p'),libhdf5.so))
# zlib unpacks compressed tar files. libarchive's readers of other formats load twelve libraries; a static one leaves them out.
ARCHIVE_LIB := $(if $(HAVE_ARCHIVE),$(or $(wildcard $(shell $(PKG_CONFIG) --variable=libdir libarchive)/libarchive.a),\
                 $(shell $(PKG_CONFIG) --libs libarchive)) -lz)
# there PARTS: those that are there; the sources ask for X11 by HC_WITH_WINDOW. names PARTS: as haloconv --version has them
there = $(foreach f,$(filter-out X11,$(1)),$(if $(HAVE_$(f)),$(f)))
names = $(subst $(space),$(comma),$(strip $(patsubst lo,osc,$(shell echo $(call there,$(1)) | tr A-Z a-z))))
FEATURES := $(patsubst %,-DHC_WITH_%,$(call there,$(PARTS))) $(if $(HAVE_HDF5),-DHC_HDF5_SONAME=$(HDF5_SONAME))

# ---- the report ------------------------------------------------------------------------------------------------------
CUDA_REPORT = $(if $(HAVE_CUDA),$(HAVE_CUDA) for $(addprefix sm_,$(CUDA_ARCHS)) and PTX $(lastword $(CUDA_ARCHS)),no \
              (CPU only$(if $(filter 0,$(WITH_CUDA)),,; $(if $(NVCC),no GPU here that nvcc compiles for; make \
              CUDA_ARCHS=all compiles for every kind,a GPU needs the CUDA Toolkit))))
# WEBSOCKETS is no package of make setup-build.
MISSING = $(strip $(foreach f,$(filter-out WEBSOCKETS,$(PARTS)),$(if $(HAVE_$(f))$(filter 0,$(WITH_$(f))),,$(f))))
# Without pkg-config nothing is found, whatever is installed.
NO_PKG_CONFIG := $(if $(shell command -v $(firstword $(PKG_CONFIG)) 2>/dev/null),,$(firstword $(PKG_CONFIG)) is missing$(comma) which finds libraries)
define REPORT
haloconv $(VERSION)
  compiler    $(shell $(CC) --version 2>/dev/null | head -n 1)$(if $(NO_PKG_CONFIG),
  packages    $(NO_PKG_CONFIG); make setup installs it)
  CUDA        $(CUDA_REPORT)$(subst $(space)$(newline),$(newline),$(foreach f,$(filter-out X11,$(PARTS)),$(REPORT_$(f))))$(if $(MISSING),
  left out    the parts marked no; make setup installs their packages)
endef
