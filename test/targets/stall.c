/* stall: threads that allocate as fast as they can, and measure how long any of them was made to
 * wait.
 *
 *	stall [--threads N] [--plain]
 *
 * --plain: they measure nothing, and make no system calls of their own.
 *
 * Commands: "go" runs until "hold"; "mark" begins a measurement, "measure" answers it as JSON while
 * the threads run: seconds, operations, fewest operations of a thread, longest_gap_us from one
 * operation of a thread to the next, longest_sleep_us and longest_spin_us; "keep NAME N" has N
 * blocks of 1000 bytes allocated for good by the function stall_NAME, NAME being before, during or
 * after; "release N" frees the first N of these; "count" answers the books as JSON (exact while
 * held); "quit" ends with 0.
 *
 * A thread of this program has no reason to sleep, and on a busy machine every reason to be sent
 * off the processor. So a gap counts as a sleep if the thread left the processor by itself
 * (voluntary context switches, getrusage(2)), with all of its length; else as a spin, with what it
 * used of the processor. What a hypervisor takes from a thread counts as used, too. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "test/targets/target.h"

enum {
	MAX_THREADS = 64,
	SLOTS = 128,
	MIN_BYTES = 16,
	MAX_BYTES = 512,
	KEPT_BYTES = 1000,
	MAX_KEPT = 1 << 20,
	LONG_GAP_NS = 100000, /* looked into */
	CHECKPOINT = 128      /* operations; far less than LONG_GAP_NS */
};

struct worker {
	uint64_t random;
	/* Written by the thread alone, but for the reset; read by the main thread. */
	_Atomic uint64_t operations, longest_gap_ns, longest_sleep_ns, longest_spin_ns;
	_Atomic unsigned seen_mark;
	uint64_t allocations, allocated_bytes, frees, freed_bytes;
	struct {
		void *address;
		uint32_t bytes;
	} slots[SLOTS];
} __attribute__((aligned(128)));

static struct worker workers[MAX_THREADS];
static unsigned thread_count = 2;
static bool plain;
static uint64_t marked_ns;
static _Atomic unsigned mark;
static uint64_t kept_count, released_count;
static void *kept[MAX_KEPT];

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changes = PTHREAD_COND_INITIALIZER;
static _Atomic bool going, quitting;
static unsigned parked;

/* ------------------------------------------------------------------ gaps */

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static long sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

struct gauge {
	uint64_t last_ns;       /* end of the last operation */
	uint64_t checkpoint_ns; /* of the processor, a little before */
	long sleeps;
};

static void gauge_begin(struct gauge *gauge)
{
	if (plain)
		return;
	gauge->checkpoint_ns = cpu_ns();
	gauge->sleeps = sleeps();
	gauge->last_ns = target_now_ns();
}

static void raise_to(_Atomic uint64_t *longest, uint64_t value)
{
	if (value > atomic_load_explicit(longest, memory_order_relaxed))
		atomic_store_explicit(longest, value, memory_order_relaxed);
}

/* After an operation. */
static void gauge_read(struct gauge *gauge, struct worker *w)
{
	uint64_t now_ns = plain ? 0 : target_now_ns(), gap_ns = now_ns - gauge->last_ns;
	uint64_t operations = atomic_load_explicit(&w->operations, memory_order_relaxed);
	unsigned current = atomic_load_explicit(&mark, memory_order_relaxed);

	gauge->last_ns = now_ns;
	if (atomic_load_explicit(&w->seen_mark, memory_order_relaxed) != current) {
		atomic_store_explicit(&w->longest_gap_ns, 0, memory_order_relaxed);
		atomic_store_explicit(&w->longest_sleep_ns, 0, memory_order_relaxed);
		atomic_store_explicit(&w->longest_spin_ns, 0, memory_order_relaxed);
		atomic_store_explicit(&w->operations, 1, memory_order_relaxed);
		atomic_store_explicit(&w->seen_mark, current, memory_order_release);
		gauge_begin(gauge);
		return;
	}
	atomic_store_explicit(&w->operations, operations + 1, memory_order_relaxed);
	if (plain)
		return;
	if (gap_ns > LONG_GAP_NS) {
		uint64_t used_ns = cpu_ns() - gauge->checkpoint_ns;

		raise_to(&w->longest_gap_ns, gap_ns);
		if (sleeps() != gauge->sleeps)
			raise_to(&w->longest_sleep_ns, gap_ns);
		else
			raise_to(&w->longest_spin_ns, used_ns > gap_ns ? gap_ns : used_ns);
		gauge_begin(gauge);
	} else if (operations % CHECKPOINT == 0) {
		gauge->checkpoint_ns = cpu_ns();
	}
}

/* ------------------------------------------------------------------ operations */

TARGET_FRAME static void *stall_allocate(uint32_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		target_broken("no memory");
	memset(p, 0x33, bytes < 32 ? bytes : 32);
	return p;
}

TARGET_FRAME static void stall_release(void *p)
{
	free(p);
	TARGET_KEEP_FRAME();
}

TARGET_FRAME static void stall_operate(struct worker *w)
{
	uint64_t random = target_random(&w->random);
	unsigned slot = (unsigned)(random >> 8) % SLOTS;

	if (w->slots[slot].address) {
		w->frees++;
		w->freed_bytes += w->slots[slot].bytes;
		stall_release(w->slots[slot].address);
		w->slots[slot].address = NULL;
		return;
	}
	w->slots[slot].bytes = MIN_BYTES + (uint32_t)(random >> 32) % (MAX_BYTES - MIN_BYTES + 1);
	w->slots[slot].address = stall_allocate(w->slots[slot].bytes);
	w->allocations++;
	w->allocated_bytes += w->slots[slot].bytes;
}

