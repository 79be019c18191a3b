/* The control socket, both ends, over real sockets in a directory of its own. The client's clock is
 * the test's own: it waits for an answer as long as that takes, unless it is to find that none
 * comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "collector/control/control.h"
#include "collector/control/control_client.h"
#include "collector/control/control_wire.h"
#include "collector/control/runtime_dir.h"
#include "test/unit/clock_fixture.h"

#define TARGET 4711
#define SECOND_NS 1000000000ull
#define NOBODY 65534

static char dir_path[64];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir_path, "/tmp/test-control-XXXXXX");
	if (!mkdtemp(dir_path))
		return -1;
	return setenv("LIMPET_RUNTIME_DIR", dir_path, 1);
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", dir_path);
	return system(command);
}

/* The collector looks after its socket a hundred times more often than it would. */
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *ret_old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *ret_old);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value,
			   struct itimerspec *ret_old)
{
	const struct timespec often = {.tv_nsec = SECOND_NS / 100};
	const struct itimerspec period = {.it_interval = often, .it_value = often};

	assert_int_equal(value->it_interval.tv_sec, 1);
	return __real_timerfd_settime(fd, flags, &period, ret_old);
}

static bool socket_exists_in(const char *directory, pid_t pid)
{
	char path[192];

	snprintf(path, sizeof(path), "%s/%d.sock", directory, pid);
	return access(path, F_OK) == 0;
}

static bool socket_exists(pid_t pid)
{
	return socket_exists_in(dir_path, pid);
}

/* ------------------------------------------------------------------ a collector on a thread */

struct collector {
	pthread_t thread;
	struct limpet_control *control;
	int quit;
	atomic_int stops, marks;
	char mark[LIMPET_MARK_NAME_ROOM];
	atomic_int mark_result;
	atomic_size_t mark_count;
	enum limpet_control_state state;
	enum limpet_exit exit_status;
};

static void give_status(void *context, struct limpet_control_status *ret_status)
{
	struct collector *collector = context;

	ret_status->state = collector->state;
	ret_status->command = "node";
	ret_status->trace = "node.4711.limpet";
	ret_status->elapsed_ns = 123;
	ret_status->duration_ns = 456;
	ret_status->events = UINT64_C(1) << 40;
	ret_status->dropped_events = 7;
	ret_status->live_bytes = 191260263;
}

static void take_stop(void *context)
{
	struct collector *collector = context;

	atomic_fetch_add(&collector->stops, 1);
}

static int take_mark(void *context, const char *name, uint64_t *ret_time_ns)
{
	struct collector *collector = context;

	atomic_fetch_add(&collector->marks, 1);
	strcpy(collector->mark, name);
	*ret_time_ns = 77;
	return collector->mark_result;
}

#define MARKS (2 * LIMPET_CONTROL_MARKS_AT_ONCE + 1)

static size_t give_marks(void *context, const struct limpet_mark **ret_list)
{
	static struct limpet_mark list[MARKS];
	const struct collector *collector = context;

	for (unsigned i = 0; i < MARKS; i++) {
		list[i].time_ns = 1000 + i;
		snprintf(list[i].name, sizeof(list[i].name), "mark %u", i);
	}
	*ret_list = list;
	return collector->mark_count;
}

static const struct limpet_control_handlers handlers = {
	.status = give_status, .stop = take_stop, .mark = take_mark, .marks = give_marks};

/* Goes through the states once it is asked to stop, as a real one does. */
static void *collect(void *context)
{
	struct collector *collector = context;
	struct pollfd fds[] = {{.fd = limpet_control_fd(collector->control), .events = POLLIN},
			       {.fd = collector->quit, .events = POLLIN}};

	while (poll(fds, 2, -1) >= 0 && !fds[1].revents) {
		limpet_control_dispatch(collector->control);
		if (atomic_load(&collector->stops) == 0)
			continue;
		collector->state = LIMPET_CONTROL_DETACHING;
		limpet_control_announce(collector->control);
		collector->state = LIMPET_CONTROL_SEALING;
		limpet_control_announce(collector->control);
		limpet_control_finish(collector->control, collector->exit_status);
		break;
	}
	return NULL;
}

