# Tests. Each topic adds its own line; test/unit/test_<topic>.c has its own main().
TARGET_DIR := build/targets
# All that are there: what is not built is not run.
UNIT_TESTS := $(patsubst test/unit/%.c,%,$(sort $(wildcard test/unit/test_*.c)))
TRACE_TESTS := test_trace_round test_trace_windows test_trace_bytes test_trace_file test_trace_kept test_trace_append \
	test_trace_overloads test_recorder test_marks test_losses test_same_figures test_page_shares test_resident_pages \
	test_trace_stream test_leak_search
$(foreach test,$(TRACE_TESTS),$(eval $(test)_SRC := test/unit/trace_fixture.c test/unit/trace_capture.c))
test_trace_bytes_SRC += test/fuzz/fuzz_trace.c
$(B)/test/test_recorder: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=,limpet_trace_sync_new limpet_bytes_grow calloc realloc)
test_trace_damage_SRC := test/unit/trace_capture.c
$(B)/test/test_trace_sync: LDFLAGS_ALL += -Wl,--wrap=fdatasync
test_tail_SRC := test/unit/trace_capture.c
test_perfmap_SRC := test/unit/proc_fixture.c test/unit/served_fixture.c
test_gopclntab_SRC := test/unit/go_fixture.c
test_served_files_SRC := test/unit/served_fixture.c
PREFLIGHT_TESTS := test_preflight_process test_preflight_permission test_preflight_programs test_preflight_limits \
	test_preflight_seccomp
test_proc_SRC := test/unit/proc_fixture.c
test_faults_SRC := test/unit/proc_fixture.c
test_commit_SRC := test/unit/proc_fixture.c
test_growing_SRC := test/unit/proc_fixture.c
test_leftovers_SRC := test/unit/proc_fixture.c
$(foreach test,$(PREFLIGHT_TESTS),$(eval $(test)_SRC := test/unit/preflight_fixture.c test/unit/proc_fixture.c))
test_preflight_seccomp_SRC += test/unit/docker_profile.c
test_seccomp_eval_SRC := test/unit/docker_profile.c
# A command line, and what it says.
LINE_SRC := cli/ui.c cli/command_line.c cli/complete.c cli/debug.c cli/settings.c cli/pid_hint.c cli/shell_word.c cli/pager.c cli/find_program.c
test_ui_SRC := $(LINE_SRC)
test_capture_options_SRC := cli/capture_options.c cli/stream_output.c cli/capture_signals.c $(LINE_SRC)
test_census_print_SRC := cli/census_print.c $(LINE_SRC)
test_debug_SRC := $(LINE_SRC)
test_capture_signals_SRC := cli/capture_signals.c
test_progress_SRC := cli/progress.c $(LINE_SRC)
test_top_editor_SRC := cli/top_editor.c
test_top_memory_SRC := cli/top_memory.c
test_top_pace_SRC := cli/top_pace.c
test_followers_SRC := cli/followers.c cli/follower.c cli/capture_options.c cli/stream_output.c cli/capture_signals.c $(LINE_SRC)

# A test of agent code names the agent's sources that are built into it for the host; the thunks are
# the agent's own.
AGENT_FOR_TESTS := agent/start.c agent/hook.c agent/hook_malloc.c agent/hook_nim.c agent/hook_noted.c agent/hook_out.c agent/hook_paths.c agent/hook_state.c agent/record.c agent/sampled.c agent/stack.c agent/stack_arguments.c agent/stack_cache.c agent/stack_describe.c agent/stack_functions.c agent/stack_left.c agent/stack_prints.c agent/stack_ranges.c agent/late_modules.c agent/loaded.c agent/patch.c agent/finder.c \
	$(B)/agent/agent/arch/$(ARCH)/thunks.o $(B)/agent/agent/arch/$(ARCH)/vectors.o test/unit/agent_fixture.c
HOOKS_TESTS := test_hooks_records test_hooks_room test_hooks_nested test_hooks_threads test_hooks_stacks \
	test_hooks_collector
$(foreach test,$(HOOKS_TESTS),$(eval $(test)_SRC := $(AGENT_FOR_TESTS) test/unit/hooks_fixture.c))
test_hook_signals_SRC := $(AGENT_FOR_TESTS)
test_vectors_SRC := $(AGENT_FOR_TESTS) $(B)/agent/test/targets/vectors_asm.o
test_collector_SRC := $(AGENT_FOR_TESTS)
test_patch_SRC := $(AGENT_FOR_TESTS)
test_sampled_SRC := $(AGENT_FOR_TESTS)
test_hooks_sampled_SRC := $(AGENT_FOR_TESTS)
$(B)/test/test_patch: | $(TARGET_DIR)/plugin.so $(TARGET_DIR)/plugin-noplt.so $(TARGET_DIR)/copied-plugin.so
test_unwind_compile_SRC := test/unit/eh_frame_fixture.c
test_unwind_rules_SRC := test/unit/eh_frame_fixture.c
test_unwind_room_SRC := test/unit/eh_frame_fixture.c
test_unwind_damage_SRC := test/unit/unwind_fixture.c test/fuzz/fuzz_unwind_compile.c
test_unwind_oracle_SRC := test/unit/unwind_fixture.c
test_unwind_programs_SRC := test/unit/unwind_fixture.c
test_unwind_walk_here_SRC := test/unit/walk_fixture.c test/unit/unwind_fixture.c
test_unwind_walk_steps_SRC := test/unit/walk_fixture.c test/unit/unwind_fixture.c

$(B)/test/test_stacks_both: | $(addprefix $(TARGET_DIR)/,shapes churn churn-lld churn-go static storm-musl-static)

