/* The socket at which `limpet collect` listens: a file of mode 0600, for root and this user. */
#ifndef LIMPET_COLLECTOR_RECEIVE_RECEIVE_SOCKET_H
#define LIMPET_COLLECTOR_RECEIVE_RECEIVE_SOCKET_H

#include <sys/types.h>

#include "common/err.h"

struct limpet_receive_socket {
	int fd; /* non-blocking */
	dev_t dev;
	ino_t inode;
};

/* Listens at `path`. Replaces only a socket of this user at which nobody listens any more. */
int limpet_receive_socket_open(const char *path, struct limpet_receive_socket *ret,
			       struct limpet_err *err) LIMPET_MUST_CHECK;
/* Removes it, if it is still there. */
void limpet_receive_socket_close(struct limpet_receive_socket *sock, const char *path);

struct limpet_receive_peer {
	pid_t pid;
	uid_t uid;
};
/* The next who connected, root or this user: a non-blocking descriptor. -EAGAIN: nobody; -EPERM:
 * another user, who was turned away; other errors of accept(2). */
int limpet_receive_socket_accept(const struct limpet_receive_socket *sock,
				 struct limpet_receive_peer *ret_peer) LIMPET_MUST_CHECK;

#endif
