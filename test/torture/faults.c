/* faults: runs a command, one of whose system calls fails.
 *
 * "faults list FILE COMMAND...": FILE has a line "CALL PLACE ERRNO" for each error that each call
 * can have at each place of the command's code. "faults at CALL PLACE ERRNO FILE COMMAND...": the
 * first such call there fails, and FILE has a line then.
 *
 * Ends with the command's status, or 128 and the number of the signal that ended it.
 *
 * The command, and whatever it forks, is under a seccomp filter that asks us (seccomp_unotify(2))
 * about the calls of the table; all but one go on. A place is made of the return addresses into the
 * command's own code that are next on the stack, up to three of them, so that each user of a helper
 * has its own. What other programs call that it executes has no place, nor has its start. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/call_filter.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_ERRORS 4
#define MAX_PLACES 4096
#define DEPTH 3
#define STACK_WORDS 1024
#define BROKEN 126

static const struct watched {
	int number;
	const char *name;
	int errors[MAX_ERRORS];
} watched[] = {
	{SYS_openat, "openat", {EMFILE, ENOMEM, EACCES, ENOENT}},
	{SYS_read, "read", {EIO}},
	{SYS_pread64, "pread64", {EIO}},
	{SYS_write, "write", {ENOSPC, EIO}},
	{SYS_pwrite64, "pwrite64", {ENOSPC, EIO}},
	{SYS_readlink, "readlink", {EACCES, ENOENT}},
	{SYS_readlinkat, "readlinkat", {EACCES, ENOENT}},
	{SYS_getdents64, "getdents64", {ENOENT}},
	{SYS_newfstatat, "newfstatat", {EACCES, ENOMEM}},
	{SYS_statx, "statx", {EACCES, ENOMEM}},
	{SYS_statfs, "statfs", {EACCES}},
	{SYS_fstatfs, "fstatfs", {EIO}},
	{SYS_process_vm_readv, "process_vm_readv", {EFAULT, ESRCH, EPERM, ENOMEM}},
	{SYS_process_vm_writev, "process_vm_writev", {EFAULT, ESRCH, EPERM, ENOMEM}},
	{SYS_ptrace, "ptrace", {ESRCH, EPERM, EIO}},
	{SYS_wait4, "wait4", {EINTR}},
	{SYS_mmap, "mmap", {ENOMEM}},
	{SYS_mremap, "mremap", {ENOMEM}},
	{SYS_mprotect, "mprotect", {ENOMEM}},
	{SYS_memfd_create, "memfd_create", {EMFILE, ENOMEM}},
	{SYS_ftruncate, "ftruncate", {ENOSPC, EIO}},
	{SYS_fallocate, "fallocate", {ENOSPC, EOPNOTSUPP}},
	{SYS_fcntl, "fcntl", {EMFILE, EINVAL, EWOULDBLOCK, ENOLCK}},
	{SYS_flock, "flock", {EWOULDBLOCK, EINTR, ENOLCK}},
	{SYS_ioctl, "ioctl", {ENOTTY, EFAULT, ENOMEM}},
	{SYS_pidfd_open, "pidfd_open", {EMFILE, ESRCH}},
	{SYS_kcmp, "kcmp", {EPERM, ESRCH}},
	{SYS_pipe2, "pipe2", {EMFILE}},
	{SYS_eventfd2, "eventfd2", {EMFILE}},
	{SYS_timerfd_create, "timerfd_create", {EMFILE}},
	{SYS_socket, "socket", {EMFILE, EACCES}},
	{SYS_socketpair, "socketpair", {EMFILE, ENOMEM}},
	{SYS_bind, "bind", {EADDRINUSE, EACCES}},
	{SYS_listen, "listen", {EADDRINUSE}},
	{SYS_connect, "connect", {ECONNREFUSED, EAGAIN}},
	{SYS_accept4, "accept4", {EMFILE, ECONNABORTED}},
	{SYS_getsockopt, "getsockopt", {ENOBUFS}},
	{SYS_sendmsg, "sendmsg", {EPIPE, EAGAIN, ENOBUFS}},
	{SYS_sendto, "sendto", {EPIPE, EAGAIN, ENOBUFS}},
	{SYS_recvmsg, "recvmsg", {ECONNRESET, ENOMEM}},
	{SYS_recvfrom, "recvfrom", {ECONNRESET, ENOMEM}},
	{SYS_poll, "poll", {EINTR, ENOMEM}},
	{SYS_ppoll, "ppoll", {EINTR, ENOMEM}},
	{SYS_clone, "clone", {EAGAIN, ENOMEM}},
	{SYS_clone3, "clone3", {EAGAIN, ENOMEM}},
	{SYS_execve, "execve", {ENOMEM, EACCES}},
	{SYS_mkdir, "mkdir", {EACCES, ENOSPC}},
	{SYS_unlink, "unlink", {EACCES}},
	{SYS_fsync, "fsync", {EIO}},
	{SYS_fdatasync, "fdatasync", {EIO}},
	{SYS_sync_file_range, "sync_file_range", {EIO}},
	{SYS_getrandom, "getrandom", {EAGAIN}},
	{SYS_setpriority, "setpriority", {EACCES}},
	{SYS_prctl, "prctl", {EINVAL}},
	{SYS_seccomp, "seccomp", {EINVAL}},
	{SYS_kill, "kill", {ESRCH, EPERM}},
	{SYS_tgkill, "tgkill", {ESRCH, EAGAIN}},
};

static const struct {
	int number;
	const char *name;
} error_names[] = {
#define NAMED(error)          \
	{                     \
		error, #error \
	}
	NAMED(EMFILE),       NAMED(ENOMEM), NAMED(EACCES),  NAMED(ENOENT),     NAMED(EIO),
	NAMED(ENOSPC),       NAMED(EFAULT), NAMED(ESRCH),   NAMED(EPERM),      NAMED(EINTR),
	NAMED(EOPNOTSUPP),   NAMED(EINVAL), NAMED(EAGAIN),  NAMED(ENOLCK),     NAMED(ENOTTY),
	NAMED(EADDRINUSE),   NAMED(EPIPE),  NAMED(ENOBUFS), NAMED(ECONNRESET), NAMED(ECONNREFUSED),
	NAMED(ECONNABORTED),
};

static struct {
	atomic_int listener; /* in the child; -1: not yet */
	atomic_int go;
} * shared;