$(B)/test/test_unfinished: LDFLAGS_ALL += -Wl,--wrap=mkostemp
$(B)/test/test_symbol_reader: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=,dwfl_module_getsymtab dwfl_module_getsym_info)
$(B)/test/test_symbol_worker: LDFLAGS_ALL += -Wl,--wrap=limpet_symbol_worker
$(B)/test/test_served_files: LDFLAGS_ALL += -Wl,--wrap=poll
$(B)/test/test_code_reader: LDFLAGS_ALL += -Wl,--wrap=limpet_entry_code_make
$(B)/test/test_quiesce: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=limpet_,memory_read memory_read_own proc_run_time proc_status_read)
$(B)/test/test_short_stops: LDFLAGS_ALL += -Wl,--wrap=open
$(B)/test/test_control: LDFLAGS_ALL += -Wl,--wrap=timerfd_settime
$(B)/test/test_reorder: LDFLAGS_ALL += -Wl,--wrap=limpet_event_describer_add
$(B)/test/test_collector: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=limpet_,monotonic_ns recorder_add_events proc_status_read)
$(B)/test/test_hijack $(B)/test/test_segment: LDFLAGS_ALL += -Wl,--wrap=limpet_proc_maps_read
$(B)/test/test_modules: LDFLAGS_ALL += -Wl,--wrap=process_vm_readv
$(B)/test/test_modules_memory: LDFLAGS_ALL += -Wl,--wrap=limpet_proc_started
$(B)/test/test_forks: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=limpet_,monotonic_ns proc_file_read proc_pids proc_start_time proc_status_read memory_read_own proc_maps_read proc_maps_done own_objects_has_inode)
$(B)/test/test_commit: LDFLAGS_ALL += -Wl,--wrap=fallocate
$(B)/test/test_odd_threads: LDFLAGS_ALL += -Wl,--wrap=ptrace
$(B)/test/test_preflight_process: LDFLAGS_ALL += -Wl,--wrap=nanosleep
$(B)/test/test_stop_effect: LDFLAGS_ALL += -Wl,--wrap=getxattr
$(B)/test/test_seal: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=,pwrite ftruncate)
# Tests whose clock stands still until they move it.
CLOCK_FIXTURE := $(addprefix -Wl$(comma)--wrap=,clock_gettime poll)
CLOCK_TESTS := test_hook_pointers test_quiesce test_rest test_trace_sync test_debuginfod test_proc test_control test_dormant test_collector test_symbol_worker
$(addprefix $(B)/test/,$(CLOCK_TESTS)): LDFLAGS_ALL += $(CLOCK_FIXTURE)
$(foreach test,$(CLOCK_TESTS),$(eval $(test)_SRC += test/unit/clock_fixture.c))

