#include "collector/control/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "collector/control/control_client.h"
#include "collector/control/control_wire.h"
#include "collector/control/runtime_dir.h"

#define BACKLOG 16
/* How often another limpet may remove the directory, as its last user, before this one has locked
 * it. */
#define TRIES 100

/* To be called with the directory locked. */
static int bind_locked(struct limpet_control_socket *sock)
{
	char name[LIMPET_CONTROL_NAME_BYTES];
	struct sockaddr_un address;
	struct stat st;
	int other;

	other = limpet_control_connect(sock->dir_fd, sock->pid);
	if (other >= 0)
		close(other);
	if (other >= 0 || other == -EAGAIN)
		return -EEXIST;
	limpet_control_format_name(name, sock->pid);
	if (other == -ECONNREFUSED)
		unlinkat(sock->dir_fd, name, 0);

	limpet_control_format_address(&address, sock->dir_fd, sock->pid);
	/* bind() gives the file the mode of the socket, with the umask applied, unix(7). */
	if (fchmod(sock->fd, 0600) < 0 ||
	    bind(sock->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (fstatat(sock->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	sock->dev = st.st_dev;
	sock->inode = st.st_ino;
	sock->bound = true;
	if (listen(sock->fd, BACKLOG) < 0) {
		int error = -errno;

		unlinkat(sock->dir_fd, name, 0);
		return error;
	}
	return 0;
}

/* Opens the directory and binds in it. -ENOENT: the directory was removed meanwhile. *ret_said: the
 * message is set. */
static int try_to_open(struct limpet_control_socket *sock, bool wait, bool *ret_said,
		       struct limpet_err *err)
{
	int result;

	sock->dir_fd = limpet_runtime_dir_open(&sock->dir_made, err);
	*ret_said = sock->dir_fd < 0;
	if (sock->dir_fd < 0)
		return sock->dir_fd;
	sock->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	result = sock->fd < 0 ? -errno : limpet_runtime_dir_lock(sock->dir_fd, wait);
	if (result == 0) {
		result = bind_locked(sock);
		if (result < 0 && sock->dir_made)
			limpet_runtime_dir_remove(sock->dir_fd);
		limpet_runtime_dir_unlock(sock->dir_fd);
	}
	if (result < 0)
		limpet_control_socket_close(sock);
	return result;
}

int limpet_control_socket_open(pid_t pid, bool wait, struct limpet_control_socket *ret,
			       struct limpet_err *err)
{
	struct limpet_control_socket sock = {.fd = -1, .pid = pid};
	bool said = false;
	int result = -ENOENT;

	for (int i = 0; i < TRIES && result == -ENOENT && !said; i++)
		result = try_to_open(&sock, wait, &said, err);
	if (result == 0)
		*ret = sock;
	if (result == 0 || said)
		return result;
	if (result == -EEXIST) {
		limpet_err_set(err, result, "process %d is already being captured by limpet", pid);
		limpet_err_hint(err, "limpet stop %d", pid);
	} else {
		limpet_err_set(err, result, "cannot make the control socket of process %d: %s", pid,
			       strerror(-result));
	}
	return result;
}

bool limpet_control_socket_is_there(const struct limpet_control_socket *sock)
{
	char name[LIMPET_CONTROL_NAME_BYTES];
	struct stat st;

	limpet_control_format_name(name, sock->pid);
	return sock->bound && fstatat(sock->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == sock->dev && st.st_ino == sock->inode;
}

void limpet_control_socket_remove(struct limpet_control_socket *sock)
{
	char name[LIMPET_CONTROL_NAME_BYTES];

	/* Without the lock the file could be replaced between check and removal; then it stays, and
	 * the next client removes it as stale. */
	if (sock->bound && limpet_runtime_dir_lock(sock->dir_fd, true) == 0) {
		limpet_control_format_name(name, sock->pid);
		if (limpet_control_socket_is_there(sock))
			unlinkat(sock->dir_fd, name, 0);
		if (sock->dir_made)
			limpet_runtime_dir_remove(sock->dir_fd);
		limpet_runtime_dir_unlock(sock->dir_fd);
	}
	sock->bound = false;
}

void limpet_control_socket_close(struct limpet_control_socket *sock)
{
	if (sock->fd >= 0)
		close(sock->fd);
	if (sock->dir_fd >= 0)
		close(sock->dir_fd);
	sock->fd = -1;
	sock->dir_fd = -1;
	sock->bound = false;
}
