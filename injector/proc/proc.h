/* What /proc says of a process. Reads only; works on any process that the caller may see.
 * Every function answers 0 (or a count) or -errno; -ESRCH: no such process (any more). */
#ifndef LIMPET_INJECTOR_PROC_PROC_H
#define LIMPET_INJECTOR_PROC_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Root of the proc file system; tests point it at a directory of substitute files. */
extern const char *limpet_proc_root;

struct limpet_err;
/* "process N is gone" for -ESRCH, that it is another program for -ESTALE, else
 * "cannot WHAT process N: ..."; answers `error`. */
int limpet_proc_explain(pid_t pid, int error, const char *what, struct limpet_err *err);

struct limpet_map {
	uint64_t start, end, offset, inode;
	uint32_t dev_major, dev_minor;
	char perms[5]; /* "r-xp" */
	char *path;    /* "" when anonymous; "(deleted)" suffix kept as the kernel prints it */
};
struct limpet_maps {
	struct limpet_map *list; /* by address; owns the paths too */
	size_t count;
};
int limpet_proc_maps_read(pid_t pid, struct limpet_maps *ret_maps);
void limpet_proc_maps_done(struct limpet_maps *maps);
/* The map that holds `address`, or NULL. */
const struct limpet_map *limpet_proc_maps_find(const struct limpet_maps *maps, uint64_t address);
/* How far down the mapping "[stack]", one of `maps`, may grow, into space that nothing else is
 * mapped to: the limit may have been raised since the space was laid out. */
uint64_t limpet_proc_main_stack_low(pid_t pid, const struct limpet_maps *maps,
				    const struct limpet_map *map);

/* The mappings once more, each with what the kernel says of it. To make that list it walks over all
 * page tables: of a large process it takes long. */
struct limpet_smaps {
	char *text, *next;
};
struct limpet_smap {
	struct limpet_map map;
	const char *keys;
};
int limpet_proc_smaps_read(pid_t pid, struct limpet_smaps *ret_smaps);
void limpet_proc_smaps_done(struct limpet_smaps *smaps);
/* The next one, which is good until they are done: 1, 0 at the end, or -EBADMSG. */
int limpet_proc_smaps_next(struct limpet_smaps *smaps, struct limpet_smap *ret_smap);
/* An amount, "Rss" or "Swap"; false where this kernel does not name it. */
bool limpet_smap_bytes(const struct limpet_smap *smap, const char *key, uint64_t *ret_bytes);
/* A flag by the two letters that proc(5) gives it. */
bool limpet_smap_has_flag(const struct limpet_smap *smap, const char *flag);

struct limpet_proc_status {
	char name[64]; /* comm, unescaped */
	char state;    /* R S D T t Z X I */
	pid_t tgid, ppid, tracer;
	pid_t ns_pid; /* in its own pid namespace */
	uid_t uid, euid, suid, fsuid;
	gid_t gid, egid, sgid;
	unsigned threads;
	unsigned fd_size;                         /* slots in the descriptor table */
	uint64_t rss_bytes, vm_bytes, data_bytes; /* data: private and writable, no stack */
	uint64_t vm_most_bytes;                   /* vm_bytes at its most */
	uint64_t cap_effective, cap_permitted;
	int seccomp; /* 0 none, 1 strict, 2 filter */
	bool no_new_privs;
	bool kernel_thread; /* runs no code of a program: also io_uring's among its threads */
};
int limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret_status);

/* The numbers in a thread's stat file, at the places that proc(5) gives them; 0 below the fourth,
 * which are none, and where there is no more. Answers the last place. */
#define LIMPET_STAT_FIELDS 53u
int limpet_proc_stat_read(pid_t pid, pid_t tid, uint64_t ret_fields[LIMPET_STAT_FIELDS]);
/* Start time in clock ticks since boot: with the pid it names a process for good. */
int limpet_proc_start_time(pid_t pid, uint64_t *ret_ticks);
/* It runs no code of its program any more, or is gone. */
bool limpet_proc_is_exiting(pid_t tid);
/* Threads, ascending; *ret_tids is malloc'ed. Answers their number. None that lived all the while
 * is missing; some may be gone already. */
int limpet_proc_tasks(pid_t pid, pid_t **ret_tids);
/* The thread by which a process's memory, descriptors and namespaces are reached: `pid`, or, once
 * its main thread has ended, another that goes on. `pid` too when none does. */
pid_t limpet_proc_resident(pid_t pid);
/* Whether any of its threads still has the process's memory: not so once it is on its way out. */
bool limpet_proc_has_memory(pid_t pid);
/* argv[0], without what a process says of itself in its place (setproctitle), and the executable's
 * path; buffers are always terminated. */
int limpet_proc_argv0(pid_t pid, char *ret, size_t bytes);
/* The whole command line, arguments separated by one blank. It may hold secrets. */
int limpet_proc_command_line(pid_t pid, char *ret, size_t bytes);
int limpet_proc_executable(pid_t pid, char *ret, size_t bytes);

/* What a blocked thread is doing, from /proc/PID/task/TID/syscall: without stopping it. */
struct limpet_proc_syscall {
	bool running; /* on a processor or ready: nothing more is known */
	long number;  /* -1: blocked outside a system call */
	uint64_t args[6];
	uint64_t sp, pc;
};
int limpet_proc_syscall_read(pid_t pid, pid_t tid, struct limpet_proc_syscall *ret_syscall);
/* Voluntary + involuntary context switches of a thread: unchanged means that it did not run. */
int limpet_proc_switches(pid_t pid, pid_t tid, uint64_t *ret_switches);
/* A number in a thread's own status ("TracerPid", "Seccomp"...). -ENOENT: it has no such line. */
int limpet_proc_task_number(pid_t pid, pid_t tid, const char *key, uint64_t *ret_value);
/* Time in nanoseconds that a thread has waited for a processor (schedstat). */
int limpet_proc_run_delay(pid_t pid, pid_t tid, uint64_t *ret_ns);
/* Until each thread has slept, or run for some microseconds, since the call: whatever one was let
 * go with before it, it has done. `deadline_ns` is monotonic; -ETIMEDOUT, with threads that still
 * wait for a processor (or that somebody holds). */
int limpet_proc_settle(pid_t pid, uint64_t deadline_ns);

/* A number or string out of /proc/PID/auxv: AT_ENTRY, AT_PHDR, AT_BASE, AT_SYSINFO_EHDR... */
int limpet_proc_auxv(pid_t pid, uint64_t type, uint64_t *ret_value);
/* RLIMIT_NOFILE soft limit. */
int limpet_proc_limit_files(pid_t pid, uint64_t *ret_soft);
/* Descriptors in use, ascending, malloc'ed; answers their number. */
int limpet_proc_fds(pid_t pid, int **ret_fds);

/* Every process that the caller may see, ascending, malloc'ed; answers their number. */
int limpet_proc_pids(pid_t **ret_pids);
/* A whole file, malloc'ed, with a NUL behind it that *ret_bytes does not count: /proc/PID/NAME, or
 * /proc/NAME when pid is 0. -ENOENT: the process is there, the file is not. */
int limpet_proc_file_read(pid_t pid, const char *name, char **ret_text, size_t *ret_bytes);
/* The number at the start of /proc/NAME: a setting of the machine. */
int limpet_proc_number_read(const char *name, uint64_t *ret_value);
/* Where a link leads (exe, root, ns/pid, fd/N); the buffer is always terminated. */
int limpet_proc_link_read(pid_t pid, const char *name, char *ret, size_t bytes);

#endif