static struct {
	bool is_list;
	const struct watched *call;
	const char *place;
	int error;
	FILE *report;
	bool done;
} wanted;

static struct {
	struct stat status; /* the command's file */
	const uint8_t *bytes;
	uint64_t entry; /* its address is on the stack from the start */
} program;

static struct place {
	int number;
	char text[64];
} places[MAX_PLACES];
static size_t place_count;

__attribute__((format(printf, 1, 2), noreturn)) static void broken(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("faults: ", stderr);
	vfprintf(stderr, format, args);
	fprintf(stderr, ": %s\n", strerror(errno));
	va_end(args);
	exit(BROKEN);
}

/* ---------------------------------------------------------------- where a call stands */

/* Of the command's own code: the distance from its addresses to offsets in its file. */
static bool find_code(pid_t pid, uint64_t *ret_start, uint64_t *ret_end, uint64_t *ret_offset)
{
	unsigned long start, end, offset, inode;
	unsigned major_number, minor_number;
	char path[64], line[4096], perms[5];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &start, &end, perms, &offset,
			       &major_number, &minor_number, &inode) == 7 &&
			perms[2] == 'x' && inode == program.status.st_ino;
	if (maps)
		fclose(maps);
	if (!found)
		return false;
	*ret_start = start;
	*ret_end = end;
	*ret_offset = offset;
	return true;
}

/* A word that looks like a return address and is none makes a place of its own at worst. */
static bool follows_call(uint64_t offset)
{
	const uint8_t *at = program.bytes + offset;

	if (offset < 8 || offset >= (uint64_t)program.status.st_size)
		return false;
	return at[-5] == 0xe8 || (at[-2] == 0xff && (at[-1] & 0x38) == 0x10) ||
	       (at[-3] == 0xff && (at[-2] & 0x38) == 0x10) ||
	       (at[-6] == 0xff && (at[-5] & 0x38) == 0x10);
}

/* The thread waits in its call. */
static bool find_place(pid_t tid, char *ret, size_t room)
{
	uint64_t words[STACK_WORDS], start, end, offset, sp, pc;
	char path[64], text[256] = "";
	unsigned depth = 0;
	const char *blank;
	struct iovec local = {words, sizeof(words)}, remote;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	/* number, six arguments, stack pointer, program counter */
	blank = got > 0 ? text : NULL;
	for (int i = 0; blank && i < 7; i++) {
		blank = strchr(blank, ' ');
		blank = blank ? blank + 1 : NULL;
	}
	if (!blank || sscanf(blank, "%lx %lx", &sp, &pc) != 2 ||
	    !find_code(tid, &start, &end, &offset))
		return false;
	/* What is next to the end of a stack is read as far as it goes. */
	for (size_t bytes = sizeof(words); bytes >= 512; bytes /= 2) {
		local.iov_len = bytes;
		remote = (struct iovec){(void *)(uintptr_t)sp, bytes};
		got = process_vm_readv(tid, &local, 1, &remote, 1, 0);
		if (got > 0)
			break;
	}
	*ret = '\0';
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*words) && depth < DEPTH; i++) {
		size_t used = strlen(ret);

		uint64_t at = words[i] - start + offset;

		if (words[i] < start || words[i] >= end || at == program.entry || !follows_call(at))
			continue;
		snprintf(ret + used, room - used, "%s%lx", depth++ ? "." : "", at);
	}
	return depth;
}

/* ---------------------------------------------------------------- the calls */

static const char *error_name(int error)
{
	for (size_t i = 0; i < COUNT_OF(error_names); i++)
		if (error_names[i].number == error)
			return error_names[i].name;
	return "?";
}

