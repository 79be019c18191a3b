// leaver: functions of an allocator of its own that are left in every other way than by returning.
//
// Commands: "throw N": an exception leaves them, N times; "new N": so it does operator new, for which
// there is no memory and whose handler throws; "cancel N": N threads are cancelled there, and "exit N"
// end there in a signal's handler; "jump N": a handler leaves them by siglongjmp; "trace N": a handler
// unwinds the stack through them up to main; "run N": allocates and frees; "storm N": N threads have
// exceptions leave them until "calm"; "quit". Whatever unwinds has to run the destructors on its way.
#include <new>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unwind.h>

#include "test/targets/target.h"

#define OWN extern "C" __attribute__((noinline, noipa))

static int (*inside)(size_t bytes);
static unsigned long destroyed;
static sigjmp_buf back;

struct witness {
	~witness()
	{
		__atomic_add_fetch(&destroyed, 1, __ATOMIC_RELAXED);
	}
};

OWN void *leaver_take(size_t bytes)
{
	if (inside && inside(bytes))
		return nullptr;
	return malloc(bytes);
}

OWN void leaver_give(void *block)
{
	free(block);
}

TARGET_FRAME static void take_one()
{
	witness here;
	void *block = leaver_take(100);

	memset(block, 1, 100);
	leaver_give(block);
}

static int throw_now(size_t bytes)
{
	throw bytes;
}

static int be_cancelled(size_t)
{
	pthread_cancel(pthread_self());
	pthread_testcancel();
	return 0;
}

static int raise_now(size_t)
{
	raise(SIGUSR1);
	return 0;
}

static void jump(int)
{
	siglongjmp(back, 1);
}

static void end_thread(int)
{
	pthread_exit(nullptr);
}

static unsigned long traced;

static _Unwind_Reason_Code look(_Unwind_Context *context, void *)
{
	extern int main();

	if (_Unwind_FindEnclosingFunction(reinterpret_cast<void *>(_Unwind_GetIP(context) - 1)) ==
	    reinterpret_cast<void *>(main))
		traced++;
	return _URC_NO_REASON;
}

static void trace(int)
{
	_Unwind_Backtrace(look, nullptr);
}

static void handle(void (*handler)(int))
{
	struct sigaction action = {};

	action.sa_handler = handler;
	if (sigaction(SIGUSR1, &action, nullptr))
		target_broken("no handler");
}

static void *take_in_thread(void *)
{
	take_one();
	return nullptr;
}

static void in_thread()
{
	pthread_t thread;

	if (pthread_create(&thread, nullptr, take_in_thread, nullptr) ||
	    pthread_join(thread, nullptr))
		target_broken("no thread");
}

static void expect_throw()
{
	try {
		take_one();
	} catch (size_t bytes) {
		if (bytes != 100)
			target_broken("another exception");
		return;
	}
	target_broken("nothing was thrown");
}

struct no_memory {};

static void throw_no_memory()
{
	throw no_memory();
}

static void expect_no_memory()
{
	static volatile size_t bytes = SIZE_MAX / 4;

	std::set_new_handler(throw_no_memory);
	try {
		witness here;
		operator delete(operator new(bytes));
	} catch (const no_memory &) {
		return;
	}
	target_broken("so much room was there");
}

static void expect_jump()
{
	if (sigsetjmp(back, 1) == 0) {
		take_one();
		target_broken("it came back");
	}
	destroyed++;
}

static void repeat(unsigned long rounds, int (*there)(size_t), void (*handler)(int), void (*once)())
{
	inside = there;
	destroyed = 0;
	if (handler)
		handle(handler);
	for (unsigned long i = 0; i < rounds; i++)
		once();
	inside = nullptr;
	if (destroyed != rounds)
		target_broken("%lu destructors of %lu ran", destroyed, rounds);
}

#define MAX_STORMERS 8u
static pthread_t threads[MAX_STORMERS];
static unsigned long stormers, thrown;
static bool storms;

/* Most of the time it is in the hook, and has not thrown yet. */
static int throw_later(size_t bytes)
{
	for (volatile unsigned i = 0; i < 20000; i = i + 1)
		;
	throw bytes;
}

static void *throw_all_the_time(void *)
{
	while (__atomic_load_n(&storms, __ATOMIC_RELAXED)) {
		expect_throw();
		__atomic_add_fetch(&thrown, 1, __ATOMIC_RELAXED);
	}
	return nullptr;
}

static void storm(unsigned long count)
{
	inside = throw_later;
	destroyed = thrown = 0;
	storms = true;
	for (stormers = 0; stormers < count && stormers < MAX_STORMERS; stormers++)
		if (pthread_create(&threads[stormers], nullptr, throw_all_the_time, nullptr))
			target_broken("no thread");
}

static void calm()
{
	__atomic_store_n(&storms, false, __ATOMIC_RELAXED);
	for (unsigned long i = 0; i < stormers; i++)
		pthread_join(threads[i], nullptr);
	inside = nullptr;
	if (destroyed != thrown)
		target_broken("%lu destructors of %lu ran", destroyed, thrown);
}

int main()
{
	char line[64];
	unsigned long n;

	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "throw", &n)) {
			repeat(n, throw_now, nullptr, expect_throw);
		} else if (target_word(line, "new", &n)) {
			repeat(n, nullptr, nullptr, expect_no_memory);
		} else if (target_word(line, "cancel", &n)) {
			repeat(n, be_cancelled, nullptr, in_thread);
		} else if (target_word(line, "exit", &n)) {
			repeat(n, raise_now, end_thread, in_thread);
		} else if (target_word(line, "jump", &n)) {
			repeat(n, raise_now, jump, expect_jump);
		} else if (target_word(line, "trace", &n)) {
			traced = 0;
			repeat(n, raise_now, trace, take_one);
			if (traced != n)
				target_broken("%lu traces of %lu led to main", traced, n);
		} else if (target_word(line, "run", &n)) {
			repeat(n, nullptr, nullptr, take_one);
		} else if (target_word(line, "storm", &n)) {
			storm(n);
		} else if (target_word(line, "calm", &n)) {
			calm();
		} else {
			break;
		}
		target_say("done");
	}
	return 0;
}
