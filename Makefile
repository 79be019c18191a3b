# limpet: one non-recursive makefile; each module.mk names its sources.
#
#   make            build/limpet
#   make static     build/static/limpet: one file that needs no library
#   make reader     build/reader/limpet: only the commands that read traces, as
#                   one file; ARCH=aarch64: build/aarch64/reader/limpet
#   make check      the edit loop: unit tests of what has changed, one capture of
#                   each kind
#   make test       the tests of every capability; T=kept: one file,
#                   T=kept:max-size: its tests whose title has that within
#   make test-release    all tests, before a release; make test-programs:
#                   released programs from npm (600 MiB) and Debian;
#                   make test-kernels: Debian's kernels in virtual machines
#   make test-unit SAN=address,undefined   unit tests with sanitizers
#   make test-times T=kept    measures a file for test/times
#   make torture    more rounds, and limits of time: hours on an idle machine
#   make bench      what a capture costs; bench-store stores the ratios
#   make soak       two hours with a beacon node, beside its twin
#   make lint       format, analysis, rules; make format mends the first
#   make demo       a small program that leaks, captured: limpet demo; demo-node: a
#                   node.js server under load
#   make pictures   those of README.md, from demo-node
#   make install    PREFIX=/usr/local, DESTDIR; INSTALLED=build/static/limpet: that one
#   make dist       what is released, from the commit: packages and tarballs;
#                   make dist-sources: the sources of the libraries in them
#   make clean      removes build/
#   V=1 shows commands; WERROR=1, OPT='-O0 -g' after make clean

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# Another processor's is for `make reader` alone: by clang, with Debian's libraries unpacked below build/.
HOST := $(shell uname -m)
ARCH ?= $(HOST)
IS_CROSS := $(filter-out $(HOST),$(ARCH))
CC ?= cc
ifeq ($(origin CC),default)
CC := $(if $(IS_CROSS),clang --target=$(ARCH)-linux-gnu --sysroot=build/$(ARCH)/root,cc)
endif
PREFIX ?= /usr/local
DESTDIR ?=
SAN ?=
comma := ,
B := build$(if $(IS_CROSS),/$(ARCH))$(if $(SAN),/$(subst $(comma),-,$(SAN)))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# clang has these for macros of uthash and libseccomp.
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual \
	-Wundef -Wvla -Wformat=2 $(if $(IS_CROSS),-Wno-missing-field-initializers,-Wimplicit-fallthrough) $(if $(WERROR),-Werror)
# Sanitizers' code takes twice as long to compile with more.
OPT ?= $(if $(SAN),-O1 -g1,-O2 -g)
CPPFLAGS += -D_GNU_SOURCE -I. -DLIMPET_ARCH=$(ARCH)
# For a release, whose bytes do not depend on the folder: -ffile-prefix-map.
FOLDER_MAP ?=

# As on x86-64 everywhere: signed characters, and no products and sums rounded at once: a report is the same bytes.
CFLAGS_ALL := -std=gnu11 $(OPT) $(WARN) -fsigned-char -ffp-contract=off -fstack-protector-strong -fno-omit-frame-pointer \
	$(if $(SAN),-fsanitize=$(SAN) -U_FORTIFY_SOURCE) $(FOLDER_MAP) $(CFLAGS)
LDFLAGS_ALL := $(if $(SAN),-fsanitize=$(SAN)) -Wl,-z,relro,-z,now $(LDFLAGS)
# The decoder, within the binary and for this processor alone: as a library, with all of its processors, it has 77,000
# addresses to relocate at each start of any command. A null pointer is what its own build has for a processor left out.
DECODER_WITHOUT := AArch64 ARM BPF EVM M680X M68K MOS65XX Mips PPC RISCV SH Sparc SystemZ TMS320C64x TriCore WASM XCore
DECODER_LIBS := $(foreach p,$(DECODER_WITHOUT),-Wl$(comma)--defsym=$(p)_global_init=0$(comma)--defsym=$(p)_option=0) -l:libcapstone.a
# libunwind's part for the stacks of other processes is -lunwind-x86_64.
READER_LIBS := -ldw -lelf -lseccomp -lzstd -lz -l:libiberty.a -ljansson -lm
LIBS := $(DECODER_LIBS) -lunwind-$(ARCH) $(READER_LIBS)
# Of the command alone, and within it: not every server has its library.
CLI_LIBS := -l:libncursesw.a -l:libtinfo.a