static void start_collector(struct collector *collector, enum limpet_exit exit_status)
{
	struct limpet_err err = {0};

	memset(collector, 0, sizeof(*collector));
	collector->state = LIMPET_CONTROL_CAPTURING;
	collector->exit_status = exit_status;
	collector->quit = eventfd(0, EFD_CLOEXEC);
	assert_true(collector->quit >= 0);
	if (limpet_control_open(TARGET, &handlers, collector, &collector->control, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(pthread_create(&collector->thread, NULL, collect, collector), 0);
}

static void end_collector(struct collector *collector)
{
	assert_int_equal(eventfd_write(collector->quit, 1), 0);
	assert_int_equal(pthread_join(collector->thread, NULL), 0);
	limpet_control_free(collector->control);
	close(collector->quit);
	assert_false(socket_exists(TARGET));
}

static void test_status_comes_through(void **state)
{
	struct limpet_control_capture *list = NULL;
	struct limpet_control_capture capture;
	struct collector collector;
	char cwd[PATH_MAX], trace[PATH_MAX + 32];

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	assert_int_equal(limpet_control_list(&list), 1);
	assert_int_equal(list[0].pid, TARGET);
	assert_int_equal(list[0].collector_pid, getpid());
	assert_int_equal(list[0].owner, geteuid());
	assert_int_equal(list[0].state, LIMPET_CONTROL_CAPTURING);
	assert_int_equal(list[0].elapsed_ns, 123);
	assert_int_equal(list[0].duration_ns, 456);
	assert_int_equal(list[0].events, UINT64_C(1) << 40);
	assert_int_equal(list[0].dropped_events, 7);
	assert_int_equal(list[0].live_bytes, 191260263);
	assert_string_equal(list[0].command, "node");
	/* Whoever asks may stand in another directory. */
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	snprintf(trace, sizeof(trace), "%s/node.4711.limpet", cwd);
	assert_string_equal(list[0].trace, trace);
	free(list);

	assert_int_equal(limpet_control_find(TARGET, &capture), 0);
	assert_int_equal(capture.events, UINT64_C(1) << 40);
	assert_int_equal(limpet_control_find(TARGET + 1, &capture), -ENOENT);
	end_collector(&collector);
	assert_int_equal(limpet_control_find(TARGET, &capture), -ENOENT);
	assert_int_equal(limpet_control_list(&list), 0);
	free(list);
}

struct seen {
	enum limpet_control_state states[8];
	size_t count;
};

static void note_state(void *context, const struct limpet_control_capture *capture)
{
	struct seen *seen = context;

	if (seen->count < LIMPET_COUNT_OF(seen->states))
		seen->states[seen->count++] = capture->state;
}

static const struct limpet_control_watcher watcher = {.state = note_state};

static void test_stop_waits_for_the_result(void **state)
{
	struct limpet_control_stop *first, *second;
	struct limpet_control_result result;
	struct limpet_err err = {0};
	struct collector collector;
	struct seen seen = {.count = 0};

	(void)state;
	start_collector(&collector, LIMPET_EXIT_INCOMPLETE);
	assert_int_equal(limpet_control_stop_begin(TARGET, &first, &err), 0);
	assert_int_equal(limpet_control_stop_begin(TARGET + 1, &second, &err), -ENOENT);
	assert_string_equal(err.message, "process 4712 is not being captured");

	assert_int_equal(limpet_control_stop_wait(first, &watcher, &seen, &result, &err), 0);
	assert_int_equal(result.exit_status, LIMPET_EXIT_INCOMPLETE);
	assert_non_null(strstr(result.trace, "/node.4711.limpet"));
	assert_int_equal(seen.count, 3);
	assert_int_equal(seen.states[0], LIMPET_CONTROL_CAPTURING);
	assert_int_equal(seen.states[1], LIMPET_CONTROL_DETACHING);
	assert_int_equal(seen.states[2], LIMPET_CONTROL_SEALING);
	limpet_control_stop_free(first);
	assert_int_equal(atomic_load(&collector.stops), 1);
	end_collector(&collector);
}

static void test_second_stop_is_answered_too(void **state)
{
	struct limpet_control_stop *stops[4];
	struct limpet_control_result result;
	struct collector collector;
	struct limpet_err err;

	(void)state;
	/* No thread yet: all four requests lie there when the collector first looks. */
	memset(&collector, 0, sizeof(collector));
	collector.state = LIMPET_CONTROL_CAPTURING;
	assert_int_equal(
		limpet_control_open(TARGET, &handlers, &collector, &collector.control, &err), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(stops); i++)
		assert_int_equal(limpet_control_stop_begin(TARGET, &stops[i], &err), 0);
	collector.quit = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&collector.thread, NULL, collect, &collector), 0);
	for (size_t i = 0; i < LIMPET_COUNT_OF(stops); i++) {
		struct seen seen = {.count = 0};

		assert_int_equal(limpet_control_stop_wait(stops[i], &watcher, &seen, &result, &err),
				 0);
		assert_int_equal(result.exit_status, LIMPET_EXIT_OK);
		limpet_control_stop_free(stops[i]);
	}
	assert_int_equal(atomic_load(&collector.stops), 1);
	end_collector(&collector);
}

/* A request that is still on its way when the capture ends by itself is not left without an answer.
 */
static void test_late_stop_gets_the_result(void **state)
{
	struct collector collector = {.state = LIMPET_CONTROL_SEALING};
	struct limpet_control_stop *stop;
	struct limpet_control_result result;
	struct seen seen = {.count = 0};
	struct limpet_err err;

	(void)state;
	assert_int_equal(
		limpet_control_open(TARGET, &handlers, &collector, &collector.control, &err), 0);
	assert_int_equal(limpet_control_stop_begin(TARGET, &stop, &err), 0);
	limpet_control_finish(collector.control, LIMPET_EXIT_DORMANT);
	limpet_control_free(collector.control);
	assert_int_equal(limpet_control_stop_wait(stop, &watcher, &seen, &result, &err), 0);
	assert_int_equal(result.exit_status, LIMPET_EXIT_DORMANT);
	assert_int_equal(seen.count, 0);
	limpet_control_stop_free(stop);
}

static void test_second_capture_is_refused(void **state)
{
	struct limpet_control *second = NULL;
	struct collector collector;
	struct limpet_err err;
	char expected[128];

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	assert_int_equal(limpet_control_open(TARGET, &handlers, NULL, &second, &err), -EEXIST);
	assert_null(second);
	snprintf(expected, sizeof(expected),
		 "process %d is already being captured by limpet (pid %d)", TARGET, getpid());
	assert_string_equal(err.message, expected);
	assert_string_equal(err.hint, "limpet stop 4711");
	assert_true(socket_exists(TARGET));
	end_collector(&collector);
}

