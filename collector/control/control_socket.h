/* The listening socket of a capture, as a file in the runtime directory.
 *
 * One live socket per process: files that dead captures left are replaced under the directory's
 * lock, so that of two captures that start at once only one succeeds. The directory is removed with
 * its last socket; one that LIMPET_RUNTIME_DIR names only by the limpet that made it. */
#ifndef LIMPET_COLLECTOR_CONTROL_CONTROL_SOCKET_H
#define LIMPET_COLLECTOR_CONTROL_CONTROL_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct limpet_control_socket {
	int fd; /* non-blocking; -1: closed */
	int dir_fd;
	bool dir_made; /* by limpet: removed with its last socket */
	pid_t pid;
	dev_t dev; /* of the file, once it is bound */
	ino_t inode;
	bool bound;
};

#define LIMPET_CONTROL_SOCKET_NONE     \
	{                              \
		.fd = -1, .dir_fd = -1 \
	}

/* It is named by `pid`. -EEXIST: there is a live capture of it. `wait`: waits for the lock, two
 * seconds at most. */
int limpet_control_socket_open(pid_t pid, bool wait, struct limpet_control_socket *ret,
			       struct limpet_err *err) LIMPET_MUST_CHECK;
/* Whether clients can still find it: the file exists and is that of this socket. */
bool limpet_control_socket_is_there(const struct limpet_control_socket *sock);
/* Removes the file, if it is still that of this socket. The socket keeps listening. Waits for the
 * lock. */
void limpet_control_socket_remove(struct limpet_control_socket *sock);
/* Closes the socket; the file stays unless it was removed. */
void limpet_control_socket_close(struct limpet_control_socket *sock);

#endif