static void note_place(const struct watched *call, const char *text)
{
	for (size_t i = 0; i < place_count; i++)
		if (places[i].number == call->number && !strcmp(places[i].text, text))
			return;
	if (place_count == MAX_PLACES)
		return;
	places[place_count].number = call->number;
	snprintf(places[place_count++].text, sizeof(places[0].text), "%s", text);
	for (int i = 0; i < MAX_ERRORS && call->errors[i]; i++)
		fprintf(wanted.report, "%s %s %s\n", call->name, text, error_name(call->errors[i]));
}

/* 0: it goes on. */
static int judge(const struct seccomp_notif *notice)
{
	const struct watched *call = watched;
	char place[64];

	while (call->number != notice->data.nr)
		call++;
	if (!wanted.is_list && (wanted.done || call != wanted.call))
		return 0;
	if (!find_place((pid_t)notice->pid, place, sizeof(place)))
		return 0;
	if (wanted.is_list) {
		note_place(call, place);
		return 0;
	}
	if (strcmp(place, wanted.place) != 0)
		return 0;
	wanted.done = true;
	fprintf(wanted.report, "%s failed\n", call->name);
	return -wanted.error;
}

static void answer(int listener)
{
	struct seccomp_notif notice = {0};
	struct seccomp_notif_resp response = {0};

	/* Whoever asked may be gone, or have been interrupted: it asks again then. */
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notice) < 0)
		return;
	response.id = notice.id;
	response.error = judge(&notice);
	if (!response.error)
		response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

/* ---------------------------------------------------------------- the command */

static int install(void)
{
	struct call_filter filter = {0};

	call_filter_load(&filter, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < COUNT_OF(watched); i++)
		call_filter_judge(&filter, (uint32_t)watched[i].number, SECCOMP_RET_USER_NOTIF);
	call_filter_end(&filter, SECCOMP_RET_ALLOW);
	return call_filter_set(&filter, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

/* From the filter on, it makes no call of the table before we have its listener. */
static void become(char **command)
{
	int listener;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* What an unprivileged program has to say first. */
	if (geteuid() != 0)
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	listener = install();
	atomic_store(&shared->listener, listener < 0 ? listener - 1 : listener);
	while (!atomic_load(&shared->go))
		sched_yield();
	execv(command[0], command);
	_exit(BROKEN);
}

static int take_listener(pid_t child, int *ret_pidfd)
{
	int number, listener;

	while ((number = atomic_load(&shared->listener)) == -1)
		sched_yield();
	*ret_pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	listener = number < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, *ret_pidfd, number, 0);
	if (listener < 0)
		broken("no listener");
	atomic_store(&shared->go, 1);
	return listener;
}

static int supervise(pid_t child)
{
	struct pollfd waits[2];
	int status;

	waits[0].fd = take_listener(child, &waits[1].fd);
	waits[0].events = waits[1].events = POLLIN;
	do {
		if (poll(waits, 2, -1) < 0 && errno != EINTR)
			broken("poll");
		if (waits[0].revents & POLLIN)
			answer(waits[0].fd);
	} while (!(waits[1].revents & POLLIN));
	if (waitpid(child, &status, 0) != child)
		broken("waitpid");
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void open_program(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &program.status) < 0)
		broken("%s", path);
	program.bytes = mmap(NULL, (size_t)program.status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (program.bytes == MAP_FAILED)
		broken("%s", path);
	close(fd);
	program.entry = ((const Elf64_Ehdr *)(const void *)program.bytes)->e_entry;
}

/* Answers where the command begins; 0: not understood. */
static int parse(int argc, char **argv)
{
	const char *name = argc > 5 ? argv[2] : "";

	if (argc > 3 && !strcmp(argv[1], "list")) {
		wanted.is_list = true;
		wanted.report = fopen(argv[2], "we");
		return wanted.report ? 3 : 0;
	}
	if (argc < 7 || strcmp(argv[1], "at") != 0)
		return 0;
	for (size_t i = 0; i < COUNT_OF(watched); i++)
		if (!strcmp(watched[i].name, name))
			wanted.call = &watched[i];
	wanted.place = argv[3];
	for (size_t i = 0; i < COUNT_OF(error_names); i++)
		if (!strcmp(error_names[i].name, argv[4]))
			wanted.error = error_names[i].number;
	wanted.report = fopen(argv[5], "we");
	return wanted.call && wanted.error && wanted.report ? 6 : 0;
}

int main(int argc, char **argv)
{
	int first = parse(argc, argv), status;
	pid_t child;

	if (!first) {
		fprintf(stderr, "usage: faults list FILE COMMAND...\n"
				"       faults at CALL PLACE ERRNO FILE COMMAND...\n");
		return BROKEN;
	}
	open_program(argv[first]);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		broken("mmap");
	atomic_store(&shared->listener, -1);
	child = fork();
	if (child < 0)
		broken("fork");
	if (child == 0)
		become(argv + first);
	status = supervise(child);
	fclose(wanted.report);
	return status;
}
