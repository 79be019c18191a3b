/* supervised: a thread waits in getppid(2), about which its seccomp filter asks a supervisor.
 *
 *	supervised [--alone]
 *
 * "ready PID TID": the thread TID of the process PID waits, and the supervisor, this process, has
 * begun to serve it. Another thread of PID sleeps, unless --alone. Commands: "asked" answers
 * "asked N", N being how often the supervisor was asked; "answer" has it answer: "answered";
 * "quit". */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test/targets/target.h"

enum { ANSWER = 4711 };

static struct shared {
	_Atomic unsigned asked;
	_Atomic bool may_answer;
	_Atomic int tid, answer;
} * shared;

static int load_filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	int fd;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		target_broken("PR_SET_NO_NEW_PRIVS");
	fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &program);
	if (fd < 0)
		target_broken("seccomp: %s", strerror(errno));
	return fd;
}

/* Counts what it is asked, and answers the last request once it may. */
static void *serve(void *context)
{
	const int fd = *(int *)context;

	for (;;) {
		struct seccomp_notif request = {0};
		struct seccomp_notif_resp response = {.val = ANSWER};

		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &request)) {
			if (errno == EINTR || errno == ENOENT)
				continue;
			target_broken("no request: %s", strerror(errno));
		}
		shared->asked++;
		while (!shared->may_answer &&
		       ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &request.id) == 0)
			usleep(1000);
		response.id = request.id;
		/* ENOENT: withdrawn meanwhile. */
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &response) && errno != ENOENT)
			target_broken("no answer: %s", strerror(errno));
	}
	return NULL;
}

static void *ask(void *unused)
{
	shared->tid = (int)syscall(SYS_gettid);
	shared->answer = (int)syscall(SYS_getppid);
	for (;;)
		pause();
	return unused;
}

static void obey(void)
{
	char line[64];
	unsigned long n;

	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "asked", &n)) {
			target_say("asked %u", shared->asked);
		} else if (target_word(line, "answer", &n)) {
			shared->may_answer = true;
			while (!shared->answer)
				usleep(1000);
			if (shared->answer != ANSWER)
				target_broken("answered %d", shared->answer);
			target_say("answered");
		} else if (target_word(line, "quit", &n)) {
			return;
		}
	}
}

/* A copy of the listener, which the process has made for its own filter. */
static void supervise(pid_t pid, int fd_there)
{
	static int fd;
	pthread_t thread;
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd_there, 0);
	if (fd < 0)
		target_broken("pidfd_getfd: %s", strerror(errno));
	if (pthread_create(&thread, NULL, serve, &fd))
		target_broken("no thread");
}

static void be_supervised(bool alone, int tell)
{
	int fd = load_filter();
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(tell, &fd, sizeof(fd)) != sizeof(fd))
		_exit(TARGET_EXIT_BROKEN);
	if (!alone && pthread_create(&thread, NULL, ask, NULL))
		_exit(TARGET_EXIT_BROKEN);
	if (alone)
		ask(NULL);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const bool alone = argc > 1 && !strcmp(argv[1], "--alone");
	int ends[2], fd;
	bool alive;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED || pipe(ends))
		target_broken("no memory");
	pid = fork();
	if (pid < 0)
		target_broken("fork");
	if (!pid)
		be_supervised(alone, ends[1]);
	if (read(ends[0], &fd, sizeof(fd)) != sizeof(fd))
		target_broken("no filter");
	supervise(pid, fd);
	while (!shared->asked)
		usleep(1000);
	target_say("ready %d %d", pid, shared->tid);
	obey();
	alive = waitpid(pid, NULL, WNOHANG) == 0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return alive ? 0 : TARGET_EXIT_BROKEN;
}
