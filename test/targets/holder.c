/* clang-format off */
/* holder: its threads go to where limpet cannot use them, and stay there until they are let go.
 *
 *	holder MODE [PATH_OF_LIBRARY]      "ready PID"
 *
 * Commands: "hold" brings all of them there, "holding"; "release" lets them go on, "released";
 * "work N" allocates, "worked", also while the main thread is held (holder_held_work); "quit".
 *
 *	loader: one thread is inside dlopen, in the library's constructor; the main thread waits for
 *		the next command as always
 *	loader-walk: the same, in a callback of dl_iterate_phdr, which has the second of its locks
 *	malloc: one thread stands at a page fault inside malloc and the others wait for malloc's
 *		lock; the main thread listens in a signal handler, on an alternate stack
 *	malloc-alone: the same, but one thread is outside and does not need malloc
 *	vfork: every thread waits, in D state, for a child of its own
 *	handler: every thread is in a signal handler, on an alternate stack, which the main thread
 *		has in a frame of its own, above what is interrupted
 *	handler-below: every thread is in a signal handler, on the stack of what is interrupted
 *	coroutine: every thread is on a small stack that it made itself, with memory of others right
 *		below; the main thread listens in a signal handler
 *	array: the same, with the stacks in arrays of the threads' frames, the main thread's, too
 *	pool: the threads' stacks are the program's, side by side, and nearly used up
 *	stack: the threads have 16 KiB of stack; the main thread listens in a signal handler
 *
 * "ready none REASON": the kernel does not let it. */
/* clang-format on */
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "test/targets/target.h"

#define THREADS 3
#define TOP_BYTES (1u << 20)
#define LEAD_BYTES (64u << 10)
#define BLOCK_BYTES (100u << 10) /* less than what malloc maps by itself */
#define COROUTINE_BYTES (16u << 10)
#define NEIGHBOUR_BYTES (64u << 10)
#define GIVEN_BYTES (64u << 10)
#define LEFT_BYTES (4u << 10)
#define ALTERNATE_BYTES (64u << 10)

static const char *mode, *library;
static atomic_uint there, back;
static atomic_bool held, over;
static int faults = -1;
static struct uffdio_range range;
static void *handle;

/* The library's constructor calls it. */
__attribute__((visibility("default"))) void holder_stay(void);
void holder_stay(void)
{
	const struct timespec nap = {0, 1000000};

	there++;
	while (held)
		nanosleep(&nap, NULL);
}

static void allocate(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++) {
		void *p = malloc(300);

		if (!p)
			target_broken("no memory");
		memset(p, 5, 300);
		free(p);
	}
}

