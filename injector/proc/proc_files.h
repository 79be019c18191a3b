/* How the readers of /proc find its files. Private to injector/proc*.c. */
#ifndef LIMPET_INJECTOR_PROC_PROC_FILES_H
#define LIMPET_INJECTOR_PROC_PROC_FILES_H

#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

/* What ENOENT below /proc/PID means: -ESRCH if the directory itself is gone, otherwise -ENOENT: a
 * kernel thread has no exe, an older kernel lacks a file. */
int limpet_proc_missing(pid_t pid);
/* Writes the path of a file below /proc/PID, or below /proc if pid is 0, into PATH_MAX bytes. If
 * the main thread may have released what is asked for, the path leads through a thread that still
 * has it. */
int limpet_proc_path(char *ret_path, pid_t pid, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Opens a file below /proc/PID, of whatever process has that number, with O_CLOEXEC and `flags`. */
int limpet_proc_open_of(pid_t pid, const char *name, int flags) LIMPET_MUST_CHECK;
/* The numeric names in a directory, ascending, malloc'ed; returns their number. */
int limpet_proc_list_numbers(pid_t pid, const char *name, int **ret_list);

/* The value after "Key:" in the text of a status file, or NULL. Never matches inside another value:
 * keys start a line, and the kernel escapes newlines in names. */
const char *limpet_proc_status_value(const char *text, const char *key);

#endif
