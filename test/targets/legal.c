/* clang-format off */
/* legal: a program that does what few do, and that an attach must not harm.
 *
 *	legal MODE       "ready PID", then "work N" allocates in legal_work, "check" does what the mode
 *			 is about and answers "fine", "quit"
 *
 *	dispatch: the main thread has its system calls from outside of libc handed to a handler of
 *		SIGSYS (PR_SET_SYSCALL_USER_DISPATCH), as Wine does
 *	dispatch-thread: another thread does
 *	tsc: the processor's time stamp counter is out of reach (PR_SET_TSC)
 *	strict-thread: a thread that never allocates is in seccomp's strict mode
 *	strict-later: another thread allocates in legal_work as the main thread does; after "strict"
 *		it is in seccomp's strict mode, "strict"
 *	raw: a thread that libc knows nothing of allocates all the while; the main thread never does
 *	sharer: "share" makes a process that shares its memory and is none of its threads, "shared
 *		PID"; "unshare" ends it, "alone"
 *	growing: memory that grows downwards lies where the kernel puts the next mapping below;
 *		"grow" has it grow by 64 MiB, "grown"
 *	dlerror: a dlopen has failed, and nobody has asked dlerror() yet
 *	locked: all memory is locked, also what is mapped later (mlockall)
 *	locked-least: the same, and nearly no more may be
 *	locked-future: only what is mapped later will be
 *	message: "await" asks to be told of the next message in a queue, "awaited"; "message" sends
 *		one, "told" when it was told
 *	overlay: "overlay ADDRESS" maps memory of its own at a place where others have some,
 *		"overlaid"; "check" reads it
 *	pointer: while it waits for a line its thread pointer leads elsewhere (arch_prctl)
 *	alignment: while it waits for a line the processor checks alignment (the flag AC)
 *	preloaded: another thread holds the lock of dlopen, where that is held-dlopen.so's */
/* clang-format on */
#include <asm/prctl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "test/targets/target.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON 1
#endif

#define STACK_BYTES (256u << 10)

static volatile char selector; /* 1: calls are not let through */
static atomic_uint dispatched, rounds;
static atomic_bool over, there;

TARGET_FRAME static void legal_work(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		void *p = malloc(200);

		if (!p)
			target_broken("no memory");
		memset(p, 5, 200);
		free(p);
	}
}

/* ------------------------------------------------------------------ dispatch */

/* A call from outside of libc: `syscall` in this program. */
static long own_getppid(void)
{
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"((long)SYS_getppid)
			 : "rcx", "r11", "memory");
	return answer;
}

static void on_dispatch(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	dispatched++;
}

static void dispatch(void)
{
	struct sigaction action = {.sa_sigaction = on_dispatch, .sa_flags = SA_SIGINFO};
	char line[512];
	unsigned long start = 0, end = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, " r-xp ") && strstr(line, "/libc.so.6"))
			sscanf(line, "%lx-%lx", &start, &end);
	if (maps)
		fclose(maps);
	sigaction(SIGSYS, &action, NULL);
	if (!start || prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, end - start,
			    &selector)) {
		target_say("ready none %s", strerror(errno));
		_exit(0);
	}
	selector = 1;
}

static void check_dispatch(void)
{
	unsigned before = dispatched;

	own_getppid();
	if (dispatched != before + 1)
		target_broken("the call was not dispatched");
}

static void *dispatching_thread(void *nothing)
{
	(void)nothing;
	dispatch();
	there = true;
	while (!over)
		own_getppid();
	return NULL;
}

/* ------------------------------------------------------------------ strict seccomp */

static int strict_pipe[2];

/* It may read, write and end, and no more. */
static void *strict_thread(void *nothing)
{
	char byte;

	(void)nothing;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		target_broken("no strict mode: %s", strerror(errno));
	there = true;
	while (syscall(SYS_read, strict_pipe[0], &byte, 1) == 1)
		dispatched++;
	syscall(SYS_exit, 0);
	return NULL;
}

