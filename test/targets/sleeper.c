/* sleeper: one thread, blocked in the system call that it is told, which has to end as if nobody
 *had ever stopped it.
 *
 *	sleeper --list     the kinds
 *	sleeper KIND       "ready PID" names the process that sleeps; this one wakes it
 *
 * Commands: "release" lets the call end and answers "good" or "bad ...", "quit". The calls that
 * signal(7) lists as ended with EINTR by any stop may end that way, and are then made again. */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "test/targets/target.h"

enum { SLEEP_MS = 1500, RESULT_NONE = INT_MIN };

/* Shared by the two processes. */
static struct shared {
	_Atomic int result; /* of the call; RESULT_NONE before it ended */
	_Atomic int error;
	_Atomic int interruptions;
	_Atomic uint64_t slept_ns;
	_Atomic uint32_t word;
	_Atomic bool go_on;
	pthread_mutex_t mutex;
	pthread_cond_t condition;
	sem_t semaphore;
} * shared;

static int ends[2];    /* pipe: 0 is the sleeper's */
static int sockets[2]; /* pair: 0 is the sleeper's */
static int listener = -1, lock_fd = -1, own_fd = -1;
static int queue_id = -1, set_id = -1;
static mqd_t queue = (mqd_t)-1;
static pid_t sleeper;
static char directory[64];
static char data[1 << 16];

static void must(bool good, const char *what)
{
	if (!good)
		target_broken("%s: %s", what, strerror(errno));
}

static void make_pipe(void)
{
	must(!pipe2(ends, O_CLOEXEC), "pipe2");
}
static void make_sockets(void)
{
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), "socketpair");
}
static void send_hello(void)
{
	must(write(sockets[1] > 0 ? sockets[1] : ends[1], "hello", 5) == 5, "write");
}
static void hang_up_signal(void)
{
	must(!kill(sleeper, SIGUSR1), "kill");
}
static void on_signal(int number)
{
	(void)number;
}
static void catch_signal(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	must(!sigaction(SIGUSR1, &action, NULL), "sigaction");
}
static void block_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	must(!sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
}

/* ------------------------------------------------------------------ reading and writing */

static int sleep_read(void)
{
	return (int)read(ends[0], data, sizeof(data));
}
static int sleep_readv(void)
{
	struct iovec parts[2] = {{data, 2}, {data + 2, 100}};

	return (int)readv(ends[0], parts, 2);
}
static void fill_pipe(void)
{
	make_pipe();
	must(fcntl(ends[1], F_SETPIPE_SZ, 65536) == 65536, "F_SETPIPE_SZ");
	must(write(ends[1], data, 65536) == 65536, "write");
}
static int sleep_write(void)
{
	return (int)write(ends[1], data, 5);
}
static void drain_pipe(void)
{
	must(read(ends[0], data, 65536) == 65536, "read");
}
static int sleep_splice(void)
{
	return (int)splice(ends[0], NULL, own_fd, NULL, 100, 0);
}
static void make_splice(void)
{
	int out[2];

	make_pipe();
	must(!pipe2(out, O_CLOEXEC), "pipe2");
	own_fd = out[1];
}
static int sleep_recv(void)
{
	return (int)recv(sockets[0], data, sizeof(data), 0);
}
static int sleep_recvfrom(void)
{
	return (int)recvfrom(sockets[0], data, 5, MSG_WAITALL, NULL, NULL);
}
static int sleep_recvmsg(void)
{
	struct iovec part = {data, sizeof(data)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return (int)recvmsg(sockets[0], &message, 0);
}
static void make_listener(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "limpet-sleeper-%d", getpid());
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(listener >= 0 && !bind(listener, (struct sockaddr *)&address, sizeof(address)) &&
		     !listen(listener, 1),
	     "listen");
}
static int sleep_accept(void)
{
	int fd = accept(listener, NULL, NULL);

	return fd >= 0 ? 5 : -1;
}
static void connect_to_listener(void)
{
	struct sockaddr_un address;
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0 && !getsockname(listener, (struct sockaddr *)&address, &bytes) &&
		     !connect(fd, (struct sockaddr *)&address, bytes),
	     "connect");
}
static void make_eventfd(void)
{
	own_fd = eventfd(0, EFD_CLOEXEC);
	must(own_fd >= 0, "eventfd");
}
static int sleep_eventfd(void)
{
	uint64_t value = 0;

	return read(own_fd, &value, sizeof(value)) == sizeof(value) ? (int)value : -1;
}
static void add_to_eventfd(void)
{
	uint64_t value = 5;

	must(write(own_fd, &value, sizeof(value)) == sizeof(value), "write");
}
static void make_signalfd(void)
{
	sigset_t set;

	block_signal();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	own_fd = signalfd(-1, &set, SFD_CLOEXEC);
	must(own_fd >= 0, "signalfd");
}
static int sleep_signalfd(void)
{
	struct signalfd_siginfo info;

	if (read(own_fd, &info, sizeof(info)) != sizeof(info))
		return -1;
	return info.ssi_signo == SIGUSR1 ? 5 : -1;
}
static void make_timerfd(void)
{
	own_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	must(own_fd >= 0, "timerfd_create");
}
static int sleep_timerfd(void)
{
	struct itimerspec when = {.it_value = {SLEEP_MS / 1000, SLEEP_MS % 1000 * 1000000}};
	uint64_t value;

	must(!timerfd_settime(own_fd, 0, &when, NULL), "timerfd_settime");
	return read(own_fd, &value, sizeof(value)) == sizeof(value) && value == 1 ? 5 : -1;
}
static void make_inotify(void)
{
	snprintf(directory, sizeof(directory), "/tmp/limpet-sleeper.XXXXXX");
	must(mkdtemp(directory), "mkdtemp");
	own_fd = inotify_init1(IN_CLOEXEC);
	must(own_fd >= 0 && inotify_add_watch(own_fd, directory, IN_CREATE) >= 0, "inotify");
}
static int sleep_inotify(void)
{
	return read(own_fd, data, sizeof(data)) > 0 ? 5 : -1;
}
static void create_file(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/made", directory);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	must(fd >= 0, "open");
	close(fd);
	unlink(path);
}

