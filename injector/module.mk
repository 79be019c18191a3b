INJECTOR_SRC := \
	injector/children.c \
	injector/forks.c \
	injector/leftovers.c \
	injector/session.c \
	injector/session_attach.c \
	injector/session_call.c \
	injector/session_cleanup.c \
	injector/session_detach.c

INJECTOR_SRC += \
	injector/hidden/arch/$(ARCH)/call_sites.c \
	injector/hidden/call_judge.c \
	injector/hidden/call_watch.c \
	injector/hidden/hidden.c \
	injector/hidden/slot_calls.c

INJECTOR_SRC += \
	injector/preflight/dormant.c \
	injector/preflight/preflight.c \
	injector/preflight/preflight_cache.c \
	injector/preflight/preflight_followed.c \
	injector/preflight/preflight_libc.c \
	injector/preflight/preflight_limits.c \
	injector/preflight/preflight_permission.c \
	injector/preflight/preflight_program.c \
	injector/preflight/preflight_seccomp.c \
	injector/preflight/preflight_threads.c \
	injector/preflight/preflight_translator.c \
	injector/preflight/seccomp_calls.c \
	injector/preflight/seccomp_eval.c \
	injector/preflight/seccomp_probe.c \
	injector/preflight/seccomp_read.c \
	injector/preflight/seccomp_watch.c

INJECTOR_SRC += \
	injector/hook/addresses.c \
	injector/hook/hook_pointers.c \
	injector/hook/inline_hook.c \
	injector/hook/mseal.c \
	injector/hook/plan.c \
	injector/hook/remote_patch.c \
	injector/hook/slot_aliases.c \
	injector/hook/thunks.c

INJECTOR_SRC += \
	injector/remote/agent_image.c \
	injector/remote/hijack.c \
	injector/remote/own_objects.c \
	injector/remote/growing.c \
	injector/remote/loader_error.c \
	injector/remote/loader_lock.c \
	injector/remote/quiesce.c \
	injector/remote/safepoint.c \
	injector/remote/segment.c \
	injector/remote/sharers.c

INJECTOR_SRC += \
	injector/ptrace/arch/$(ARCH)/interrupted.c \
	injector/ptrace/arch/$(ARCH)/rest.c \
	injector/ptrace/arch/$(ARCH)/sigreturn_frame.c \
	injector/ptrace/arch/$(ARCH)/stop_calls.c \
	injector/ptrace/last_words.c \
	injector/ptrace/launch.c \
	injector/ptrace/awake.c \
	injector/ptrace/boost.c \
	injector/ptrace/priority.c \
	injector/ptrace/signal_frame.c \
	injector/ptrace/stop_all.c \
	injector/ptrace/stop_effect.c \
	injector/ptrace/tick.c \
	injector/ptrace/timed_wait.c \
	injector/ptrace/tracee.c \
	injector/ptrace/target_lock.c \
	injector/ptrace/wait.c \
	injector/ptrace/watchdog.c

INJECTOR_SRC += \
	injector/unwind/cfi.c \
	injector/unwind/cfi_reader.c \
	injector/unwind/cfi_rule.c \
	injector/unwind/unwind_builder.c \
	injector/unwind/unwind_compile.c \
	injector/unwind/unwind_set.c

INJECTOR_SRC += \
	injector/image/allocator_texts.c \
	injector/image/memory_owners.c \
	injector/image/thread_stacks.c \
	injector/image/arch/$(ARCH)/entry_code.c \
	injector/image/arch/$(ARCH)/nim_code.c \
	injector/image/code_reader.c \
	injector/image/elf_file.c \
	injector/image/entry_check.c \
	injector/image/entry_collect.c \
	injector/image/entry_find.c \
	injector/image/entry_late.c \
	injector/image/entry_list.c \
	injector/image/entry_names.c \
	injector/image/entry_nim.c \
	injector/image/module_memory.c \
	injector/image/modules.c \
	injector/image/preflight_allocators.c

INJECTOR_SRC += \
	injector/proc/cgroup.c \
	injector/proc/descendants.c \
	injector/proc/descriptor.c \
	injector/proc/memory.c \
	injector/proc/pagemap.c \
	injector/proc/pages.c \
	injector/proc/stack_memory.c \
	injector/proc/perf_map_file.c \
	injector/proc/proc.c \
	injector/proc/proc_files.c \
	injector/proc/proc_maps.c \
	injector/proc/proc_threads.c \
	injector/proc/target_end.c \
	injector/proc/target_process.c \
	injector/proc/tid_offset.c