/* Memory for what it allocates later has to be there. */
static void *strict_later_thread(void *nothing)
{
	char byte;

	(void)nothing;
	free(malloc(200));
	there = true;
	while (syscall(SYS_read, strict_pipe[0], &byte, 1) == 1) {
		if (byte == 's' && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			target_broken("no strict mode: %s", strerror(errno));
		if (byte == 'x')
			legal_work(1);
		dispatched++;
	}
	syscall(SYS_exit, 0);
	return NULL;
}

static void tell_strict(char what)
{
	unsigned before = dispatched;

	if (write(strict_pipe[1], &what, 1) != 1)
		target_broken("nobody reads: %s", strerror(errno));
	while (dispatched == before)
		sched_yield();
}

/* ------------------------------------------------------------------ a thread that libc does not
 * know */

static int raw_thread(void *nothing)
{
	(void)nothing;
	while (!over) {
		void *blocks[16];

		for (unsigned i = 0; i < 16; i++)
			blocks[i] = malloc(16 + 700 * i);
		for (unsigned i = 0; i < 16; i++)
			free(blocks[i]);
		rounds++;
	}
	syscall(SYS_exit, 0);
	return 0;
}

static void start_raw(void)
{
	char *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED ||
	    clone(raw_thread, stack + STACK_BYTES,
		  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL) < 0)
		target_broken("clone: %s", strerror(errno));
}

/* ------------------------------------------------------------------ a process in its memory */

static int sharer_pipe[2];
static pid_t sharer;

static int sharing_process(void *nothing)
{
	char byte;

	(void)nothing;
	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
	syscall(SYS_read, sharer_pipe[0], &byte, 1);
	syscall(SYS_exit, 0);
	return 0;
}

static void share(void)
{
	char *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED || pipe(sharer_pipe))
		target_broken("no memory, or no pipe");
	sharer = clone(sharing_process, stack + STACK_BYTES,
		       CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL);
	if (sharer < 0)
		target_broken("clone: %s", strerror(errno));
}

static void unshare_again(void)
{
	int status;

	if (write(sharer_pipe[1], "x", 1) != 1 || waitpid(sharer, &status, 0) != sharer || status)
		target_broken("the process in its memory did not end well");
}

/* ------------------------------------------------------------------ a message in a queue */

static mqd_t queue;

static void open_queue(void)
{
	char name[64];

	snprintf(name, sizeof(name), "/limpet-test-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, NULL);
	if (queue == (mqd_t)-1) {
		target_say("ready none %s", strerror(errno));
		exit(0);
	}
	mq_unlink(name);
}

static void await_message(void)
{
	const struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (mq_notify(queue, &event))
		target_broken("mq_notify: %s", strerror(errno));
}

static void take_message(void)
{
	const struct timespec enough = {.tv_sec = 60};
	char message[8192];
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR2);
	if (mq_send(queue, "x", 1, 0) || sigtimedwait(&signals, NULL, &enough) != SIGUSR2 ||
	    mq_receive(queue, message, sizeof(message), NULL) != 1)
		target_broken("not told of a message");
}

/* ------------------------------------------------------------------ memory over another's */

#define OVERLAY_BYTES 8192u

static unsigned char *overlaid;

