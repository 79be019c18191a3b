# Packages, lint, installation and the demonstration.
.PHONY: bootstrap bootstrap-build demo demo-node install uninstall
bootstrap:
	$(Q)scripts/bootstrap
bootstrap-build:
	$(Q)scripts/bootstrap --build

# What a capture costs, and for how long the target stands still: one thread that never rests, four that work, and
# five hundred. Ratios are held against test/bench/ratios.json: a fifth worse fails. heaptrack is measured beside it
# where it is installed. On a machine that does nothing else.
.PHONY: bench bench-store bench-stops
bench bench-store: $(B)/limpet $(B)/bench/pairs $(B)/bench/scattered $(B)/bench/bench_collector targets
	$(Q)$(MAKE) --no-print-directory bench-stops
	$(Q)scripts/bench --json $(B)/bench/bench.json --stops $(B)/bench/stops $(if $(filter %-store,$@),--store)
STOP_ROUNDS ?= 100
STOPTIMES = $(B)/torture/stoptimes -n $(STOP_ROUNDS)
bench-stops: $(B)/torture/stoptimes targets
	@mkdir -p $(B)/bench
	$(Q)rm -f $(B)/bench/stops
	$(Q)for threads in '--spin 1' '--spin 1 --allocate 1 --serve 2 --sleep 4' '--spin 1 --sleep 500'; do \
		echo "gaps $$threads"; $(STOPTIMES) $(TARGET_DIR)/gaps $$threads || exit; \
		printf 'gaps %s\t' "$$threads" >>$(B)/bench/stops; \
		$(STOPTIMES) -j $(TARGET_DIR)/gaps $$threads >>$(B)/bench/stops || exit; done
$(B)/bench/pairs $(B)/bench/scattered: $(B)/bench/%: test/bench/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g $(WARN) -D_GNU_SOURCE -pthread -o $@ $<

# Hours with a beacon node that is attached to again and again, beside an untouched twin; not a test.
# The last one's figures: test/soak/RESULTS.md.
SOAK_NODE ?= build/lodestar
SOAK_OUTPUT ?= build/soak
SOAK_SECONDS ?= 7200
SOAK_PERIOD ?= 120
SOAK_WINDOW ?= 30
SOAK_OPTIONS ?=
.PHONY: soak
soak: $(B)/limpet
	$(Q)test -e '$(SOAK_NODE)/installed' || scripts/beacon setup '$(SOAK_NODE)'
	$(Q)scripts/soak --limpet $(B)/limpet --duration $(SOAK_SECONDS) --period $(SOAK_PERIOD) \
		--window $(SOAK_WINDOW) $(SOAK_OPTIONS) '$(SOAK_NODE)' '$(SOAK_OUTPUT)'