/* ------------------------------------------------------------------ collectors that die */

static pid_t fork_collector(pid_t target, int *ret_ready)
{
	int ready[2];
	pid_t child;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct collector collector = {.state = LIMPET_CONTROL_CAPTURING};
		struct pollfd fd;
		struct limpet_err err;

		if (limpet_control_open(target, &handlers, &collector, &collector.control, &err) <
			    0 ||
		    write(ready[1], "+", 1) != 1)
			_exit(1);
		fd = (struct pollfd){.fd = limpet_control_fd(collector.control), .events = POLLIN};
		while (poll(&fd, 1, -1) >= 0)
			limpet_control_dispatch(collector.control);
		_exit(0);
	}
	close(ready[1]);
	*ret_ready = ready[0];
	return child;
}

static void await(int ready)
{
	char byte;

	assert_int_equal(read(ready, &byte, 1), 1);
	close(ready);
}

static void kill_collector(pid_t child)
{
	int status;

	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
}

static void test_stale_socket_is_removed(void **state)
{
	struct limpet_control_capture capture, *list;
	struct limpet_control *control;
	struct collector collector = {.state = LIMPET_CONTROL_CAPTURING};
	struct limpet_err err;
	pid_t child;
	int ready;

	(void)state;
	for (int round = 0; round < 3; round++) {
		child = fork_collector(TARGET, &ready);
		await(ready);
		assert_int_equal(limpet_control_find(TARGET, &capture), 0);
		assert_int_equal(capture.collector_pid, child);
		kill_collector(child);
		assert_true(socket_exists(TARGET));
		if (round == 0) {
			assert_int_equal(limpet_control_find(TARGET, &capture), -ENOENT);
		} else if (round == 1) {
			assert_int_equal(limpet_control_list(&list), 0);
			free(list);
		} else {
			assert_int_equal(
				limpet_control_open(TARGET, &handlers, &collector, &control, &err),
				0);
			limpet_control_free(control);
		}
		assert_false(socket_exists(TARGET));
	}
}

static void test_stop_says_when_the_collector_dies(void **state)
{
	struct limpet_control_stop *stop;
	struct limpet_control_result result = {.exit_status = LIMPET_EXIT_DORMANT};
	struct seen seen = {.count = 0};
	struct limpet_err err;
	pid_t child;
	int ready;

	(void)state;
	child = fork_collector(TARGET, &ready);
	await(ready);
	assert_int_equal(limpet_control_stop_begin(TARGET, &stop, &err), 0);
	kill_collector(child);
	assert_int_equal(limpet_control_stop_wait(stop, &watcher, &seen, &result, &err),
			 -ECONNRESET);
	assert_non_null(
		strstr(err.message, "ended before the capture of process 4711 was finished"));
	assert_non_null(strstr(err.hint, "limpet stop 4711"));
	assert_int_equal(result.exit_status, LIMPET_EXIT_DORMANT);
	limpet_control_stop_free(stop);
}

static pid_t fork_stuck_collector(pid_t target)
{
	int ready, status;
	pid_t child = fork_collector(target, &ready);

	await(ready);
	assert_int_equal(kill(child, SIGSTOP), 0);
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	return child;
}

/* A stopped collector accepts nothing and answers nothing, but it is there. */
static void test_stuck_collectors_cost_their_time_limit_once(void **state)
{
	struct limpet_control_capture *list, capture;
	uint64_t began_ns;
	pid_t children[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		children[i] = fork_stuck_collector(TARGET + i);
	clock_fixture_skip_polls(true);
	began_ns = clock_fixture_ns();
	assert_int_equal(limpet_control_list(&list), 3);
	assert_int_equal(clock_fixture_ns() - began_ns, 2 * SECOND_NS);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(list[i].pid, TARGET + i);
		assert_int_equal(list[i].state, LIMPET_CONTROL_UNKNOWN);
	}
	free(list);
	clock_fixture_skip_polls(false);
	assert_int_equal(kill(children[0], SIGCONT), 0);
	assert_int_equal(limpet_control_find(TARGET, &capture), 0);
	assert_int_equal(capture.state, LIMPET_CONTROL_CAPTURING);
	for (int i = 0; i < 3; i++)
		kill_collector(children[i]);
}

struct silence {
	pid_t child;
	unsigned times;
	uint64_t at_ns;
};

static void end_silence(void *context, pid_t collector_pid)
{
	struct silence *silence = context;

	assert_int_equal(collector_pid, silence->child);
	silence->times++;
	silence->at_ns = clock_fixture_ns();
	assert_int_equal(kill(silence->child, SIGKILL), 0);
}

/* That it says nothing is told after ten seconds, once; then it is waited for without a limit. */
static void test_stop_says_that_the_collector_is_silent(void **state)
{
	const struct limpet_control_watcher listener = {.state = note_state, .silent = end_silence};
	struct silence silence = {.child = fork_stuck_collector(TARGET)};
	struct limpet_control_result result;
	struct limpet_control_stop *stop;
	struct limpet_err err;
	uint64_t began_ns;

	(void)state;
	assert_int_equal(limpet_control_stop_begin(TARGET, &stop, &err), 0);
	clock_fixture_skip_polls(true);
	began_ns = clock_fixture_ns();
	assert_int_equal(limpet_control_stop_wait(stop, &listener, &silence, &result, &err),
			 -ECONNRESET);
	clock_fixture_skip_polls(false);
	assert_int_equal(silence.times, 1);
	assert_int_equal(silence.at_ns - began_ns, 10 * SECOND_NS);
	limpet_control_stop_free(stop);
	assert_int_equal(waitpid(silence.child, NULL, 0), silence.child);
}

