/* gaps: threads that watch their own clock, and tell how long they were kept from it.
 *
 *	gaps [--spin N] [--allocate N] [--serve N] [--sleep N]
 *
 * --spin: so many threads read the clock without a pause, the main thread among them, and keep the
 * longest time between two looks; of these, --allocate so many also call malloc and free. --serve:
 * so many threads are blocked in read() and answer requests of the main thread, the longest time to
 * an answer is kept. --sleep: so many are blocked in other calls.
 *
 * "window" ends a window and begins the next; the answer is
 *	gaps SPIN_RAW SPIN_NET SERVE_RAW SERVE_NET
 * in nanoseconds, of the window that ended. NET is without what the thread itself waited for a
 * processor in that time (field 2 of /proc/thread-self/schedstat); each is the longest by itself.
 * "quit" ends it.
 *
 * Built with -DCOPIES, the main thread keeps addresses of malloc and free in its data, written anew
 * all the time: as a program with a table of callbacks. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "test/targets/target.h"

enum { MAX_THREADS = 1024, SMALL_STACK = 256 << 10, BLOCK_BYTES = 48 };

/* Shorter ones are not worth a look at the kernel's books. */
static const uint64_t gap_worth_ns = 5000, look_every_ns = 200000;

struct longest {
	uint64_t raw_ns, net_ns;
};

struct watcher {
	struct longest now, ended; /* of this window and of the one before */
	_Atomic unsigned window;   /* that it has seen */
	int delay_file;
	uint64_t delay_ns;            /* at the last look */
	uint64_t sent_ns, waited_ns;  /* request; its server's wait for a processor */
	_Atomic uint64_t answered_ns; /* 0: not yet */
	int request[2];
} __attribute__((aligned(128)));

static struct watcher watchers[MAX_THREADS];
static unsigned spin_count = 1, allocate_count, serve_count, sleep_count;
static _Atomic unsigned window, up;
static _Atomic bool quitting;

static uint64_t raw_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What the calling thread has waited for a processor since the last look. */
static uint64_t waited_ns(struct watcher *self)
{
	char text[96];
	ssize_t got = pread(self->delay_file, text, sizeof(text) - 1, 0);
	uint64_t before = self->delay_ns;
	char *second;

	text[got > 0 ? got : 0] = '\0';
	second = strchr(text, ' ');
	if (!second)
		target_broken("schedstat: %s", strerror(errno));
	self->delay_ns = strtoull(second, NULL, 10);
	return self->delay_ns - before;
}

static void watch_begin(struct watcher *self)
{
	self->delay_file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	if (self->delay_file < 0)
		target_broken("schedstat: %s", strerror(errno));
	waited_ns(self);
	up++;
}

static void note(struct watcher *self, uint64_t gap_ns, uint64_t waited)
{
	uint64_t net = gap_ns > waited ? gap_ns - waited : 0;

	if (gap_ns > self->now.raw_ns)
		self->now.raw_ns = gap_ns;
	if (net > self->now.net_ns)
		self->now.net_ns = net;
}

static void turn_page(struct watcher *self)
{
	unsigned current = atomic_load_explicit(&window, memory_order_acquire);

	if (self->window == current)
		return;
	self->ended = self->now;
	self->now = (struct longest){0, 0};
	atomic_store_explicit(&self->window, current, memory_order_release);
}

/* One look at the clock; answers the time. */
static uint64_t look(struct watcher *self, uint64_t last_ns, bool allocate)
{
	uint64_t now;

	if (allocate) {
		void *volatile block = malloc(BLOCK_BYTES);

		free(block);
	}
	now = raw_now_ns();
	if (now - last_ns > gap_worth_ns)
		note(self, now - last_ns, waited_ns(self));
	turn_page(self);
	return now;
}

static void *spin(void *argument)
{
	struct watcher *self = argument;
	bool allocate = (unsigned)(self - watchers) < allocate_count;
	uint64_t last_ns;

	watch_begin(self);
	last_ns = raw_now_ns();
	while (!atomic_load_explicit(&quitting, memory_order_relaxed))
		last_ns = look(self, last_ns, allocate);
	return NULL;
}

static void *serve(void *argument)
{
	struct watcher *self = argument;
	char byte;

	watch_begin(self);
	while (read(self->request[0], &byte, 1) == 1) {
		uint64_t now = raw_now_ns();

		self->waited_ns = waited_ns(self);
		atomic_store_explicit(&self->answered_ns, now, memory_order_release);
	}
	return NULL;
}

/* Takes the answer, if there is one, and asks again. Counted from behind the write: what the main
 * thread itself waited for before that is not the server's. */
