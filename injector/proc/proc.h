/* Reads /proc. Works for any process that the caller may see. Every function returns 0 (or a count)
 * or -errno; -ESRCH: the process does not exist (any more). */
#ifndef LIMPET_INJECTOR_PROC_PROC_H
#define LIMPET_INJECTOR_PROC_PROC_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "injector/proc/processes.h"

struct limpet_target;

struct limpet_map {
	uint64_t start, end, offset, inode;
	uint32_t dev_major, dev_minor;
	char perms[5]; /* "r-xp" */
	char *path;    /* "" if anonymous; a "(deleted)" suffix is kept as the kernel prints it */
};
struct limpet_maps {
	struct limpet_map *list; /* sorted by address; owns the paths, too */
	size_t count;
};
int limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret_maps);
void limpet_proc_maps_done(struct limpet_maps *maps);
bool limpet_map_is_same_file(const struct limpet_map *map, const struct limpet_map *other);
/* Whether mapping `i` is code of that file: mapped from it, or moved to anonymous memory between or
 * beside other parts of it, for huge pages. */
bool limpet_map_is_code_of(const struct limpet_maps *maps, size_t i, const struct limpet_map *file);
/* Whether it is memory of no file and of no use of the kernel's; the program may have named it by
 * prctl(2), PR_SET_VMA_ANON_NAME. */
bool limpet_map_is_anonymous(const struct limpet_map *map);
/* The last map of a run that map `i` is of: private anonymous memory without a gap. What a program
 * got as one mapping is such a run once madvise(2), mlock(2) or mprotect(2) did something to a part
 * of it. `i` itself if it is of none. Looks no further than the first that ends at `end` or later.
 */
size_t limpet_proc_maps_run(const struct limpet_maps *maps, size_t i, uint64_t end);
/* The map that holds `address`, or NULL. */
const struct limpet_map *limpet_proc_maps_find(const struct limpet_maps *maps, uint64_t address);
/* The maps that hold `count` addresses, without their paths; zeros where there is none. Does not
 * read the others, if the kernel can be asked (Linux 6.11). */
int limpet_proc_maps_at(pid_t pid, const uint64_t *addresses, size_t count,
			struct limpet_map *ret_maps);
/* How far down the mapping "[stack]", one of `maps`, may grow into space where nothing else is
 * mapped: the limit may have been raised since the address space was laid out. */
uint64_t limpet_proc_main_stack_low(const struct limpet_target *target,
				    const struct limpet_maps *maps, const struct limpet_map *map);

/* The mappings again, each with the kernel's figures for it. To make this list the kernel walks
 * over all page tables, which takes long for a large process. */
struct limpet_smaps {
	char *text, *next;
	uint64_t end; /* of the last mapping */
};
struct limpet_smap {
	struct limpet_map map;
	const char *keys;
};
int limpet_proc_smaps_read(pid_t pid, struct limpet_smaps *ret_smaps);
void limpet_proc_smaps_done(struct limpet_smaps *smaps);
/* The next mapping, valid until the list is released: 1, 0 at the end, or -EBADMSG. One that grew
 * while the file was read may be there twice: the second one is left out, and with it what came
 * after the first look. */
int limpet_proc_smaps_next(struct limpet_smaps *smaps, struct limpet_smap *ret_smap);
/* An amount, such as "Rss" or "Swap"; false if this kernel does not report it. */
bool limpet_smap_bytes(const struct limpet_smap *smap, const char *key, uint64_t *ret_bytes);
/* Whether the mapping has a flag, by the two letters of proc(5). */
bool limpet_smap_has_flag(const struct limpet_smap *smap, const char *flag);

/* The numbers in a thread's stat file, by their field numbers in proc(5); the state as a character;
 * 0 for pid and name, and for missing ones. Returns the last field number. */
#define LIMPET_STAT_FIELDS 53u
#define LIMPET_STAT_STATE 3u
#define LIMPET_STAT_MINOR_FAULTS 10u
#define LIMPET_STAT_MAJOR_FAULTS 12u
#define LIMPET_STAT_START_STACK 28u
#define LIMPET_STAT_PROCESSOR 39u
int limpet_proc_stat_read(pid_t pid, pid_t tid, uint64_t ret_fields[LIMPET_STAT_FIELDS]);
/* Whether it no longer runs code of its program, or is gone. */
bool limpet_proc_is_exiting(pid_t tid);
/* Threads, ascending; *ret_tids is malloc'ed. Returns their number. Every thread that lived during
 * the whole call is included; some may be gone already. */
int limpet_proc_tasks(pid_t pid, pid_t **ret_tids);
/* The same in one look, which may miss some while others end. */
int limpet_proc_tasks_once(pid_t pid, pid_t **ret_tids);
/* A thread's name, as prctl(PR_SET_NAME) has set it: any bytes but NUL. */
#define LIMPET_PROC_NAME_BYTES 64u
int limpet_proc_thread_name(const struct limpet_target *target, pid_t tid,
			    char ret[LIMPET_PROC_NAME_BYTES]);
/* The thread through which a process's memory, descriptors and namespaces are reached: `pid`, or
 * another running thread if the main thread has ended. `pid` also if there is none. */