/* ------------------------------------------------------------------ hostile clients */

static int connect_raw(void)
{
	struct limpet_runtime_dir dirs[LIMPET_RUNTIME_DIRS_MAX];
	int count = limpet_runtime_dir_find_all(dirs), fd;

	assert_int_equal(count, 1);
	fd = limpet_control_connect(dirs[0].fd, TARGET);
	limpet_runtime_dir_done(dirs, count);
	return fd;
}

/* Connects, though a burst of others may have filled the queue. */
static int connect_surely(void)
{
	struct timespec pause = {.tv_nsec = 1000000};

	int fd;

	while ((fd = connect_raw()) == -EAGAIN)
		nanosleep(&pause, NULL);
	assert_true(fd >= 0);
	return fd;
}

static bool is_dropped(int fd)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&poll_fd, 1, -1) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

static ssize_t recv_surely(int fd, void *ret, size_t bytes)
{
	assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1), 1);
	return recv(fd, ret, bytes, 0);
}

static void check_alive(void)
{
	struct limpet_control_capture capture;

	assert_int_equal(limpet_control_find(TARGET, &capture), 0);
	assert_int_equal(capture.state, LIMPET_CONTROL_CAPTURING);
}

static void test_garbage_is_dropped(void **state)
{
	const struct limpet_control_request good = {
		.magic = LIMPET_CONTROL_MAGIC, .version = LIMPET_CONTROL_VERSION, .type = 1};
	static char big[100000];
	struct collector collector;
	struct limpet_control_request request;

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	for (int i = 0; i < 7; i++) {
		int fd = connect_surely();
		const void *bytes = &request;
		size_t count = sizeof(request);

		request = good;
		if (i == 0)
			request.magic++;
		else if (i == 1)
			request.type = 0;
		else if (i == 2)
			request.type = LIMPET_CONTROL_RESULT;
		else if (i == 3)
			request.type = 0xffff;
		else if (i == 4)
			count--;
		else if (i == 5)
			count = 0;
		else
			bytes = big, count = sizeof(big);
		assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
		assert_true(is_dropped(fd));
		close(fd);
		check_alive();
	}
	assert_int_equal(atomic_load(&collector.stops), 0);
	end_collector(&collector);
}

static const char longest[] = "0123456789012345678901234567890123456789012345678901234567890abc";

static void test_a_mark_is_set(void **state)
{
	static const struct {
		int result;
		const char *words;
	} refusals[] = {
		{-EEXIST, "has a mark 'load' already"},
		{-E2BIG, "has 1000 marks already"},
		{-EBUSY, "has not begun, or is ending"},
		{-EIO, "cannot mark the capture of process 4711: Input/output error"},
	};
	struct collector collector;
	struct limpet_err err = {0};
	uint64_t time_ns = 0;

	(void)state;
	assert_int_equal(limpet_control_mark(TARGET, "load", &time_ns, &err), -ENOENT);
	assert_string_equal(err.message, "process 4711 is not being captured");
	start_collector(&collector, LIMPET_EXIT_OK);
	assert_int_equal(limpet_control_mark(TARGET, "nach dem Laden, \xc3\xa4", &time_ns, &err),
			 0);
	assert_string_equal(collector.mark, "nach dem Laden, \xc3\xa4");
	assert_int_equal(time_ns, 77);
	assert_int_equal(limpet_control_mark(TARGET, longest, &time_ns, &err), 0);
	assert_string_equal(collector.mark, longest);
	for (size_t i = 0; i < LIMPET_COUNT_OF(refusals); i++) {
		time_ns = 1;
		collector.mark_result = refusals[i].result;
		assert_int_equal(limpet_control_mark(TARGET, "load", &time_ns, &err),
				 refusals[i].result);
		if (!strstr(err.message, refusals[i].words))
			fail_msg("'%s'", err.message);
		assert_int_equal(time_ns, 1);
	}
	/* What is no name is not even sent. */
	atomic_store(&collector.marks, 0);
	assert_int_equal(limpet_control_mark(TARGET, "", &time_ns, &err), -EINVAL);
	assert_non_null(strstr(err.message, "the name is empty"));
	assert_int_equal(atomic_load(&collector.marks), 0);
	end_collector(&collector);
}

static void test_marks_are_listed(void **state)
{
	static const size_t counts[] = {0, 1, LIMPET_CONTROL_MARKS_AT_ONCE, MARKS};
	struct limpet_mark *marks = NULL;
	struct collector collector;
	char name[32];

	(void)state;
	assert_int_equal(limpet_control_marks(TARGET, &marks), -ENOENT);
	assert_null(marks);
	start_collector(&collector, LIMPET_EXIT_OK);
	for (size_t i = 0; i < LIMPET_COUNT_OF(counts); i++) {
		atomic_store(&collector.mark_count, counts[i]);
		assert_int_equal(limpet_control_marks(TARGET, &marks), counts[i]);
		for (size_t k = 0; k < counts[i]; k++) {
			snprintf(name, sizeof(name), "mark %zu", k);
			assert_string_equal(marks[k].name, name);
			assert_int_equal(marks[k].time_ns, 1000 + k);
		}
		free(marks);
	}
	end_collector(&collector);
}

/* The name of a client is hostile, too: whole messages with a wrong one are told so, others end the
 * connection. */
