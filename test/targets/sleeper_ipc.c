/* Children, locks, and the queues and semaphores of System V and POSIX. */
#include "test/targets/sleeper.h"

#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/wait.h>

#include "test/targets/target.h"

static int lock_fd = -1, own_fd = -1, queue_id = -1, set_id = -1;
static mqd_t queue = (mqd_t)-1;

static pid_t wait_child = -1;
static void child_of_sleeper(void)
{
	if (wait_child >= 0)
		return;
	wait_child = fork();
	if (wait_child == 0) {
		char c;

		close(sleeper_ends[1]);
		while (read(sleeper_ends[0], &c, 1) < 0)
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
	sleeper_must(write(sleeper_ends[1], "x", 1) == 1, "write");
}
static void take_lock(void)
{
	char path[] = "/tmp/limpet-sleeper.XXXXXX";

	lock_fd = mkostemp(path, O_CLOEXEC);
	sleeper_must(lock_fd >= 0, "mkostemp");
	snprintf(sleeper_data, sizeof(sleeper_data), "/proc/self/fd/%d", lock_fd);
	/* Another open file: locks belong to it, not to the process. */
	own_fd = open(sleeper_data, O_RDWR | O_CLOEXEC);
	unlink(path);
	sleeper_must(own_fd >= 0 && !flock(lock_fd, LOCK_EX), "flock");
}
static int sleep_flock(void)
{
	return flock(own_fd, LOCK_EX) ? -1 : 5;
}
static void give_lock(void)
{
	sleeper_must(!flock(lock_fd, LOCK_UN), "flock");
}
static void take_record_lock(void)
{
	struct flock all = {.l_type = F_WRLCK};

	take_lock();
	sleeper_must(!fcntl(lock_fd, F_OFD_SETLK, &all), "F_OFD_SETLK");
}
static int sleep_record_lock(void)
{
	struct flock all = {.l_type = F_WRLCK};

	return fcntl(own_fd, F_OFD_SETLKW, &all) ? -1 : 5;
}
static void give_record_lock(void)
{
	struct flock all = {.l_type = F_UNLCK};

	sleeper_must(!fcntl(lock_fd, F_OFD_SETLK, &all), "F_OFD_SETLK");
}
static void take_posix_lock(void)
{
	struct flock all = {.l_type = F_WRLCK};

	take_lock();
	sleeper_must(!fcntl(lock_fd, F_SETLK, &all), "F_SETLK");
}
static int sleep_posix_lock(void)
{
	struct flock all = {.l_type = F_WRLCK};

	return fcntl(own_fd, F_SETLKW, &all) ? -1 : 5;
}
static void give_posix_lock(void)
{
	struct flock all = {.l_type = F_UNLCK};

	sleeper_must(!fcntl(lock_fd, F_SETLK, &all), "F_SETLK");
}
struct message {
	long type;
	char text[8];
};
static void make_message_queue(void)
{
	queue_id = msgget(IPC_PRIVATE, 0600);
	sleeper_must(queue_id >= 0, "msgget");
}
static int sleep_msgrcv(void)
{
	struct message message;

	return (int)msgrcv(queue_id, &message, sizeof(message.text), 0, 0);
}
static void send_message(void)
{
	struct message message = {1, "hello"};

	sleeper_must(!msgsnd(queue_id, &message, 5, 0), "msgsnd");
}
static void fill_message_queue(void)
{
	struct message message = {1, "hello"};

	make_message_queue();
	while (!msgsnd(queue_id, &message, sizeof(message.text), IPC_NOWAIT))
		;
	sleeper_must(errno == EAGAIN, "msgsnd");
}
static int sleep_msgsnd(void)
{
	struct message message = {1, "hello"};

	return msgsnd(queue_id, &message, 5, 0) ? -1 : 5;
}
static void take_message(void)
{
	struct message message;

	sleeper_must(msgrcv(queue_id, &message, sizeof(message.text), 0, IPC_NOWAIT) > 0, "msgrcv");
}
static void make_semaphore_set(void)
{
	set_id = semget(IPC_PRIVATE, 1, 0600);
	sleeper_must(set_id >= 0 && !semctl(set_id, 0, SETVAL, 0), "semget");
}
static int sleep_semop(void)
{
	struct sembuf down = {0, -1, 0};

	return syscall(SYS_semop, set_id, &down, 1UL) ? -1 : 5;
}
static int sleep_semtimedop(void)
{
	struct sembuf down = {0, -1, 0};
	struct timespec limit = sleeper_time();

	return semtimedop(set_id, &down, 1, &limit) < 0 && errno == EAGAIN ? 5 : -1;
}
static void raise_semaphore(void)
{
	struct sembuf up = {0, 1, 0};

	sleeper_must(!semop(set_id, &up, 1), "semop");
}
static void make_posix_queue(void)
{
	char name[64];
	struct mq_attr attr = {.mq_maxmsg = 2, .mq_msgsize = 16};

	snprintf(name, sizeof(name), "/limpet-sleeper-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attr);
	sleeper_must(queue != (mqd_t)-1, "mq_open");
	mq_unlink(name);
}
static int sleep_mq_receive(void)
{
	return (int)mq_receive(queue, sleeper_data, sizeof(sleeper_data), NULL);
}
static void send_to_queue(void)
{
	sleeper_must(!mq_send(queue, "hello", 5, 0), "mq_send");
}
static void fill_posix_queue(void)
{
	make_posix_queue();
	send_to_queue();
	send_to_queue();
}
static int sleep_mq_send(void)
{
	return mq_send(queue, "hello", 5, 0) ? -1 : 5;
}
static void take_from_queue(void)
{
	sleeper_must(mq_receive(queue, sleeper_data, sizeof(sleeper_data), NULL) == 5,
		     "mq_receive");
}
static int sleep_mq_timedreceive(void)
{
	struct timespec due = sleeper_due(CLOCK_REALTIME);

	return mq_timedreceive(queue, sleeper_data, sizeof(sleeper_data), NULL, &due) < 0 &&
			       errno == ETIMEDOUT
		       ? 5
		       : -1;
}

const struct sleeper_kind sleeper_ipc_kinds[] = {
	{"wait4", SYS_wait4, sleeper_make_pipe, sleep_wait4, close_pipe, NULL},
	{"waitid", SYS_waitid, sleeper_make_pipe, sleep_waitid, close_pipe, NULL},
	{"flock", SYS_flock, take_lock, sleep_flock, give_lock, NULL},
	{"record-lock", SYS_fcntl, take_record_lock, sleep_record_lock, give_record_lock, NULL},
	{"posix-lock", SYS_fcntl, take_posix_lock, sleep_posix_lock, give_posix_lock, NULL},
	{"msgrcv", SYS_msgrcv, make_message_queue, sleep_msgrcv, send_message, NULL},
	{"msgsnd", SYS_msgsnd, fill_message_queue, sleep_msgsnd, take_message, NULL},
	{"semop", SYS_semop, make_semaphore_set, sleep_semop, raise_semaphore, NULL},
	{"semtimedop", SYS_semtimedop, make_semaphore_set, sleep_semtimedop, NULL, NULL},
	{"mq_receive", SYS_mq_timedreceive, make_posix_queue, sleep_mq_receive, send_to_queue,
	 NULL},
	{"mq_timedreceive", SYS_mq_timedreceive, make_posix_queue, sleep_mq_timedreceive, NULL,
	 NULL},
	{"mq_send", SYS_mq_timedsend, fill_posix_queue, sleep_mq_send, take_from_queue, NULL},
	{NULL, 0, NULL, NULL, NULL, NULL},
};

void sleeper_ipc_clean_up(void)
{
	if (queue_id >= 0)
		msgctl(queue_id, IPC_RMID, NULL);
	if (set_id >= 0)
		semctl(set_id, 0, IPC_RMID);
}
