INJECTOR_SRC := injector/merge.c injector/module_book.c injector/plausible.c injector/collector.c injector/target_end.c injector/launch.c injector/children.c injector/sharers.c injector/growing.c injector/forks.c injector/descendants.c injector/capture.c \
	injector/memory.c injector/descriptor.c injector/tables.c injector/sealed.c injector/footprint.c injector/watchdog.c injector/priority.c injector/tracee.c injector/arch/$(ARCH)/home_frame.c injector/modules.c \
	injector/segment.c injector/loader_lock.c injector/loader_error.c injector/plan.c injector/safepoint.c injector/code_reader.c \
	injector/agent_image.c injector/signal_frame.c injector/quiesce.c injector/pages.c injector/addresses.c injector/copies.c injector/borrow.c injector/stop_effect.c injector/arch/$(ARCH)/stop_calls.c injector/thunks.c injector/remains.c \
	injector/turn.c injector/arch/$(ARCH)/entry_code.c injector/entry_names.c injector/entry_list.c injector/entry_find.c injector/entry_late.c injector/entry_nim.c injector/arch/$(ARCH)/nim_code.c injector/standstill.c injector/outside.c injector/near.c \
	injector/session.c
INJECTOR_SRC += injector/accounts.c injector/proc.c injector/proc_files.c injector/proc_maps.c injector/proc_threads.c injector/tid_offset.c injector/last_words.c injector/cgroup.c injector/perf_map_file.c
INJECTOR_SRC += injector/runtime_dir.c injector/control.c injector/control_socket.c injector/control_client.c injector/dormant.c
INJECTOR_SRC += injector/cfi_reader.c injector/cfi_rule.c injector/cfi.c injector/unwind_builder.c \
	injector/unwind_compile.c
INJECTOR_SRC += injector/trace_sync.c injector/trace_ring.c injector/trace_writer.c injector/live_table.c injector/mapping_table.c \
	injector/thread_numbers.c injector/site_book.c injector/ledger.c injector/sum_book.c injector/event_columns.c injector/trace_press.c injector/recorder_blocks.c injector/recorder.c
INJECTOR_SRC += injector/elf_file.c injector/seccomp_eval.c injector/seccomp_calls.c \
	injector/seccomp_read.c injector/seccomp_probe.c injector/seccomp_watch.c
INJECTOR_SRC += injector/preflight.c injector/preflight_permission.c injector/preflight_program.c \
	injector/preflight_allocators.c injector/preflight_seccomp.c injector/preflight_limits.c injector/preflight_threads.c