static void test_hostile_marks_are_not_set(void **state)
{
	static const char *const names[] = {
		"", "two\nlines", "\x1b[2J", "\xff\xfe", "\xe2\x80\xae", "10s", "1h30m"};
	const struct limpet_control_request head = {.magic = LIMPET_CONTROL_MAGIC,
						    .version = LIMPET_CONTROL_VERSION,
						    .type = LIMPET_CONTROL_MARK};
	struct limpet_control_mark_request request, big[2];
	struct limpet_control_mark_reply reply;
	struct collector collector;

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++) {
		int fd = connect_surely();

		memset(&request, 0, sizeof(request));
		request.head = head;
		strcpy(request.name, names[i]);
		assert_int_equal(send(fd, &request, sizeof(request), MSG_NOSIGNAL),
				 sizeof(request));
		assert_int_equal(recv_surely(fd, &reply, sizeof(reply)), sizeof(reply));
		assert_int_equal(reply.result, -EINVAL);
		assert_int_equal(reply.time_ns, 0);
		close(fd);
	}
	memset(&request, 0, sizeof(request));
	request.head = head;
	strcpy(request.name, "good");
	for (int i = 0; i < 6; i++) {
		int fd = connect_surely();
		const void *bytes = &request;
		size_t count = sizeof(request);
		struct limpet_control_mark_request wrong = request;

		if (i == 0) { /* no terminator: longer than any name */
			memset(wrong.name, 'x', sizeof(wrong.name));
			bytes = &wrong;
		} else if (i == 1) {
			count = sizeof(head);
		} else if (i == 2) {
			count--;
		} else if (i == 3) {
			memset(big, 0, sizeof(big));
			big[0] = request;
			bytes = big;
			count++;
		} else if (i == 4) { /* a request without a name does not have one */
			wrong.head.type = LIMPET_CONTROL_STOP;
			bytes = &wrong;
		} else {
			wrong.head.magic++;
			bytes = &wrong;
		}
		assert_int_equal(send(fd, bytes, count, MSG_NOSIGNAL), count);
		assert_true(is_dropped(fd));
		close(fd);
		check_alive();
	}
	assert_int_equal(atomic_load(&collector.marks), 0);
	assert_int_equal(atomic_load(&collector.stops), 0);
	end_collector(&collector);
}