# ------------------------------------------------------------------ lint
LINT_DIRECTORIES := agent agent/include $(patsubst %/,%,$(wildcard analyzer/*/ collector/*/ injector/*/)) cli common explain \
	test/unit test/targets test/leaks test/fuzz test/bench test/torture
LINT_C := $(sort $(foreach d,$(LINT_DIRECTORIES),$(wildcard $d/*.c $d/arch/*/*.c)))
LINT_H := $(sort $(foreach d,$(LINT_DIRECTORIES),$(wildcard $d/*.h $d/arch/*/*.h)))
LINT_SHELL := $(sort $(wildcard scripts/*.bash test/integration/*.bash test/integration/*.bats \
	test/torture/*.bats test/torture/*.bash test/programs/*.bats cli/completions/*.bash) .ci/run test/traces/keep \
	$(shell grep -lE '^\#!/bin/(ba)?sh' scripts/* packaging/* 2>/dev/null))
LINT_MAN := $(sort $(wildcard man/*.[1-8]))
# Tests and targets are held to the compiler's warnings: their odd code is what they are for.
TIDY_C := $(filter-out test/%,$(LINT_C))

LINT_PARTS := lint-tidy lint-build lint-cppcheck lint-shell lint-format lint-includes lint-functions lint-hazards lint-track lint-times lint-size lint-man lint-script

.PHONY: lint $(LINT_PARTS) format
lint: bootstrap
	$(Q)$(MAKE) --no-print-directory --keep-going --output-sync -j$(shell nproc) $(LINT_PARTS) || \
		{ echo "lint: failed, by the parts that are named with *** above; 'make format' mends the format" >&2; exit 1; }
	@echo 'lint: clean'

lint-format:
	$(call say,LINT,clang-format)
	$(Q)clang-format --dry-run -Werror $(LINT_C) $(LINT_H)
format:
	$(Q)clang-format -i $(LINT_C) $(LINT_H)

lint-includes:
	$(call say,LINT,includes)
	$(Q)scripts/check-includes

lint-functions:
	$(call say,LINT,functions)
	$(Q)! grep -nE 'static void [a-z_0-9]+\(void \*\*' test/unit/test_*.c | grep -v 'static void test_'
	$(Q)scripts/check-functions $(TIDY_C) $(filter-out test/%,$(LINT_H)) analyzer/html/*.js

lint-hazards:
	$(call say,LINT,hazards)
	$(Q)scripts/check-hazards

lint-track:
	$(call say,LINT,track-table)
	$(Q)scripts/track-table --check

lint-times:
	$(call say,LINT,times)
	$(Q)scripts/run-tests --check-times test/times $(UNIT_BINARIES) $(BATS_TESTS) $(TORTURE_TESTS)

lint-size:
	$(call say,LINT,size)
	$(Q)scripts/size --check

lint-cppcheck:
	$(call say,LINT,cppcheck)
	$(Q)cppcheck -q --std=c11 --enable=warning,portability,performance \
		--inline-suppr --suppress=missingIncludeSystem --error-exitcode=1 -D_GNU_SOURCE -I. \
		-DLIMPET_ARCH=$(ARCH) -D__$(ARCH)__ --suppressions-list=scripts/cppcheck.txt $(TIDY_C)

lint-shell:
	$(call say,LINT,shellcheck)
	$(Q)shellcheck -x $(LINT_SHELL)

lint-script:
	$(call say,LINT,node)
	$(Q)for script in analyzer/html/*.js; do node --check "$$script" || exit 1; done

lint-man:
	$(call say,LINT,mandoc)
	$(Q)$(if $(LINT_MAN),mandoc -Tlint -Wwarning $(LINT_MAN))

# A file is analysed again when it, a header or the set of checks has changed.
lint-tidy: $(patsubst %.c,build/lint/%.tidy,$(TIDY_C))
build/lint/%.tidy: %.c .clang-tidy $(LINT_H)
	$(call say,TIDY,$<)
	@mkdir -p $(@D)
	$(Q)scripts/tidy $< -DLIMPET_ARCH=$(ARCH) -DLIMPET_VERSION='""' -DLIMPET_COMMIT='""' \
		$(filter-out -Werror,$(WARN))
	@touch $@

# Everything once more, with warnings as errors, in a directory of its own. Where all is built so (WERROR=1, as in
# .ci/run), the build itself is looked at. Other languages' targets have no such warnings.
LINT_B := $(if $(WERROR),$(B),build/werror)
LINT_TARGET_DIR := $(if $(WERROR),$(TARGET_DIR),build/werror/targets)
LINT_TARGETS = $(patsubst $(TARGET_DIR)/%,$(LINT_TARGET_DIR)/%,$(filter-out \
	$(addprefix $(TARGET_DIR)/,nim-% churn% rjem rjem-stripped rmi plain-go% Load.class),$(TARGET_PROGRAMS)))
lint-build:
	$(call say,LINT,warnings)
	$(Q)$(MAKE) --no-print-directory -s B=$(LINT_B) TARGET_DIR=$(LINT_TARGET_DIR) WERROR=1 $(LINT_B)/limpet test-build \
		$(LINT_TARGETS)
	$(Q)scripts/check-agent $(LINT_B)/limpet-agent.so

# ------------------------------------------------------------------ installation
MAN1 := $(sort $(wildcard man/*.1))
MAN5 := $(sort $(wildcard man/*.5))
BINDIR := $(DESTDIR)$(PREFIX)/bin
MANDIR := $(DESTDIR)$(PREFIX)/share/man
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
ZSHDIR := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
INCLUDEDIR := $(DESTDIR)$(PREFIX)/include
SHAREDIR := $(DESTDIR)$(PREFIX)/share/limpet

INSTALLED ?= $(B)/limpet

install: $(INSTALLED)
	install -d '$(BINDIR)' '$(MANDIR)/man1' '$(MANDIR)/man5' '$(BASHDIR)' '$(ZSHDIR)' '$(FISHDIR)' '$(INCLUDEDIR)' '$(SHAREDIR)'
	install -m 755 $(INSTALLED) '$(BINDIR)/limpet'
	install -m 644 agent/include/limpet.h '$(INCLUDEDIR)/limpet.h'
	install -m 644 cli/limpet.schema.json '$(SHAREDIR)/limpet.schema.json'
	$(if $(MAN1),install -m 644 $(MAN1) '$(MANDIR)/man1/')
	$(if $(MAN5),install -m 644 $(MAN5) '$(MANDIR)/man5/')
	install -m 644 cli/completions/limpet.bash '$(BASHDIR)/limpet'
	install -m 644 cli/completions/limpet.zsh '$(ZSHDIR)/_limpet'
	install -m 644 cli/completions/limpet.fish '$(FISHDIR)/limpet.fish'

uninstall:
	rm -f '$(BINDIR)/limpet' '$(BASHDIR)/limpet' '$(ZSHDIR)/_limpet' '$(FISHDIR)/limpet.fish' '$(INCLUDEDIR)/limpet.h' '$(SHAREDIR)/limpet.schema.json' \
		$(patsubst man/%,'$(MANDIR)/man1/%',$(MAN1)) $(patsubst man/%,'$(MANDIR)/man5/%',$(MAN5))

# ------------------------------------------------------------------ demonstration
.PHONY: pictures
pictures: demo-node
	$(Q)LIMPET=$(CURDIR)/$(B)/limpet scripts/pictures build/demo/server.limpet docs/pictures

# The build uses all processors, unless make was told how many.
demo demo-node: bootstrap-build
	$(Q)$(MAKE) --no-print-directory $(if $(findstring --jobserver,$(MAKEFLAGS)),,-j$(shell nproc)) all
	$(Q)$(if $(filter demo,$@),$(B)/limpet demo,LIMPET=$(CURDIR)/$(B)/limpet scripts/demo)