static void *worker_main(void *argument)
{
	struct worker *w = argument;
	struct gauge gauge;

	for (;;) {
		pthread_mutex_lock(&gate);
		parked++;
		pthread_cond_broadcast(&gate_changes);
		while (!going && !quitting)
			pthread_cond_wait(&gate_changes, &gate);
		parked--;
		pthread_cond_broadcast(&gate_changes);
		pthread_mutex_unlock(&gate);
		if (quitting)
			return NULL;
		gauge_begin(&gauge);
		while (atomic_load_explicit(&going, memory_order_relaxed)) {
			stall_operate(w);
			gauge_read(&gauge, w);
		}
	}
}

/* One function each, so that a report tells the blocks apart. */
#define KEEPER(name)                                               \
	TARGET_FRAME static void name(void)                        \
	{                                                          \
		if (kept_count == MAX_KEPT)                        \
			target_broken("too many blocks are kept"); \
		kept[kept_count] = malloc(KEPT_BYTES);             \
		if (!kept[kept_count++])                           \
			target_broken("no memory");                \
	}
KEEPER(stall_before)
KEEPER(stall_during)
KEEPER(stall_after)

/* ------------------------------------------------------------------ commands */

static void wait_parked(unsigned count)
{
	pthread_mutex_lock(&gate);
	while (parked != count)
		pthread_cond_wait(&gate_changes, &gate);
	pthread_mutex_unlock(&gate);
}

static void set_going(bool value)
{
	pthread_mutex_lock(&gate);
	going = value;
	pthread_cond_broadcast(&gate_changes);
	pthread_mutex_unlock(&gate);
}

static void begin_measurement(void)
{
	unsigned next = mark + 1;

	marked_ns = target_now_ns();
	atomic_store(&mark, next);
	for (unsigned i = 0; i < thread_count; i++)
		while (atomic_load_explicit(&workers[i].seen_mark, memory_order_acquire) != next)
			usleep(1000);
}

static void answer_measurement(void)
{
	uint64_t operations = 0, fewest = UINT64_MAX;
	_Atomic uint64_t gap_ns = 0, sleep_ns = 0, spin_ns = 0;

	for (unsigned i = 0; i < thread_count; i++) {
		uint64_t mine = workers[i].operations;

		operations += mine;
		fewest = mine < fewest ? mine : fewest;
		raise_to(&gap_ns, workers[i].longest_gap_ns);
		raise_to(&sleep_ns, workers[i].longest_sleep_ns);
		raise_to(&spin_ns, workers[i].longest_spin_ns);
	}
	target_say("{\"seconds\":%.3f,\"operations\":%lu,\"fewest\":%lu,\"longest_gap_us\":%lu,"
		   "\"longest_sleep_us\":%lu,\"longest_spin_us\":%lu}",
		   (double)(target_now_ns() - marked_ns) / 1e9, operations, fewest, gap_ns / 1000,
		   sleep_ns / 1000, spin_ns / 1000);
}

static void answer_counts(void)
{
	uint64_t allocations = kept_count, bytes = kept_count * KEPT_BYTES;
	uint64_t frees = released_count, freed = released_count * KEPT_BYTES;

	for (unsigned i = 0; i < thread_count; i++) {
		allocations += workers[i].allocations;
		bytes += workers[i].allocated_bytes;
		frees += workers[i].frees;
		freed += workers[i].freed_bytes;
	}
	target_say("{\"allocations\":%lu,\"allocated_bytes\":%lu,\"frees\":%lu,\"freed_bytes\":%lu,"
		   "\"live_allocations\":%lu,\"live_bytes\":%lu}",
		   allocations, bytes, frees, freed, allocations - frees, bytes - freed);
}

static void keep(const char *line)
{
	unsigned long count;
	void (*function)(void);

	if (target_word(line, "before", &count))
		function = stall_before;
	else if (target_word(line, "during", &count))
		function = stall_during;
	else if (target_word(line, "after", &count))
		function = stall_after;
	else
		target_broken("keep what: '%s'", line);
	while (count--)
		function();
	target_say("kept");
}

/* The first ones that were kept. */
static void release(unsigned long count)
{
	if (count > kept_count - released_count)
		target_broken("not so many are kept");
	while (count--)
		stall_release(kept[released_count++]);
	target_say("released");
}

static void obey(void)
{
	char line[256];
	unsigned long n;

	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "go", &n)) {
			set_going(true);
			wait_parked(0);
			target_say("going");
		} else if (target_word(line, "hold", &n)) {
			set_going(false);
			wait_parked(thread_count);
			target_say("held");
		} else if (target_word(line, "mark", &n)) {
			begin_measurement();
			target_say("marked");
		} else if (target_word(line, "measure", &n)) {
			answer_measurement();
		} else if (target_word(line, "keep", &n)) {
			keep(line + sizeof("keep"));
		} else if (target_word(line, "release", &n)) {
			release(n);
		} else if (target_word(line, "count", &n)) {
			answer_counts();
		} else if (target_word(line, "quit", &n)) {
			return;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--plain"))
			plain = true;
		else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
			thread_count = (unsigned)strtoul(argv[++i], NULL, 10);
		else
			thread_count = 0;
	if (!thread_count || thread_count > MAX_THREADS)
		target_broken("stall [--threads N] [--plain], 1 to %d", MAX_THREADS);
	for (unsigned i = 0; i < thread_count; i++) {
		workers[i].random = 0x9e3779b97f4a7c15ull * (i + 1);
		if (pthread_create(&threads[i], NULL, worker_main, &workers[i]))
			target_broken("no thread");
	}
	wait_parked(thread_count);
	target_say("ready %d", getpid());
	obey();
	set_going(false);
	quitting = true;
	set_going(false);
	for (unsigned i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