static void overlay(unsigned long address)
{
	overlaid = mmap((void *)address, OVERLAY_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (overlaid == MAP_FAILED)
		target_broken("mmap: %s", strerror(errno));
	memset(overlaid, 'x', OVERLAY_BYTES);
}

static void check_overlay(void)
{
	for (size_t i = 0; overlaid && i < OVERLAY_BYTES; i++)
		if (overlaid[i] != 'x')
			target_broken("byte %zu of its memory is %d", i, overlaid[i]);
}

/* ------------------------------------------------------------------ a message that waits */

static void fail_dlopen(void)
{
	if (dlopen("/no-such-module.so", RTLD_NOW))
		target_broken("there is such a module");
}

static void check_dlerror(void)
{
	const char *message = dlerror();

	if (!message || !strstr(message, "no-such-module.so"))
		target_broken("dlerror() says '%s'", message ? message : "nothing");
	if (dlerror())
		target_broken("dlerror() says it twice");
	fail_dlopen();
}

/* ------------------------------------------------------------------ memory that grows */

#define GROWN_BYTES (64ul << 20)

static char *growing;

static void begin_growing(void)
{
	const size_t room = 4 * GROWN_BYTES;
	struct rlimit limit;
	char *all;

	getrlimit(RLIMIT_STACK, &limit);
	limit.rlim_cur = 2 * GROWN_BYTES;
	/* The lowest of all, so that nothing finds a place above: it has to grow to the least. */
	all = setrlimit(RLIMIT_STACK, &limit)
		      ? MAP_FAILED
		      : mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED || munmap(all, room)) {
		target_say("ready none %s", strerror(errno));
		_exit(0);
	}
	growing = mmap(all + room - STACK_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0);
	if (growing == MAP_FAILED)
		target_broken("no memory that grows: %s", strerror(errno));
}

static void grow(void)
{
	for (size_t i = 1; i <= GROWN_BYTES / STACK_BYTES; i++)
		*(volatile char *)(growing - i * STACK_BYTES) = 1;
}

/* ------------------------------------------------------------------ locked memory */

static void lock_memory(int which, bool least)
{
	struct rlimit limit;
	char line[128];
	unsigned long kilobytes = 0;
	FILE *status;

	/* The heap is not what comes later. */
	legal_work(1);
	if (mlockall(which)) {
		target_say("ready none %s", strerror(errno));
		_exit(0);
	}
	if (!least)
		return;
	status = fopen("/proc/self/status", "r");
	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "VmLck: %lu", &kilobytes);
	if (status)
		fclose(status);
	limit.rlim_cur = limit.rlim_max = (kilobytes + 1024) << 10;
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

/* ------------------------------------------------------------------ dlopen of a library that it
 * preloads */

static void *holding_thread(void *nothing)
{
	void (*hold)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "held_dlopen_hold");

	(void)nothing;
	if (!hold)
		target_broken("held-dlopen.so is not preloaded");
	hold();
	there = true;
	while (!over)
		usleep(1000);
	((void (*)(void))dlsym(RTLD_DEFAULT, "held_dlopen_release"))();
	return NULL;
}

/* ------------------------------------------------------------------ no place for libc's code */

static uint64_t elsewhere[512];

static void on_fault(int number)
{
	_exit(TARGET_EXIT_BROKEN + number);
}

static void handle_faults(void)
{
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
}

static void check_faults(void)
{
	struct sigaction segv, bus;

	if (sigaction(SIGSEGV, NULL, &segv) || segv.sa_handler != on_fault ||
	    sigaction(SIGBUS, NULL, &bus) || bus.sa_handler != on_fault)
		target_broken("a handler is gone");
}

__attribute__((always_inline)) static inline long raw_call(long number, uint64_t a, uint64_t b)
{
	long answer;

	__asm__ volatile("syscall"
			 : "=a"(answer)
			 : "0"(number), "D"(a), "S"(b), "d"(-1L)
			 : "rcx", "r11", "memory");
	return answer;
}

TARGET_FRAME static void wait_with_other_pointer(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t own;

	raw_call(SYS_arch_prctl, ARCH_GET_FS, (uintptr_t)&own);
	raw_call(SYS_arch_prctl, ARCH_SET_FS, (uintptr_t)&elsewhere[256]);
	raw_call(SYS_poll, (uintptr_t)&input, 1);
	raw_call(SYS_arch_prctl, ARCH_SET_FS, own);
}

TARGET_FRAME static void wait_with_alignment_checked(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	long answer;

	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "orl $0x40000, (%%rsp)\n\t"
			 "popfq\n\t"
			 "leaq 128(%%rsp), %%rsp\n\t"
			 "syscall\n\t"
			 "leaq -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "andl $~0x40000, (%%rsp)\n\t"
			 "popfq\n\t"
			 "leaq 128(%%rsp), %%rsp"
			 : "=a"(answer)
			 : "0"((long)SYS_poll), "D"(&input), "S"(1L), "d"(-1L)
			 : "rcx", "r11", "memory", "cc");
}

