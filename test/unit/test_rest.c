/* A call that a stop has cut short: the thread makes the rest of it, and gets the sum. Tried on
 * children that write more than a pipe takes, or read more than there is: they are stopped while
 * they wait with a part of it moved, so that each stop cuts the call. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/arch/x86_64/rest.h"
#include "injector/ptrace/tracee.h"
#include "test/unit/clock_fixture.h"

#define SECOND_NS 1000000000u
#define MUCH (4u << 20)
#define STACK_ROOM (64u << 10)

/* 0 is the child's. */
static int ends[2];
static uint8_t data[MUCH], seen[MUCH];
static struct {
	_Atomic long answer;
	_Atomic int error, handled;
	uint8_t got[MUCH];
} * child;

static void pause_a_moment(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	nanosleep(&moment, NULL);
}

/* ------------------------------------------------------------------ the calls */

static long write_much(void)
{
	return write(ends[0], data, MUCH);
}
static long send_much(void)
{
	return send(ends[0], data, MUCH, MSG_NOSIGNAL);
}
static long writev_much(void)
{
	struct iovec parts[] = {
		{data, 5}, {NULL, 0}, {data + 5, MUCH / 2}, {data + 5 + MUCH / 2, MUCH / 2 - 5}};

	return writev(ends[0], parts, 4);
}
static long sendmsg_much(void)
{
	struct iovec parts[] = {{data, MUCH / 2}, {data + MUCH / 2, MUCH / 2}};
	const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	return sendmsg(ends[0], &message, MSG_NOSIGNAL);
}
static long sendfile_much(void)
{
	int file = memfd_create("much", MFD_CLOEXEC);
	off_t from = 0;
	long answer;

	if (file < 0 || write(file, data, MUCH) != MUCH)
		return -1;
	answer = sendfile(ends[0], file, &from, MUCH);
	return from == answer ? answer : -1;
}
static long recv_all(void)
{
	return recv(ends[0], child->got, MUCH, MSG_WAITALL);
}
static long recvmsg_all(void)
{
	struct iovec parts[] = {{child->got, 7}, {child->got + 7, MUCH - 7}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	return recvmsg(ends[0], &message, MSG_WAITALL);
}

static void on_signal(int number)
{
	(void)number;
	child->handled++;
}

/* ------------------------------------------------------------------ the child */

static void make_pipe(void)
{
	int both[2];

	assert_int_equal(pipe2(both, O_CLOEXEC), 0);
	ends[0] = both[1];
	ends[1] = both[0];
}

static void make_pair(void)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void make_connection(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(connect(ends[0], (struct sockaddr *)&address, bytes), 0);
	ends[1] = accept(listener, NULL, NULL);
	assert_true(ends[1] >= 0);
	close(listener);
}

static bool is_in(pid_t pid, long number)
{
	struct limpet_proc_syscall call;

	return limpet_proc_syscall_read(pid, pid, &call) == 0 && !call.running &&
	       call.number == number;
}

static pid_t start(void (*make)(void), long (*call)(void), long number)
{
	const struct sigaction action = {.sa_handler = on_signal};
	pid_t parent = getpid(), pid;

	make();
	memset(child, 0, sizeof(*child));
	pid = fork();
	assert_true(pid >= 0);
	if (pid) {
		close(ends[0]);
		while (!is_in(pid, number))
			pause_a_moment();
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	if (getppid() != parent)
		_exit(99);
	close(ends[1]);
	sigaction(SIGUSR1, &action, NULL);
	child->answer = call();
	child->error = errno;
	_exit(0);
}

static struct limpet_tracer *tracer;

/* To wait for a tracee takes its stops away, unless it is only looked at. */
static void wait_for_end(pid_t pid)
{
	for (;;) {
		siginfo_t info = {.si_pid = 0};

		limpet_tracer_release_strays(tracer);
		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
			return; /* reaped as a stray */
		if (info.si_pid && info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
			break;
		pause_a_moment();
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Reads until nothing more comes, and lets the child go on meanwhile. */
static size_t drain(pid_t pid)
{
	size_t got = 0;

	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	for (;;) {
		const ssize_t more = read(ends[1], seen + got, sizeof(seen) - got);

		limpet_tracer_release_strays(tracer);
		if (more == 0)
			break;
		if (more > 0)
			got += (size_t)more;
		else if (errno == EAGAIN)
			pause_a_moment();
		else if (errno == ECONNRESET)
			break;
		else
			fail_msg("read: %s", strerror(errno));
		if (got == sizeof(seen))
			break;
	}
	wait_for_end(pid);
	close(ends[1]);
	return got;
}

static void fill(pid_t pid, size_t sent)
{

	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	while (sent < MUCH) {
		const ssize_t more = write(ends[1], data + sent, MUCH - sent);

		limpet_tracer_release_strays(tracer);
		if (more > 0)
			sent += (size_t)more;
		else
			pause_a_moment();
	}
	wait_for_end(pid);
	close(ends[1]);
}

/* ------------------------------------------------------------------ stopping it */

static struct limpet_tracee *stop(pid_t pid)
{
	struct limpet_tracee *tracee;

	assert_int_equal(limpet_tracee_stop(tracer, pid, pid,
					    limpet_monotonic_ns() + 60ull * SECOND_NS, &tracee),
			 0);
	return tracee;
}

static int find_gadgets(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)bytes;
	if (!strstr(info->dlpi_name, "libc.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uint64_t at = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
			limpet_tracee_find_gadgets((const uint8_t *)(uintptr_t)at,
						   segment->p_filesz, at, context);
	}
	return 1;
}

/* As limpet does with a thread that it hijacks: it makes system calls for us. */
static void hijack(struct limpet_tracee *tracee)
{
	struct limpet_tracee_gadgets gadgets = {0};
	const uint64_t none[6] = {0};
	int64_t answer;

	assert_int_equal(dl_iterate_phdr(find_gadgets, &gadgets), 1);
	assert_int_equal(limpet_tracee_hijack(tracee, &gadgets,
					      limpet_tracee_regs(tracee)->rsp - STACK_ROOM),
			 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(limpet_tracee_syscall(tracee, SYS_getpid, none,
						       limpet_monotonic_ns() + 60ull * SECOND_NS,
						       &answer),
				 0);
		assert_int_equal(answer, limpet_tracee_tid(tracee));
	}
}

/* Released, it waits in its call again, and is not held. */
static void release_and_wait(pid_t pid, struct limpet_tracee *tracee, long number)
{
	const int64_t moved = (int64_t)limpet_tracee_regs(tracee)->rax;

	/* A stop does cut this call. */
	assert_in_range(moved, 1, MUCH - 1);
	assert_int_equal(limpet_tracee_release(tracee), 0);
	assert_int_equal(limpet_tracer_strays(tracer), 1);
	while (!is_in(pid, number)) {
		limpet_tracer_release_strays(tracer);
		pause_a_moment();
	}
}

struct kind {
	void (*make)(void);
	long (*call)(void);
	long number, rest; /* the call in which it waits for the rest */
};

static void test_what_is_sent_is_sent_whole(void **state)
{
	static const struct kind kinds[] = {
		{make_pipe, write_much, SYS_write, SYS_write},
		{make_pipe, writev_much, SYS_writev, SYS_write},
		{make_pair, write_much, SYS_write, SYS_write},
		{make_pair, send_much, SYS_sendto, SYS_sendto},
		{make_pair, sendmsg_much, SYS_sendmsg, SYS_sendto},
		{make_pair, sendfile_much, SYS_sendfile, SYS_sendfile},
		{make_connection, send_much, SYS_sendto, SYS_sendto},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (int hijacked = 0; hijacked < 2; hijacked++) {
			pid_t pid = start(kinds[i].make, kinds[i].call, kinds[i].number);
			struct limpet_tracee *tracee = stop(pid);

			if (hijacked)
				hijack(tracee);
			release_and_wait(pid, tracee, kinds[i].rest);
			assert_int_equal(drain(pid), MUCH);
			assert_memory_equal(seen, data, MUCH);
			assert_int_equal(child->answer, MUCH);
			assert_int_equal(limpet_tracer_strays(tracer), 0);
		}
}

/* It has received three bytes, and waits for more. */
static struct limpet_tracee *stop_behind_three_bytes(pid_t pid)
{
	assert_int_equal(write(ends[1], data, 3), 3);
	for (;;) {
		struct limpet_tracee *tracee = stop(pid);

		if ((int64_t)limpet_tracee_regs(tracee)->rax > 0)
			return tracee;
		assert_int_equal(limpet_tracee_release(tracee), 0);
		pause_a_moment();
	}
}

static void test_what_is_received_is_received_whole(void **state)
{
	static const struct kind kinds[] = {
		{make_connection, recv_all, SYS_recvfrom, SYS_recvfrom},
		{make_connection, recvmsg_all, SYS_recvmsg, SYS_recvfrom},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		pid_t pid = start(kinds[i].make, kinds[i].call, kinds[i].number);
		struct limpet_tracee *tracee = stop_behind_three_bytes(pid);

		release_and_wait(pid, tracee, kinds[i].rest);
		fill(pid, 3);
		assert_int_equal(child->answer, MUCH);
		assert_memory_equal(child->got, data, MUCH);
	}
}

static long fill_random(void)
{
	child->handled = 1;
	return getrandom(child->got, MUCH, 0);
}

static long read_device(void)
{
	const int device = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	child->handled = 1;
	return read(device, child->got, MUCH);
}

static int copy_from = -1;

static long copy_file(void)
{
	const int to = memfd_create("to", MFD_CLOEXEC);
	off_t at = 0;
	long answer;

	child->handled = 1;
	answer = sendfile(to, copy_from, &at, MUCH);
	return at == answer && pread(to, child->got, MUCH, 0) == answer &&
			       !memcmp(child->got, data, MUCH)
		       ? answer
		       : -1;
}

/* They run all the while: many are stopped before or after the call. */
static void cut_while_it_runs(long number, long (*call)(void))
{
	bool cut = false;

	for (int i = 0; i < 1000 && !cut; i++) {
		struct limpet_tracee *tracee;
		pid_t pid;
		int error;

		memset(child, 0, sizeof(*child));
		pid = fork();
		if (!pid) {
			child->answer = call();
			_exit(0);
		}
		while (!child->handled)
			;
		error = limpet_tracee_stop(tracer, pid, pid,
					   limpet_monotonic_ns() + 60ull * SECOND_NS, &tracee);
		if (!error) {
			const struct user_regs_struct *regs = limpet_tracee_regs(tracee);

			cut = regs->orig_rax == (uint64_t)number && (int64_t)regs->rax > 0 &&
			      regs->rax < MUCH;
			limpet_tracee_release(tracee);
		}
		wait_for_end(pid);
		assert_int_equal(child->answer, MUCH);
	}
	assert_true(cut);
}

static void test_random_bytes_are_all_there(void **state)
{
	(void)state;
	cut_while_it_runs(SYS_getrandom, fill_random);
	cut_while_it_runs(SYS_read, read_device);
}

static void test_a_file_is_copied_whole(void **state)
{
	(void)state;
	copy_from = memfd_create("from", MFD_CLOEXEC);
	assert_true(copy_from >= 0);
	assert_int_equal(write(copy_from, data, MUCH), MUCH);
	cut_while_it_runs(SYS_sendfile, copy_file);
	close(copy_from);
}

/* Whether the call would be finished if it were this one, and had moved a part. */
static bool would_finish_as(struct limpet_tracee *tracee, long number, struct user_regs_struct regs)
{
	struct limpet_rest *rest;

	regs.orig_rax = (uint64_t)number;
	regs.rax = 100;
	regs.rdx = regs.r10 = number == SYS_sendfile ? MUCH : regs.rdx;
	rest = limpet_rest_new(limpet_tracee_tid(tracee), limpet_tracee_tid(tracee), &regs);
	if (rest)
		limpet_rest_free(rest);
	return rest;
}

static bool would_finish(struct limpet_tracee *tracee, long number)
{
	return would_finish_as(tracee, number, *limpet_tracee_regs(tracee));
}

static void make_packets(void)
{
	int both[2];

	assert_int_equal(pipe2(both, O_CLOEXEC | O_DIRECT), 0);
	ends[0] = both[1];
	ends[1] = both[0];
}

/* sendfile(2) does not wait for a pipe, and writes to one of packets are packets: what is short
 * there is so without us. */
static void test_what_is_short_by_itself_is_left(void **state)
{
	static const struct {
		void (*make)(void);
		bool writes, sends_files;
	} kinds[] = {
		{make_pipe, true, false}, {make_packets, false, false}, {make_pair, true, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		pid_t pid = start(kinds[i].make, write_much, SYS_write);
		struct limpet_tracee *tracee = stop(pid);

		assert_int_equal(would_finish(tracee, SYS_write), kinds[i].writes);
		assert_int_equal(would_finish(tracee, SYS_sendfile), kinds[i].sends_files);
		kill(pid, SIGKILL);
		(void)!limpet_tracee_release(tracee);
		wait_for_end(pid);
		close(ends[1]);
	}
}

static bool would_finish_on(struct limpet_tracee *tracee, long number, int fd)
{
	struct user_regs_struct regs = *limpet_tracee_regs(tracee);

	regs.rdi = (uint64_t)fd;
	regs.rdx = MUCH;
	return would_finish_as(tracee, number, regs);
}

/* Of files: devices without an end, and what sendfile(2) writes to, unless that has a limit of
 * which a signal would tell. */
static void test_files(void **state)
{
	static const char *const devices[] = {"/dev/zero", "/dev/full", "/dev/random",
					      "/dev/urandom", "/dev/null"};
	const struct rlimit limit = {MUCH, RLIM_INFINITY};
	const int file = memfd_create("file", MFD_CLOEXEC);
	int fds[5];
	struct limpet_tracee *tracee;
	pid_t pid;

	(void)state;
	for (int i = 0; i < 5; i++)
		fds[i] = open(devices[i], O_RDWR | O_CLOEXEC);
	pid = start(make_pipe, write_much, SYS_write);
	tracee = stop(pid);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(would_finish_on(tracee, SYS_read, fds[i]), i < 4);
		assert_false(would_finish_on(tracee, SYS_write, fds[i]));
		close(fds[i]);
	}
	assert_false(would_finish_on(tracee, SYS_read, file));
	assert_false(would_finish_on(tracee, SYS_write, file));
	assert_true(would_finish_on(tracee, SYS_sendfile, file));
	assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &limit, NULL), 0);
	assert_false(would_finish_on(tracee, SYS_sendfile, file));
	close(file);
	kill(pid, SIGKILL);
	(void)!limpet_tracee_release(tracee);
	wait_for_end(pid);
	close(ends[1]);
}

/* Data that was sent before a message with descriptors, or before urgent data, is received alone.
 */
static void test_what_is_received_in_parts_is_left(void **state)
{
	(void)state;
	for (int urgent = 0; urgent < 2; urgent++) {
		pid_t pid = start(urgent ? make_connection : make_pair, recv_all, SYS_recvfrom);
		struct limpet_tracee *tracee = stop_behind_three_bytes(pid);

		if (urgent)
			assert_int_equal(send(ends[1], data + 3, 1, MSG_OOB), 1);
		assert_int_equal(limpet_tracee_release(tracee), 0);
		wait_for_end(pid);
		assert_int_equal(child->answer, 3);
		close(ends[1]);
	}
}

/* The clock is the test's: the rest is never made for longer than it may be. */
static void test_no_rest_lasts(void **state)
{
	(void)state;
	for (int hijacked = 0; hijacked < 2; hijacked++) {
		pid_t pid = start(make_pipe, write_much, SYS_write);
		struct limpet_tracee *tracee = stop(pid);
		const long moved = (long)limpet_tracee_regs(tracee)->rax;

		if (hijacked)
			hijack(tracee);
		release_and_wait(pid, tracee, SYS_write);
		limpet_tracer_release_strays(tracer);
		assert_int_equal(limpet_tracer_strays(tracer), 1);
		clock_fixture_move((hijacked ? 10ull : 1ull) * SECOND_NS / 2);
		wait_for_end(pid);
		assert_int_equal(child->answer, moved);
		assert_int_equal(limpet_tracer_strays(tracer), 0);
		close(ends[1]);
	}
}

/* What a descriptor that does not block, or not for ever, returns is no fault of ours. */
static void test_other_short_calls_are_left(void **state)
{
	const struct timeval limit = {3600, 0};

	(void)state;
	for (int timed = 0; timed < 2; timed++) {
		pid_t pid;
		struct limpet_tracee *tracee;
		int own;

		make_pair();
		own = dup(ends[0]);
		memset(child, 0, sizeof(*child));
		pid = fork();
		if (!pid) {
			child->answer = send_much();
			_exit(0);
		}
		close(ends[0]);
		while (!is_in(pid, SYS_sendto))
			pause_a_moment();
		tracee = stop(pid);
		if (timed)
			assert_int_equal(
				setsockopt(own, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
		else
			assert_int_equal(fcntl(own, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(limpet_tracee_release(tracee), 0);
		assert_int_equal(limpet_tracer_strays(tracer), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_in_range(child->answer, 1, MUCH - 1);
		close(own);
		close(ends[1]);
	}
}

/* With a handler that runs the kernel cuts it short, and the number is right. */
static void test_a_signal_ends_the_rest(void **state)
{
	(void)state;
	for (int early = 0; early < 2; early++) {
		pid_t pid = start(make_pipe, write_much, SYS_write);
		struct limpet_tracee *tracee = stop(pid);

		if (early) {
			kill(pid, SIGUSR1);
			assert_int_equal(limpet_tracee_release(tracee), 0);
		} else {
			release_and_wait(pid, tracee, SYS_write);
			assert_true(read(ends[1], seen, 8192) == 8192);
			kill(pid, SIGUSR1);
		}
		while (!child->handled || limpet_tracer_strays(tracer)) {
			limpet_tracer_release_strays(tracer);
			pause_a_moment();
		}
		assert_int_equal((long)drain(pid) + (early ? 0 : 8192), child->answer);
		assert_in_range(child->answer, 1, MUCH - 1);
		assert_int_equal(child->handled, 1);
	}
}

/* The other end goes. */
static void test_what_cannot_be_sent_is_not_counted(void **state)
{
	pid_t pid = start(make_pair, send_much, SYS_sendto);
	struct limpet_tracee *tracee = stop(pid);
	const long moved = (long)limpet_tracee_regs(tracee)->rax;

	(void)state;
	release_and_wait(pid, tracee, SYS_sendto);
	close(ends[1]);
	wait_for_end(pid);
	assert_int_equal(child->answer, moved);
}

/* Killed while a thread that it had hijacked makes the rest. */
static void test_a_limpet_that_is_killed_leaves_the_sum(void **state)
{
	pid_t pid = start(make_pipe, write_much, SYS_write), other;
	int told[2];
	char c;

	(void)state;
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	other = fork();
	assert_true(other >= 0);
	if (!other) {
		struct limpet_tracee *tracee;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		tracee = stop(pid);
		hijack(tracee);
		release_and_wait(pid, tracee, SYS_write);
		(void)!write(told[1], "", 1);
		for (;;)
			pause();
	}
	close(told[1]);
	assert_int_equal(read(told[0], &c, 1), 1);
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, NULL, 0), other);
	close(told[0]);
	assert_int_equal(drain(pid), MUCH);
	assert_memory_equal(seen, data, MUCH);
	assert_int_equal(child->answer, MUCH);
}

/* It ends by itself: what still waits, and has no frame, is cut short with the right number. */
static void test_a_limpet_that_ends_leaves_the_number(void **state)
{
	pid_t pid = start(make_pipe, write_much, SYS_write), other;
	int status;

	(void)state;
	other = fork();
	assert_true(other >= 0);
	if (!other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		release_and_wait(pid, stop(pid), SYS_write);
		clock_fixture_step(SECOND_NS / 10);
		limpet_tracer_free(tracer);
		_exit(7);
	}
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	while (!child->answer)
		pause_a_moment();
	assert_int_equal(drain(pid), child->answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_sent_is_sent_whole),
		cmocka_unit_test(test_what_is_received_is_received_whole),
		cmocka_unit_test(test_what_is_short_by_itself_is_left),
		cmocka_unit_test(test_what_is_received_in_parts_is_left),
		cmocka_unit_test(test_no_rest_lasts),
		cmocka_unit_test(test_random_bytes_are_all_there),
		cmocka_unit_test(test_a_file_is_copied_whole),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_other_short_calls_are_left),
		cmocka_unit_test(test_a_signal_ends_the_rest),
		cmocka_unit_test(test_what_cannot_be_sent_is_not_counted),
		cmocka_unit_test(test_a_limpet_that_is_killed_leaves_the_sum),
		cmocka_unit_test(test_a_limpet_that_ends_leaves_the_number),
	};

	assert_int_equal(limpet_tracer_new(&tracer), 0);
	child = mmap(NULL, sizeof(*child), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_true(child != MAP_FAILED);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