/* ------------------------------------------------------------------ waiting for readiness */

static int sleep_poll(void)
{
	struct pollfd one = {ends[0], POLLIN, 0};

	return poll(&one, 1, 60000) == 1 && one.revents & POLLIN ? 5 : -1;
}
static int sleep_ppoll(void)
{
	struct pollfd one = {ends[0], POLLIN, 0};
	struct timespec limit = {60, 0};
	sigset_t none;

	sigemptyset(&none);
	return ppoll(&one, 1, &limit, &none) == 1 && one.revents & POLLIN ? 5 : -1;
}
static int sleep_select(void)
{
	fd_set set;
	struct timeval limit = {60, 0};

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return select(ends[0] + 1, &set, NULL, NULL, &limit) == 1 ? 5 : -1;
}
static int sleep_pselect(void)
{
	fd_set set;
	struct timespec limit = {60, 0};
	sigset_t none;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	sigemptyset(&none);
	return pselect(ends[0] + 1, &set, NULL, NULL, &limit, &none) == 1 ? 5 : -1;
}
/* A poll that nothing ends: its time has to be the one that was asked for. */
static int sleep_poll_timeout(void)
{
	struct pollfd one = {ends[0], POLLIN, 0};

	return poll(&one, 1, SLEEP_MS) == 0 ? 5 : -1;
}
static void make_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN};

	make_pipe();
	own_fd = epoll_create1(EPOLL_CLOEXEC);
	must(own_fd >= 0 && !epoll_ctl(own_fd, EPOLL_CTL_ADD, ends[0], &event), "epoll");
}
static int sleep_epoll(void)
{
	struct epoll_event event;
	int ready = epoll_wait(own_fd, &event, 1, 60000);

	return ready == 1 ? 5 : ready;
}

/* ------------------------------------------------------------------ time */

static int sleep_nanosleep(void)
{
	struct timespec time = {SLEEP_MS / 1000, SLEEP_MS % 1000 * 1000000};

	return nanosleep(&time, NULL) == 0 ? 5 : -1;
}
static int sleep_clock_nanosleep(void)
{
	uint64_t due_ns = target_now_ns() + SLEEP_MS * 1000000ull;
	struct timespec due = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)};

	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	return errno ? -1 : 5;
}

/* ------------------------------------------------------------------ futexes */