pid_t limpet_proc_resident(pid_t pid);
/* Whether any of its threads still has the process's memory: false once it is exiting. */
bool limpet_proc_has_memory(pid_t pid);
/* argv[0], without a title that the process has set in its place (setproctitle); buffers are always
 * terminated. */
int limpet_proc_argv0(const struct limpet_target *target, char *ret, size_t bytes);
/* The whole command line, with arguments separated by one blank. It may contain secrets. */
int limpet_proc_command_line(const struct limpet_target *target, char *ret, size_t bytes);

/* What a blocked thread is doing, read from /proc/PID/task/TID/syscall without stopping it. */
struct limpet_proc_syscall {
	bool running; /* on a processor or ready: nothing else is known */
	long number;  /* -1: blocked outside a system call */
	uint64_t args[6];
	uint64_t sp, pc;
};
int limpet_proc_syscall_read(pid_t pid, pid_t tid, struct limpet_proc_syscall *ret_syscall);
/* Voluntary + involuntary context switches of a thread: if unchanged, it did not run. */
int limpet_proc_switches(pid_t pid, pid_t tid, uint64_t *ret_switches);
/* What the scheduler tells of a thread, without stopping it (/proc/PID/task/TID/sched; -ENOENT: not
 * in this kernel). Allocates nothing. */
struct limpet_proc_sched {
	/* When a thread that sleeps went to sleep, by the clock of the processor it was on: that
	 * clock and CLOCK_MONOTONIC differ, and each processor's differs otherwise. 0: unknown. */
	uint64_t ran_ns;
	uint64_t sleeps; /* how often it went to sleep, or into a stop: voluntary switches */
};
int limpet_proc_sched_read(pid_t pid, pid_t tid, struct limpet_proc_sched *ret);
/* A number in a thread's own status ("TracerPid", "Seccomp"...). -ENOENT: there is no such line. */
int limpet_proc_task_number(const struct limpet_target *target, pid_t tid, const char *key,
			    uint64_t *ret_value);
/* Another process that traces the main thread, or one of the first `threads` (each has its own
 * tracer: strace -p TID), and its name. 0: none. */
pid_t limpet_proc_tracer(pid_t pid, int threads, char ret_name[LIMPET_PROC_NAME_BYTES]);
/* Whether the tracer is a process that the program has made to look at itself, as LeakSanitizer and
 * some crash handlers do: it will be gone in a moment. */
bool limpet_proc_is_own_tracer(pid_t pid, pid_t tracer);
/* Time in nanoseconds that a thread has spent on a processor, exact while it is off (schedstat). */
int limpet_proc_run_time(pid_t pid, pid_t tid, uint64_t *ret_ns);
/* Waits until each thread has slept, or run for some microseconds, since the call: then it has done
 * whatever it was released with before. `deadline_ns` is monotonic; -ETIMEDOUT if threads still
 * wait for a processor, or are stopped by somebody. */
int limpet_proc_settle(const struct limpet_target *target, uint64_t deadline_ns);

/* A number or string from /proc/PID/auxv: AT_ENTRY, AT_PHDR, AT_BASE, AT_SYSINFO_EHDR... */
int limpet_proc_auxv(pid_t pid, uint64_t type, uint64_t *ret_value);
/* A soft limit, by its name in /proc/PID/limits: "Max open files"; UINT64_MAX: none. */
int limpet_proc_limit(pid_t pid, const char *name, uint64_t *ret_soft);
/* How much more memory the process may lock, by its status; UINT64_MAX: any amount. A capability
 * counts in the machine's user namespace, for which that of the caller is taken. */
uint64_t limpet_proc_lock_room(pid_t pid, const struct limpet_proc_status *status);
/* Open descriptors, ascending, malloc'ed; returns their number. */
int limpet_proc_fds(const struct limpet_target *target, int **ret_fds);

/* Holds what a descriptor of the process refers to (O_PATH), and its type (S_IFIFO...), without
 * asking who serves a file: neither this nor close(2) of it waits. For handlers of signals, too.
 * Returns a descriptor that the caller closes. */
int limpet_proc_pin(pid_t pid, unsigned fd, unsigned *ret_type) LIMPET_MUST_CHECK;
/* A copy of a descriptor of the process's, if it is a pipe, a socket or a terminal; -errno. Closing
 * that of a file flushes it, and who serves it might not answer while its own threads stand: one
 * that has become a file's in between is never closed. For handlers of signals, too. Needs Linux
 * 5.6. Returns a descriptor that the caller closes. */
int limpet_proc_copy(pid_t pid, unsigned fd) LIMPET_MUST_CHECK;
/* Opens /proc/PID/NAME with O_CLOEXEC and `flags`: the target's, or fails with -ESRCH. Returns a
 * descriptor that the caller closes. */
int limpet_proc_open(const struct limpet_target *target, const char *name,
		     int flags) LIMPET_MUST_CHECK;
/* The target of a link (exe, root, ns/pid, fd/N); the buffer is always terminated. */
int limpet_proc_link_read(pid_t pid, const char *name, char *ret, size_t bytes);

#endif
