/* Opens files whose names, or file systems, may be under another user's control. `root` NULL: the
 * path is limpet's own. Otherwise it belongs to a process with this root directory
 * ("/proc/4711/root"): no link, absolute or not, leads out of the directory, and links of /proc
 * that may lead anywhere are not followed.
 *
 * Files that a program may serve (mounts.h) are looked up, opened, read and closed in a separate
 * process (subprocess.h), so that the program cannot block limpet; the result is a copy in memory.
 */
#ifndef LIMPET_COMMON_OPEN_FILE_H
#define LIMPET_COMMON_OPEN_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "common/err.h"

enum limpet_open_flags {
	LIMPET_OPEN_NO_LINKS = 1, /* a symbolic link anywhere in the path is an error */
	LIMPET_OPEN_IN_PLACE = 2  /* the file itself: if a program may serve it, -EOPNOTSUPP */
};

/* Larger files are not copied: -EFBIG. */
#define LIMPET_OPEN_COPY_MAX ((off_t)1 << 30)

/* Opens a regular file for reading; anything else (a device, a FIFO, a file of the kernel in /proc
 * or /sys) is not opened. Returns a descriptor or -errno: -EINVAL if it is not a regular file,
 * -ELOOP if a link may not be followed, -ETIMEDOUT if the program that serves it does not answer.
 * `ret_status`, of the file itself and not of a copy, may be NULL. */
int limpet_open_regular(const char *root, const char *path, unsigned flags,
			struct stat *ret_status) LIMPET_MUST_CHECK;

/* The same for the target of a link in a process's directory in /proc, even if deleted, replaced or
 * in another root: "/proc/4711" and "exe". */
int limpet_open_linked(const char *process, const char *link,
		       struct stat *ret_status) LIMPET_MUST_CHECK;

/* Whether that root directory is accessible, without accessing it. */
bool limpet_open_may_enter(const char *root);

/* The first of two steps: a descriptor that only names the file (O_PATH); nothing is opened. */
int limpet_open_name(const char *root, const char *path, unsigned flags) LIMPET_MUST_CHECK;
int limpet_open_link(const char *process, const char *link) LIMPET_MUST_CHECK;
/* The second step, for a file named so, or already open: a new descriptor. `process` is the
 * directory in /proc of the process that sees it, or NULL. */
int limpet_open_named(int named, const char *process, unsigned flags,
		      struct stat *ret_status) LIMPET_MUST_CHECK;

#endif
