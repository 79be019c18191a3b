// calls: every call of the family once or some times, with its own books, from one thread; and calls
// in unusual places.
//
// Commands: "family": all kinds of calls, answered with the totals as JSON, in limpet's words; "grow N": a block that
// N reallocs make larger, and one that is made larger and freed, the same; "failures":
// calls that fail, with errno and arguments as they have to be, "failed"; "mappings": mmap, mremap and
// munmap, answered with their totals; "crossed": two threads map, and the second unmaps a page of each of the
// first's five mappings, answered with their tids; "threads N": N threads that allocate once; "small": threads with the
// smallest of stacks; "raw": a thread made by clone alone; "alternate": a handler on a stack of its own;
// "jumps N": handlers that leave by siglongjmp; "cancel N": threads that are cancelled between calls;
// "thrown N": operator new that throws, through a hook if it is one; all of these answered by "called"; "quit".
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <atomic>
#include <new>

extern "C" {
#include "test/targets/target.h"
}

// By the name that a report shows.
#define CALLS_FRAME extern "C" TARGET_FRAME

enum { ERRNO_MARK = 0x5a5a, BYTES = 77 };

// More than any machine has, known at run time only: compilers know what malloc cannot do.
static volatile size_t too_much = PTRDIFF_MAX;

static struct {
	unsigned long allocations, frees, allocated_bytes, freed_bytes, reallocations;
} books;

static void got(size_t bytes)
{
	books.allocations++;
	books.allocated_bytes += bytes;
}

static void gave(size_t bytes)
{
	books.frees++;
	books.freed_bytes += bytes;
}

static void expect(bool good, const char *what)
{
	if (!good)
		target_broken("%s", what);
}

// Not known to the compiler as what malloc answered: nothing is optimised away.
static void *hide(void *block)
{
	__asm__ volatile("" : "+r"(block) : : "memory");
	return block;
}

TARGET_FRAME static void give(void *block, size_t bytes)
{
	errno = ERRNO_MARK;
	free(block);
	expect(errno == ERRNO_MARK, "free changed errno");
	gave(bytes);
}

CALLS_FRAME void *calls_malloc(size_t bytes)
{
	errno = ERRNO_MARK;
	void *block = hide(malloc(bytes));

	expect(block && errno == ERRNO_MARK, "malloc");
	got(bytes);
	return block;
}

CALLS_FRAME void *calls_realloc(void *block, size_t old, size_t bytes)
{
	void *answer = hide(realloc(block, bytes));

	expect(answer, "realloc");
	if (block) {
		gave(old);
		books.reallocations++;
	}
	got(bytes);
	return answer;
}

CALLS_FRAME void *calls_grow(void *block, unsigned long times)
{
	for (unsigned long i = 0; i < times; i++)
		block = calls_realloc(block, 100 + i, 101 + i);
	TARGET_KEEP_FRAME();
	return block;
}

CALLS_FRAME void calls_reallocs()
{
	void *block = calls_malloc(1000), *smaller = calls_realloc(block, 1000, 900);

	expect(smaller == block, "a smaller block moved");
	give(smaller, 900);
	block = calls_malloc(100);
	void *barrier = calls_malloc(100);
	void *larger = calls_realloc(block, 100, 100000);

	expect(larger != block, "a larger block stayed");
	give(barrier, 100);
	give(larger, 100000);
	give(calls_realloc(nullptr, 0, 50), 50);
	block = calls_malloc(60);
	expect(!hide(realloc(block, 0)), "realloc(p, 0)");
	gave(60);
	block = hide(reallocarray(nullptr, 10, 20));
	got(200);
	block = hide(reallocarray(block, 20, 20));
	gave(200);
	books.reallocations++;
	got(400);
	give(block, 400);
}

