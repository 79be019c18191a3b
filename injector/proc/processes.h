/* Any process of the machine, by its pid: one that somebody typed, or one of all. By the next call
 * that pid may be another process's: what has to be about one process takes struct limpet_target.
 * Every function returns 0 (or a count) or -errno; -ESRCH: the process does not exist (any more).
 */
#ifndef LIMPET_INJECTOR_PROC_PROCESSES_H
#define LIMPET_INJECTOR_PROC_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Root of the proc file system; tests set it to a directory of substitute files. */
extern const char *limpet_proc_root;

/* Whether what a read of a process's or thread's file returned says that it has ended. Any other
 * error says nothing of that. */
static inline bool limpet_proc_is_gone(int error)
{
	return error == -ESRCH || error == -ENOENT;
}

/* Sets "process N is gone" for -ESRCH, that it is another program for -ESTALE, else "cannot WHAT
 * process N: ..."; returns `error`. */
int limpet_proc_explain(pid_t pid, int error, const char *what, struct limpet_err *err);

/* Every process that the caller may see, ascending, malloc'ed; returns their number. */
int limpet_proc_pids(pid_t **ret_pids);
/* A whole file, malloc'ed, followed by a NUL that *ret_bytes does not count: /proc/PID/NAME, or
 * /proc/NAME if pid is 0. -ENOENT: the process exists, the file does not. */
int limpet_proc_file_read(pid_t pid, const char *name, char **ret_text, size_t *ret_bytes);
/* The number at the start of /proc/NAME, a setting of the machine. */
int limpet_proc_number_read(const char *name, uint64_t *ret_value);

struct limpet_proc_status {
	char name[64]; /* comm, unescaped */
	char state;    /* R S D T t Z X I */
	pid_t tgid, ppid, tracer;
	pid_t ns_pid;      /* in its own pid namespace */
	bool other_pid_ns; /* that is not /proc's; its numbers may be the same as outside by chance
			    */
	uid_t uid, euid, suid, fsuid;
	gid_t gid, egid, sgid;
	unsigned threads;
	unsigned fd_size; /* slots in the descriptor table */
	/* Of rss_bytes, pages of files and shared ones; 0: unknown. */
	uint64_t file_rss_bytes;
	uint64_t rss_bytes, vm_bytes, locked_bytes,
		data_bytes;     /* data: private, writable, no stack */
	uint64_t vm_most_bytes; /* peak of vm_bytes */
	uint64_t cap_effective, cap_permitted;
	uint64_t handlers_due; /* signals for the thread, or any, that wait and have a handler */
	int seccomp;           /* 0 none, 1 strict, 2 filter */
	bool no_new_privs;
	bool kernel_thread; /* runs no code of a program; includes io_uring's threads of a process
			     */
};
int limpet_proc_status_read(pid_t pid, struct limpet_proc_status *ret_status);
/* Whether it has ended, and its parent has not collected it yet; then says so. Other calls fail as
 * if it were gone, or, for its own user, as if he were not allowed to. */
bool limpet_proc_refuse_zombie(pid_t pid, const struct limpet_proc_status *status,
			       struct limpet_err *err);

/* Start time in clock ticks since boot; together with the pid it identifies a process for good. */
int limpet_proc_start_time(pid_t pid, uint64_t *ret_ticks);
/* The same as time of day, to a second or two; 0: unknown. */
time_t limpet_proc_started(pid_t pid);
/* The executable's path; the buffer is always terminated. */
int limpet_proc_executable(pid_t pid, char *ret, size_t bytes);

#endif
