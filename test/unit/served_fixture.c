#include "test/unit/served_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES 32
#define REQUEST_BYTES (1 << 18)
#define ENVIRONMENT_BYTES 65536

struct server {
	struct served *served;
	int device, directory;
	/* Node 2 is the first; 1 is the directory. */
	struct {
		char name[64];
		int fd;
	} files[FILES];
	unsigned count;
};

static void answer(const struct server *server, uint64_t unique, int error, const void *data,
		   size_t bytes)
{
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + bytes), .error = error, .unique = unique};
	const struct iovec parts[] = {{&head, sizeof(head)}, {(void *)(uintptr_t)data, bytes}};

	/* Who asked may be gone. */
	if (writev(server->device, parts, 2) < 0)
		return;
}

static int node_fd(const struct server *server, uint64_t node)
{
	if (node == FUSE_ROOT_ID)
		return server->directory;
	return node - 2 < server->count ? server->files[node - 2].fd : -1;
}

static int attributes(const struct server *server, uint64_t node, struct fuse_attr *ret)
{
	int fd = node_fd(server, node);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -ENOENT;
	*ret = (struct fuse_attr){.ino = node,
				  .size = (uint64_t)status.st_size,
				  .blocks = (uint64_t)status.st_blocks,
				  .mode = status.st_mode,
				  .nlink = 1,
				  .blksize = 4096};
	return 0;
}

static uint64_t find(struct server *server, const char *name)
{
	int fd;

	for (unsigned i = 0; i < server->count; i++)
		if (!strcmp(server->files[i].name, name))
			return i + 2;
	fd = server->count < FILES ? openat(server->directory, name, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return 0;
	snprintf(server->files[server->count].name, sizeof(server->files[0].name), "%s", name);
	server->files[server->count].fd = fd;
	return 2 + server->count++;
}

static void look_up(struct server *server, const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out out = {.nodeid = find(server, name)};
	int code = out.nodeid ? attributes(server, out.nodeid, &out.attr) : -ENOENT;

	answer(server, in->unique, code, &out, code ? 0 : sizeof(out));
}

static void tell_attributes(const struct server *server, const struct fuse_in_header *in)
{
	struct fuse_attr_out out = {.attr_valid = 0};
	int code = attributes(server, in->nodeid, &out.attr);

	answer(server, in->unique, code, &out, code ? 0 : sizeof(out));
}

static void read_file(const struct server *server, const struct fuse_in_header *in,
		      const struct fuse_read_in *wanted)
{
	char *bytes = malloc(wanted->size);
	ssize_t got = bytes ? pread(node_fd(server, in->nodeid), bytes, wanted->size,
				    (off_t)wanted->offset)
			    : -1;

	answer(server, in->unique, got < 0 ? -EIO : 0, bytes, got < 0 ? 0 : (size_t)got);
	free(bytes);
}

static void serve(struct server *server, const struct fuse_in_header *in)
{
	const struct fuse_init_out version = {.major = FUSE_KERNEL_VERSION,
					      .minor = 31,
					      .max_readahead = 1 << 20,
					      .flags = FUSE_PARALLEL_DIROPS,
					      .max_write = 1 << 16};
	const struct fuse_open_out opened = {.fh = 1, .open_flags = FOPEN_KEEP_CACHE};
	const struct fuse_statfs_out file_system = {.st = {.bsize = 4096, .namelen = 255}};

	switch (in->opcode) {
	case FUSE_INIT:
		answer(server, in->unique, 0, &version, sizeof(version));
		break;
	case FUSE_LOOKUP:
		look_up(server, in, (const char *)(in + 1));
		break;
	case FUSE_GETATTR:
		tell_attributes(server, in);
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		answer(server, in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		read_file(server, in, (const struct fuse_read_in *)(in + 1));
		break;
	case FUSE_STATFS:
		answer(server, in->unique, 0, &file_system, sizeof(file_system));
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_ACCESS:
		answer(server, in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(server, in->unique, -ENOSYS, NULL, 0);
	}
}

/* On a machine where others look at every process. */
static bool is_meant(const struct served *served, uint32_t pid)
{
	char path[32], *environment = malloc(ENVIRONMENT_BYTES);
	ssize_t got = 0;
	bool found;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && environment)
		got = read(fd, environment, ENVIRONMENT_BYTES);
	found = got > 0 && memmem(environment, (size_t)got, served->marker, strlen(served->marker));
	if (fd >= 0)
		close(fd);
	free(environment);
	return found;
}

static bool is_silent(const struct served *served, const struct fuse_in_header *in)
{
	return served->silent >> in->opcode & 1 &&
	       (!served->marker[0] || is_meant(served, in->pid));
}

static _Noreturn void serve_all(struct server *server)
{
	char *request = malloc(REQUEST_BYTES);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		ssize_t got = request ? read(server->device, request, REQUEST_BYTES - 1) : -1;
		const struct fuse_in_header *in = (const struct fuse_in_header *)request;

		if (got < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
			continue;
		if (got < (ssize_t)sizeof(*in))
			_exit(0);
		request[got] = '\0';
		if (in->opcode < SERVED_CALLS) {
			__atomic_add_fetch(&server->served->came[in->opcode], 1, __ATOMIC_RELAXED);
			if (is_silent(server->served, in))
				continue;
		}
		serve(server, in);
	}
}

static int write_line(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return written ? 0 : -EPERM;
}

int served_unshare(bool users)
{
	const uid_t user = geteuid();
	const gid_t group = getegid();
	char map[64];

	if (unshare(CLONE_NEWNS | (users ? CLONE_NEWUSER : 0)) < 0)
		return -errno;
	if (users) {
		snprintf(map, sizeof(map), "0 %u 1", user);
		if (write_line("/proc/self/setgroups", "deny") < 0 ||
		    write_line("/proc/self/uid_map", map) < 0)
			return -EPERM;
		snprintf(map, sizeof(map), "0 %u 1", group);
		if (write_line("/proc/self/gid_map", map) < 0)
			return -EPERM;
	}
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

struct served *served_new(void)
{
	struct served *served = mmap(NULL, sizeof(*served), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return served == MAP_FAILED ? NULL : served;
}

void served_free(struct served *served)
{
	munmap(served, sizeof(*served));
}

static int mount_served(const struct server *server, const char *point)
{
	char options[128];

	if (server->device < 0 || server->directory < 0)
		return -errno;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", server->device,
		 geteuid(), getegid());
	return mount("limpet-test", point, "fuse.served", MS_NOSUID | MS_NODEV, options) < 0
		       ? -errno
		       : 0;
}

int served_begin(struct served *served, const char *directory, const char *point)
{
	struct server server = {.served = served,
				.device = open("/dev/fuse", O_RDWR | O_CLOEXEC),
				.directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	int code = mount_served(&server, point);

	if (code == 0) {
		pid_t child = fork();

		if (child == 0)
			serve_all(&server);
		served->server = child;
	}
	close(server.device);
	close(server.directory);
	return code;
}

/* Who waits for an answer gets an error when nobody has the device any more. */
void served_end(struct served *served)
{
	kill(served->server, SIGKILL);
	waitpid(served->server, NULL, 0);
}
