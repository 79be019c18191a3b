/* shut: a program that locks itself in once it has started.
 *
 * "ready PID"; "work N" allocates N times in shut_work, "threads N" has N threads do so ten times
 * each; "shut kill" and "shut errno" install a filter that lets the calls pass which it makes from
 * then on, and kills the program for any other or answers it by EPERM; "fail CALL ARGUMENT VALUE
 * ERRNO" one that answers a call by an error unless the low half of this argument is this value,
 * for who asks what the filter makes of it before; all are numbers. "quit". */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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

static void install(struct sock_filter *code, unsigned count)
{
	struct sock_fprog program = {(unsigned short)count, code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		target_broken("seccomp: %s", strerror(errno));
}

static void fail(unsigned call, unsigned argument, unsigned value, unsigned error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args) + 8 * argument),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	install(code, sizeof(code) / sizeof(code[0]));
}

static void shut(unsigned verdict)
{
	static const unsigned own[] = {
		SYS_read,    SYS_write,  SYS_mmap,         SYS_munmap,          SYS_mprotect,
		SYS_madvise, SYS_brk,    SYS_futex,        SYS_clone,           SYS_clone3,
		SYS_rseq,    SYS_exit,   SYS_exit_group,   SYS_set_robust_list, SYS_rt_sigprocmask,
		SYS_lseek,   SYS_gettid, SYS_rt_sigreturn,
	};
	enum { OWN = sizeof(own) / sizeof(own[0]) };
	struct sock_filter code[2 * OWN + 2];
	unsigned n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < OWN; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own[i], 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
	install(code, n);
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
