/* The process that reads files for symbolize.h, confined as it is; and in its place one that was
 * taken over, and answers what it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/symbols/symbol_channel.h"
#include "analyzer/symbols/symbol_worker.h"
#include "analyzer/symbols/symbolize.h"
#include "test/unit/clock_fixture.h"

static char directory[] = "/tmp/limpet-worker.XXXXXX";
static char program[64];

/* ------------------------------------------------------------------ a worker that was taken over
 */

int __real_limpet_symbol_worker(void);
int __wrap_limpet_symbol_worker(void);

/* What the next worker does stands in a file: it has no other way to be told. */
static void set_worker(const char *mode)
{
	FILE *file = fopen("mode", "w");

	assert_non_null(file);
	fputs(mode, file);
	fclose(file);
}

static void say(struct limpet_symbol_channel *channel, enum limpet_symbol_message_type type)
{
	if (limpet_symbol_send(channel, type, -1) < 0)
		exit(0);
}

static void put_opened(struct limpet_symbol_channel *channel)
{
	limpet_symbol_append(channel, 0);
	limpet_symbol_append(channel, 1);
	limpet_symbol_append_text(channel, NULL);
	say(channel, LIMPET_SYMBOL_OPENED);
}

static void put_frame(struct limpet_symbol_channel *channel, const char *function)
{
	limpet_symbol_append(channel, 14);
	limpet_symbol_append_text(channel, function);
	limpet_symbol_append_text(channel, "file.c");
}

/* A message that is never whole. */
static void put_drops(const struct limpet_symbol_channel *channel)
{
	static const uint32_t head[2] = {LIMPET_SYMBOL_FRAMES, LIMPET_SYMBOL_PAYLOAD_MAX};
	const struct timespec nap = {0, 50000};

	(void)!write(channel->socket, head, sizeof(head));
	while (write(channel->socket, "", 1) == 1)
		nanosleep(&nap, NULL);
	exit(0);
}

/* Two with each byte of a head. */
static void give_descriptors(const struct limpet_symbol_channel *channel)
{
	static const uint32_t head[2] = {LIMPET_SYMBOL_FRAMES, 0};

	for (size_t i = 0; i < sizeof(head); i++) {
		union {
			struct cmsghdr head;
			char bytes[CMSG_SPACE(2 * sizeof(int))];
		} control = {.bytes = {0}};
		const int fds[2] = {1, 2};
		struct iovec part = {(char *)(uintptr_t)head + i, 1};
		struct msghdr message = {.msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = &control,
					 .msg_controllen = sizeof(control)};

		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(fds));
		memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
		if (sendmsg(channel->socket, &message, 0) != 1)
			exit(0);
	}
}

static void answer_badly(struct limpet_symbol_channel *channel, const char *mode)
{
	uint64_t count = limpet_symbol_read(channel);

	if (!strcmp(mode, "fewer"))
		count = count ? count - 1 : 0;
	if (!strcmp(mode, "more"))
		count += 3;
	if (!strcmp(mode, "crash"))
		raise(SIGSEGV);
	if (!strcmp(mode, "silent"))
		for (;;)
			pause();
	if (!strcmp(mode, "deep")) {
		limpet_symbol_append(channel, LIMPET_SYMBOL_MAX_INLINED + 1);
		for (int i = 0; i <= LIMPET_SYMBOL_MAX_INLINED; i++)
			put_frame(channel, "f");
		say(channel, LIMPET_SYMBOL_FRAMES);
	}
	if (!strcmp(mode, "endless text")) {
		limpet_symbol_append(channel, 1);
		limpet_symbol_append(channel, 14);
		limpet_symbol_append(channel, 4);
		limpet_bytes_append(&channel->out, "text", 4);
		limpet_symbol_append_text(channel, NULL);
		say(channel, LIMPET_SYMBOL_FRAMES);
	}
	if (!strcmp(mode, "hidden text")) {
		limpet_symbol_append(channel, 1);
		limpet_symbol_append(channel, 14);
		limpet_symbol_append(channel, 4);
		limpet_bytes_append(&channel->out, "a\0b", 4);
		limpet_symbol_append_text(channel, NULL);
		say(channel, LIMPET_SYMBOL_FRAMES);
	}
	if (!strcmp(mode, "empty"))
		say(channel, LIMPET_SYMBOL_FRAMES);
	if (!strcmp(mode, "another"))
		put_opened(channel);
	if (!strcmp(mode, "drops"))
		put_drops(channel);
	if (!strcmp(mode, "descriptors"))
		give_descriptors(channel);
	for (uint64_t i = 0; i < count; i++) {
		limpet_symbol_append(channel, 1);
		put_frame(channel, "honest");
	}
	say(channel, LIMPET_SYMBOL_FRAMES);
	if (!strcmp(mode, "fewer"))
		exit(0);
}