static int sleep_futex(void)
{
	struct timespec limit = {60, 0};

	return syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &limit, NULL, 0) == 0 ? 5 : -1;
}
static void wake_futex(void)
{
	shared->word = 1;
	must(syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0) == 1, "futex");
}
static int sleep_futex_timeout(void)
{
	struct timespec limit = {SLEEP_MS / 1000, SLEEP_MS % 1000 * 1000000};
	long answer = syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &limit, NULL, 0);

	return answer < 0 && errno == ETIMEDOUT ? 5 : -1;
}
static void take_mutex(void)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	must(!pthread_mutex_init(&shared->mutex, &attr) && !pthread_mutex_lock(&shared->mutex),
	     "mutex");
}
static int sleep_mutex(void)
{
	return pthread_mutex_lock(&shared->mutex) ? -1 : 5;
}
static void give_mutex(void)
{
	pthread_mutex_unlock(&shared->mutex);
}
static void make_condition(void)
{
	pthread_condattr_t attr;

	take_mutex();
	pthread_mutex_unlock(&shared->mutex);
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	must(!pthread_cond_init(&shared->condition, &attr), "condition");
}
static int sleep_condition(void)
{
	struct timespec limit;
	int error = 0;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 60;
	pthread_mutex_lock(&shared->mutex);
	while (!shared->go_on && !error)
		error = pthread_cond_timedwait(&shared->condition, &shared->mutex, &limit);
	pthread_mutex_unlock(&shared->mutex);
	return error ? -1 : 5;
}
static void signal_condition(void)
{
	pthread_mutex_lock(&shared->mutex);
	shared->go_on = true;
	pthread_cond_signal(&shared->condition);
	pthread_mutex_unlock(&shared->mutex);
}
static void make_semaphore(void)
{
	must(!sem_init(&shared->semaphore, 1, 0), "sem_init");
}
static int sleep_semaphore(void)
{
	return sem_wait(&shared->semaphore) ? -1 : 5;
}
static void post_semaphore(void)
{
	must(!sem_post(&shared->semaphore), "sem_post");
}

/* ------------------------------------------------------------------ signals */

static int sleep_pause(void)
{
	/* EINTR is how this ends; a second wait shows that it was not our stop that ended it. */
	return pause() == -1 && errno == EINTR && shared->go_on ? 5 : -1;
}
static void release_by_signal(void)
{
	shared->go_on = true;
	hang_up_signal();
}
static int sleep_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	return sigsuspend(&none) == -1 && errno == EINTR && shared->go_on ? 5 : -1;
}
static void block_and_catch(void)
{
	catch_signal();
	block_signal();
}
static int sleep_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigwaitinfo(&set, NULL) == SIGUSR1 ? 5 : -1;
}

/* ------------------------------------------------------------------ children, locks, System V */