CALLS_FRAME void calls_aligned()
{
	void *block = nullptr;

	give(hide(memalign(64, 101)), 101);
	got(101);
	give(hide(aligned_alloc(64, 128)), 128);
	got(128);
	give(hide(valloc(102)), 102);
	got(102);
	give(hide(pvalloc(103)), 103);
	got(103);
	expect(!posix_memalign(&block, 4096, 104) && !((uintptr_t)block % 4096), "posix_memalign");
	got(104);
	give(hide(block), 104);
}

struct alignas(64) wide {
	char bytes[192];
};

CALLS_FRAME void calls_cxx()
{
	delete static_cast<long *>(hide(new long));
	got(sizeof(long));
	gave(sizeof(long));
	delete[] static_cast<char *>(hide(new char[300]));
	got(300);
	gave(300);
	delete static_cast<wide *>(hide(new wide));
	got(sizeof(wide));
	gave(sizeof(wide));
	operator delete(hide(operator new(40)), size_t{40});
	got(40);
	gave(40);
	operator delete(hide(operator new(384, std::align_val_t{128})), size_t{384}, std::align_val_t{128});
	got(384);
	gave(384);
	delete static_cast<int *>(hide(new (std::nothrow) int));
	got(sizeof(int));
	gave(sizeof(int));
}

CALLS_FRAME void calls_library()
{
	char *copy = static_cast<char *>(hide(strdup("seven bytes and more")));

	got(21);
	give(copy, 21);
}

static void say_books()
{
	target_say("{\"allocations\":%lu,\"frees\":%lu,\"allocated_bytes\":%lu,\"freed_bytes\":%lu,"
		   "\"reallocations\":%lu,\"live_allocations\":%lu,\"live_bytes\":%lu,\"foreign_frees\":0}",
		   books.allocations, books.frees, books.allocated_bytes, books.freed_bytes, books.reallocations,
		   books.allocations - books.frees, books.allocated_bytes - books.freed_bytes);
}

static void grow(unsigned long times)
{
	memset(&books, 0, sizeof(books));
	calls_grow(calls_malloc(100), times);
	give(calls_grow(calls_malloc(100), 1), 101);
	say_books();
}

static void family()
{
	memset(&books, 0, sizeof(books));
	for (int i = 0; i < 10; i++) {
		calls_reallocs();
		calls_aligned();
		calls_cxx();
		calls_library();
		give(calls_malloc(0), 0);
		free(hide(nullptr));
		void *zeroed = hide(calloc(7, 11));
		got(77);
		give(zeroed, 77);
		calls_malloc(BYTES); // stays
	}
	say_books();
}

// Two blocks come and go: the one that a realloc leaves alone, and the exception within new (nothrow).
CALLS_FRAME void calls_failures()
{
	void *kept = hide(malloc(BYTES)), *out = &books;
	char *volatile same = static_cast<char *>(kept);

	memset(kept, 9, BYTES);
	errno = 0;
	expect(!hide(malloc(too_much)) && errno == ENOMEM, "malloc of too much");
	errno = 0;
	expect(!hide(calloc(too_much, 4)) && errno == ENOMEM, "calloc with an overflow");
	errno = 0;
	expect(!hide(realloc(same, too_much)) && errno == ENOMEM, "realloc to too much");
	errno = 0;
	expect(!hide(reallocarray(same, too_much, 4)) && errno == ENOMEM, "reallocarray with an overflow");
	errno = 0;
	expect(!hide(memalign(64, too_much)) && errno == ENOMEM, "memalign of too much");
	errno = 0;
	expect(!hide(aligned_alloc(64, too_much & ~size_t{63})) && errno == ENOMEM, "aligned_alloc of too much");
	errno = ERRNO_MARK;
	expect(posix_memalign(&out, 3, 100) == EINVAL && out == &books && errno == ERRNO_MARK, "a bad alignment");
	expect(posix_memalign(&out, 64, too_much) == ENOMEM && out == &books, "posix_memalign of too much");
	expect(!hide(new (std::nothrow) char[too_much]), "new (nothrow) of too much");
	for (int i = 0; i < BYTES; i++)
		expect(same[i] == 9, "a failed realloc changed the block");
	free(same);
}