VERSION := 0.1.0
# A source tarball has the file.
COMMIT := $(shell cat .commit 2>/dev/null || git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

include common/module.mk
include agent/module.mk
include injector/module.mk
include collector/module.mk
include explain/module.mk
include analyzer/module.mk
include cli/module.mk
include test/module.mk
include scripts/module.mk
include packaging/module.mk

# All but the command line; the tests link against it.
LIB_SRC := $(COMMON_SRC) $(INJECTOR_SRC) $(COLLECTOR_SRC) $(EXPLAIN_SRC) $(ANALYZER_SRC)
LIMPET_SRC := $(LIB_SRC) $(CLI_SRC)
LIMPET_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(LIMPET_SRC)) $(B)/obj/injector/remote/agent_bytes.o $(B)/obj/analyzer/html/html_template.o

.PHONY: all static reader clean help
help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile
all: $(B)/limpet
$(B)/limpet: $(LIMPET_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(LIMPET_OBJ) $(LIBS) $(CLI_LIBS)

# The same objects as one file that needs no other; archives need libraries in their turn. The map says what is in it.
STATIC_LDFLAGS := -static -Wl,--wrap=dlopen,--wrap=getpwuid,--wrap=elf_compress
STATIC_OBJ := $(B)/obj/common/static_libc.o $(B)/obj/analyzer/symbols/static_libelf.o
SHARED_OBJ := $(B)/obj/analyzer/symbols/shared_libelf.o
static: $(B)/static/limpet
$(B)/static/limpet: $(LIMPET_OBJ) $(STATIC_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) $(STATIC_LDFLAGS) -Wl,-Map=$@.map -o $@ $(filter-out $(SHARED_OBJ),$^) $(LIBS) -lunwind -llzma -lbz2 $(CLI_LIBS)

# What reads traces: no agent, and of what looks at processes only what does so by /proc and by the sockets of captures.
READER_SRC := $(COMMON_SRC) $(ANALYZER_SRC) $(PROC_SRC) $(CONTROL_SRC) injector/ptrace/step.c explain/accounts.c $(READER_CLI_SRC) cli/without_process.c
READER_OBJ := $(patsubst %.c,$(B)/obj/%.o,$(READER_SRC)) $(B)/obj/analyzer/html/html_template.o $(STATIC_OBJ)
READER_PACKAGES := ^libgcc-[0-9]+-dev$$ libc6-dev linux-libc-dev libdw-dev libelf-dev libseccomp-dev libzstd-dev zlib1g-dev libiberty-dev libjansson-dev liblzma-dev libbz2-dev \
	libncurses-dev uthash-dev
reader: $(B)/reader/limpet
$(B)/reader/limpet: $(READER_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) $(if $(IS_CROSS),-fuse-ld=lld) $(STATIC_LDFLAGS) -o $@ $(filter-out $(SHARED_OBJ),$^) $(READER_LIBS) -llzma -lbz2 $(CLI_LIBS)
build/$(ARCH)/root/done:
	$(call say,APT,$@)
	$(Q)scripts/debian-files "$$(. /etc/os-release && echo $$VERSION_CODENAME)" arm64 $(@D) $(foreach p,$(READER_PACKAGES),'$p')
	@touch $@

$(B)/obj/%.o: %.c $(if $(IS_CROSS),| build/$(ARCH)/root/done)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

clean:
	rm -rf build

-include $(shell test -d build && find build -name '*.d')