static pid_t wait_child = -1;
static void start_child(void)
{
	make_pipe();
}
static void child_of_sleeper(void)
{
	if (wait_child >= 0)
		return;
	wait_child = fork();
	if (wait_child == 0) {
		char c;

		close(ends[1]);
		while (read(ends[0], &c, 1) < 0)
			;
		_exit(5);
	}
}
static int sleep_wait4(void)
{
	int status;

	child_of_sleeper();
	return waitpid(wait_child, &status, 0) == wait_child ? WEXITSTATUS(status) : -1;
}
static int sleep_waitid(void)
{
	siginfo_t info;

	child_of_sleeper();
	return waitid(P_PID, (id_t)wait_child, &info, WEXITED) == 0 ? info.si_status : -1;
}
static void close_pipe(void)
{
	must(write(ends[1], "x", 1) == 1, "write");
}
static void take_lock(void)
{
	char path[] = "/tmp/limpet-sleeper.XXXXXX";

	lock_fd = mkostemp(path, O_CLOEXEC);
	must(lock_fd >= 0, "mkostemp");
	snprintf(data, sizeof(data), "/proc/self/fd/%d", lock_fd);
	/* Another open file: locks belong to it, not to the process. */
	own_fd = open(data, O_RDWR | O_CLOEXEC);
	unlink(path);
	must(own_fd >= 0 && !flock(lock_fd, LOCK_EX), "flock");
}
static int sleep_flock(void)
{
	return flock(own_fd, LOCK_EX) ? -1 : 5;
}
static void give_lock(void)
{
	must(!flock(lock_fd, LOCK_UN), "flock");
}
static void take_record_lock(void)
{
	struct flock all = {.l_type = F_WRLCK};

	take_lock();
	must(!fcntl(lock_fd, F_OFD_SETLK, &all), "F_OFD_SETLK");
}
static int sleep_record_lock(void)
{
	struct flock all = {.l_type = F_WRLCK};

	return fcntl(own_fd, F_OFD_SETLKW, &all) ? -1 : 5;
}
static void give_record_lock(void)
{
	struct flock all = {.l_type = F_UNLCK};

	must(!fcntl(lock_fd, F_OFD_SETLK, &all), "F_OFD_SETLK");
}
struct message {
	long type;
	char text[8];
};
static void make_message_queue(void)
{
	queue_id = msgget(IPC_PRIVATE, 0600);
	must(queue_id >= 0, "msgget");
}
static int sleep_msgrcv(void)
{
	struct message message;

	return (int)msgrcv(queue_id, &message, sizeof(message.text), 0, 0);
}
static void send_message(void)
{
	struct message message = {1, "hello"};

	must(!msgsnd(queue_id, &message, 5, 0), "msgsnd");
}
static void make_semaphore_set(void)
{
	set_id = semget(IPC_PRIVATE, 1, 0600);
	must(set_id >= 0 && !semctl(set_id, 0, SETVAL, 0), "semget");
}
static int sleep_semop(void)
{
	struct sembuf down = {0, -1, 0};

	return semop(set_id, &down, 1) ? -1 : 5;
}
static void raise_semaphore(void)
{
	struct sembuf up = {0, 1, 0};

	must(!semop(set_id, &up, 1), "semop");
}
static void make_posix_queue(void)
{
	char name[64];
	struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 16};

	snprintf(name, sizeof(name), "/limpet-sleeper-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attr);
	must(queue != (mqd_t)-1, "mq_open");
	mq_unlink(name);
}
static int sleep_mq_receive(void)
{
	return (int)mq_receive(queue, data, sizeof(data), NULL);
}
static void send_to_queue(void)
{
	must(!mq_send(queue, "hello", 5, 0), "mq_send");
}

/* ------------------------------------------------------------------ the kinds
 *
 * `prepare` runs in the common parent, `sleep` in the sleeper, `release` in the waker. Every call
 * that ended as it should answers 5. */
static const struct kind {
	const char *name;
	void (*prepare)(void);
	int (*sleep)(void);
	void (*release)(void); /* NULL: time ends it */
	bool may_be_interrupted;
	void (*prepare_sleeper)(void);
} kinds[] = {
	{"read", make_pipe, sleep_read, send_hello, false, NULL},
	{"readv", make_pipe, sleep_readv, send_hello, false, NULL},
	{"write", fill_pipe, sleep_write, drain_pipe, false, NULL},
	{"splice", make_splice, sleep_splice, send_hello, false, NULL},
	{"recv", make_sockets, sleep_recv, send_hello, false, NULL},
	{"recvfrom", make_sockets, sleep_recvfrom, send_hello, false, NULL},
	{"recvmsg", make_sockets, sleep_recvmsg, send_hello, false, NULL},
	{"accept", make_listener, sleep_accept, connect_to_listener, false, NULL},
	{"eventfd", make_eventfd, sleep_eventfd, add_to_eventfd, false, NULL},
	{"signalfd", make_signalfd, sleep_signalfd, hang_up_signal, false, NULL},
	{"timerfd", make_timerfd, sleep_timerfd, NULL, false, NULL},
	{"inotify", make_inotify, sleep_inotify, create_file, false, NULL},
	{"poll", make_pipe, sleep_poll, send_hello, false, NULL},
	{"poll-timeout", make_pipe, sleep_poll_timeout, NULL, false, NULL},
	{"ppoll", make_pipe, sleep_ppoll, send_hello, false, NULL},
	{"select", make_pipe, sleep_select, send_hello, false, NULL},
	{"pselect", make_pipe, sleep_pselect, send_hello, false, NULL},
	{"epoll_wait", make_epoll, sleep_epoll, send_hello, true, NULL},
	{"nanosleep", NULL, sleep_nanosleep, NULL, false, NULL},
	{"clock_nanosleep", NULL, sleep_clock_nanosleep, NULL, false, NULL},
	{"futex", NULL, sleep_futex, wake_futex, false, NULL},
	{"futex-timeout", NULL, sleep_futex_timeout, NULL, false, NULL},
	{"mutex", take_mutex, sleep_mutex, give_mutex, false, NULL},
	{"condition", make_condition, sleep_condition, signal_condition, false, NULL},
	{"semaphore", make_semaphore, sleep_semaphore, post_semaphore, false, NULL},
	{"pause", NULL, sleep_pause, release_by_signal, false, catch_signal},
	{"sigsuspend", NULL, sleep_sigsuspend, release_by_signal, false, block_and_catch},
	{"sigwaitinfo", NULL, sleep_sigwaitinfo, hang_up_signal, true, block_signal},
	{"wait4", start_child, sleep_wait4, close_pipe, false, NULL},
	{"waitid", start_child, sleep_waitid, close_pipe, false, NULL},
	{"flock", take_lock, sleep_flock, give_lock, false, NULL},
	{"record-lock", take_record_lock, sleep_record_lock, give_record_lock, false, NULL},
	{"msgrcv", make_message_queue, sleep_msgrcv, send_message, true, NULL},
	{"semop", make_semaphore_set, sleep_semop, raise_semaphore, true, NULL},
	{"mq_receive", make_posix_queue, sleep_mq_receive, send_to_queue, false, NULL},
};