/* Names, without end and all different. */
static void flood(struct limpet_symbol_channel *channel)
{
	char name[8000];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	for (unsigned i = 0;; i++) {
		limpet_symbol_append(channel, LIMPET_SYMBOL_MAX_INLINED);
		for (int k = 0; k < LIMPET_SYMBOL_MAX_INLINED; k++) {
			snprintf(name, 20, "%010u.%02d", i, k);
			name[strlen(name)] = 'x';
			put_frame(channel, name);
		}
		say(channel, LIMPET_SYMBOL_FRAMES);
	}
}

static void want_badly(struct limpet_symbol_channel *channel, const char *mode)
{
	if (!strcmp(mode, "files of ours")) {
		static const char *const names[] = {"/etc/passwd", "/etc/passwd.dwo",
						    "secret.dwo",  "fifo.dwo",
						    "/dev/zero",   "/proc/self/mem"};

		for (size_t i = 0; i < LIMPET_COUNT_OF(names); i++) {
			limpet_symbol_append_text(channel, names[i]);
			say(channel, LIMPET_SYMBOL_REQUEST_SPLIT);
			/* Who is given one says so by its silence. */
			if (limpet_symbol_receive(channel) < 0 || channel->fd >= 0)
				_exit(0);
		}
	}
	if (!strcmp(mode, "too much")) {
		const struct {
			uint32_t type, bytes;
		} head = {LIMPET_SYMBOL_OPENED, LIMPET_SYMBOL_PAYLOAD_MAX + 1};

		(void)!write(channel->socket, &head, sizeof(head));
	}
	if (!strcmp(mode, "noise"))
		(void)!write(channel->socket, "0123456789abcdef0123456789abcdef", 32);
	if (!strcmp(mode, "nothing"))
		_exit(0);
	if (!strcmp(mode, "not confined")) {
		limpet_symbol_append(channel, EPERM);
		limpet_symbol_append_text(channel, "seccomp: no");
		say(channel, LIMPET_SYMBOL_REFUSED);
		_exit(0);
	}
	while (!strcmp(mode, "always something")) {
		limpet_symbol_append(channel, 1);
		limpet_symbol_append_text(channel, "x.debug");
		say(channel, LIMPET_SYMBOL_REQUEST_DEBUG);
		if (limpet_symbol_receive(channel) < 0)
			_exit(0);
	}
}

int __wrap_limpet_symbol_worker(void)
{
	struct limpet_symbol_channel channel;
	char mode[64] = "";
	FILE *file = fopen("mode", "r");

	if (!file || !fgets(mode, sizeof(mode), file))
		return __real_limpet_symbol_worker();
	fclose(file);
	limpet_symbol_channel_init(&channel, LIMPET_SYMBOL_WORKER_FD);
	if (limpet_symbol_receive(&channel) < 0)
		return 1;
	want_badly(&channel, mode);
	put_opened(&channel);
	while (limpet_symbol_receive(&channel) == 0) {
		if (!strcmp(mode, "flood"))
			flood(&channel);
		answer_badly(&channel, mode);
	}
	return 0;
}