static void ask(struct watcher *server)
{
	uint64_t answered_ns = atomic_load_explicit(&server->answered_ns, memory_order_acquire);

	if (server->sent_ns && !answered_ns)
		return;
	if (server->sent_ns && answered_ns > server->sent_ns)
		note(server, answered_ns - server->sent_ns, server->waited_ns);
	turn_page(server);
	atomic_store_explicit(&server->answered_ns, 0, memory_order_relaxed);
	if (write(server->request[1], "?", 1) != 1)
		target_broken("request: %s", strerror(errno));
	server->sent_ns = raw_now_ns();
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *sleep_long(void *argument)
{
	const struct timespec long_time = {3600, 0};
	unsigned kind = (unsigned)(uintptr_t)argument % 3;

	up++;
	for (;;) {
		if (kind == 0) {
			poll(NULL, 0, 3600000);
		} else if (kind == 1) {
			nanosleep(&long_time, NULL);
		} else {
			pthread_mutex_lock(&lock);
			pthread_cond_wait(&never, &lock);
			pthread_mutex_unlock(&lock);
		}
	}
	return NULL;
}

static void create(void *(*function)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, SMALL_STACK);
	error = pthread_create(&thread, &attributes, function, argument);
	if (error)
		target_broken("pthread_create: %s", strerror(error));
	pthread_attr_destroy(&attributes);
}

static void longer(struct longest *longest, const struct longest *other)
{
	if (other->raw_ns > longest->raw_ns)
		longest->raw_ns = other->raw_ns;
	if (other->net_ns > longest->net_ns)
		longest->net_ns = other->net_ns;
}

#ifdef COPIES
static void *(*volatile allocators[64])(size_t);
static void (*volatile releasers[64])(void *);
#endif

static void keep_copies(void)
{
#ifdef COPIES
	for (unsigned i = 0; i < 64; i++) {
		allocators[i] = malloc;
		releasers[i] = free;
	}
	releasers[7](allocators[7](BLOCK_BYTES));
#endif
}

static uint64_t end_window(uint64_t last_ns)
{
	struct longest spun = {0, 0}, served = {0, 0};
	bool all = false;

	atomic_fetch_add_explicit(&window, 1, memory_order_release);
	while (!all) {
		last_ns = look(&watchers[0], last_ns, allocate_count > 0);
		all = true;
		for (unsigned i = 0; i < spin_count + serve_count; i++) {
			if (i >= spin_count)
				ask(&watchers[i]);
			all = all && atomic_load_explicit(&watchers[i].window,
							  memory_order_acquire) == window;
		}
	}
	for (unsigned i = 0; i < spin_count + serve_count; i++)
		longer(i < spin_count ? &spun : &served, &watchers[i].ended);
	target_say("gaps %lu %lu %lu %lu", (unsigned long)spun.raw_ns, (unsigned long)spun.net_ns,
		   (unsigned long)served.raw_ns, (unsigned long)served.net_ns);
	return last_ns;
}

/* The main thread spins too: its own input is looked at now and then, never waited for. */
static void spin_and_listen(void)
{
	struct pollfd input = {STDIN_FILENO, POLLIN, 0};
	uint64_t last_ns = raw_now_ns(), listened_ns = last_ns;
	char line[64];

	for (;;) {
		unsigned long number;

		last_ns = look(&watchers[0], last_ns, allocate_count > 0);
		if (last_ns - listened_ns < look_every_ns)
			continue;
		listened_ns = last_ns;
		for (unsigned i = spin_count; i < spin_count + serve_count; i++)
			ask(&watchers[i]);
		keep_copies();
		if (poll(&input, 1, 0) <= 0)
			continue;
		if (!target_listen(line, sizeof(line)) || target_word(line, "quit", &number))
			return;
		if (!target_word(line, "window", &number))
			target_broken("unknown command '%s'", line);
		last_ns = end_window(last_ns);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		unsigned number = (unsigned)strtoul(argv[i + 1], NULL, 10);

		if (!strcmp(argv[i], "--spin"))
			spin_count = number;
		else if (!strcmp(argv[i], "--allocate"))
			allocate_count = number;
		else if (!strcmp(argv[i], "--serve"))
			serve_count = number;
		else if (!strcmp(argv[i], "--sleep"))
			sleep_count = number;
		else
			target_broken("unknown option %s", argv[i]);
	}
	if (!spin_count || spin_count + serve_count > MAX_THREADS)
		target_broken("1 to %d threads that watch", MAX_THREADS);
	watch_begin(&watchers[0]);
	for (unsigned i = 1; i < spin_count; i++)
		create(spin, &watchers[i]);
	for (unsigned i = spin_count; i < spin_count + serve_count; i++) {
		if (pipe(watchers[i].request) < 0)
			target_broken("pipe: %s", strerror(errno));
		create(serve, &watchers[i]);
	}
	for (unsigned i = 0; i < sleep_count; i++)
		create(sleep_long, (void *)(uintptr_t)i);
	while (up < spin_count + serve_count + sleep_count)
		sched_yield();
	target_say("ready %d", getpid());
	spin_and_listen();
	quitting = true;
	return 0;
}
