/* storm: threads that allocate as hard as they can, check every block, and count what they do.
 *
 *	storm [--threads N] [--churn OPS] [--cross] [--signals] [--slots N] [--rate OPS_PER_SECOND]
 *
 * --churn: a thread ends after so many operations and another takes its place. --cross: some blocks
 * are freed by another thread. --signals: now and then a signal handler allocates, at a moment when
 * that is allowed.
 *
 * Commands: "go" runs until "hold"; "run N" lets each thread do N operations; "mark" makes all that
 * lives now foreign for the counts; "leak N" keeps N blocks for good; "zero" sets the counts to 0;
 * "count" answers them as JSON (exact while held); "drain" frees all that lives; "quit" drains,
 * checks and ends with 0.
 *
 * Counting follows limpet's words: sizes are requested sizes, a realloc of a block is a free and an
 * allocation, the free of a block from before "mark" is foreign and counts its usable size. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>

#include "test/targets/target.h"

enum {
	MAX_THREADS = 512,
	MAX_SLOTS = 4096,
	MAILBOX = 64,
	MIN_BYTES = 16,
	MAX_BYTES = 4096,
	LEVELS = 6, /* of two branches each: 64 paths */
	ERRNO_MARK = 0x5a5a
};

enum kind { KIND_MALLOC, KIND_CALLOC, KIND_REALLOC, KIND_MEMALIGN, KIND_POSIX, KIND_COUNT };

struct block {
	void *address;
	uint32_t bytes;
	uint32_t epoch;
};

struct counts {
	uint64_t allocations, frees, allocated_bytes, freed_bytes;
	uint64_t foreign_frees, foreign_freed_bytes;
	uint64_t by_kind[KIND_COUNT];
	uint64_t handled, operations;
};

struct worker {
	unsigned index;
	uint64_t random;
	uint64_t quota;             /* operations left of "run" */
	uint64_t phase;             /* that it has seen */
	uint64_t operations_before; /* of this phase */
	unsigned born;
	struct counts counts;
	unsigned slot; /* the operation at hand */
	struct block *slots;
	struct {
		pthread_mutex_t lock;
		struct block blocks[MAILBOX];
		_Atomic unsigned count;
	} mailbox;
} __attribute__((aligned(128)));

enum mode { MODE_HELD, MODE_GO, MODE_RUN, MODE_QUIT };

static struct worker workers[MAX_THREADS];
static unsigned thread_count = 4, slot_count = 256;
/* Operations between two looks at the clock, where a rate is asked for. */
#define PACE 32u
static uint64_t churn_operations, rate;
static bool cross, signals;

/* Guards the four below; the workers read the mode without it. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opens = PTHREAD_COND_INITIALIZER;
static pthread_cond_t all_parked = PTHREAD_COND_INITIALIZER;
static _Atomic enum mode mode = MODE_HELD;
static uint64_t phase;
static unsigned parked, ended;

static _Atomic uint32_t epoch = 1;
static _Thread_local struct worker *self;

static struct {
	void *list[1 << 16];
	unsigned count;
} leaked;

/* ------------------------------------------------------------------ blocks */

