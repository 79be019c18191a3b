/* Operations of chaos that wait, with a partner or a clock, and know what the answer has to be. */
#include <linux/futex.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "test/targets/chaos.h"
#include "test/targets/target.h"

struct partner {
	int fd;
	size_t bytes;
	unsigned long us;
	struct sockaddr_un name;
	int word;
};

static pthread_t begin_partner(void *(*run)(void *), struct partner *partner)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, partner))
		chaos_broken("no thread");
	return thread;
}

/* ------------------------------------------------------------------ pipes and sockets */

static void *write_slowly(void *argument)
{
	struct partner *partner = argument;
	char piece[4096];

	memset(piece, 'x', sizeof(piece));
	for (size_t done = 0; done < partner->bytes;) {
		size_t bytes = partner->bytes - done;

		chaos_sleep_us(partner->us);
		if (bytes > sizeof(piece))
			bytes = sizeof(piece);
		if (write(partner->fd, piece, bytes) != (ssize_t)bytes)
			return argument;
		done += bytes;
	}
	return NULL;
}

static void *read_slowly(void *argument)
{
	struct partner *partner = argument;
	char piece[16384];

	for (size_t done = 0; done < partner->bytes;) {
		ssize_t got;

		chaos_sleep_us(partner->us);
		got = read(partner->fd, piece, sizeof(piece));
		if (got <= 0)
			return argument;
		done += (size_t)got;
	}
	return NULL;
}

static void end_partner(pthread_t thread)
{
	void *answer = NULL;

	if (pthread_join(thread, &answer) || answer)
		chaos_broken("the partner's call was wrong");
}

static void begin_pipe(int *ret_ends)
{
	pthread_rwlock_rdlock(&chaos_descriptors);
	if (pipe(ret_ends))
		chaos_broken("no pipe: %s", strerror(errno));
}

static void end_pipe(const int *ends)
{
	if (close(ends[0]) || close(ends[1]))
		chaos_broken("cannot close its own descriptor: %s", strerror(errno));
	pthread_rwlock_unlock(&chaos_descriptors);
}

void chaos_op_read(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct partner partner = {.bytes = numbers[0], .us = numbers[1]};
	char piece[4096];
	pthread_t thread;
	int ends[2];

	(void)machine;
	begin_pipe(ends);
	partner.fd = ends[1];
	thread = begin_partner(write_slowly, &partner);
	for (size_t done = 0; done < numbers[0];) {
		ssize_t got = read(ends[0], piece, sizeof(piece));

		if (got <= 0 || piece[0] != 'x' || piece[got - 1] != 'x')
			chaos_broken("read: %zd, errno %d, after %zu bytes", got, errno, done);
		done += (size_t)got;
	}
	end_partner(thread);
	end_pipe(ends);
}

void chaos_op_write(struct chaos_machine *machine, const unsigned long *numbers)
{
	static const char zeros[400000];
	struct partner partner = {.bytes = numbers[0], .us = numbers[1]};
	pthread_t thread;
	int ends[2];
	ssize_t wrote;

	(void)machine;
	begin_pipe(ends);
	partner.fd = ends[0];
	thread = begin_partner(read_slowly, &partner);
	wrote = write(ends[1], zeros, numbers[0]);
	if (wrote != (ssize_t)numbers[0])
		chaos_broken("write: %zd, errno %d", wrote, errno);
	end_partner(thread);
	end_pipe(ends);
}

static socklen_t draw_name(struct sockaddr_un *name)
{
	static atomic_uint serial;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)sprintf(name->sun_path + 1, "chaos.%d.%u", getpid(),
					   atomic_fetch_add(&serial, 1)));
}

static void *connect_late(void *argument)
{
	struct partner *partner = argument;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	chaos_sleep_us(partner->us);
	if (fd < 0 || connect(fd, (struct sockaddr *)&partner->name, (socklen_t)partner->word))
		return argument;
	partner->fd = fd;
	return partner->bytes ? write_slowly(argument) : NULL;
}

static void accept_one(unsigned long us, size_t bytes)
{
	static char room[60000];
	struct partner partner = {.us = us, .bytes = bytes};
	int listener, fd;
	pthread_t thread;

	pthread_rwlock_rdlock(&chaos_descriptors);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	partner.word = (int)draw_name(&partner.name);
	if (bind(listener, (struct sockaddr *)&partner.name, (socklen_t)partner.word) ||
	    listen(listener, 1))
		chaos_broken("no socket: %s", strerror(errno));
	thread = begin_partner(connect_late, &partner);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		chaos_broken("accept: %s", strerror(errno));
	if (bytes) {
		ssize_t got = recv(fd, room, bytes, MSG_WAITALL);

		if (got != (ssize_t)bytes)
			chaos_broken("recv: %zd, errno %d", got, errno);
	}
	end_partner(thread);
	close(partner.fd);
	close(fd);
	close(listener);
	pthread_rwlock_unlock(&chaos_descriptors);
}

void chaos_op_accept(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)machine;
	accept_one(numbers[0], 0);
}

void chaos_op_receive(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)machine;
	accept_one(numbers[1], numbers[0]);
}

/* ------------------------------------------------------------------ clocks and words */

/* After the kill of a limpet, such a call may end so: what the kernel knew of its rest is lost. */
static bool may_be_interrupted(void)
{
	return errno == EINTR && getenv("CHAOS_INTERRUPTED");
}

static void check_time(uint64_t begun, unsigned long us, const char *call)
{
	if (target_now_ns() - begun < us * 1000)
		chaos_broken("%s is back too early", call);
}

void chaos_op_nanosleep(struct chaos_machine *machine, const unsigned long *numbers)
{
	const struct timespec time = {0, (long)numbers[0] * 1000};
	const uint64_t begun = target_now_ns();

	(void)machine;
	if (nanosleep(&time, NULL)) {
		if (may_be_interrupted())
			return;
		chaos_broken("nanosleep: %s", strerror(errno));
	}
	check_time(begun, numbers[0], "nanosleep");
}

void chaos_op_poll(struct chaos_machine *machine, const unsigned long *numbers)
{
	const uint64_t begun = target_now_ns();

	(void)machine;
	if (poll(NULL, 0, (int)numbers[0])) {
		if (may_be_interrupted())
			return;
		chaos_broken("poll: %s", strerror(errno));
	}
	check_time(begun, numbers[0] * 1000, "poll");
}

static void *wake(void *argument)
{
	struct partner *partner = argument;

	chaos_sleep_us(partner->us);
	__atomic_store_n(&partner->word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &partner->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return NULL;
}

/* A wake that nobody waits for says so by EAGAIN; nothing else ends it. */
void chaos_op_futex(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct partner partner = {.us = numbers[0]};
	pthread_t thread = begin_partner(wake, &partner);

	(void)machine;
	if (syscall(SYS_futex, &partner.word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) &&
	    errno != EAGAIN)
		chaos_broken("futex: %s", strerror(errno));
	if (!__atomic_load_n(&partner.word, __ATOMIC_SEQ_CST))
		chaos_broken("futex is back, and nobody has woken it");
	end_partner(thread);
}

void chaos_op_futex_timed(struct chaos_machine *machine, const unsigned long *numbers)
{
	const struct timespec time = {0, (long)numbers[0] * 1000};
	const uint64_t begun = target_now_ns();
	int word = 0;

	(void)machine;
	if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0) != -1 ||
	    errno != ETIMEDOUT) {
		if (may_be_interrupted())
			return;
		chaos_broken("futex: errno %d instead of a time-out", errno);
	}
	check_time(begun, numbers[0], "futex");
}
