#include "collector/receive/receive_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "collector/record/trace_name.h"
#include "common/unix_path.h"

#define BACKLOG 64

/* Whether somebody listens there; -errno: not known. */
static int is_alive(const struct limpet_unix_path *place)
{
	LIMPET_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&place->address, sizeof(place->address)) == 0 ||
	    errno == EAGAIN)
		return true;
	return errno == ECONNREFUSED ? false : -errno;
}

static int remove_stale(const struct limpet_unix_path *place, const char *path,
			struct limpet_err *err)
{
	struct stat stat;
	int alive;

	if (fstatat(place->dir_fd, place->name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : limpet_err_set(err, -errno, "cannot look at '%s': %s",
							path, strerror(errno));
	if (!S_ISSOCK(stat.st_mode)) {
		limpet_err_set(err, -EEXIST, "'%s' exists and is not a socket", path);
		limpet_err_hint(err, "choose another path: nothing is replaced");
		return -EEXIST;
	}
	alive = is_alive(place);
	if (alive == true) {
		limpet_err_set(err, -EEXIST, "somebody listens at '%s' already", path);
		limpet_err_hint(err, "`limpet status` shows a limpet collect that runs");
		return -EEXIST;
	}
	if (alive < 0 || stat.st_uid != geteuid()) {
		limpet_err_set(err, -EEXIST, "'%s' is a socket of another user", path);
		limpet_err_hint(err, "choose another path: nothing is replaced");
		return -EEXIST;
	}
	if (unlinkat(place->dir_fd, place->name, 0) < 0)
		return limpet_err_set(err, -errno, "cannot replace '%s': %s", path,
				      strerror(errno));
	return 0;
}

/* With the directory locked: of two that start at once one finds the other's socket alive. */
static int listen_locked(struct limpet_receive_socket *sock, const struct limpet_unix_path *place,
			 const char *path, struct limpet_err *err)
{
	struct stat stat;
	int code = remove_stale(place, path, err);

	if (code < 0)
		return code;
	/* bind() gives the file the mode of the socket, with the umask applied, unix(7). */
	if (fchmod(sock->fd, 0600) < 0 ||
	    bind(sock->fd, (const struct sockaddr *)&place->address, sizeof(place->address)) < 0 ||
	    listen(sock->fd, BACKLOG) < 0 ||
	    fstatat(place->dir_fd, place->name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
		return limpet_err_set(err, -errno, "cannot listen at '%s': %s", path,
				      strerror(errno));
	sock->dev = stat.st_dev;
	sock->inode = stat.st_ino;
	return 0;
}

int limpet_receive_socket_open(const char *path, struct limpet_receive_socket *ret,
			       struct limpet_err *err)
{
	struct limpet_receive_socket sock = {.fd = -1};
	struct limpet_unix_path place;
	int code = limpet_unix_path_open(path, &place);

	if (code < 0)
		return limpet_err_set(err, code, "cannot listen at '%s': %s", path,
				      strerror(-code));
	sock.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sock.fd < 0)
		code = limpet_err_set(err, -errno, "cannot make a socket: %s", strerror(errno));
	if (code == 0) {
		/* For an instant, and not if another program holds it. */
		(void)!limpet_trace_lock(place.dir_fd);
		code = listen_locked(&sock, &place, path, err);
	}
	limpet_unix_path_done(&place);
	if (code == 0)
		*ret = sock;
	else if (sock.fd >= 0)
		close(sock.fd);
	return code;
}

void limpet_receive_socket_close(struct limpet_receive_socket *sock, const char *path)
{
	struct stat stat;

	if (lstat(path, &stat) == 0 && stat.st_dev == sock->dev && stat.st_ino == sock->inode)
		unlink(path);
	close(sock->fd);
}

int limpet_receive_socket_accept(const struct limpet_receive_socket *sock,
				 struct limpet_receive_peer *ret_peer)
{
	LIMPET_CLOSE int fd = accept4(sock->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t bytes = sizeof(peer);

	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : limpet_errno();
	*ret_peer = (struct limpet_receive_peer){.pid = peer.pid, .uid = peer.uid};
	if (peer.uid != 0 && peer.uid != geteuid())
		return -EPERM;
	return limpet_take_fd(&fd);
}