static void test_other_version_is_told_ours(void **state)
{
	struct limpet_control_request request = {
		.magic = LIMPET_CONTROL_MAGIC, .version = 99, .type = LIMPET_CONTROL_STOP};
	char answer[64];
	struct collector collector;
	int fd;

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	fd = connect_surely();
	assert_int_equal(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
	assert_int_equal(recv_surely(fd, answer, sizeof(answer)), sizeof(request));
	memcpy(&request, answer, sizeof(request));
	assert_int_equal(request.version, LIMPET_CONTROL_VERSION);
	assert_int_equal(request.type, LIMPET_CONTROL_VERSION_IS);
	close(fd);
	assert_int_equal(atomic_load(&collector.stops), 0);
	end_collector(&collector);
}

static void test_idle_clients_keep_nobody_out(void **state)
{
	const struct limpet_control_request request = {.magic = LIMPET_CONTROL_MAGIC,
						       .version = LIMPET_CONTROL_VERSION,
						       .type = LIMPET_CONTROL_STATUS};
	struct limpet_control_reply reply;
	struct collector collector;
	int fds[100], fd;

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	for (size_t i = 0; i < LIMPET_COUNT_OF(fds); i++)
		fds[i] = connect_surely();
	fd = connect_surely();
	assert_int_equal(send(fd, &request, sizeof(request), MSG_NOSIGNAL), sizeof(request));
	assert_int_equal(recv_surely(fd, &reply, sizeof(reply)), sizeof(reply));
	close(fd);
	/* All were accepted before that one: the queue is empty. */
	check_alive();
	assert_true(is_dropped(fds[0]));
	for (size_t i = 0; i < LIMPET_COUNT_OF(fds); i++)
		close(fds[i]);
	end_collector(&collector);
}

static void test_client_that_never_reads_is_dropped(void **state)
{
	const struct limpet_control_request request = {
		.magic = LIMPET_CONTROL_MAGIC, .version = LIMPET_CONTROL_VERSION, .type = 1};
	struct timespec pause = {.tv_nsec = 1000000};
	struct collector collector;
	bool dropped = false;
	int fd;

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	fd = connect_surely();
	while (!dropped) {
		if (send(fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			continue;
		dropped = errno == EPIPE || errno == ECONNRESET;
		if (!dropped) {
			assert_int_equal(errno, EAGAIN);
			nanosleep(&pause, NULL);
		}
	}
	assert_true(dropped);
	check_alive();
	close(fd);
	end_collector(&collector);
}

static void test_other_users_are_not_answered(void **state)
{
	struct collector collector;
	char path[128];
	pid_t child;
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	start_collector(&collector, LIMPET_EXIT_OK);
	/* Even with every permission on files gone wrong. */
	snprintf(path, sizeof(path), "%s/%d.sock", dir_path, TARGET);
	assert_int_equal(chmod(dir_path, 0711), 0);
	assert_int_equal(chmod(path, 0666), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		const struct limpet_control_request request = {.magic = LIMPET_CONTROL_MAGIC,
							       .version = LIMPET_CONTROL_VERSION,
							       .type = LIMPET_CONTROL_STOP};

		snprintf(address.sun_path, sizeof(address.sun_path), "%s/%d.sock", dir_path,
			 TARGET);
		if (setuid(NOBODY) < 0 ||
		    connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
			_exit(1);
		if (send(fd, &request, sizeof(request), MSG_NOSIGNAL) < 0 && errno != EPIPE)
			_exit(2);
		_exit(is_dropped(fd) ? 0 : 3);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(atomic_load(&collector.stops), 0);
	check_alive();
	end_collector(&collector);
}

/* ------------------------------------------------------------------ hostile servers */

/* Listens under the name of a capture, as `uid`, and answers every request with `bytes`. */
static pid_t fork_impostor(const void *bytes, size_t count, uid_t uid)
{
	int ready[2];
	pid_t child;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		char request[64];

		snprintf(address.sun_path, sizeof(address.sun_path), "%s/%d.sock", dir_path,
			 TARGET);
		if (bind(listener, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
		    (uid && seteuid(uid) < 0) || listen(listener, 8) < 0 ||
		    write(ready[1], "+", 1) != 1)
			_exit(1);
		for (;;) {
			int fd = accept(listener, NULL, NULL);

			if (recv(fd, request, sizeof(request), 0) > 0)
				send(fd, bytes, count, MSG_NOSIGNAL);
			close(fd);
		}
	}
	close(ready[1]);
	await(ready[0]);
	return child;
}

static void check_impostor(const void *bytes, size_t count, uid_t uid, int expected_stop)
{
	pid_t child = fork_impostor(bytes, count, uid);
	struct limpet_control_capture capture = {.state = LIMPET_CONTROL_SEALING};
	struct limpet_control_result result = {.exit_status = LIMPET_EXIT_OK};
	struct limpet_control_stop *stop = NULL;
	struct seen seen = {.count = 0};
	struct limpet_err err = {0};
	char path[128];
	int answer;

	assert_int_equal(limpet_control_find(TARGET, &capture), 0);
	assert_int_equal(capture.state, LIMPET_CONTROL_UNKNOWN);
	assert_string_equal(capture.trace, "");
	answer = limpet_control_stop_begin(TARGET, &stop, &err);
	if (answer == 0)
		answer = limpet_control_stop_wait(stop, &watcher, &seen, &result, &err);
	assert_int_equal(answer, expected_stop);
	assert_true(err.message[0] != '\0');
	assert_int_equal(seen.count, 0);
	limpet_control_stop_free(stop);
	kill_collector(child);
	snprintf(path, sizeof(path), "%s/%d.sock", dir_path, TARGET);
	assert_int_equal(unlink(path), 0);
}

static void test_impostors_are_not_believed(void **state)
{
	static const struct limpet_control_reply good = {
		.magic = LIMPET_CONTROL_MAGIC,
		.version = LIMPET_CONTROL_VERSION,
		.type = LIMPET_CONTROL_STATUS,
		.state = LIMPET_CONTROL_CAPTURING,
		.target_pid = TARGET,
		.collector_pid = 1,
		.command = "node",
		.trace = "/tmp/x",
	};
	static struct limpet_control_reply reply;
	static char big[65536];

	(void)state;
	for (int i = 0; i < 12; i++) {
		size_t count = sizeof(reply);

		reply = good;
		switch (i) {
		case 0:
			reply.magic = 0;
			break;
		case 1:
			reply.version++;
			break;
		case 2:
			reply.type = 77;
			break;
		case 3:
			reply.state = LIMPET_CONTROL_UNKNOWN;
			break;
		case 4:
			reply.state = LIMPET_CONTROL_DORMANT;
			break;
		case 5:
			reply.state = UINT32_MAX;
			break;
		case 6:
			reply.target_pid++;
			break;
		case 7:
			reply.collector_pid = 0;
			break;
		case 8:
			memset(reply.command, 'x', sizeof(reply.command));
			break;
		case 9:
			memset(reply.trace, 'x', sizeof(reply.trace));
			break;
		case 10:
			count--;
			break;
		case 11:
			count = 8;
			break;
		}
		check_impostor(&reply, count, 0, -EPROTO);
	}
	check_impostor(big, sizeof(big), 0, -EPROTO);
}

static void test_impostors_list_no_marks(void **state)
{
	static const char *const names[] = {"", "two\nlines", "\x1b[2J", "10s"};
	struct limpet_control_marks_reply good = {.magic = LIMPET_CONTROL_MAGIC,
						  .version = LIMPET_CONTROL_VERSION,
						  .type = LIMPET_CONTROL_MARKS,
						  .target_pid = TARGET,
						  .total = 1,
						  .marks[0].name = "load"};
	struct limpet_mark *marks = NULL;
	char path[128];

	(void)state;
	for (int i = 0; i < 11; i++) {
		struct limpet_control_marks_reply reply = good;
		size_t count = sizeof(reply);
		pid_t child;

		if (i == 0)
			reply.magic = 0;
		else if (i == 1)
			reply.version++;
		else if (i == 2)
			reply.type = LIMPET_CONTROL_MARK;
		else if (i == 3)
			reply.target_pid++;
		else if (i == 4)
			reply.total = LIMPET_MARKS_MAX + 1;
		else if (i == 5)
			memset(reply.marks[0].name, 'x', sizeof(reply.marks[0].name));
		else if (i == 6)
			count = 8;
		else
			strcpy(reply.marks[0].name, names[i - 7]);
		child = fork_impostor(&reply, count, 0);
		assert_int_equal(limpet_control_marks(TARGET, &marks), -EPROTO);
		assert_null(marks);
		kill_collector(child);
		snprintf(path, sizeof(path), "%s/%d.sock", dir_path, TARGET);
		assert_int_equal(unlink(path), 0);
	}
}

static void test_impostors_set_no_mark(void **state)
{
	static const struct limpet_control_mark_reply good = {.magic = LIMPET_CONTROL_MAGIC,
							      .version = LIMPET_CONTROL_VERSION,
							      .type = LIMPET_CONTROL_MARK,
							      .target_pid = TARGET,
							      .time_ns = 5};
	char path[128];

	(void)state;
	for (int i = 0; i < 7; i++) {
		struct limpet_control_mark_reply reply = good;
		size_t count = sizeof(reply);
		struct limpet_err err = {0};
		uint64_t time_ns = 0;
		pid_t child;

		if (i == 0)
			reply.magic = 0;
		else if (i == 1)
			reply.version++;
		else if (i == 2)
			reply.type = LIMPET_CONTROL_STATUS;
		else if (i == 3)
			reply.target_pid++;
		else if (i == 4)
			reply.result = 1;
		else if (i == 5)
			reply.result = INT32_MIN;
		else
			count = 8;
		child = fork_impostor(&reply, count, 0);
		assert_int_equal(limpet_control_mark(TARGET, "load", &time_ns, &err), -EPROTO);
		assert_non_null(strstr(err.message, "another version of limpet"));
		assert_int_equal(time_ns, 0);
		kill_collector(child);
		snprintf(path, sizeof(path), "%s/%d.sock", dir_path, TARGET);
		assert_int_equal(unlink(path), 0);
	}
}

static void test_strange_exit_status_is_no_result(void **state)
{
	static struct limpet_control_reply reply = {
		.magic = LIMPET_CONTROL_MAGIC,
		.version = LIMPET_CONTROL_VERSION,
		.type = LIMPET_CONTROL_RESULT,
		.target_pid = TARGET,
		.collector_pid = 1,
	};

	(void)state;
	reply.exit_status = 6;
	check_impostor(&reply, sizeof(reply), 0, -EPROTO);
	reply.exit_status = -1;
	check_impostor(&reply, sizeof(reply), 0, -EPROTO);
}

static void test_other_users_servers_are_refused(void **state)
{
	static const struct limpet_control_reply good = {
		.magic = LIMPET_CONTROL_MAGIC,
		.version = LIMPET_CONTROL_VERSION,
		.type = LIMPET_CONTROL_STATUS,
		.state = LIMPET_CONTROL_CAPTURING,
		.target_pid = TARGET,
		.collector_pid = 1,
	};

	(void)state;
	if (geteuid() != 0)
		skip();
	check_impostor(&good, sizeof(good), NOBODY, -EACCES);
}

/* ------------------------------------------------------------------ the directory */

static void check_dir_refused(const char *path, const char *words)
{
	struct limpet_runtime_dir dirs[LIMPET_RUNTIME_DIRS_MAX];
	struct limpet_control *control;
	struct limpet_err err = {0};
	struct collector collector = {.state = LIMPET_CONTROL_CAPTURING};

	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", path, 1), 0);
	assert_true(limpet_control_open(TARGET, &handlers, &collector, &control, &err) < 0);
	if (!strstr(err.message, words))
		fail_msg("\"%s\" does not say \"%s\"", err.message, words);
	assert_true(err.hint[0] != '\0');
	assert_int_equal(limpet_runtime_dir_find_all(dirs), 0);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", dir_path, 1), 0);
}

static void test_unsafe_directories_are_refused(void **state)
{
	char path[128], target[128];
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s/shared", dir_path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0770), 0);
	check_dir_refused(path, "other users may write to it");
	assert_int_equal(chmod(path, 0702), 0);
	check_dir_refused(path, "other users may write to it");

	assert_int_equal(chmod(path, 0700), 0);
	snprintf(target, sizeof(target), "%s/link", dir_path);
	assert_int_equal(symlink(path, target), 0);
	check_dir_refused(target, "it is not a directory");

	snprintf(path, sizeof(path), "%s/file", dir_path);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	check_dir_refused(path, "it is not a directory");
	check_dir_refused("relative/path", "must be an absolute path");
	snprintf(path, sizeof(path), "%s/no/such/parent", dir_path);
	check_dir_refused(path, "cannot make a runtime directory");
	if (geteuid() == 0) {
		snprintf(path, sizeof(path), "%s/theirs", dir_path);
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(chown(path, NOBODY, NOBODY), 0);
		check_dir_refused(path, "it belongs to another user");
	}
}

static void test_directory_is_made_private(void **state)
{
	struct collector collector = {.state = LIMPET_CONTROL_CAPTURING};
	struct limpet_control *control;
	struct limpet_err err = {0};
	char path[128], name[160];
	struct stat st;
	mode_t before = umask(0);

	(void)state;
	snprintf(path, sizeof(path), "%s/new", dir_path);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", path, 1), 0);
	assert_int_equal(limpet_control_open(TARGET, &handlers, &collector, &control, &err), 0);
	umask(before);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(name, sizeof(name), "%s/%d.sock", path, TARGET);
	assert_int_equal(stat(name, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	limpet_control_free(control);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", dir_path, 1), 0);
}

static struct limpet_control *open_control(struct collector *collector, pid_t pid)
{
	struct limpet_control *control;
	struct limpet_err err = {0};

	if (limpet_control_open(pid, &handlers, collector, &control, &err) < 0)
		fail_msg("%s", err.message);
	return control;
}

static void test_directory_goes_with_the_last_socket(void **state)
{
	struct collector collector = {.state = LIMPET_CONTROL_CAPTURING};
	struct limpet_control *first, *second;
	char path[128], file[160];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/new", dir_path);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", path, 1), 0);
	second = open_control(&collector, TARGET);
	first = open_control(&collector, TARGET + 1);
	limpet_control_free(first);
	assert_int_equal(access(path, F_OK), 0);
	limpet_control_free(second);
	assert_int_equal(access(path, F_OK), -1);

	/* A directory with anything else in it stays, as does one that the user made. */
	first = open_control(&collector, TARGET);
	snprintf(file, sizeof(file), "%s/note", path);
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	limpet_control_free(first);
	assert_int_equal(unlink(file), 0);
	limpet_control_free(open_control(&collector, TARGET));
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", dir_path, 1), 0);
	limpet_control_free(open_control(&collector, TARGET));
	assert_int_equal(access(dir_path, F_OK), 0);
}

/* Captures that begin while others end, and remove the directory, are all found. */
static void test_directory_comes_and_goes(void **state)
{
	struct collector collector = {.state = LIMPET_CONTROL_CAPTURING};
	pid_t children[4];
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/new", dir_path);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", path, 1), 0);
	for (int i = 0; i < (int)LIMPET_COUNT_OF(children); i++) {
		children[i] = fork();
		if (children[i] == 0) {
			struct limpet_control *control;
			struct limpet_err err;

			for (int round = 0; round < 300; round++) {
				if (limpet_control_open(TARGET + i, &handlers, &collector, &control,
							&err) < 0)
					_exit(1);
				if (!socket_exists_in(path, TARGET + i))
					_exit(2);
				limpet_control_free(control);
			}
			_exit(0);
		}
	}
	for (size_t i = 0; i < LIMPET_COUNT_OF(children); i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", dir_path, 1), 0);
}

/* The directory of a login is swept away while the capture goes on. */
static void test_socket_comes_back(void **state)
{
	struct limpet_control_capture capture;
	struct timespec pause = {.tv_nsec = 10000000};
	struct collector collector;
	char path[128];
	int result = -ENOENT;

	(void)state;
	start_collector(&collector, LIMPET_EXIT_OK);
	snprintf(path, sizeof(path), "%s/%d.sock", dir_path, TARGET);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir_path), 0);
	while (result == -ENOENT) {
		nanosleep(&pause, NULL);
		result = limpet_control_find(TARGET, &capture);
	}
	assert_int_equal(result, 0);
	assert_int_equal(capture.state, LIMPET_CONTROL_CAPTURING);
	end_collector(&collector);
}

static void test_long_paths_work(void **state)
{
	struct limpet_control_capture capture;
	struct collector collector;
	char path[220];

	(void)state;
	snprintf(path, sizeof(path), "%s/%0150d", dir_path, 7);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", path, 1), 0);
	start_collector(&collector, LIMPET_EXIT_OK);
	assert_int_equal(limpet_control_find(TARGET, &capture), 0);
	end_collector(&collector);
	assert_int_equal(setenv("LIMPET_RUNTIME_DIR", dir_path, 1), 0);
}

static void test_names_are_parsed_strictly(void **state)
{
	static const char *const wrong[] = {
		"",         ".sock",     "0.sock",          "-1.sock",
		"12",       "12.socket", "012.sock",        "12.sock~",
		" 12.sock", "x.sock",    "2147483648.sock", "99999999999999999999999.sock"};
	pid_t pid = 77;

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(wrong); i++) {
		if (limpet_control_parse_name(wrong[i], &pid) || pid != 77)
			fail_msg("\"%s\" was taken for a socket", wrong[i]);
	}
	assert_true(limpet_control_parse_name("2147483647.sock", &pid));
	assert_int_equal(pid, 2147483647);
	assert_true(limpet_control_parse_name("1.sock", &pid));
	assert_int_equal(pid, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_status_comes_through),
		TEST(test_stop_waits_for_the_result),
		TEST(test_second_stop_is_answered_too),
		TEST(test_late_stop_gets_the_result),
		TEST(test_second_capture_is_refused),
		TEST(test_stale_socket_is_removed),
		TEST(test_stop_says_when_the_collector_dies),
		TEST(test_stuck_collectors_cost_their_time_limit_once),
		TEST(test_stop_says_that_the_collector_is_silent),
		TEST(test_garbage_is_dropped),
		TEST(test_a_mark_is_set),
		TEST(test_marks_are_listed),
		TEST(test_impostors_list_no_marks),
		TEST(test_hostile_marks_are_not_set),
		TEST(test_other_version_is_told_ours),
		TEST(test_idle_clients_keep_nobody_out),
		TEST(test_client_that_never_reads_is_dropped),
		TEST(test_other_users_are_not_answered),
		TEST(test_impostors_are_not_believed),
		TEST(test_impostors_set_no_mark),
		TEST(test_strange_exit_status_is_no_result),
		TEST(test_other_users_servers_are_refused),
		TEST(test_unsafe_directories_are_refused),
		TEST(test_directory_is_made_private),
		TEST(test_directory_goes_with_the_last_socket),
		TEST(test_directory_comes_and_goes),
		TEST(test_socket_comes_back),
		TEST(test_long_paths_work),
		TEST(test_names_are_parsed_strictly),
	};

	return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
