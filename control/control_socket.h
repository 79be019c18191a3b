/* The listening socket of a capture, as a file in the runtime directory.
 *
 * One live socket a process: files that dead captures left are replaced under the directory's lock,
 * so that two that start at once cannot both win. */
#ifndef LIMPET_CONTROL_CONTROL_SOCKET_H
#define LIMPET_CONTROL_CONTROL_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_control_socket {
	int fd; /* non-blocking; -1: closed */
	int dir_fd;
	pid_t pid;
	dev_t dev; /* of the file, once it is bound */
	ino_t inode;
	bool bound;
};

#define LIMPET_CONTROL_SOCKET_NONE     \
	{                              \
		.fd = -1, .dir_fd = -1 \
	}

/* -EEXIST: a live capture of `pid` is there. `wait`: for the lock, two seconds at most. */
int limpet_control_socket_open(pid_t pid, bool wait, struct limpet_control_socket *ret,
			       struct limpet_err *err) LIMPET_MUST_CHECK;
/* Whether others can still find it: the file is there and it is ours. */
bool limpet_control_socket_is_there(const struct limpet_control_socket *sock);
/* Removes the file, if it is still ours. The socket goes on listening. Waits for the lock. */
void limpet_control_socket_remove(struct limpet_control_socket *sock);
/* Closes; the file stays unless it was removed. */
void limpet_control_socket_close(struct limpet_control_socket *sock);

#endif
