/* What the kernel's tables of mounts say of a file: its file system is not asked, since it may be
 * served by a program, which lets whoever asks wait as long as it likes. */
#ifndef LIMPET_COMMON_MOUNTS_H
#define LIMPET_COMMON_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_mount {
	uint64_t id;   /* (statx(2), stx_mnt_id) */
	char type[32]; /* of the file system, "" where no table has it */
	/* By a program, or by whoever could have a program serve it: FUSE, and overlays that
	 * another user namespace may have laid over such. What no table has is taken for served. */
	bool is_served;
};

/* Of an open file, or of one that is only named (O_PATH). `process` is the folder in /proc of the
 * process that sees it, or NULL. 0 or -errno. */
int limpet_mount_of(int fd, const char *process, struct limpet_mount *ret) LIMPET_MUST_CHECK;

/* The type of what is mounted at `point`, in the root folder of that process: 0, -ENOENT where
 * nothing is, -ESRCH where there is no table, or another -errno. */
int limpet_mount_type_at(const char *process, const char *point,
			 char ret_type[32]) LIMPET_MUST_CHECK;

#endif
