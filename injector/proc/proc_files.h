/* How the readers of /proc get at its files. Private to injector/proc*.c. */
#ifndef LIMPET_INJECTOR_PROC_PROC_FILES_H
#define LIMPET_INJECTOR_PROC_PROC_FILES_H

#include <stddef.h>
#include <sys/types.h>

/* What ENOENT below /proc/PID means: -ESRCH when the folder itself is gone, otherwise -ENOENT: a
 * kernel thread has no exe, an older kernel lacks a file. */
int limpet_proc_missing(pid_t pid);
/* Writes the path of a file below /proc/PID, or below /proc when pid is 0, into PATH_MAX bytes.
 * What the main thread may have let go of is taken from the thread that still has it. */
int limpet_proc_path(char *ret_path, pid_t pid, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The numeric names in a folder, ascending, malloc'ed; answers their number. */
int limpet_proc_list_numbers(pid_t pid, const char *name, int **ret_list);

/* The value behind "Key:" in the text of a status file, or NULL. Never found inside another value:
 * keys start a line, and the kernel escapes line ends in names. */
const char *limpet_proc_status_value(const char *text, const char *key);

/* Which file a descriptor of the process is of, without asking its file system, which may be the
 * program's own: device and inode alone are filled in. */
struct stat;
int limpet_proc_fd_identity(pid_t pid, int fd, struct stat *ret);

#endif
