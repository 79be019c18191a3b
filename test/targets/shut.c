/* shut: a program that locks itself in once it has started.
 *
 * "ready PID"; "work N" allocates N times in shut_work, "threads N" has N threads do so ten times
 * each; "shut kill" and "shut errno" install a filter that lets the calls pass which it makes from
 * then on, and kills the program for any other or answers it by EPERM; "fail CALL ARGUMENT VALUE
 * ERRNO" one that answers a call by an error unless the low half of this argument is this value,
 * for who asks what the filter makes of it before; all are numbers. "quit". */
#include <pthread.h>

#include "test/call_filter.h"
#include "test/targets/target.h"

TARGET_FRAME static void shut_work(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++) {
		char *block = malloc(200);

		if (!block)
			target_broken("no memory");
		memset(block, 7, 200);
		free(block);
	}
}

static void *work_beside(void *context)
{
	(void)context;
	shut_work(10);
	return NULL;
}

static void run_threads(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work_beside, NULL) || pthread_join(thread, NULL))
			target_broken("no thread");
	}
}

static void install(struct call_filter *filter)
{
	int error = call_filter_install(filter, 0);

	if (error)
		target_broken("seccomp: %s", strerror(-error));
}

static void fail(unsigned call, unsigned argument, unsigned value, unsigned error)
{
	struct call_filter filter = {0};

	call_filter_load(&filter, offsetof(struct seccomp_data, nr));
	call_filter_skip(&filter, call, 0, 3);
	call_filter_load(&filter, offsetof(struct seccomp_data, args) + 8 * argument);
	call_filter_skip(&filter, value, 1, 0);
	call_filter_end(&filter, SECCOMP_RET_ERRNO | error);
	call_filter_end(&filter, SECCOMP_RET_ALLOW);
	install(&filter);
}

static void shut(unsigned verdict)
{
	static const unsigned own[] = {
		SYS_read,    SYS_write,  SYS_mmap,         SYS_munmap,          SYS_mprotect,
		SYS_madvise, SYS_brk,    SYS_futex,        SYS_clone,           SYS_clone3,
		SYS_rseq,    SYS_exit,   SYS_exit_group,   SYS_set_robust_list, SYS_rt_sigprocmask,
		SYS_lseek,   SYS_gettid, SYS_rt_sigreturn,
	};
	struct call_filter filter = {0};

	call_filter_load(&filter, offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		call_filter_judge(&filter, own[i], SECCOMP_RET_ALLOW);
	call_filter_end(&filter, verdict);
	install(&filter);
}

int main(void)
{
	char line[256];
	unsigned call, argument, value, error;
	unsigned long n;

	/* What libc asks for with the first one. */
	run_threads(1);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "work", &n)) {
			shut_work(n);
			target_say("worked");
		} else if (target_word(line, "threads", &n)) {
			run_threads(n);
			target_say("worked");
		} else if (!strcmp(line, "shut kill")) {
			shut(SECCOMP_RET_KILL_PROCESS);
			target_say("shut");
		} else if (!strcmp(line, "shut errno")) {
			shut(SECCOMP_RET_ERRNO | EPERM);
			target_say("shut");
		} else if (sscanf(line, "fail %u %u %u %u", &call, &argument, &value, &error) ==
			   4) {
			fail(call, argument, value, error);
			target_say("failing");
		} else if (!strcmp(line, "quit")) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