CALLS_FRAME void calls_mappings()
{
	const size_t page = 4096;
	const int rights = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *map = static_cast<char *>(mmap(nullptr, 4 * page, rights, flags, -1, 0));

	expect(map != MAP_FAILED, "mmap");
	expect(mmap(nullptr, 0, rights, flags, -1, 0) == MAP_FAILED, "mmap of nothing");
	map = static_cast<char *>(mremap(map, 4 * page, 64 * page, MREMAP_MAYMOVE));
	expect(map != MAP_FAILED, "mremap");
	expect(!munmap(map, 24 * page), "munmap");
	expect(munmap(map + 1, page) && errno == EINVAL, "munmap of an odd address");
	target_say("{\"mmaps\":2,\"mmap_bytes\":%zu,\"unmapped_bytes\":%zu,\"mapped_bytes\":%zu,"
		   "\"allocations\":0,\"frees\":0}",
		   (4 + 64) * page, (4 + 24) * page, 40 * page);
}

struct crossed {
	pid_t tid;
	size_t count, pages;
	char *maps[8];
	const crossed *other; // loses a page of each of its mappings
};

CALLS_FRAME void *calls_crossed(void *argument)
{
	const size_t page = 4096;
	auto *mine = static_cast<crossed *>(argument);

	mine->tid = static_cast<pid_t>(syscall(SYS_gettid));
	for (size_t i = 0; i < mine->count; i++) {
		mine->maps[i] = static_cast<char *>(mmap(nullptr, mine->pages * page, PROT_READ | PROT_WRITE,
							 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		expect(mine->maps[i] != MAP_FAILED, "mmap");
	}
	for (size_t i = 0; mine->other && i < mine->other->count; i++)
		expect(!munmap(mine->other->maps[i] + page, page), "munmap");
	return argument;
}

static void map_across_threads()
{
	crossed both[] = {{0, 5, 4, {}, nullptr}, {0, 3, 8, {}, &both[0]}};

	for (crossed &each : both) {
		pthread_t thread;

		expect(!pthread_create(&thread, nullptr, calls_crossed, &each), "a thread");
		expect(!pthread_join(thread, nullptr), "its end");
	}
	target_say("{\"first\":%d,\"second\":%d}", both[0].tid, both[1].tid);
}

// ------------------------------------------------------------------ unusual places

CALLS_FRAME void *calls_thread(void *argument)
{
	free(hide(malloc(BYTES)));
	return argument;
}

static void run_threads(unsigned long count, void *(*function)(void *), size_t stack_bytes, bool cancel)
{
	enum { AT_ONCE = 8 };
	pthread_attr_t attributes;
	pthread_t threads[AT_ONCE];

	pthread_attr_init(&attributes);
	if (stack_bytes)
		expect(!pthread_attr_setstacksize(&attributes, stack_bytes), "stack size");
	for (unsigned long done = 0; done < count;) {
		unsigned n = 0;

		for (; n < AT_ONCE && done < count; n++, done++)
			expect(!pthread_create(&threads[n], &attributes, function, nullptr), "thread");
		while (n) {
			if (cancel)
				pthread_cancel(threads[n - 1]);
			pthread_join(threads[--n], nullptr);
		}
	}
	pthread_attr_destroy(&attributes);
}

CALLS_FRAME void *calls_small(void *argument)
{
	for (int i = 0; i < 1000; i++)
		free(hide(malloc(static_cast<size_t>(i) % 200)));
	return argument;
}

static void release(void *block)
{
	free(block);
}

CALLS_FRAME void *calls_cancelled(void *argument)
{
	for (;;) {
		void *block = hide(malloc(BYTES));

		pthread_cleanup_push(release, block);
		pthread_testcancel();
		pthread_cleanup_pop(1);
	}
	return argument;
}

static std::atomic<int> raw_tid;

CALLS_FRAME int calls_raw(void *)
{
	for (int i = 0; i < 100; i++)
		free(hide(malloc(BYTES)));
	return 0;
}

static void raw()
{
	static char stack[256 << 10] __attribute__((aligned(64)));
	int tid;

	raw_tid = 1;
	// It has our thread pointer, and so we wait: libc knows no such thread.
	tid = clone(calls_raw, stack + sizeof(stack),
		    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
			    CLONE_CHILD_CLEARTID,
		    nullptr, nullptr, nullptr, reinterpret_cast<int *>(&raw_tid));
	expect(tid > 0, "clone");
	while (raw_tid)
		syscall(SYS_futex, &raw_tid, FUTEX_WAIT, 1, nullptr, nullptr, 0);
}

CALLS_FRAME void calls_in_handler(int)
{
	free(hide(malloc(BYTES)));
	TARGET_KEEP_FRAME();
}

static void alternate()
{
	static char area[128 << 10];
	stack_t stack = {}, none = {};
	struct sigaction action = {};

	stack.ss_sp = area;
	stack.ss_size = sizeof(area);
	none.ss_flags = SS_DISABLE;
	action.sa_handler = calls_in_handler;
	action.sa_flags = SA_ONSTACK;
	expect(!sigaltstack(&stack, nullptr) && !sigaction(SIGUSR1, &action, nullptr), "sigaltstack");
	for (int i = 0; i < 50; i++)
		raise(SIGUSR1);
	expect(!sigaltstack(&none, nullptr), "sigaltstack");
}

static sigjmp_buf away;

static void jump_away(int)
{
	calls_in_handler(0);
	siglongjmp(away, 1);
}

CALLS_FRAME void calls_after_jump()
{
	free(hide(malloc(BYTES)));
	TARGET_KEEP_FRAME();
}

static void jumps(unsigned long count)
{
	struct sigaction action = {};

	action.sa_handler = jump_away;
	expect(!sigaction(SIGUSR2, &action, nullptr), "sigaction");
	for (volatile unsigned long i = 0; i < count; i++) {
		if (!sigsetjmp(away, 1))
			raise(SIGUSR2);
		calls_after_jump();
	}
}

CALLS_FRAME void calls_throw()
{
	bool caught = false;

	try {
		hide(operator new(too_much));
	} catch (const std::bad_alloc &) {
		caught = true;
	}
	expect(caught, "operator new of too much did not throw");
}

int main()
{
	char line[256];
	unsigned long n;

	// What is made once only, is made before.
	run_threads(8, calls_thread, 0, true);
	calls_throw();
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "family", &n)) {
			family();
			continue;
		}
		if (target_word(line, "grow", &n)) {
			grow(n);
			continue;
		}
		if (target_word(line, "crossed", &n)) {
			map_across_threads();
			continue;
		}
		if (target_word(line, "mappings", &n)) {
			calls_mappings();
			continue;
		}
		if (target_word(line, "quit", &n))
			break;
		if (target_word(line, "failures", &n))
			calls_failures();
		else if (target_word(line, "threads", &n))
			run_threads(n, calls_thread, 0, false);
		else if (target_word(line, "small", &n))
			run_threads(16, calls_small, static_cast<size_t>(PTHREAD_STACK_MIN), false);
		else if (target_word(line, "raw", &n))
			raw();
		else if (target_word(line, "alternate", &n))
			alternate();
		else if (target_word(line, "jumps", &n))
			jumps(n);
		else if (target_word(line, "cancel", &n))
			run_threads(n, calls_cancelled, 0, true);
		else if (target_word(line, "thrown", &n))
			for (; n; n--)
				calls_throw();
		else
			target_broken("unknown command '%s'", line);
		target_say("called");
	}
	return 0;
}