static void start_thread(void *(*body)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, body, NULL))
		target_broken("no thread");
	while (!there)
		sched_yield();
}

static bool is_mode(const char *mode, const char *name)
{
	return !strcmp(mode, name);
}

static void begin(const char *mode)
{
	if (is_mode(mode, "dispatch"))
		dispatch();
	else if (is_mode(mode, "dispatch-thread"))
		start_thread(dispatching_thread);
	else if (is_mode(mode, "tsc"))
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	else if (is_mode(mode, "strict-thread") && !pipe(strict_pipe))
		start_thread(strict_thread);
	else if (is_mode(mode, "strict-later") && !pipe(strict_pipe))
		start_thread(strict_later_thread);
	else if (is_mode(mode, "raw"))
		start_raw();
	else if (is_mode(mode, "locked") || is_mode(mode, "locked-least"))
		lock_memory(MCL_CURRENT | MCL_FUTURE, is_mode(mode, "locked-least"));
	else if (is_mode(mode, "locked-future"))
		lock_memory(MCL_FUTURE, false);
	else if (is_mode(mode, "preloaded"))
		start_thread(holding_thread);
	else if (is_mode(mode, "dlerror"))
		fail_dlopen();
	else if (is_mode(mode, "growing"))
		begin_growing();
	else if (is_mode(mode, "pointer") || is_mode(mode, "alignment"))
		handle_faults();
	else if (is_mode(mode, "message"))
		open_queue();
	else if (!is_mode(mode, "sharer") && !is_mode(mode, "overlay"))
		target_broken("no mode %s", mode);
}

static void check(const char *mode)
{
	unsigned before = rounds;

	check_overlay();
	if (is_mode(mode, "dispatch"))
		check_dispatch();
	if (is_mode(mode, "dlerror"))
		check_dlerror();
	if (is_mode(mode, "strict-thread") || is_mode(mode, "strict-later"))
		tell_strict('x');
	if (is_mode(mode, "pointer") || is_mode(mode, "alignment"))
		check_faults();
	before = is_mode(mode, "raw") ? rounds : dispatched;
	while (is_mode(mode, "raw") && rounds - before < 1000)
		sched_yield();
	while (is_mode(mode, "dispatch-thread") && dispatched - before < 100)
		sched_yield();
}

static bool listen_in(const char *mode, char *line, size_t bytes)
{
	if (is_mode(mode, "pointer"))
		wait_with_other_pointer();
	else if (is_mode(mode, "alignment"))
		wait_with_alignment_checked();
	return target_listen(line, bytes);
}

int main(int argc, char **argv)
{
	char line[256];
	unsigned long count;

	if (argc != 2)
		target_broken("usage: legal MODE");
	begin(argv[1]);
	target_say("ready %d", getpid());
	while (listen_in(argv[1], line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (target_word(line, "work", &count)) {
			/* Beside a raw thread nobody else may allocate. */
			if (!is_mode(argv[1], "raw"))
				legal_work(count);
			for (unsigned long i = 0; i < count && is_mode(argv[1], "strict-later");
			     i++)
				tell_strict('x');
			target_say("worked");
		} else if (!strcmp(line, "strict")) {
			tell_strict('s');
			target_say("strict");
		} else if (!strcmp(line, "share")) {
			share();
			target_say("shared %d", sharer);
		} else if (!strcmp(line, "unshare")) {
			unshare_again();
			target_say("alone");
		} else if (target_word(line, "overlay", &count)) {
			overlay(count);
			target_say("overlaid");
		} else if (!strcmp(line, "await")) {
			await_message();
			target_say("awaited");
		} else if (!strcmp(line, "message")) {
			take_message();
			target_say("told");
		} else if (!strcmp(line, "grow")) {
			grow();
			target_say("grown");
		} else if (!strcmp(line, "check")) {
			check(argv[1]);
			target_say("fine");
		} else {
			target_broken("'%s'?", line);
		}
	}
	over = true;
	return 0;
}
