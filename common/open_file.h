/* Opening files whose names somebody else may have chosen. `root` NULL: the path is ours. Else it
 * is one of a process whose root folder that is ("/proc/4711/root"): whatever links there are,
 * absolute ones too, none leads out of it, and those of /proc that lead anywhere are not followed.
 */
#ifndef LIMPET_COMMON_OPEN_FILE_H
#define LIMPET_COMMON_OPEN_FILE_H

#include "common/err.h"

enum limpet_open_flags {
	LIMPET_OPEN_NO_LINKS = 1 /* a link anywhere on the way is an error */
};

/* A descriptor that only names (O_PATH): nothing is opened. Or -errno, -ELOOP where there is a link
 * that may not be followed. */
int limpet_open_name(const char *root, const char *path, unsigned flags) LIMPET_MUST_CHECK;

/* A regular file, for reading; anything else (a device, a FIFO, a file of the kernel's own in /proc
 * or /sys) is not opened. Answers a descriptor or -errno, -EINVAL where it is no regular file. */
int limpet_open_regular(const char *root, const char *path, unsigned flags) LIMPET_MUST_CHECK;

#endif