BATS_TESTS := $(sort $(wildcard test/integration/*.bats))
TORTURE_TESTS := test/torture/stall.bats test/torture/rounds.bats test/torture/programs.bats test/torture/kills.bats
TORTURE_TESTS += test/torture/state.bats test/torture/moments.bats test/torture/stops.bats \
	test/torture/order.bats test/torture/chains.bats test/torture/losses.bats test/torture/chaos.bats test/torture/faults.bats
# What measures time, by medians of an idle machine: `make torture`.
LONG_TORTURE_TESTS := $(TORTURE_TESTS) $(sort $(wildcard test/torture/*_limits.bats))
# And what has more rounds than in `make test`.
TORTURE_UNIT_TESTS := $(addprefix $(B)/test/test_,trace_damage estimate hook_signals seal stacks_both)
LONG_TORTURE_TESTS += $(TORTURE_UNIT_TESTS) $(addprefix test/integration/,attach.bats blocked.bats programs.bats \
	namespaces.bats mapped.bats modules.bats nim.bats sample.bats counts.bats liars.bats)

# Everything but the command layer, as an archive: a test pulls in what it calls.
TEST_LIB_SRC = $(LIB_SRC)
TEST_LIB_OBJ = $(patsubst %.c,$(B)/obj/%.o,$(TEST_LIB_SRC)) \
	$(if $(AGENT_SRC),$(B)/obj/injector/remote/agent_bytes.o) $(B)/obj/analyzer/html/html_template.o

.SECONDEXPANSION:

$(B)/test/liblimpet.a: $$(TEST_LIB_OBJ)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

test_objects = $(patsubst %.c,$(B)/obj/%.o,$(test_$1_SRC))

# What frames are held against.
UNWIND_LIBS := -lunwind

$(B)/test/test_%: $(B)/obj/test/unit/test_%.o $(B)/obj/test/unit/unit_start.o \
		$$(call test_objects,$$*) $(B)/test/liblimpet.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ -lcmocka $(UNWIND_LIBS) $(LIBS)

# Objects are kept, also those that only a pattern rule asks for.
.SECONDARY:
UNIT_BINARIES = $(addprefix $(B)/test/,$(UNIT_TESTS))

# ------------------------------------------------------------------ programs to attach to
#
# Built as users build: optimised, with debug information and without frame pointers.
TARGET_CFLAGS := -std=gnu11 -O2 -g $(WARN) -D_GNU_SOURCE -pthread
TARGET_CXXFLAGS := -std=c++17 -O2 -g -Wall -Wextra $(if $(WERROR),-Werror) -pthread
NAMES := names names-jemalloc names-mimalloc names-tcmalloc names-alias
TARGET_C := keeper wrapper lowest brancher namesake hoard busy blind shut manyargs regrow habits clan crowd stall forker execer exiter loader odd liar moment gaps handoff peaks kinds replacer spaces turns sealer inverse parted tally arena lame legal above lister ownheap paths regions explained sharing sparse toucher classes generations plain equal reader standing bare lost supervised
TARGET_PROGRAMS = $(addprefix $(TARGET_DIR)/,$(TARGET_C) confined served storm meddle.so leak calls churn churn-lld churn-nim $(NIM_HEAPS) nim-refc-heaptrack-on plugin.so plugin-noplt.so plugin-rjem.so gaps-copies \
	static explained-static explained-jemalloc storm-static-pie storm-musl storm-musl-static storm-musl-static-pie plain-musl-static static-stripped \
	tiny32 own-allocator own-lto own-forker rjem rjem-stripped rmi own-tcmalloc own-tcmalloc-lto classes-tcmalloc classes-tcmalloc-static newer newer-static newer-short newer-middle census held leaver leaver-static nameless keeps vectors decoy pool bundled-hidden bundled-symbolic bundled-stripped registers chaos sleeper holder slow-plugin.so shapes frame-40.so frame-360.so turn-alpha.so turn-omega.so $(STORM_LINKS))
TARGET_PROGRAMS += $(addprefix $(TARGET_DIR)/,moved.so storm-moved storm-moved-static auditor.so standing-static)
TARGET_PROGRAMS += $(addprefix $(TARGET_DIR)/,instead.so blind-malloc.so held-dlopen.so room)
TARGET_PROGRAMS += $(addprefix $(TARGET_DIR)/,setter setter-plugin.so comer compact compact-plugin.so early-now.so early-lazy.so early-cxx.so copied copied-plugin.so prober rewriter packed packed-plugin.so $(NAMES) names-alias.so names-late.so packed-table.so deep deep-plugin.so bare-plugin.so)
TARGET_PROGRAMS += $(addprefix $(TARGET_DIR)/,forker-static forker-musl inverse-musl loader-musl plugin-musl.so churn-go churn-go-static $(PLAIN_GO) Load.class)

# Not files of ours to sanitise: a target is what it is in every variant.
$(addprefix $(TARGET_DIR)/,$(TARGET_C) storm): $(TARGET_DIR)/%: test/targets/%.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $< -ldl

# Its aligned structures are passed as since GCC 4.6.
$(TARGET_DIR)/manyargs: TARGET_CFLAGS += -Wno-psabi
# They speak to the agent, or forge what it says.
$(TARGET_DIR)/arena: agent/include/limpet.h
$(TARGET_DIR)/liar: common/wire.h
# It has no names.
$(TARGET_DIR)/regions: TARGET_CFLAGS += -s
# Its slots lie in pages that are closed once it has started.
$(TARGET_DIR)/sealer: TARGET_CFLAGS += -Wl,-z,now

$(TARGET_DIR)/confined: test/targets/confined.c test/targets/target.h test/unit/docker_profile.c \
		test/unit/docker_profile.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $(filter %.c,$^) -lseccomp

CHAOS_SRC := $(addprefix test/targets/chaos,.c _program.c _memory.c _threads.c _process.c _waits.c)
$(TARGET_DIR)/chaos: $(CHAOS_SRC) test/targets/chaos.h test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $(CHAOS_SRC) -ldl

SLEEPER_SRC := $(addprefix test/targets/sleeper,.c _io.c _time.c _ipc.c)
$(TARGET_DIR)/sleeper: $(SLEEPER_SRC) test/targets/sleeper.h test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $(SLEEPER_SRC)

$(TARGET_DIR)/served: test/targets/served.c test/targets/target.h test/unit/served_fixture.c test/unit/served_fixture.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $(filter %.c,$^)

$(TARGET_DIR)/registers: test/targets/registers.c test/targets/registers_hold.S test/targets/registers.h \
		test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $(filter %.c %.S,$^)

$(TARGET_DIR)/explained-jemalloc: test/targets/explained.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -DJEMALLOC -I. -o $@ $< -ljemalloc

$(TARGET_DIR)/explained-static: test/targets/explained.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -static -I. -o $@ $<

$(TARGET_DIR)/standing-static: test/targets/standing.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -static -I. -o $@ $<

$(TARGET_DIR)/prober: test/targets/prober.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $< -lelf

$(TARGET_DIR)/decoy $(TARGET_DIR)/rewriter: $(TARGET_DIR)/%: test/targets/%.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -static -I. -o $@ $<

$(TARGET_DIR)/keeps: test/targets/keeps.c test/targets/keeps_asm.S test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $(filter %.c %.S,$^)

$(TARGET_DIR)/shapes: test/targets/shapes.c test/targets/shapes_asm.S test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $(filter %.c %.S,$^)

$(TARGET_DIR)/gaps-copies: test/targets/gaps.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -DCOPIES -I. -o $@ $<

# The second one has its slots among the other relocations.
$(TARGET_DIR)/plugin.so $(TARGET_DIR)/plugin-noplt.so: $(TARGET_DIR)/%.so: test/targets/plugin.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared $(if $(filter %-noplt,$*),-fno-plt) -o $@ $<

# LLD lets code begin in the page of the file in which the headers end.
$(TARGET_DIR)/compact $(TARGET_DIR)/compact-plugin.so: test/targets/compact.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fuse-ld=lld -I. $(if $(filter %.so,$@),-DPLUGIN -fPIC -shared) -o $@ $< -ldl

# Its modules look at it.
$(TARGET_DIR)/comer: test/targets/comer.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -rdynamic -I. -o $@ $< -ldl

# Their calls are bound when they are first made.
SETTER_CALLS := test/targets/setter_calls.c test/targets/setter_calls.h test/targets/target.h
$(TARGET_DIR)/setter: test/targets/setter.c $(SETTER_CALLS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -Wl,-z,lazy -o $@ $(filter %.c,$^)

$(TARGET_DIR)/setter-plugin.so: $(SETTER_CALLS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -fPIC -shared -Wl,-z,lazy -o $@ $(filter %.c,$^)

# Each calls one allocator by all of its names.
$(TARGET_DIR)/names-jemalloc: NAMES_FLAGS = -DNAMES_JEMALLOC -ljemalloc
$(TARGET_DIR)/names-mimalloc: NAMES_FLAGS = -DNAMES_MIMALLOC -lmimalloc
$(TARGET_DIR)/names-tcmalloc: NAMES_FLAGS = -DNAMES_TCMALLOC -ltcmalloc_minimal
$(TARGET_DIR)/names-alias: NAMES_FLAGS = -DNAMES_ALIAS $(TARGET_DIR)/names-alias.so -Wl,-rpath,'$$ORIGIN'
$(TARGET_DIR)/names-alias: $(TARGET_DIR)/names-alias.so
$(addprefix $(TARGET_DIR)/,$(NAMES)): test/targets/names.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fno-builtin -I. -o $@ $< -Wl,--no-as-needed $(NAMES_FLAGS) -ldl

$(TARGET_DIR)/names-late.so: test/targets/names_late.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -Wl,-z,now -o $@ $<

$(TARGET_DIR)/names-alias.so: test/targets/names_alias.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fno-builtin -fPIC -shared -Wl,-soname,names-alias.so -o $@ $<

# Addresses in instructions are for the dynamic linker to fill in.
$(TARGET_DIR)/packed-plugin.so: test/targets/packed_plugin.c test/targets/packed.h test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -fPIC -fno-builtin -shared -Wl,-soname,packed-plugin.so -Wl,-z,notext -o $@ $<

# It is in front of libc in the plugin's own list alone.
# Built as parts of libvips and glib are.
$(TARGET_DIR)/bare-plugin.so: test/targets/bare_plugin.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 $(WARN) -fPIC -shared -fomit-frame-pointer -fno-unwind-tables \
		-fno-asynchronous-unwind-tables -o $@ $<

$(TARGET_DIR)/deep-plugin.so: test/targets/deep_plugin.c test/targets/target.h $(TARGET_DIR)/names-alias.so
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -fPIC -fno-builtin -shared -Wl,-z,lazy -o $@ $< $(TARGET_DIR)/names-alias.so -Wl,-rpath,'$$ORIGIN'

$(TARGET_DIR)/deep: test/targets/deep.c test/targets/target.h $(TARGET_DIR)/deep-plugin.so
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -fno-builtin -Wl,-z,lazy -o $@ $< -Wl,-rpath,'$$ORIGIN' -ldl

$(TARGET_DIR)/packed-table.so: test/targets/packed_table.c test/targets/packed.h test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -fPIC -fno-builtin -shared -nostdlib -Wl,-z,noseparate-code,--build-id=none -o $@ $<

$(TARGET_DIR)/packed: test/targets/packed.c test/targets/packed.h test/targets/target.h $(TARGET_DIR)/packed-plugin.so $(TARGET_DIR)/packed-table.so
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $< $(TARGET_DIR)/packed-plugin.so -Wl,-rpath,'$$ORIGIN' -ldl

$(TARGET_DIR)/copied-plugin.so: test/targets/copied_plugin.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -Wl,-soname,copied-plugin.so -o $@ $<

$(TARGET_DIR)/copied: test/targets/copied.c test/targets/target.h $(TARGET_DIR)/copied-plugin.so
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $< $(TARGET_DIR)/copied-plugin.so -Wl,-rpath,'$$ORIGIN'

# With slots in a page that is closed once they are bound, and not.
$(TARGET_DIR)/early-%.so: test/targets/early_plugin.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -Wl,-z,relro,-z,$* -o $@ $<

$(TARGET_DIR)/early-cxx.so: test/targets/early_cxx.cc
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(TARGET_CXXFLAGS) -fPIC -shared -o $@ $<

$(TARGET_DIR)/frame-%.so: test/targets/frame_plugin.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -DROOM=$* -fPIC -shared -o $@ $<

$(TARGET_DIR)/turn-%.so: test/targets/turn_plugin.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -DNAME=turn_$* -fPIC -shared -o $@ $<

$(TARGET_DIR)/auditor.so: test/targets/auditor.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -o $@ $<

# No loop of it may become a call of memcpy, which it may be moving. The programs have their headers
# in the same segment as their code, as linkers made it until 2018.
MOVED_CFLAGS := -fno-tree-loop-distribute-patterns -fno-stack-protector
$(TARGET_DIR)/moved.so: test/targets/moved.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) $(MOVED_CFLAGS) -fPIC -shared -o $@ $<
$(TARGET_DIR)/storm-moved $(TARGET_DIR)/storm-moved-static: test/targets/storm.c test/targets/moved.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) $(MOVED_CFLAGS) -I. -Wl,-z,noseparate-code $(if $(filter %-static,$@),-static,-no-pie) \
		-o $@ $(filter %.c,$^)

# Not a target: it stands between limpet and its libraries.
$(TARGET_DIR)/instead.so: test/targets/instead.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -o $@ $< -ldl
$(TARGET_DIR)/blind-malloc.so: test/targets/blind_malloc.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. $(TARGET_CFLAGS) -fPIC -shared -o $@ $<

# Not a target: it reaches into what limpet shares with one.
$(TARGET_DIR)/room: test/targets/room.c common/wire.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $<

# Its library calls it back.
$(TARGET_DIR)/holder: test/targets/holder.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -rdynamic -I. -o $@ $< -ldl

$(TARGET_DIR)/slow-plugin.so: test/targets/slow_plugin.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -o $@ $<

# Preloaded into limpet itself.
$(TARGET_DIR)/held-dlopen.so: test/targets/held_dlopen.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -o $@ $< -ldl

$(TARGET_DIR)/meddle.so: test/targets/meddle.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -o $@ $< -ldl

$(TARGET_DIR)/leak: test/targets/leak.cc
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(TARGET_CXXFLAGS) -o $@ $<

$(TARGET_DIR)/calls: test/targets/calls.cc test/targets/target.h
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(TARGET_CXXFLAGS) -I. -o $@ $<

# It would look for make's job server, which is not passed to it, and warn.
# Asked for when it is needed. A rustup proxy without a toolchain is in nobody's way: the distribution's compiler then
# serves.
RUSTC_PROGRAM = $(eval RUSTC_PROGRAM := $(shell rustc --version >/dev/null 2>&1 && echo rustc || echo /usr/bin/rustc))$(RUSTC_PROGRAM)
RUSTC = env -u MAKEFLAGS -u MFLAGS $(RUSTC_PROGRAM) --edition 2021 -g -C opt-level=2
# With the compiler's default linker: newer ones link by LLD, whose programs unwind differently.
$(TARGET_DIR)/churn: test/targets/churn.rs
	$(call say,RUST,$@)
	@mkdir -p $(@D)
	$(Q)$(RUSTC) -o $@ $<
$(TARGET_DIR)/churn-lld: test/targets/churn.rs
	$(call say,RUST,$@)
	@mkdir -p $(@D)
	$(Q)$(RUSTC) -C link-arg=-fuse-ld=lld -o $@ $<

# By libc's allocator: Nim's own asks for whole pages only.
$(TARGET_DIR)/churn-nim: test/targets/churn.nim
	$(call say,NIM,$@)
	@mkdir -p $(@D)
	$(Q)nim compile --hints:off --threads:on --mm:orc -d:release -d:useMalloc --debugger:native \
		--nimcache:$@.cache -o:$@ $<

# With a C side, which is linked as any C program is; and without.
GO := GO111MODULE=off GOFLAGS= GOPATH=$(abspath $(TARGET_DIR))/go GOCACHE=$(abspath $(TARGET_DIR))/go/cache go
$(TARGET_DIR)/churn-go $(TARGET_DIR)/churn-go-static: test/targets/churn.go
	$(call say,GO,$@)
	@mkdir -p $(@D)
	$(Q)CGO_ENABLED=1 $(GO) build -ldflags '-linkmode external$(if $(filter %-static,$@), -extldflags -static)' \
		-o $@ $<
# Static or position-independent, linked by Go or by the C compiler; without DWARF, and without symbols as most are that
# users get.
PLAIN_GO := plain-go plain-go-symbols plain-go-stripped plain-go-pie plain-go-pie-stripped plain-go-pie-linked plain-go-pie-linked-stripped
$(addprefix $(TARGET_DIR)/,$(PLAIN_GO)): test/targets/plain.go
	$(call say,GO,$@)
	@mkdir -p $(@D)
	$(Q)CGO_ENABLED=$(if $(findstring -linked,$@),1,0) $(GO) build $(if $(findstring -pie,$@),-buildmode=pie) \
		-ldflags '$(if $(findstring -linked,$@),-linkmode external) $(if $(findstring -stripped,$@),-s -w) $(if $(findstring -symbols,$@),-w)' -o $@ $<

$(B)/test/test_gopclntab: | $(addprefix $(TARGET_DIR)/,$(PLAIN_GO))

$(TARGET_DIR)/Load.class: test/targets/Load.java
	$(call say,JAVA,$@)
	@mkdir -p $(@D)
	$(Q)javac -Xlint:all -d $(@D) $<

# By Nim's own allocator, or partly. NAME-refc-release-off: memory management, kind, threads.
NIM_HEAPS := $(foreach mm,refc orc,$(foreach kind,release danger,$(foreach threads,on off, \
	nim-$(mm)-$(kind)-$(threads))) nim-$(mm)-counted-off nim-$(mm)-malloc-on nim-$(mm)-lto-on) \
	nim-boehm-release-off nim-regions-release-off
NIM_release := -d:release
NIM_danger := -d:danger
NIM_counted := -d:release -d:nimTypeNames
NIM_malloc := -d:release -d:useMalloc
NIM_lto := -d:danger --passC:-flto=1 --passL:-flto=1 --passC:-w --passL:-w
$(addprefix $(TARGET_DIR)/,$(NIM_HEAPS)): test/targets/heap.nim
	$(call say,NIM,$@)
	@mkdir -p $(@D)
	$(Q)nim compile --hints:off --parallelBuild:1 --mm:$(word 2,$(subst -, ,$(@F))) \
		--threads:$(word 4,$(subst -, ,$(@F))) $(NIM_$(word 3,$(subst -, ,$(@F)))) \
		--nimcache:$@.cache -o:$@ $<

# With Nim's "heaptrack support": its library, patched so that the allocator tells heaptrack's of each block.
$(TARGET_DIR)/nim-refc-heaptrack-on: test/targets/heap.nim test/targets/heaptrack.sed
	$(call say,NIM,$@)
	@mkdir -p $(@D)
	$(Q)rm -rf $@.lib
	$(Q)cp -r "$$(nim dump --dump.format:json - </dev/null 2>/dev/null | jq -r .libpath)" $@.lib
	$(Q)sed -i -f test/targets/heaptrack.sed $@.lib/system/alloc.nim
	$(Q)nim compile --hints:off --parallelBuild:1 --lib:$(abspath $@.lib) --mm:refc --threads:on -d:release \
		-d:heaptracker --nimcache:$@.cache -o:$@ $<

# The ways in which a program's slots come to be: RELRO, PLT, PIE.
STORM_LINKS := $(foreach relro,norelro partial full,$(foreach plt,plt noplt,$(foreach pie,pie nopie, \
	storm-$(relro)-$(plt)-$(pie))))
LINK_norelro := -Wl,-z,norelro
LINK_partial := -Wl,-z,relro,-z,lazy
LINK_full := -Wl,-z,relro,-z,now
LINK_plt := -fplt
LINK_noplt := -fno-plt
LINK_pie := -fPIE -pie
LINK_nopie := -fno-pie -no-pie
$(addprefix $(TARGET_DIR)/,$(STORM_LINKS)): test/targets/storm.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $< \
		$(foreach word,$(wordlist 2,4,$(subst -, ,$(@F))),$(LINK_$(word)))

# Without glibc's dynamic linker: none at all, or musl's.
$(TARGET_DIR)/static $(TARGET_DIR)/storm-static-pie: test/targets/storm.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. $(if $(filter %-pie,$@),-static-pie,-static) -o $@ $<

$(TARGET_DIR)/forker-static: test/targets/forker.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -static -o $@ $<

MUSL_LIB := /usr/lib/$(ARCH)-linux-musl
$(TARGET_DIR)/plain-musl-static: test/targets/plain.c
$(TARGET_DIR)/inverse-musl: test/targets/inverse.c
$(TARGET_DIR)/loader-musl: test/targets/loader.c
$(TARGET_DIR)/forker-musl: test/targets/forker.c
$(TARGET_DIR)/storm-musl $(TARGET_DIR)/storm-musl-static: test/targets/storm.c
$(TARGET_DIR)/plain-musl-static $(TARGET_DIR)/inverse-musl $(TARGET_DIR)/loader-musl $(TARGET_DIR)/forker-musl $(TARGET_DIR)/storm-musl $(TARGET_DIR)/storm-musl-static: test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)musl-gcc $(TARGET_CFLAGS) -I. $(if $(filter %-static,$@),-static) -o $@ $(filter %.c,$^)

$(TARGET_DIR)/plugin-musl.so: test/targets/plugin.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)musl-gcc $(TARGET_CFLAGS) -fPIC -shared -o $@ $<

# musl-gcc knows no -static-pie.
$(TARGET_DIR)/storm-musl-static-pie: test/targets/storm.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)musl-gcc $(TARGET_CFLAGS) -fPIE -I. -nostartfiles -static -Wl,-pie,--no-dynamic-linker -o $@ \
		$(MUSL_LIB)/rcrt1.o $(MUSL_LIB)/crti.o "$$($(CC) -print-file-name=crtbeginS.o)" $< \
		"$$($(CC) -print-file-name=crtendS.o)" $(MUSL_LIB)/crtn.o

# What has to be refused: no names, not our word size.
$(TARGET_DIR)/static-stripped: $(TARGET_DIR)/static
	$(call say,STRIP,$@)
	$(Q)strip -o $@ $<

# No code of its own uses vector registers, but what does so by name.
$(TARGET_DIR)/vectors: test/targets/vectors.c test/targets/vectors_asm.S test/targets/vectors.h test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -mgeneral-regs-only -fno-builtin -I. -o $@ $(filter %.c %.S,$^)

$(TARGET_DIR)/tiny32: test/targets/tiny32.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -m32 -std=gnu11 -O1 $(WARN) -ffreestanding -fno-pie -fno-stack-protector -nostdlib \
		-static -no-pie -o $@ $<

# Allocators inside: of C and C++, under the names of a Rust crate, in libraries.
JEMALLOC_WHOLE := -Wl,--whole-archive -l:libjemalloc.a -Wl,--no-whole-archive -lstdc++ -lm -ldl
$(TARGET_DIR)/own-allocator $(TARGET_DIR)/own-lto: test/targets/storm.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) $(if $(filter %-lto,$@),-flto=1) -I. -o $@ $< $(JEMALLOC_WHOLE)

$(TARGET_DIR)/own-forker: test/targets/forker.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $< $(JEMALLOC_WHOLE)

# All that it defines, as the crate does; without its operators.
$(TARGET_DIR)/librjem.a: test/module.mk
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)cp "$$($(CC) -print-file-name=libjemalloc_pic.a)" $@.tmp
	$(Q)$(AR) d $@.tmp jemalloc_cpp.pic.o
	$(Q)nm -g --defined-only $@.tmp | awk 'NF == 3 { print $$3, "_rjem_" $$3 }' | sort -u >$@.names
	$(Q)objcopy --redefine-syms=$@.names $@.tmp $@
	$(Q)rm -f $@.tmp $@.names

$(TARGET_DIR)/rjem: test/targets/rjem.rs $(TARGET_DIR)/librjem.a
	$(call say,RUST,$@)
	@mkdir -p $(@D)
	$(Q)$(RUSTC) -L native=$(TARGET_DIR) -l static=rjem -o $@ $<

$(TARGET_DIR)/plugin-rjem.so: test/targets/plugin.c $(TARGET_DIR)/librjem.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -Dmalloc=_rjem_malloc -Dfree=_rjem_free -o $@ $< \
		-L$(TARGET_DIR) -lrjem -lstdc++ -lm

# Debian has mimalloc as a shared library only; it is called by its own names.
$(TARGET_DIR)/rmi: test/targets/rjem.rs
	$(call say,RUST,$@)
	@mkdir -p $(@D)
	$(Q)$(RUSTC) --crate-name rmi --cfg mimalloc -l mimalloc -o $@ $<

# Only for programs: it is not made of position independent code.
TCMALLOC_WHOLE := -Wl,--whole-archive -l:libtcmalloc_minimal.a -Wl,--no-whole-archive -lstdc++ -lm
$(TARGET_DIR)/own-tcmalloc $(TARGET_DIR)/own-tcmalloc-lto: test/targets/storm.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) $(if $(filter %-lto,$@),-flto=1) -I. -o $@ $< $(TCMALLOC_WHOLE)

$(TARGET_DIR)/classes-tcmalloc $(TARGET_DIR)/classes-tcmalloc-static: test/targets/classes.c test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) $(if $(filter %-static,$@),-static,-no-pie) -I. -o $@ $< $(TCMALLOC_WHOLE)

$(TARGET_DIR)/pool: test/targets/arena.c test/targets/target.h agent/include/limpet.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -DPOOL -I. -o $@ $<

$(TARGET_DIR)/newer $(TARGET_DIR)/leaver $(TARGET_DIR)/census $(TARGET_DIR)/held: $(TARGET_DIR)/%: test/targets/%.cc test/targets/target.h
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(TARGET_CXXFLAGS) -I. -o $@ $<

NEWER_short := -DSHORT_JUMPS
NEWER_middle := -DMIDDLE
$(TARGET_DIR)/newer-short $(TARGET_DIR)/newer-middle: $(TARGET_DIR)/newer-%: test/targets/newer.cc test/targets/target.h
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(TARGET_CXXFLAGS) $(NEWER_$*) -I. -o $@ $<

$(TARGET_DIR)/newer-static $(TARGET_DIR)/leaver-static: $(TARGET_DIR)/%-static: test/targets/%.cc test/targets/target.h
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(TARGET_CXXFLAGS) -static -I. -o $@ $<

# Nothing is left by which its functions could be found.
$(TARGET_DIR)/rjem-stripped: $(TARGET_DIR)/rjem
	$(call say,STRIP,$@)
	$(Q)strip -o $@ $<

# Its allocator is called through slots, which a linker would make direct calls of.
$(TARGET_DIR)/nameless: test/targets/nameless.c test/targets/nameless_heap.c test/targets/nameless.h \
		test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIE -pie -s -I. -o $@ $(filter %.c,$^)

BUNDLE_hidden := -Wl,--exclude-libs,ALL
BUNDLE_symbolic := -Wl,-Bsymbolic
BUNDLE_stripped := -Wl,--exclude-libs,ALL -s
$(TARGET_DIR)/libbundle-%.so: test/targets/bundle.c test/targets/bundle.h test/targets/target.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared -I. -o $@ $< $(BUNDLE_$*) \
		-Wl,--whole-archive -l:libjemalloc_pic.a -Wl,--no-whole-archive -lstdc++ -lm

$(TARGET_DIR)/bundled-%: test/targets/bundled.c test/targets/target.h $(TARGET_DIR)/libbundle-%.so
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -I. -o $@ $< -L$(TARGET_DIR) -lbundle-$* -Wl,-rpath,'$$ORIGIN'

# Programs that use the injector's insides, for the torture run.
TORTURE_PROGRAMS := $(addprefix $(B)/torture/,rounds captures killstep stops stoptimes chains waits faults)
torture_chains_SRC := test/torture/chains_agent.c test/torture/chains_unwind.c
torture_objects = $(patsubst %.c,$(B)/obj/%.o,$(torture_$1_SRC))
$(TORTURE_PROGRAMS): $(B)/torture/%: $(B)/obj/test/torture/%.o $$(call torture_objects,$$*) \
		$(B)/test/liblimpet.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
$(B)/torture/stoptimes: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=,ptrace waitpid process_vm_readv \
	process_vm_writev open read pread pwrite sendmsg recv ppoll sigtimedwait nanosleep clock_gettime)

# Fuzz programs with a driver of their own, always with sanitizers. A fuzz finding joins
# test/fuzz/corpus/<name>, which they replay; then they mutate it FUZZ_MUTATIONS times, the same each
# time, or for FUZZ_MILLISECONDS.
FUZZ_TESTS := collector modules elf proc control trace unwind_compile explain gopclntab
FUZZ_B := build/address-undefined
# What none of them calls, which is a third of what there is to compile; if one does, the linker says so.
FUZZ_WITHOUT := analyzer/export/% analyzer/text/% analyzer/html/% analyzer/seal/% \
	$(addprefix analyzer/model/,live% namer%) $(addprefix analyzer/symbols/,debug% dwarf% perfmap% sym%) \
	$(addprefix analyzer/views/,diff% findings% heap% report% trend% view%) \
	collector/capture/capture% $(addprefix injector/,session/children% session/forks% ptrace/launch% proc/target_end%)
$(B)/fuzz/liblimpet.a: $$(filter-out $(FUZZ_WITHOUT:%=$(B)/obj/%),$$(TEST_LIB_OBJ))
	$(call say,AR,$@)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/fuzz/fuzz_%: $(B)/obj/test/fuzz/fuzz_%.o $(B)/obj/test/fuzz/fuzz_main.o $(B)/fuzz/liblimpet.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -pthread -o $@ $^ $(LIBS)
FUZZ_BINARIES := $(addprefix $(FUZZ_B)/fuzz/fuzz_,$(FUZZ_TESTS))

.PHONY: test-fuzz fuzz-build
ifeq ($(B),$(FUZZ_B))
fuzz-build: $(FUZZ_BINARIES) $(FUZZ_B)/limpet
else
fuzz-build:
	$(Q)$(MAKE) -s --no-print-directory SAN=address,undefined B=$(FUZZ_B) $(FUZZ_BINARIES) $(FUZZ_B)/limpet
endif
# A program that is told how long it runs has that much more of a limit: a factor of one for each minute.
test-fuzz: fuzz-build
	$(Q)$(RUN_TESTS) --time-factor $$((1 + $${FUZZ_MILLISECONDS:-0} / 60000)) $(FUZZ_BINARIES)

.PHONY: targets test test-unit test-build
targets: $(TARGET_PROGRAMS) $(TARGET_DIR)/npm/done

# Programs that read what `limpet export` writes.
$(TARGET_DIR)/npm/done: test/npm/package.json test/npm/package-lock.json scripts/fetch-npm
	$(call say,NPM,$@)
	$(Q)scripts/fetch-npm test/npm $(@D) 'what it reads is not tested'

# By exec: a signal that ends make is to reach it.
TEST_SETTINGS = env LIMPET=$(CURDIR)/$(B)/limpet LIMPET_STATIC=$(CURDIR)/build/static/limpet \
	TARGETS=$(CURDIR)/$(TARGET_DIR) TORTURE=$(CURDIR)/$(B)/torture
RUN_TESTS = exec $(TEST_SETTINGS) RUN_TESTS_AGAIN='make $(patsubst test-tier,$(if $(filter release,$(TIER)),test-release,test),$@)$(if $(SAN), SAN=$(SAN))' scripts/run-tests
# make test T=kept: one file; T=kept:max-size: of it, the tests whose title has that within. A name that files of two
# directories have means both: T=test/unit/test_seal.
T ?=
export T
TEST_OPTIONS ?=

test-build: $$(UNIT_BINARIES)
test-unit: $$(UNIT_BINARIES)
	$(Q)$(RUN_TESTS) --only "$$T" $(UNIT_BINARIES)

# Released programs from npm, some 600 MiB, and from Debian (scripts/bootstrap --programs), which `make test` leaves out.
.PHONY: test-programs
build/programs/done: test/programs/package.json test/programs/package-lock.json scripts/fetch-npm
	$(call say,NPM,$@)
	$(Q)scripts/fetch-npm test/programs $(@D) 'they are not tested'
test-programs: $(B)/limpet build/programs/done
	$(Q)$(RUN_TESTS) --jobs 1 --only "$$T" test/programs/programs.bats

# Kernels of Debian in virtual machines: needs the network, qemu-system-x86 and busybox-static. KERNELS=bullseye: one.
.PHONY: test-kernels
KERNELS ?=
test-kernels: build/static/limpet $(addprefix $(TARGET_DIR)/,storm storm-static-pie sleeper explained-static standing standing-static toucher)
	$(Q)exec test/kernels/run $(KERNELS)

# The torture tests, and those of others that repeat something, with the rounds that figures are claimed for; and
# what measures time (*_limits.bats), which `make test` leaves out.
.PHONY: torture
torture: export ROUNDS ?= 100
torture: export STORM_ROUNDS ?= 10000
torture: export PROGRAM_ROUNDS ?= 1000
torture: export PROGRAM_CAPTURES ?= 20
torture: export SAMPLE_ROUNDS ?= 200
torture: export ROUNDS_SECONDS ?= 3600
torture: export ROUNDS_TIMED ?= yes
torture: export FAULTS ?= all
torture: export KILL_STRIDE ?= 1
torture: export KILL_REPEAT ?= 20
torture: export KILL_ROUNDS ?= 1000
torture: export STOP_ROUNDS ?= 200
torture: export MOMENTS ?= 112
torture: export LOADER_ROUNDS ?= 60
torture: export HANDOFFS ?= 50000000
torture: export CHAINS ?= 100000
torture: export LOSS_ROUNDS ?= 200
torture: export CHAOS_PROGRAMS ?= 10000
torture: export CHAOS_SECONDS ?= 3600
torture: export STALL_ROUNDS ?= 50
torture: export DAMAGES ?= 10000
torture: export ATTACH_ROUNDS ?= 20
torture: export BLOCKED_ROUNDS ?= 10
torture: export DAMAGE_SEED ?= time
torture: export ESTIMATES ?= 5000
torture: export SIGNAL_STRIDE ?= 1
torture: export SEAL_ROUNDS ?= 300
torture: export STACK_ROUNDS ?= 2000
torture: export COUNT_TIMES ?= 20
torture: export LIES ?= 100
torture: export LIARS_MEET ?= address-undefined thread
torture: export LIES_FROM ?= $(shell date +%s)
torture: $(B)/limpet targets $(TORTURE_PROGRAMS) $(TORTURE_UNIT_TESTS) fuzz-build
	$(Q)$(MAKE) -s --no-print-directory SAN=thread build/thread/limpet
	$(Q)$(RUN_TESTS) --jobs 1 --time-factor 10 --only "$$T" $(LONG_TORTURE_TESTS)

# ------------------------------------------------------------------ programs whose lost blocks are known
#
# test/leaks/truths says what is lost in each; `make leaks-compare` also asks LeakSanitizer and Valgrind, `make
# leaks-clean` looks at servers under load.
LEAKS_DIR := $(TARGET_DIR)/leaks
LEAKS_PARTS := planted planted_library leak_check
LEAKS_C := $(filter-out $(LEAKS_PARTS),$(patsubst test/leaks/%.c,%,$(sort $(wildcard test/leaks/*.c))))
LEAKS_CC := $(patsubst test/leaks/%.cc,%,$(sort $(wildcard test/leaks/*.cc)))
LEAKS_RS := $(patsubst test/leaks/%.rs,%,$(sort $(wildcard test/leaks/rust_*.rs)))
# One source under another name.
LEAKS_NAMED := coroutine_running:coroutine shared_memory:mmap_arena readonly_page:mmap_arena
LEAKS_PROGRAMS = $(addprefix $(LEAKS_DIR)/,$(LEAKS_C) $(foreach n,$(LEAKS_NAMED),$(firstword $(subst :, ,$n))) $(LEAKS_CC) $(LEAKS_RS) planted_library.so leak_check.so)
TARGET_PROGRAMS += $(LEAKS_PROGRAMS)
LEAKS_CFLAGS = $(TARGET_CFLAGS) -DPLANTED_LIBRARY='"$(abspath $(LEAKS_DIR))/planted_library.so"'
$(addprefix $(LEAKS_DIR)/,$(LEAKS_C)): $(LEAKS_DIR)/%: test/leaks/%.c test/leaks/planted.c test/leaks/planted.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LEAKS_CFLAGS) -o $@ $(filter %.c,$^) -ldl
$(foreach n,$(LEAKS_NAMED),$(eval $(LEAKS_DIR)/$(subst :,: $(LEAKS_DIR)/,$n)))
$(foreach n,$(LEAKS_NAMED),$(LEAKS_DIR)/$(firstword $(subst :, ,$n))):
	$(call say,LN,$@)
	$(Q)ln -f $< $@
$(LEAKS_DIR)/planted.o: test/leaks/planted.c test/leaks/planted.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LEAKS_CFLAGS) -c -o $@ $<
$(addprefix $(LEAKS_DIR)/,$(LEAKS_CC)): $(LEAKS_DIR)/%: test/leaks/%.cc $(LEAKS_DIR)/planted.o test/leaks/planted.h
	$(call say,CXX,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(TARGET_CXXFLAGS) -o $@ $< $(LEAKS_DIR)/planted.o
$(addprefix $(LEAKS_DIR)/,$(LEAKS_RS)): $(LEAKS_DIR)/%: test/leaks/%.rs test/leaks/planted.rs
	$(call say,RUST,$@)
	@mkdir -p $(@D)
	$(Q)$(RUSTC) -o $@ $<
$(LEAKS_DIR)/planted_library.so $(LEAKS_DIR)/leak_check.so: $(LEAKS_DIR)/%.so: test/leaks/%.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(TARGET_CFLAGS) -fPIC -shared $(if $(findstring leak_check,$@),-fsanitize=leak) -o $@ $<

.PHONY: leaks leaks-judge leaks-compare leaks-clean
leaks: $(LEAKS_PROGRAMS)
leaks-judge: $(B)/limpet leaks
	$(Q)test/leaks/judge --all
leaks-compare: $(B)/limpet leaks
	$(Q)test/leaks/compare
leaks-clean: $(B)/limpet $(TARGET_DIR)/churn-nim
	$(Q)test/leaks/clean

# By tier: `make check` for the edit loop, `make test` for each change, `make test-release` before a release. The
# packages first: the compiler's message about a missing header names no package.
test-release: export SIGNAL_STRIDE ?= 7
test-release: export PROGRAM_CAPTURES ?= 5
test-release: export BLOCKED_ROUNDS ?= 2
test-release: export ATTACH_ROUNDS ?= 5
test-release: export LIES ?= 2
test-release: export ROUNDS ?= 12
test-release: export LOSS_ROUNDS ?= 8
test-release: export FAULTS ?= 12
test-release: export CHAOS_PROGRAMS ?= 60
test-release: export KILL_STRIDE ?= 13
test-release: export MOMENTS ?= 6
test-release: export LOOKS ?= 10
test-release: export STACK_ROUNDS ?= 50
test-release: export LINKS ?= $(STORM_LINKS)
test check test-release: bootstrap
	$(Q)$(MAKE) --no-print-directory $(if $(findstring --jobserver,$(MAKEFLAGS)),,-j$(shell nproc)) TIER=$(patsubst test-%,%,$@) test-tier
# How much each takes, for the budget.
.PHONY: check test-release tier-build test-tier test-times
test-times:
	$(Q)$(MAKE) --no-print-directory TEST_OPTIONS='--save-times test/times' test
TIER ?= test
TIER_TESTS = $(UNIT_BINARIES) $(BATS_TESTS) $(TORTURE_TESTS) $(if $(filter release,$(TIER)),$(FUZZ_BINARIES))
# What these tests need, and no more.
tier-build: $$(filter $$(shell $$(TEST_SETTINGS) scripts/run-tests --goals --tier $$(TIER) --only "$$$$T" $$(TIER_TESTS)),$\
		$(B)/limpet build/static/limpet $(TARGET_PROGRAMS) $(TARGET_DIR)/npm/done $$(UNIT_BINARIES) $(TORTURE_PROGRAMS)) \
		$$(if $$(filter release,$$(TIER)),fuzz-build)
test-tier: tier-build
	$(Q)$(RUN_TESTS) --tier $(TIER) --only "$$T" $(TEST_OPTIONS) $(TIER_TESTS)

# ------------------------------------------------------------------ fuzzing and benchmarks
#
#   make test-fuzz FUZZ_MILLISECONDS=600000            with the driver of `make test`, which there
#                                                      makes a number of mutations (FUZZ_MUTATIONS)
#   make fuzz FUZZ=collector FUZZ_SECONDS=600          with libFuzzer, which sees what is covered;
#                                                      findings land in build/fuzz/collector/
#   make bench-unwind bench-hooks bench-collector
# What a fuzzer finds joins test/fuzz/corpus/<name>, which `make test` replays and mutates.
FUZZ ?= trace
FUZZ_SECONDS ?= 600
FUZZ_CC ?= clang-14
LIBFUZZER_B := build/libfuzzer
bench_unwind_SRC := test/unit/unwind_fixture.c
# The agent's own objects, as the target gets them.
bench_hooks_SRC := test/unit/unwind_fixture.c test/unit/agent_fixture.c \
	$(filter-out %/boot.o %/exit.o,$(AGENT_OBJ))

$(B)/fuzz/libfuzzer_%: $(B)/obj/test/fuzz/fuzz_%.o $(B)/fuzz/liblimpet.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -fsanitize=fuzzer,address,undefined -pthread -o $@ $^ $(LIBS)

.PHONY: fuzz bench-unwind bench-hooks bench-collector
fuzz:
	$(Q)$(MAKE) --no-print-directory CC=$(FUZZ_CC) AGENT_CC=$(CC) SAN=fuzzer-no-link,address,undefined \
		B=$(LIBFUZZER_B) $(LIBFUZZER_B)/fuzz/libfuzzer_$(FUZZ)
	@mkdir -p build/fuzz/$(FUZZ)
	$(Q)UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		ASAN_OPTIONS=allocator_may_return_null=1 $(LIBFUZZER_B)/fuzz/libfuzzer_$(FUZZ) \
		-max_total_time=$(FUZZ_SECONDS) -max_len=16384 -timeout=10 -rss_limit_mb=4096 \
		-artifact_prefix=build/fuzz/ build/fuzz/$(FUZZ) test/fuzz/corpus/$(FUZZ)

bench_objects = $(patsubst %.c,$(B)/obj/%.o,$(bench_$1_SRC))
$(B)/bench/bench_%: $(B)/obj/test/bench/bench_%.o $$(call bench_objects,$$*) $(B)/test/liblimpet.a
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ -lcmocka $(UNWIND_LIBS) $(LIBS)
bench-unwind bench-hooks: bench-%: $(B)/bench/bench_%
	$(Q)$<

# Where its stages begin and end.
$(B)/bench/bench_collector: LDFLAGS_ALL += $(addprefix -Wl$(comma)--wrap=,limpet_recorder_add_events limpet_event_block_append limpet_trace_writer_append limpet_trace_writer_flush)
bench-collector: $(B)/bench/bench_collector
	$(Q)$< -j $(B)/bench/collector.json
