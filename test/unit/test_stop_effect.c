/* What a stop does to a system call: every number is known, and arguments decide where they must.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "injector/ptrace/stop_effect.h"

static unsigned asked;

ssize_t __real_getxattr(const char *path, const char *name, void *value, size_t bytes);
ssize_t __wrap_getxattr(const char *path, const char *name, void *value, size_t bytes);
ssize_t __wrap_getxattr(const char *path, const char *name, void *value, size_t bytes)
{
	asked++;
	return __real_getxattr(path, name, value, bytes);
}

static void test_every_call_is_known(void **state)
{
	(void)state;
	for (long number = 0; number <= 469; number++)
		if (number <= 334 || number >= 424)
			assert_int_not_equal(limpet_stop_class_of(number), LIMPET_CALL_UNKNOWN);
	assert_int_equal(limpet_stop_class_of(100000), LIMPET_CALL_UNKNOWN);
}

static enum limpet_stop_effect effect(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	const struct limpet_proc_syscall call = {.number = number, .args = {a, b, c, d}};

	return limpet_stop_effect_of(getpid(), &call);
}

static void test_pipes_take_a_page_at_once(void **state)
{
	char data[1];
	struct iovec parts[2] = {{data, 4000}, {data, 96}};
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	uint64_t fd = (uint64_t)ends[1], vector = (uintptr_t)parts;

	assert_int_equal(effect(SYS_write, fd, 0, 4096, 0), LIMPET_STOP_UNSEEN);
	assert_int_equal(effect(SYS_write, fd, 0, 4097, 0), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_writev, fd, vector, 2, 0), LIMPET_STOP_UNSEEN);
	parts[1].iov_len++;
	assert_int_equal(effect(SYS_writev, fd, vector, 2, 0), LIMPET_STOP_CUTS);
	close(ends[0]);
	close(ends[1]);
}

static void test_receiving(void **state)
{
	(void)state;
	assert_int_equal(effect(SYS_recvfrom, 0, 0, 5, 0), LIMPET_STOP_TIMED);
	assert_int_equal(effect(SYS_recvfrom, 0, 0, 5, MSG_WAITALL), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_recvmsg, 0, 0, MSG_WAITALL, 0), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_epoll_wait, 0, 0, 0, 0), LIMPET_STOP_BREAKS);
}

/* What is no socket any more may be a file whose file system does not answer. */
static void test_sending_asks_sockets_alone(void **state)
{
	int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int file = memfd_create("file", MFD_CLOEXEC);

	(void)state;
	assert_true(datagrams >= 0 && stream >= 0 && file >= 0);
	asked = 0;
	assert_int_equal(effect(SYS_sendto, (uint64_t)datagrams, 0, 5, 0), LIMPET_STOP_TIMED);
	assert_int_equal(effect(SYS_sendto, (uint64_t)stream, 0, 5, 0), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_write, (uint64_t)stream, 0, 5, 0), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_write, (uint64_t)stream, 0, 1, 0), LIMPET_STOP_TIMED);
	assert_int_equal(asked, 3);
	assert_int_equal(effect(SYS_sendto, (uint64_t)file, 0, 5, 0), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_sendmsg, (uint64_t)file, 0, 0, 0), LIMPET_STOP_CUTS);
	assert_int_equal(asked, 3);
	close(datagrams);
	close(stream);
	close(file);
}

/* It returns what it has submitted, as if what it waits for were there. */
static void test_submitting_and_waiting(void **state)
{
	const uint64_t wait = IORING_ENTER_GETEVENTS;

	(void)state;
	assert_int_equal(effect(SYS_io_uring_enter, 3, 1, 1, wait), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_io_uring_enter, 3, 0, 1, wait), LIMPET_STOP_BREAKS);
	assert_int_equal(effect(SYS_io_uring_enter, 3, 1, 0, wait), LIMPET_STOP_BREAKS);
	assert_int_equal(effect(SYS_io_uring_enter, 3, 1, 1, 0), LIMPET_STOP_BREAKS);
}

static void test_several_events(void **state)
{
	(void)state;
	assert_int_equal(effect(SYS_io_getevents, 1, 4, 4, 0), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_io_pgetevents, 1, 4, 4, 0), LIMPET_STOP_CUTS);
	assert_int_equal(effect(SYS_io_getevents, 1, 1, 4, 0), LIMPET_STOP_BREAKS);
}

static enum limpet_stop_effect effect_with_limit(long number, const void *limit)
{
	struct limpet_proc_syscall call = {.number = number,
					   .sp = (uintptr_t)__builtin_frame_address(0)};

	call.args[number == SYS_ppoll ? 2 : 4] = (uintptr_t)limit;
	return limpet_stop_effect_of(getpid(), &call);
}

/* The kernel writes what is left of it, or gives up. */
static void test_a_limit_that_cannot_be_written(void **state)
{
	static const struct timespec constant = {1, 0};
	static struct timespec variable;
	const long calls[] = {SYS_ppoll, SYS_pselect6, SYS_select};
	struct timespec own;

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(effect_with_limit(calls[i], &constant), LIMPET_STOP_BREAKS);
		assert_int_equal(effect_with_limit(calls[i], &variable), LIMPET_STOP_UNSEEN);
		assert_int_equal(effect_with_limit(calls[i], &own), LIMPET_STOP_UNSEEN);
		assert_int_equal(effect_with_limit(calls[i], NULL), LIMPET_STOP_UNSEEN);
		assert_int_equal(effect_with_limit(calls[i], (const void *)16), LIMPET_STOP_BREAKS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call_is_known),
		cmocka_unit_test(test_pipes_take_a_page_at_once),
		cmocka_unit_test(test_receiving),
		cmocka_unit_test(test_sending_asks_sockets_alone),
		cmocka_unit_test(test_submitting_and_waiting),
		cmocka_unit_test(test_several_events),
		cmocka_unit_test(test_a_limit_that_cannot_be_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