static int try_open(struct limpet_symbolizer **ret, struct limpet_err *err)
{
	const struct limpet_symbolizer_options options = {.path = program, .fd = -1};

	return limpet_symbolizer_open(&options, ret, err);
}

static struct limpet_symbolizer *must_open(void)
{
	struct limpet_symbolizer *s = NULL;
	struct limpet_err err = {0};

	if (try_open(&s, &err) < 0)
		fail_msg("%s", err.message);
	return s;
}

/* Whatever it answers: its names are worth nothing from then on, and that is said. */
static void test_answers_are_not_believed(void **state)
{
	static const char *const modes[] = {"fewer", "deep",    "endless text", "hidden text",
					    "empty", "another", "crash"};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(modes); i++) {
		const uint64_t addresses[] = {1, 2, 3};
		const struct limpet_symbol *list;
		struct limpet_symbolizer *s;

		set_worker(modes[i]);
		s = must_open();
		limpet_symbolizer_prepare(s, addresses, 3);
		if (limpet_symbolizer_failure(s) != -EPROTO)
			fail_msg("'%s': %d", modes[i], limpet_symbolizer_failure(s));
		assert_int_equal(limpet_symbolizer_resolve(s, 1, &list), 0);
		limpet_symbolizer_close(s);
	}
	/* More than was asked for. */
	{
		struct limpet_symbolizer *s;
		const uint64_t address = 1;

		set_worker("more");
		s = must_open();
		limpet_symbolizer_prepare(s, &address, 1);
		assert_int_equal(limpet_symbolizer_failure(s), -EPROTO);
		limpet_symbolizer_close(s);
	}
}

static void test_honest_answers(void **state)
{
	const uint64_t addresses[] = {1, 2, 3};
	const struct limpet_symbol *list;
	struct limpet_symbolizer *s;

	(void)state;
	set_worker("honest");
	s = must_open();
	limpet_symbolizer_prepare(s, addresses, 3);
	for (uint64_t i = 3; i > 0; i--) {
		assert_int_equal(limpet_symbolizer_resolve(s, i, &list), 1);
		assert_string_equal(list[0].function, "honest");
		assert_string_equal(list[0].file, "file.c");
		assert_int_equal(list[0].line, 7);
	}
	/* One that was not prepared. */
	assert_int_equal(limpet_symbolizer_resolve(s, 9, &list), 1);
	assert_int_equal(limpet_symbolizer_failure(s), 0);
	limpet_symbolizer_close(s);
}

static void test_names_are_not_kept_without_end(void **state)
{
	uint64_t addresses[LIMPET_SYMBOLIZER_BATCH];
	struct limpet_symbolizer *s;
	unsigned batches = 0;

	(void)state;
	for (size_t i = 0; i < LIMPET_SYMBOLIZER_BATCH; i++)
		addresses[i] = i;
	set_worker("flood");
	s = must_open();
	while (!limpet_symbolizer_failure(s) && batches++ < 100)
		limpet_symbolizer_prepare(s, addresses, LIMPET_SYMBOLIZER_BATCH);
	assert_int_equal(limpet_symbolizer_failure(s), -EPROTO);
	assert_true(batches < 10);
	limpet_symbolizer_close(s);
}

static void test_opening_fails_where_nonsense_comes(void **state)
{
	static const char *const modes[] = {"nothing", "noise", "too much", "always something"};

	(void)state;
	for (size_t i = 0; i < LIMPET_COUNT_OF(modes); i++) {
		struct limpet_symbolizer *s = NULL;
		struct limpet_err err = {0};

		set_worker(modes[i]);
		if (try_open(&s, &err) != -EPROTO)
			fail_msg("'%s': %s", modes[i], err.message);
		assert_non_null(strstr(err.message, "could not be read"));
	}
}

