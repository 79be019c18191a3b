/* The directories for the control sockets of captures: one per user, writable by nobody else.
 *
 *   $LIMPET_RUNTIME_DIR                            if set, this alone
 *   root:    /run/limpet, else /tmp/limpet-0 (where there is neither /run nor /tmp, /run is made)
 *   others:  $XDG_RUNTIME_DIR/limpet, else /run/user/UID/limpet, else /tmp/limpet-UID
 *   all:     where none of these can be written, /dev/shm/limpet-UID
 *
 * A capture uses the first that can be made; clients search all, since the environment of a cron
 * job or of `su` differs from that of the shell that started the capture. A directory is used only
 * if it is real (no symbolic link), owned by its user, and writable by nobody else. root's has mode
 * 0711: other users learn that root captures their process, and nothing more. */
#ifndef LIMPET_COLLECTOR_CONTROL_RUNTIME_DIR_H
#define LIMPET_COLLECTOR_CONTROL_RUNTIME_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/err.h"

/* Opens this user's directory, and makes it if needed. Returns a descriptor (O_CLOEXEC) that can be
 * listed. Another limpet may remove the directory until it is locked: a file that cannot be made in
 * it then (-ENOENT) can be made in a directory that is opened anew. *ret_made: limpet made it, now
 * or earlier; not a directory that the user prepared and named. */
int limpet_runtime_dir_open(bool *ret_made, struct limpet_err *err) LIMPET_MUST_CHECK;

/* Removes a directory that limpet_runtime_dir_open() opened and limpet made, if it is empty. To be
 * called with it locked. */
void limpet_runtime_dir_remove(int fd);

struct limpet_runtime_dir {
	char path[256];
	uid_t owner;
	int fd;        /* can be listed if `readable` */
	bool ours;     /* stale sockets in it may be removed */
	bool readable; /* false: root's, seen by another user; only known names can be tried */
};

#define LIMPET_RUNTIME_DIRS_MAX 64

/* Finds all directories that may have captures for this user: the user's own; for root also those
 * of users; for users also root's. Those that do not exist or cannot be trusted are left out. `ret`
 * has room for LIMPET_RUNTIME_DIRS_MAX at least; returns their number. Close with
 * limpet_runtime_dir_done(). */
int limpet_runtime_dir_find_all(struct limpet_runtime_dir *ret);
void limpet_runtime_dir_done(struct limpet_runtime_dir *list, int count);

/* Locks a directory exclusively, so that a stale socket is not removed after it was replaced by a
 * live one. Hold the lock for a few system calls at a time. `wait`: waits for it, at most two
 * seconds. -ETIMEDOUT. */
int limpet_runtime_dir_lock(int fd, bool wait) LIMPET_MUST_CHECK;
void limpet_runtime_dir_unlock(int fd);

#endif
