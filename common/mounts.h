/* A file's mount, by the kernel's mount tables: the file system itself is not accessed, since a
 * program may serve it and block any access. */
#ifndef LIMPET_COMMON_MOUNTS_H
#define LIMPET_COMMON_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_mount {
	uint64_t id;   /* (statx(2), stx_mnt_id) */
	char type[32]; /* of the file system, "" where no table has it */
	/* Served by a program, or possibly so: FUSE, and overlays that another user namespace may
	 * have mounted over it. A mount in no table counts as served. */
	bool is_served;
};

/* For a file that is open, or named only (O_PATH). `process` is the directory in /proc of the
 * process that sees it, or NULL. 0 or -errno. */
int limpet_mount_of(int fd, const char *process, struct limpet_mount *ret) LIMPET_MUST_CHECK;

/* The type of the mount at `point`, in the root directory of that process: 0, -ENOENT if nothing is
 * mounted, -ESRCH if there is no table, or another -errno. */
int limpet_mount_type_at(const char *process, const char *point,
			 char ret_type[32]) LIMPET_MUST_CHECK;

#endif