static void test_one_that_cannot_be_confined(void **state)
{
	struct limpet_symbolizer *s = NULL;
	struct limpet_err err = {0};

	(void)state;
	set_worker("not confined");
	assert_int_equal(try_open(&s, &err), -EPROTO);
	assert_non_null(strstr(err.message, "could not be confined (seccomp: no)"));
}

static void test_no_file_of_ours(void **state)
{
	struct limpet_symbolizer *s;

	(void)state;
	set_worker("files of ours");
	s = must_open();
	limpet_symbolizer_close(s);
}

static void test_one_that_is_silent(void **state)
{
	const struct limpet_symbol *list;
	struct limpet_symbolizer *s;

	(void)state;
	set_worker("silent");
	s = must_open();
	clock_fixture_skip_polls(true);
	assert_int_equal(limpet_symbolizer_resolve(s, 1, &list), 0);
	clock_fixture_skip_polls(false);
	assert_int_equal(limpet_symbolizer_failure(s), -EPROTO);
	limpet_symbolizer_close(s);
	/* By this clock its end was not waited for either. */
	while (waitpid(-1, NULL, 0) > 0)
		;
}

/* However little it keeps to itself. */
static void test_one_that_answers_in_drops(void **state)
{
	const struct limpet_symbol *list;
	struct limpet_symbolizer *s;

	(void)state;
	set_worker("drops");
	s = must_open();
	assert_int_equal(limpet_symbolizer_resolve(s, 1, &list), 0);
	assert_int_equal(limpet_symbolizer_failure(s), -EPROTO);
	limpet_symbolizer_close(s);
}

static unsigned descriptors(void)
{
	unsigned count = 0;
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		count++;
	closedir(dir);
	return count;
}

static void test_no_descriptor_is_taken(void **state)
{
	const unsigned before = descriptors();
	const struct limpet_symbol *list;
	struct limpet_symbolizer *s;

	(void)state;
	set_worker("descriptors");
	s = must_open();
	assert_int_equal(limpet_symbolizer_resolve(s, 1, &list), 0);
	assert_int_equal(limpet_symbolizer_failure(s), -EPROTO);
	limpet_symbolizer_close(s);
	assert_int_equal(descriptors(), before);
}

static void test_nobody_waits_who_was_asked_to_stop(void **state)
{
	volatile sig_atomic_t cancel = 0;
	const struct limpet_symbolizer_options options = {
		.path = program, .fd = -1, .cancel = &cancel};
	const struct limpet_symbol *list;
	struct limpet_symbolizer *s;

	(void)state;
	set_worker("silent");
	assert_int_equal(limpet_symbolizer_open(&options, &s, NULL), 0);
	cancel = 1;
	assert_int_equal(limpet_symbolizer_resolve(s, 1, &list), 0);
	assert_int_equal(limpet_symbolizer_failure(s), -EINTR);
	limpet_symbolizer_close(s);
}

/* ------------------------------------------------------------------ the real one */

/* Our one child, and no other's. */
static pid_t worker_of(void)
{
	char path[64];
	int pid = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", getpid(), getpid());
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	fclose(file);
	return pid;
}

static void test_it_is_confined(void **state)
{
	struct limpet_symbolizer *s;
	char path[64], line[256];
	unsigned seen = 0, fds = 0;
	struct dirent *entry;
	int inherited;
	FILE *file;
	DIR *dir;
	pid_t pid;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
	unlink("mode");
	/* What a shell may have left open for us. */
	inherited = open("/etc/passwd", O_RDONLY);
	assert_true(inherited >= 0);
	s = must_open();
	close(inherited);
	pid = worker_of();
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		seen += !strcmp(line, "Seccomp:\t2\n") || !strcmp(line, "NoNewPrivs:\t1\n") ||
			!strcmp(line, "CapEff:\t0000000000000000\n") ||
			(geteuid() == 0 && !strncmp(line, "Uid:\t65534\t65534", 16));
	fclose(file);
	assert_int_equal(seen, geteuid() == 0 ? 4 : 3);
	/* Its own three, and the channel; the module may be open besides. */
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (dir) {
		while ((entry = readdir(dir)))
			fds += entry->d_name[0] != '.';
		closedir(dir);
		assert_in_range(fds, 4, 5);
	}
	limpet_symbolizer_close(s);
	/* Gone, and nobody's to bury. */
	assert_int_equal(kill(pid, 0), -1);
}