static void sleeper_main(const struct kind *kind)
{
	uint64_t started_ns = target_now_ns();
	int result;

	if (kind->prepare_sleeper)
		kind->prepare_sleeper();
	for (;;) {
		errno = 0;
		result = kind->sleep();
		if (result >= 0 || errno != EINTR || !kind->may_be_interrupted)
			break;
		shared->interruptions++;
	}
	shared->error = errno;
	shared->slept_ns = target_now_ns() - started_ns;
	shared->result = result;
	/* Alive until told otherwise: what was done to it shows in its exit status. */
	for (;;)
		pause();
}

static void answer(const struct kind *kind)
{
	uint64_t deadline_ns = target_now_ns() + 20 * 1000000000ull;

	if (kind->release)
		kind->release();
	while (shared->result == RESULT_NONE) {
		struct timespec nap = {0, 1000000};

		if (target_now_ns() > deadline_ns) {
			target_say("bad: the call never ended");
			return;
		}
		nanosleep(&nap, NULL);
	}
	uint64_t slept_ms = shared->slept_ns / 1000000u;
	if (shared->result != 5)
		target_say("bad: answered %d, %s", shared->result, strerror(shared->error));
	else if (!kind->release && slept_ms < SLEEP_MS)
		target_say("bad: slept %lu ms instead of %d", slept_ms, SLEEP_MS);
	else if (!kind->release && slept_ms > SLEEP_MS + 1000)
		target_say("bad: slept %lu ms instead of %d", slept_ms, SLEEP_MS);
	else
		target_say("good %d interruptions", shared->interruptions);
}

static void clean_up(void)
{
	if (queue_id >= 0)
		msgctl(queue_id, IPC_RMID, NULL);
	if (set_id >= 0)
		semctl(set_id, 0, IPC_RMID);
	if (directory[0])
		rmdir(directory);
}

int main(int argc, char **argv)
{
	const size_t kind_count = sizeof(kinds) / sizeof(kinds[0]);
	const struct kind *kind = NULL;
	char line[64];
	unsigned long n;
	int status;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (size_t i = 0; i < kind_count; i++)
			target_say("%s", kinds[i].name);
		return 0;
	}
	for (size_t i = 0; argc == 2 && i < kind_count; i++)
		if (!strcmp(argv[1], kinds[i].name))
			kind = &kinds[i];
	if (!kind)
		target_broken("usage: sleeper --list | KIND");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	must(shared != MAP_FAILED, "mmap");
	shared->result = RESULT_NONE;
	if (kind->prepare)
		kind->prepare();
	sleeper = fork();
	must(sleeper >= 0, "fork");
	if (sleeper == 0)
		sleeper_main(kind);
	target_say("ready %d", sleeper);
	while (target_listen(line, sizeof(line)))
		if (target_word(line, "release", &n))
			answer(kind);
		else if (target_word(line, "quit", &n))
			break;
	/* Still the same process, ended by nothing but this. */
	bool alive = waitpid(sleeper, &status, WNOHANG) == 0;
	kill(sleeper, SIGKILL);
	waitpid(sleeper, &status, 0);
	clean_up();
	if (!alive)
		target_broken("the sleeper ended by itself");
	return 0;
}