static uint64_t canary_of(const void *address, uint32_t bytes)
{
	return ((uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15ull) ^ bytes;
}

static void block_stamp(void *address, uint32_t bytes)
{
	uint64_t canary = canary_of(address, bytes);

	memcpy(address, &canary, sizeof(canary));
	memcpy((char *)address + bytes - sizeof(canary), &canary, sizeof(canary));
}

static void block_check(const struct block *b)
{
	uint64_t want = canary_of(b->address, b->bytes), first, last;

	memcpy(&first, b->address, sizeof(first));
	memcpy(&last, (const char *)b->address + b->bytes - sizeof(last), sizeof(last));
	if (first != want || last != want)
		target_broken("block %p of %u bytes: canaries %#lx %#lx, not %#lx", b->address,
			      b->bytes, first, last, want);
}

static void errno_check(const char *what)
{
	if (errno != ERRNO_MARK)
		target_broken("%s changed errno to %d", what, errno);
}

static void count_allocation(struct worker *w, enum kind kind, uint32_t bytes)
{
	w->counts.allocations++;
	w->counts.allocated_bytes += bytes;
	w->counts.by_kind[kind]++;
}

static void count_free(struct worker *w, const struct block *b, uint64_t usable_bytes)
{
	if (b->epoch == atomic_load_explicit(&epoch, memory_order_relaxed)) {
		w->counts.frees++;
		w->counts.freed_bytes += b->bytes;
	} else {
		w->counts.foreign_frees++;
		w->counts.foreign_freed_bytes += usable_bytes;
	}
}

static void block_take(struct worker *w, struct block *b, void *address, uint32_t bytes,
		       enum kind kind)
{
	if (!address)
		target_broken("no memory for %u bytes", bytes);
	block_stamp(address, bytes);
	*b = (struct block){address, bytes, atomic_load_explicit(&epoch, memory_order_relaxed)};
	count_allocation(w, kind, bytes);
}

/* One function each, so that a report's sites can be compared with the counts by kind. */
TARGET_FRAME static void storm_malloc(struct worker *w, struct block *b, uint32_t bytes)
{
	errno = ERRNO_MARK;
	void *p = malloc(bytes);
	errno_check("malloc");
	block_take(w, b, p, bytes, KIND_MALLOC);
}

TARGET_FRAME static void storm_calloc(struct worker *w, struct block *b, uint32_t bytes)
{
	/* Both factors matter: a recorder that looks at one of them is wrong. */
	uint32_t count = bytes % 8 ? 1 : 8;

	errno = ERRNO_MARK;
	unsigned char *p = calloc(count, bytes / count);
	errno_check("calloc");
	for (uint32_t i = 0; p && i < bytes; i++)
		if (p[i])
			target_broken("calloc gave a block that is not zero");
	block_take(w, b, p, bytes, KIND_CALLOC);
}

TARGET_FRAME static void storm_realloc(struct worker *w, struct block *b, uint32_t bytes)
{
	struct block old = *b;
	uint64_t usable_bytes = malloc_usable_size(old.address);
	uint64_t want = canary_of(old.address, old.bytes), canary = 0;

	block_check(&old);
	errno = ERRNO_MARK;
	void *p = realloc(old.address, bytes);
	errno_check("realloc");
	if (p)
		memcpy(&canary, p, sizeof(canary));
	if (p && canary != want)
		target_broken("realloc lost the contents of a block");
	count_free(w, &old, usable_bytes);
	block_take(w, b, p, bytes, KIND_REALLOC);
}

TARGET_FRAME static void storm_memalign(struct worker *w, struct block *b, uint32_t bytes)
{
	errno = ERRNO_MARK;
	void *p = memalign(64, bytes);
	errno_check("memalign");
	if ((uintptr_t)p % 64)
		target_broken("memalign gave %p", p);
	block_take(w, b, p, bytes, KIND_MEMALIGN);
}

TARGET_FRAME static void storm_posix(struct worker *w, struct block *b, uint32_t bytes)
{
	void *p = NULL;

	errno = ERRNO_MARK;
	if (posix_memalign(&p, 256, bytes))
		p = NULL;
	errno_check("posix_memalign");
	if ((uintptr_t)p % 256)
		target_broken("posix_memalign gave %p", p);
	block_take(w, b, p, bytes, KIND_POSIX);
}

TARGET_FRAME static void storm_free(struct worker *w, struct block *b)
{
	block_check(b);
	count_free(w, b, malloc_usable_size(b->address));
	/* Whoever still reads the block sees it at once. */
	memset(b->address, 0xdd, b->bytes < 64 ? b->bytes : 64);
	errno = ERRNO_MARK;
	free(b->address);
	errno_check("free");
	b->address = NULL;
}

TARGET_FRAME static void storm_leak(uint32_t bytes)
{
	void *p = malloc(bytes);

	if (!p || leaked.count == sizeof(leaked.list) / sizeof(leaked.list[0]))
		target_broken("no room to leak");
	memset(p, 0x11, bytes);
	leaked.list[leaked.count++] = p;
	workers[0].counts.allocations++;
	workers[0].counts.allocated_bytes += bytes;
}

/* ------------------------------------------------------------------ one operation, deep down */

/* Frees a block here, or hands it to the neighbour who frees it. */
static void let_go(struct worker *w, struct block *b)
{
	if (cross && thread_count > 1 && target_random(&w->random) % 2) {
		struct worker *other = &workers[(w->index + 1) % thread_count];

		pthread_mutex_lock(&other->mailbox.lock);
		bool posted = other->mailbox.count < MAILBOX;
		if (posted) {
			other->mailbox.blocks[other->mailbox.count++] = *b;
			b->address = NULL;
		}
		pthread_mutex_unlock(&other->mailbox.lock);
		if (posted)
			return;
	}
	storm_free(w, b);
}

static void empty_mailbox(struct worker *w)
{
	struct block taken[MAILBOX];

	pthread_mutex_lock(&w->mailbox.lock);
	unsigned count = w->mailbox.count;
	memcpy(taken, w->mailbox.blocks, count * sizeof(taken[0]));
	/* What is left there would look like an address of whatever lies in its place later. */
	memset(w->mailbox.blocks, 0, count * sizeof(taken[0]));
	w->mailbox.count = 0;
	pthread_mutex_unlock(&w->mailbox.lock);
	for (unsigned i = 0; i < count; i++)
		storm_free(w, &taken[i]);
}

TARGET_FRAME static int storm_operate(struct worker *w)
{
	struct block *b = &w->slots[w->slot];
	uint64_t random = target_random(&w->random);
	uint32_t bytes = MIN_BYTES + (uint32_t)(random >> 32) % (MAX_BYTES - MIN_BYTES + 1);

	if (b->address) {
		if (random % 4 == 0)
			storm_realloc(w, b, bytes);
		else
			let_go(w, b);
		return 1;
	}
	switch (random % 16) {
	case 0:
	case 1:
		storm_calloc(w, b, bytes);
		break;
	case 2:
		storm_memalign(w, b, bytes);
		break;
	case 3:
		storm_posix(w, b, bytes);
		break;
	default:
		storm_malloc(w, b, bytes);
	}
	return 1;
}

/* Eighteen frames above the operation, in 64 different ways: each level is one of two branches,
 * which goes on through two relays of its own. */
#define LEVEL(n, next)                                                             \
	TARGET_FRAME static int relay_##n(struct worker *w, unsigned path)         \
	{                                                                          \
		int done = next(w, path);                                          \
		TARGET_KEEP_FRAME();                                               \
		return done;                                                       \
	}                                                                          \
	TARGET_FRAME static int left_##n(struct worker *w, unsigned path)          \
	{                                                                          \
		int done = relay_##n(w, path);                                     \
		TARGET_KEEP_FRAME();                                               \
		return done;                                                       \
	}                                                                          \
	TARGET_FRAME static int right_##n(struct worker *w, unsigned path)         \
	{                                                                          \
		char room[16 + 8 * n];                                             \
		memset(room, (int)path, sizeof(room));                             \
		int done = relay_##n(w, path);                                     \
		__asm__ volatile("" ::"r"(room) : "memory");                       \
		return done;                                                       \
	}                                                                          \
	TARGET_FRAME static int level_##n(struct worker *w, unsigned path)         \
	{                                                                          \
		int done = path >> n & 1 ? right_##n(w, path) : left_##n(w, path); \
		TARGET_KEEP_FRAME();                                               \
		return done;                                                       \
	}

static int bottom(struct worker *w, unsigned path)
{
	(void)path;
	int done = storm_operate(w);
	TARGET_KEEP_FRAME();
	return done;
}

LEVEL(0, bottom)
LEVEL(1, level_0)
LEVEL(2, level_1)
LEVEL(3, level_2)
LEVEL(4, level_3)
LEVEL(5, level_4)

TARGET_FRAME static void storm_in_handler(void)
{
	void *p = malloc(48);

	if (!p)
		target_broken("no memory in a handler");
	memset(p, 0x22, 48);
	free(p);
}

static void on_signal(int number)
{
	int saved = errno;

	(void)number;
	storm_in_handler();
	self->counts.handled++;
	self->counts.allocations++;
	self->counts.frees++;
	self->counts.allocated_bytes += 48;
	self->counts.freed_bytes += 48;
	errno = saved;
}

static void operate(struct worker *w)
{
	uint64_t random = target_random(&w->random);

	w->slot = (unsigned)(random % slot_count);
	level_5(w, (unsigned)(random >> 32) % (1u << LEVELS));
	if (atomic_load_explicit(&w->mailbox.count, memory_order_relaxed))
		empty_mailbox(w);
	/* Raised here, the handler never interrupts the allocator: what it does is allowed. */
	if (signals && w->counts.operations % 1024 == 0)
		raise(SIGUSR1);
	w->counts.operations++;
}

/* ------------------------------------------------------------------ threads */

/* Until the next phase; false when there is none. */
static bool park(struct worker *w)
{
	pthread_mutex_lock(&gate);
	if (++parked == thread_count)
		pthread_cond_signal(&all_parked);
	while (w->phase == phase)
		pthread_cond_wait(&gate_opens, &gate);
	w->phase = phase;
	bool more = mode != MODE_QUIT;
	pthread_mutex_unlock(&gate);
	return more;
}

static bool may_operate(const struct worker *w)
{
	enum mode now = atomic_load_explicit(&mode, memory_order_relaxed);

	return now == MODE_GO || (now == MODE_RUN && w->quota);
}

/* Each worker has its own place among the others, or all would operate in the same moment and rest
 * in the same: a short capture would fall between. */
static void keep_to_rate(const struct worker *w, uint64_t started_ns)
{
	uint64_t operations = w->counts.operations - w->operations_before;
	uint64_t due_ns = started_ns + (operations + PACE * w->index / thread_count) * 1000000000u /
					       (rate / thread_count + 1);
	struct timespec due = {(time_t)(due_ns / 1000000000u), (long)(due_ns % 1000000000u)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static void *worker_main(void *argument);

static void worker_start(struct worker *w)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	int error = pthread_create(&thread, &attr, worker_main, w);
	if (error)
		target_broken("no thread: %s", strerror(error));
	pthread_attr_destroy(&attr);
}

static void *worker_main(void *argument)
{
	struct worker *w = argument;
	uint64_t life = 0;

	prctl(PR_SET_NAME, "storm-worker");
	self = w;
	/* A thread's first call makes an arena for it, which belongs to the program at rest. */
	if (!w->born) {
		void *volatile first = malloc(1);

		free(first);
	}
	for (bool more = w->born++ || park(w); more; more = park(w)) {
		uint64_t started_ns = target_now_ns();

		w->operations_before = w->counts.operations;
		while (may_operate(w)) {
			if (churn_operations && ++life > churn_operations) {
				/* The last act: everything in `w` is the successor's now. */
				worker_start(w);
				return NULL;
			}
			operate(w);
			if (w->quota)
				w->quota--;
			if (rate && w->counts.operations % PACE == 0)
				keep_to_rate(w, started_ns);
		}
	}
	pthread_mutex_lock(&gate);
	ended++;
	pthread_cond_signal(&all_parked);
	pthread_mutex_unlock(&gate);
	return NULL;
}

/* ------------------------------------------------------------------ commands; the main thread */

static void wait_parked(void)
{
	pthread_mutex_lock(&gate);
	while (parked < thread_count)
		pthread_cond_wait(&all_parked, &gate);
	pthread_mutex_unlock(&gate);
}

static void open_gate(enum mode next, uint64_t quota)
{
	wait_parked();
	pthread_mutex_lock(&gate);
	for (unsigned i = 0; i < thread_count; i++)
		workers[i].quota = quota;
	atomic_store(&mode, next);
	parked = 0;
	phase++;
	pthread_cond_broadcast(&gate_opens);
	pthread_mutex_unlock(&gate);
}

/* As the kernel has it; without an allocation. */
static unsigned threads_there(void)
{
	static const char field[] = "\nThreads:\t";
	char text[4096] = "";
	const char *found = NULL;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		found = strstr(text, field);
	if (fd >= 0)
		close(fd);
	return found ? (unsigned)strtoul(found + sizeof(field) - 1, NULL, 10) : 0;
}

/* A worker's last act is not its end: one that has a successor is there for a while. */
static void hold(void)
{
	const struct timespec nap = {0, 1000000};

	atomic_store(&mode, MODE_HELD);
	wait_parked();
	while (threads_there() > thread_count + 1)
		nanosleep(&nap, NULL);
}

static void drain(void)
{
	for (unsigned i = 0; i < thread_count; i++) {
		empty_mailbox(&workers[i]);
		for (unsigned s = 0; s < slot_count; s++)
			if (workers[i].slots[s].address)
				storm_free(&workers[i], &workers[i].slots[s]);
	}
}

static void zero(void)
{
	for (unsigned i = 0; i < thread_count; i++)
		memset(&workers[i].counts, 0, sizeof(workers[i].counts));
}

static void answer_counts(void)
{
	struct counts sum = {0};

	for (unsigned i = 0; i < thread_count; i++) {
		const struct counts *c = &workers[i].counts;

		sum.allocations += c->allocations;
		sum.frees += c->frees;
		sum.allocated_bytes += c->allocated_bytes;
		sum.freed_bytes += c->freed_bytes;
		sum.foreign_frees += c->foreign_frees;
		sum.foreign_freed_bytes += c->foreign_freed_bytes;
		sum.handled += c->handled;
		sum.operations += c->operations;
		for (int k = 0; k < KIND_COUNT; k++)
			sum.by_kind[k] += c->by_kind[k];
	}
	target_say("{\"operations\":%lu,\"allocations\":%lu,\"frees\":%lu,\"allocated_bytes\":%lu,"
		   "\"freed_bytes\":%lu,\"live_allocations\":%lu,\"live_bytes\":%lu,"
		   "\"foreign_frees\":%lu,\"foreign_freed_bytes\":%lu,\"by_function\":{"
		   "\"storm_malloc\":%lu,\"storm_calloc\":%lu,\"storm_realloc\":%lu,"
		   "\"storm_memalign\":%lu,\"storm_posix\":%lu,\"storm_in_handler\":%lu,"
		   "\"storm_leak\":%u}}",
		   sum.operations, sum.allocations, sum.frees, sum.allocated_bytes, sum.freed_bytes,
		   sum.allocations - sum.frees, sum.allocated_bytes - sum.freed_bytes,
		   sum.foreign_frees, sum.foreign_freed_bytes, sum.by_kind[KIND_MALLOC],
		   sum.by_kind[KIND_CALLOC], sum.by_kind[KIND_REALLOC], sum.by_kind[KIND_MEMALIGN],
		   sum.by_kind[KIND_POSIX], sum.handled, leaked.count);
}

static void obey(void)
{
	char line[256];
	unsigned long n;

	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "go", &n)) {
			open_gate(MODE_GO, 0);
			target_say("going");
		} else if (target_word(line, "run", &n)) {
			open_gate(MODE_RUN, n);
			wait_parked();
			target_say("ran");
		} else if (target_word(line, "hold", &n)) {
			hold();
			target_say("held");
		} else if (target_word(line, "mark", &n)) {
			epoch++;
			target_say("marked");
		} else if (target_word(line, "leak", &n)) {
			for (unsigned long i = 0; i < n; i++)
				storm_leak(1000);
			target_say("leaked");
		} else if (target_word(line, "zero", &n)) {
			zero();
			target_say("zeroed");
		} else if (target_word(line, "count", &n)) {
			answer_counts();
		} else if (target_word(line, "drain", &n)) {
			drain();
			target_say("drained");
		} else if (target_word(line, "quit", &n)) {
			return;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
}

static uint64_t option_number(char **argv, int *i)
{
	if (!argv[*i + 1])
		target_broken("%s needs a number", argv[*i]);
	return strtoul(argv[++*i], NULL, 10);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--threads"))
			thread_count = (unsigned)option_number(argv, &i);
		else if (!strcmp(argv[i], "--slots"))
			slot_count = (unsigned)option_number(argv, &i);
		else if (!strcmp(argv[i], "--churn"))
			churn_operations = option_number(argv, &i);
		else if (!strcmp(argv[i], "--rate"))
			rate = option_number(argv, &i);
		else if (!strcmp(argv[i], "--cross"))
			cross = true;
		else if (!strcmp(argv[i], "--signals"))
			signals = true;
		else
			target_broken("unknown option %s", argv[i]);
	}
	if (!thread_count || thread_count > MAX_THREADS || !slot_count)
		target_broken("1 to %d threads, 1 slot or more", MAX_THREADS);
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	for (unsigned i = 0; i < thread_count; i++) {
		struct worker *w = &workers[i];

		w->index = i;
		w->random = 0x9e3779b97f4a7c15ull * (i + 1);
		w->slots = calloc(slot_count, sizeof(*w->slots));
		if (!w->slots)
			target_broken("no memory for slots");
		pthread_mutex_init(&w->mailbox.lock, NULL);
	}
	for (unsigned i = 0; i < thread_count; i++)
		worker_start(&workers[i]);
	wait_parked();
	target_say("ready %d", getpid());
	obey();

	hold();
	open_gate(MODE_QUIT, 0);
	pthread_mutex_lock(&gate);
	while (ended < thread_count)
		pthread_cond_wait(&all_parked, &gate);
	pthread_mutex_unlock(&gate);
	drain();
	return 0;
}