/* Who maps a file that gets shorter is ended by SIGBUS. */
static void test_a_file_that_is_cut_off(void **state)
{
	struct limpet_symbolizer *s;
	const struct limpet_symbol *list;

	(void)state;
	unlink("mode");
	s = must_open();
	assert_int_equal(truncate(program, 64), 0);
	for (uint64_t at = 0; at < 0x4000 && !limpet_symbolizer_failure(s); at += 16)
		assert_true(limpet_symbolizer_resolve(s, at, &list) >= 0);
	assert_int_equal(limpet_symbolizer_failure(s), -EPROTO);
	limpet_symbolizer_close(s);
}

/* Each section is 8 GiB, as its head says. */
static void test_a_file_that_says_it_is_huge(void **state)
{
	struct limpet_symbolizer *s = NULL;
	struct limpet_err err = {0};
	FILE *file;

	(void)state;
	unlink("mode");
	assert_int_equal(system("printf 'int main(void) { return 0; }' | cc -x c -g -o huge - && "
				"truncate -s 8G huge"),
			 0);
	snprintf(program, sizeof(program), "%s/huge", directory);
	file = fopen(program, "r+");
	assert_non_null(file);
	/* Each section begins at 0 and is as large as the file. */
	{
		unsigned char head[64];
		uint64_t at, all = 8ull << 30, zero = 0;
		uint16_t count;

		assert_int_equal(fread(head, sizeof(head), 1, file), 1);
		memcpy(&at, head + 40, sizeof(at));
		memcpy(&count, head + 60, sizeof(count));
		for (unsigned i = 1; i + 1 < count; i++) {
			fseek(file, (long)(at + i * 64ull + 24), SEEK_SET);
			fwrite(&zero, sizeof(zero), 1, file);
			fwrite(&all, sizeof(all), 1, file);
		}
	}
	fclose(file);
	/* Any answer will do. */
	if (try_open(&s, &err) == 0) {
		const struct limpet_symbol *list;

		limpet_symbolizer_resolve(s, 0x1130, &list);
		limpet_symbolizer_close(s);
	}
	unlink(program);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(directory) || chdir(directory) < 0)
		return -1;
	snprintf(program, sizeof(program), "%s/program", directory);
	if (symlink("/etc/passwd", "secret.dwo") < 0 || mkfifo("fifo.dwo", 0600) < 0)
		return -1;
	return system("printf 'int f(int x) { return x + 1; } int main(void) { return f(1); }' | "
		      "cc -x c -g -o program -");
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_honest_answers),
		cmocka_unit_test(test_answers_are_not_believed),
		cmocka_unit_test(test_names_are_not_kept_without_end),
		cmocka_unit_test(test_opening_fails_where_nonsense_comes),
		cmocka_unit_test(test_one_that_cannot_be_confined),
		cmocka_unit_test(test_no_file_of_ours),
		cmocka_unit_test(test_one_that_is_silent),
		cmocka_unit_test(test_one_that_answers_in_drops),
		cmocka_unit_test(test_no_descriptor_is_taken),
		cmocka_unit_test(test_nobody_waits_who_was_asked_to_stop),
		cmocka_unit_test(test_it_is_confined),
		cmocka_unit_test(test_a_file_that_is_cut_off),
		cmocka_unit_test(test_a_file_that_says_it_is_huge),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
