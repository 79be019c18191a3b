# Agent and injector share common/slots.c.
INJECTOR_SRC := \
	common/slots.c \
	injector/session/children.c \
	injector/session/command.c \
	injector/session/descendants.c \
	injector/session/forks.c \
	injector/session/leftovers.c \
	injector/session/session.c \
	injector/session/session_attach.c \
	injector/session/session_call.c \
	injector/session/session_cleanup.c \
	injector/session/session_detach.c

INJECTOR_SRC += \
	injector/hidden/arch/$(ARCH)/call_sites.c \
	injector/hidden/call_judge.c \
	injector/hidden/call_watch.c \
	injector/hidden/hidden.c \
	injector/hidden/slot_calls.c

INJECTOR_SRC += \
	injector/preflight/attach_plan.c \
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
	injector/hook/kept_values.c \
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
	injector/remote/sharers.c \
	injector/remote/stack_room.c

INJECTOR_SRC += \
	injector/ptrace/arch/$(ARCH)/interrupted.c \
	injector/ptrace/arch/$(ARCH)/rest.c \
	injector/ptrace/arch/$(ARCH)/sigreturn_frame.c \
	injector/ptrace/arch/$(ARCH)/stop_calls.c \
	injector/ptrace/robust_word.c \
	injector/ptrace/launch.c \
	injector/ptrace/awake.c \
	injector/ptrace/boost.c \
	injector/ptrace/priority.c \
	injector/ptrace/signal_frame.c \
	injector/ptrace/step.c \
	injector/ptrace/stop_all.c \
	injector/ptrace/stop_effect.c \
	injector/ptrace/tick.c \
	injector/ptrace/timed_wait.c \
	injector/ptrace/tracee.c \
	injector/ptrace/tracee_hijack.c \
	injector/ptrace/tracee_maker.c \
	injector/ptrace/tracee_wait.c \
	injector/ptrace/tracer.c \
	injector/ptrace/target_lock.c \
	injector/ptrace/wait.c \
	injector/ptrace/watchdog.c

INJECTOR_SRC += \
	injector/stacks/stack_reader.c \
	injector/stacks/stack_scene.c \
	injector/stacks/stack_copier.c \
	injector/stacks/stack_unwind.c \
	injector/stacks/stacks.c \
	injector/stacks/stop_moment.c

INJECTOR_SRC += \
	injector/unwind/arch/$(ARCH)/frame_step.c \
	injector/unwind/cfi.c \
	injector/unwind/cfi_reader.c \
	injector/unwind/cfi_rule.c \
	injector/unwind/frame_code.c \
	injector/unwind/frame_reader.c \
	injector/unwind/module_frames.c \
	injector/unwind/unwind_builder.c \
	injector/unwind/unwind_compile.c \
	injector/unwind/unwind_fill.c \
	injector/unwind/unwind_set.c

INJECTOR_SRC += \
	injector/elf/allocator_jemalloc.c \
	injector/elf/allocator_mimalloc.c \
	injector/elf/allocator_tcmalloc.c \
	injector/elf/allocator_texts.c \
	injector/elf/allocators.c \
	injector/elf/memory_owners.c \
	injector/elf/thread_stacks.c \
	injector/elf/arch/$(ARCH)/entry_code.c \
	injector/elf/arch/$(ARCH)/nim_code.c \
	injector/elf/code_reader.c \
	injector/elf/elf_file.c \
	injector/elf/entry_check.c \
	injector/elf/entry_collect.c \
	injector/elf/entry_find.c \
	injector/elf/entry_late.c \
	injector/elf/entry_list.c \
	injector/elf/entry_names.c \
	injector/elf/entry_nim.c \
	injector/elf/modules_memory.c \
	injector/elf/modules.c \
	injector/elf/preflight_allocators.c

# By /proc alone.
PROC_SRC := \
	injector/proc/commit.c \
	injector/proc/cgroup.c \
	injector/proc/descriptor.c \
	injector/proc/memory.c \
	injector/proc/memory_reader.c \
	injector/proc/message_queue.c \
	injector/proc/pagemap.c \
	injector/proc/pages.c \
	injector/proc/stack_memory.c \
	injector/proc/target_perf_map.c \
	injector/proc/proc.c \
	injector/proc/proc_files.c \
	injector/proc/proc_maps.c \
	injector/proc/proc_threads.c \
	injector/proc/target_end.c \
	injector/proc/target_identity.c \
	injector/proc/tid_offset.c
INJECTOR_SRC += $(PROC_SRC)