TARGET_FRAME static void holder_work(unsigned long rounds)
{
	allocate(rounds);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void holder_held_work(unsigned long rounds)
{
	allocate(rounds);
	TARGET_KEEP_FRAME();
}

static void listen_to_release(void)
{
	char line[256] = "";
	unsigned long n;

	while (target_listen(line, sizeof(line)) && target_word(line, "work", &n)) {
		holder_held_work(n);
		target_say("worked");
	}
	if (strcmp(line, "release"))
		target_broken("'%s' instead of 'release'", line);
}

/* ------------------------------------------------------------------ each mode's way */

static void on_signal(int number)
{
	(void)number;
	holder_stay();
}

static void on_signal_main(int number)
{
	(void)number;
	listen_to_release();
}

static void catch (int number, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	if (strcmp(mode, "handler-below"))
		action.sa_flags = SA_ONSTACK;
	if (sigaction(number, &action, NULL))
		target_broken("sigaction: %s", strerror(errno));
}

static void take_alternate(void *memory)
{
	const stack_t stack = {.ss_sp = memory, .ss_size = ALTERNATE_BYTES};

	if (sigaltstack(&stack, NULL))
		target_broken("sigaltstack: %s", strerror(errno));
}

/* The next block ends where no memory is yet: malloc faults when it writes what is left of the top.
 */
static bool watch_faults(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register registration;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (faults < 0 || ioctl(faults, UFFDIO_API, &api) < 0)
		return false;
	/* From the top: all before it is in use, or was once. */
	char *top = malloc(BLOCK_BYTES);
	if (!top)
		target_broken("no memory");
	range.start = ((uint64_t)(uintptr_t)top + BLOCK_BYTES + LEAD_BYTES) / page * page;
	range.len = ((uint64_t)(uintptr_t)sbrk(0) - range.start) / page * page;
	if (range.len < 2 * BLOCK_BYTES || range.len > 2 * TOP_BYTES)
		target_broken("the heap is elsewhere");
	registration =
		(struct uffdio_register){.range = range, .mode = UFFDIO_REGISTER_MODE_MISSING};
	return ioctl(faults, UFFDIO_REGISTER, &registration) == 0;
}

static void let_fault_go(void)
{
	if (ioctl(faults, UFFDIO_UNREGISTER, &range) < 0 || ioctl(faults, UFFDIO_WAKE, &range) < 0)
		target_broken("userfaultfd: %s", strerror(errno));
}

static void wait_for_child(void (*meanwhile)(void))
{
	int status;
	const pid_t pid = vfork();

	if (pid < 0)
		target_broken("vfork: %s", strerror(errno));
	if (pid == 0) {
		meanwhile();
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		target_broken("a child ended with status %#x", status);
}

/* Memory of another, below a small stack. */
static void fill_neighbour(unsigned char *memory)
{
	memset(memory, 0x5a, NEIGHBOUR_BYTES);
}

static void check_neighbour(const unsigned char *memory)
{
	for (size_t i = 0; i < NEIGHBOUR_BYTES; i++)
		if (memory[i] != 0x5a)
			target_broken("the memory below a stack has changed");
}

static void stay_on_coroutine(unsigned char *memory, void (*meanwhile)(void))
{
	ucontext_t caller, context;

	if (getcontext(&context))
		target_broken("no coroutine");
	fill_neighbour(memory);
	context.uc_stack = (stack_t){.ss_sp = memory + NEIGHBOUR_BYTES, .ss_size = COROUTINE_BYTES};
	context.uc_link = &caller;
	makecontext(&context, meanwhile, 0);
	if (swapcontext(&caller, &context))
		target_broken("no way to a coroutine");
	check_neighbour(memory);
}

/* As the stacks of goroutines lie: no page that is not there keeps them apart. */
static void stay_on_mapped(void)
{
	const size_t bytes = NEIGHBOUR_BYTES + COROUTINE_BYTES;
	unsigned char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		target_broken("no coroutine");
	stay_on_coroutine(memory, holder_stay);
	munmap(memory, bytes);
}

/* As in the example of makecontext(3). */
static void stay_in_array(void (*meanwhile)(void))
{
	unsigned char memory[NEIGHBOUR_BYTES + COROUTINE_BYTES];

	stay_on_coroutine(memory, meanwhile);
}

static __thread unsigned char *own_stack; /* above memory of another */

static void stay_near_end(void)
{
	unsigned char here;
	const size_t bytes = (size_t)(&here - own_stack - LEFT_BYTES);
	unsigned char *used = alloca(bytes);

	memset(used, 1, bytes);
	__asm__ volatile("" : : "r"(used) : "memory");
	fill_neighbour(own_stack - NEIGHBOUR_BYTES);
	holder_stay();
	check_neighbour(own_stack - NEIGHBOUR_BYTES);
}

static int stay_at_module(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)info;
	(void)bytes;
	(void)context;
	holder_stay();
	return 1;
}

static void stay(void)
{
	if (!strcmp(mode, "loader")) {
		handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
		if (!handle)
			target_broken("%s", dlerror());
	} else if (!strcmp(mode, "loader-walk")) {
		dl_iterate_phdr(stay_at_module, NULL);
	} else if (!strncmp(mode, "malloc", 6)) {
		void *block;

		there++;
		block = malloc(BLOCK_BYTES);
		if (!block)
			target_broken("no memory");
		free(block);
	} else if (!strcmp(mode, "vfork")) {
		wait_for_child(holder_stay);
	} else if (!strcmp(mode, "coroutine")) {
		stay_on_mapped();
	} else if (!strcmp(mode, "array")) {
		stay_in_array(holder_stay);
	} else if (!strcmp(mode, "pool")) {
		stay_near_end();
	} else if (!strcmp(mode, "stack")) {
		holder_stay();
	} else {
		raise(SIGUSR1);
	}
}

/* ------------------------------------------------------------------ threads */

static void *worker_main(void *argument)
{
	const struct timespec nap = {0, 1000000};
	const bool first = argument == NULL;

	while (!over) {
		if (held && (first || strncmp(mode, "loader", 6)) &&
		    (!first || strcmp(mode, "malloc-alone"))) {
			stay();
			while (held)
				nanosleep(&nap, NULL);
			back++;
		}
		if (!held)
			holder_work(3);
		nanosleep(&nap, NULL);
	}
	return NULL;
}

/* A thread that has been asked for sleeps now, and was not on its way any more. */
static bool sleeps(pid_t tid)
{
	char path[64], text[512], *state;
	int fd;
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	state = strrchr(text, ')');
	return state && (state[2] == 'S' || state[2] == 'D');
}

static void hold(const pid_t *tids, unsigned count)
{
	const struct timespec nap = {0, 1000000};

	there = back = 0;
	held = true;
	while (there < count)
		nanosleep(&nap, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		while (!sleeps(tids[i]))
			nanosleep(&nap, NULL);
	target_say("holding");
	if (!strcmp(mode, "vfork"))
		wait_for_child(listen_to_release);
	else if (!strcmp(mode, "array"))
		stay_in_array(listen_to_release);
	else if (strncmp(mode, "loader", 6))
		raise(SIGUSR2);
	else
		listen_to_release();
	if (faults >= 0)
		let_fault_go();
	held = false;
	while (back < count)
		nanosleep(&nap, NULL);
	if (handle && dlclose(handle))
		target_broken("%s", dlerror());
	handle = NULL;
	target_say("released");
}

static unsigned char pool[THREADS][NEIGHBOUR_BYTES + GIVEN_BYTES] __attribute__((aligned(4096)));
static pid_t tids[THREADS];
static atomic_uint born;

static void *worker_begin(void *argument)
{
	static char alternate[THREADS][ALTERNATE_BYTES];

	own_stack = &pool[(uintptr_t)argument][NEIGHBOUR_BYTES];
	take_alternate(alternate[(uintptr_t)argument]);
	tids[(uintptr_t)argument] = (pid_t)syscall(SYS_gettid);
	holder_work(1);
	born++;
	return worker_main(argument);
}

int main(int argc, char **argv)
{
	const struct timespec nap = {0, 1000000};
	pthread_t threads[THREADS];
	pthread_attr_t attributes;
	char line[256], alternate[ALTERNATE_BYTES];
	unsigned long n;

	if (argc < 2)
		target_broken("usage: holder MODE [PATH_OF_LIBRARY]");
	mode = argv[1];
	library = argv[2];
	/* One lock for all of them, and enough behind what is in use. */
	if (!strncmp(mode, "malloc", 6) &&
	    (!mallopt(M_ARENA_MAX, 1) || !mallopt(M_TOP_PAD, TOP_BYTES)))
		target_broken("mallopt");
	take_alternate(alternate);
	catch (SIGUSR1, on_signal);
	catch (SIGUSR2, on_signal_main);
	pthread_attr_init(&attributes);
	if (!strcmp(mode, "stack") && pthread_attr_setstacksize(&attributes, 16384))
		target_broken("no small stacks");
	for (uintptr_t i = 0; i < THREADS; i++) {
		if (!strcmp(mode, "pool") &&
		    pthread_attr_setstack(&attributes, &pool[i][NEIGHBOUR_BYTES], GIVEN_BYTES))
			target_broken("no stacks of our own");
		if (pthread_create(&threads[i], &attributes, worker_begin, (void *)i))
			target_broken("no thread");
	}
	while (born < THREADS)
		nanosleep(&nap, NULL);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "hold", &n)) {
			if (!strncmp(mode, "malloc", 6) && !watch_faults()) {
				target_say("none %s", strerror(errno));
				continue;
			}
			hold(tids, !strncmp(mode, "loader", 6)     ? 1
				   : !strcmp(mode, "malloc-alone") ? THREADS - 1
								   : THREADS);
		} else if (target_word(line, "work", &n)) {
			holder_work(n);
			target_say("worked");
		} else if (target_word(line, "quit", &n)) {
			break;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	over = true;
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
