/* Where captures leave their control sockets: one directory a user, which nobody else can write.
 *
 *   $LIMPET_RUNTIME_DIR                            if set, this alone
 *   root:    /run/limpet, else /tmp/limpet-0 (where there is neither /run nor /tmp, /run is made)
 *   others:  $XDG_RUNTIME_DIR/limpet, else /run/user/UID/limpet, else /tmp/limpet-UID
 *   all:     where none of these can be written, /dev/shm/limpet-UID
 *
 * A capture uses the first that can be made; who looks for captures looks in all, since the
 * environment of a cron job or of `su` differs from that of the shell that started the capture. A
 * directory is used only if it is real (no symbolic link), owned by us, and writable by nobody
 * else. root's is 0711, so that others learn that root captures their process, and nothing more. */
#ifndef LIMPET_CONTROL_RUNTIME_DIR_H
#define LIMPET_CONTROL_RUNTIME_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

/* Opens our directory, making it if need be. Answers a descriptor (O_CLOEXEC) that can be listed.
 */
int limpet_runtime_dir_open(struct limpet_err *err) LIMPET_MUST_CHECK;

struct limpet_runtime_dir {
	char path[256];
	uid_t owner;
	int fd;        /* can be listed if it is ours or we are root */
	bool ours;     /* stale sockets in it may be removed */
	bool readable; /* false: root's, seen by another user; only known names can be tried */
};

#define LIMPET_RUNTIME_DIRS_MAX 64

/* All directories that may hold captures that concern us: ours; for root also those of users; for
 * users also root's. Those that do not exist or are not to be trusted are left out. `ret` holds at
 * least LIMPET_RUNTIME_DIRS_MAX; answers their number. Close with limpet_runtime_dir_done(). */
int limpet_runtime_dir_find_all(struct limpet_runtime_dir *ret);
void limpet_runtime_dir_done(struct limpet_runtime_dir *list, int count);

/* Exclusive lock on a directory, so that nobody removes a stale socket that was just replaced by a
 * live one. Held for a few system calls at a time; `wait`s for it at most two seconds. -ETIMEDOUT.
 */
int limpet_runtime_dir_lock(int fd, bool wait) LIMPET_MUST_CHECK;
void limpet_runtime_dir_unlock(int fd);

#endif
