/* hoard: a program that keeps an address of free where it cannot be put back, and calls it later.
 *
 * Commands: "keep WAY" takes the address anew; "use WAY" calls what was kept; "spin
 * WAY" does so in a thread all the while, and "calls N" answers once it has N times more; "quit".
 *
 *	packed		in a packed structure
 *	closed		in a page that is made read-only afterwards
 *	file		the same, of a file that is mapped privately
 *	shared		the same, of memory that is shared
 *	none		in a page that may not even be read
 *	none-file	the same, of a file that is mapped privately
 *	none-shared	the same, of memory that is shared
 *	secret		in memory that nobody else may read (memfd_secret)
 *	code		in generated code, as a number
 *	distance	in generated code, as a distance
 *	jump		in a register's place in a jmp_buf
 *	exit		as a function to be called at the end: "use" does nothing, "quit" does
 * These are put back:
 *	word		in writable memory, paged out if it can be
 *	dev		in a file below /dev, where others are devices
 *	tagged		in a word, with something else in its upper bits
 *	thread		in a thread's own variable
 *	stack		on the stack of a thread that sleeps
 *	many		in 10,000 words, as objects do that keep their deleter
 * These look like addresses of hooks, and must stay as they are ("use" compares):
 *	maps		where its mappings begin and end, in words and in a packed structure */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "test/targets/target.h"

typedef void release_fn(void *block);

enum { PAGE = 4096, JUMP_RBP = 1, MANY = 10000, MAPPINGS = 512 };
static const uint64_t tag = UINT64_C(0xfff9) << 48;

static struct {
	char kind;
	release_fn *release;
} __attribute__((packed)) packed;
/* Of their pages, the only word: nothing else makes them writable. */
static struct page {
	release_fn *release;
	bool is_open;
} * closed, *file, *shared, *none, *secret, *word, *dev;
static uint8_t *code, *distance;
static release_fn *many[MANY];
/* What /proc/self/maps said, and its numbers. */
static char maps[1 << 16];
static struct {
	char kind;
	unsigned long start, end;
} __attribute__((packed)) packed_bounds[MAPPINGS];
static unsigned long bounds[MAPPINGS][2];
static size_t mappings;
static uint64_t tagged;
static jmp_buf jump;
static __thread release_fn *of_thread;
static sem_t begun, ended;
static _Atomic unsigned long spun;

/* Of its own, or the compiler loads the address once, at the program's start. */
TARGET_FRAME static release_fn *take(void)
{
	return free;
}

static void *map(void *hint, int flags, int fd)
{
	void *memory = mmap(hint, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (memory == MAP_FAILED)
		target_broken("mmap: %s", strerror(errno));
	return memory;
}

static void protect(void *memory, int protection)
{
	if (mprotect(memory, PAGE, protection))
		target_broken("mprotect: %s", strerror(errno));
}

static struct page *keep_in(int flags, int fd, int protection)
{
	struct page *page = map(NULL, flags, fd);

	page->release = take();
	protect(page, protection);
	return page;
}

static struct page *keep_in_file(int protection)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct page *page = keep_in(MAP_PRIVATE, fd, protection);

	close(fd);
	return page;
}

static void keep_in_dev(void)
{
	int fd = open("/dev", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	if (ftruncate(fd, PAGE))
		target_broken("ftruncate: %s", strerror(errno));
	dev = keep_in(MAP_SHARED, fd, PROT_READ | PROT_WRITE);
	close(fd);
}

static void keep_in_secret(void)
{
#ifdef SYS_memfd_secret
	int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
#else
	int fd = -1;
#endif

	if (fd < 0)
		return;
	if (ftruncate(fd, PAGE))
		target_broken("ftruncate: %s", strerror(errno));
	secret = keep_in(MAP_SHARED, fd, PROT_READ | PROT_WRITE);
	close(fd);
}

static void keep_in_code(void)
{
	const uint64_t value = (uintptr_t)take();

	/* mov $value, %rax; jmp *%rax */
	code = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memcpy(code, "\x48\xb8", 2);
	memcpy(code + 2, &value, sizeof(value));
	memcpy(code + 10, "\xff\xe0", 2);
	protect(code, PROT_READ | PROT_EXEC);
}

static void keep_distance(void)
{
	const uint64_t value = (uintptr_t)take();
	int32_t bytes;

	for (uint64_t near = value / PAGE * PAGE - (1 << 30); !distance; near += 1 << 20) {
		void *memory = mmap((void *)(uintptr_t)near, PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

		if (near > value)
			target_broken("no memory near by");
		distance = memory == MAP_FAILED ? NULL : memory;
	}
	/* jmp value */
	bytes = (int32_t)(int64_t)(value - (uintptr_t)(distance + 5));
	distance[0] = 0xe9;
	memcpy(distance + 1, &bytes, sizeof(bytes));
	protect(distance, PROT_READ | PROT_EXEC);
}

/* As a function does whose frame pointer is a register like any other. */
TARGET_FRAME static void keep_in_jump(void)
{
	uint64_t value = (uintptr_t)take(), buffer = (uintptr_t)jump;

	__asm__ volatile("subq $128, %%rsp\n\t"
			 "pushq %%rbp\n\t"
			 "pushq %%rbp\n\t"
			 "movq %%rsi, %%rbp\n\t"
			 "call _setjmp@PLT\n\t"
			 "popq %%rbp\n\t"
			 "popq %%rbp\n\t"
			 "addq $128, %%rsp"
			 : "+D"(buffer), "+S"(value)
			 :
			 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
}

/* As longjmp does. */
static release_fn *jump_register(void)
{
	uint64_t value, guard;

	memcpy(&value, (const char *)jump + JUMP_RBP * sizeof(value), sizeof(value));
	__asm__("movq %%fs:0x30, %0" : "=r"(guard));
	value = (value >> 17 | value << 47) ^ guard;
	return (release_fn *)(uintptr_t)value;
}

static void *sleep_with_it(void *unused)
{
	release_fn *volatile kept = take();

	sem_post(&begun);
	sem_wait(&ended);
	kept(malloc(100));
	return unused;
}

static void keep_maps(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t bytes = 0;
	ssize_t got;

	while ((got = read(fd, maps + bytes, sizeof(maps) - 1 - bytes)) > 0)
		bytes += (size_t)got;
	close(fd);
	for (char *line = maps; *line && mappings < MAPPINGS; mappings++) {
		unsigned long *both = bounds[mappings];

		if (sscanf(line, "%lx-%lx", &both[0], &both[1]) != 2)
			target_broken("no mapping: %s", line);
		packed_bounds[mappings].start = both[0];
		packed_bounds[mappings].end = both[1];
		line += strcspn(line, "\n") + 1;
	}
}

static void compare_maps(void)
{
	const char *line = maps;

	for (size_t i = 0; i < mappings; i++, line += strcspn(line, "\n") + 1) {
		char text[64];
		int length =
			snprintf(text, sizeof(text), "%08lx-%08lx ", bounds[i][0], bounds[i][1]);

		if (strncmp(line, text, (size_t)length) || packed_bounds[i].start != bounds[i][0] ||
		    packed_bounds[i].end != bounds[i][1])
			target_broken("a number has changed: %s, %lx-%lx, of %.80s", text,
				      packed_bounds[i].start, packed_bounds[i].end, line);
	}
}

static void keep(const char *way)
{
	const int private = MAP_PRIVATE | MAP_ANONYMOUS;

	if (!strcmp(way, "packed")) {
		packed.release = take();
	} else if (!strcmp(way, "closed")) {
		closed = keep_in(private, -1, PROT_READ);
	} else if (!strcmp(way, "file")) {
		file = keep_in_file(PROT_READ);
	} else if (!strcmp(way, "shared")) {
		shared = keep_in(MAP_SHARED | MAP_ANONYMOUS, -1, PROT_READ);
	} else if (!strcmp(way, "none")) {
		none = keep_in(private, -1, PROT_NONE);
	} else if (!strcmp(way, "none-file")) {
		none = keep_in_file(PROT_NONE);
	} else if (!strcmp(way, "none-shared")) {
		none = keep_in(MAP_SHARED | MAP_ANONYMOUS, -1, PROT_NONE);
	} else if (!strcmp(way, "secret")) {
		keep_in_secret();
	} else if (!strcmp(way, "code")) {
		keep_in_code();
	} else if (!strcmp(way, "distance")) {
		keep_distance();
	} else if (!strcmp(way, "tagged")) {
		tagged = (uintptr_t)take() | tag;
	} else if (!strcmp(way, "jump")) {
		keep_in_jump();
	} else if (!strcmp(way, "exit")) {
		/* Kept as atexit does; called with the exit status, which is no block. */
		on_exit((void (*)(int, void *))(uintptr_t)take(), NULL);
	} else if (!strcmp(way, "word")) {
		word = keep_in(private, -1, PROT_READ | PROT_WRITE);
		madvise(word, PAGE, MADV_PAGEOUT);
	} else if (!strcmp(way, "dev")) {
		keep_in_dev();
	} else if (!strcmp(way, "many")) {
		for (size_t i = 0; i < MANY; i++)
			many[i] = take();
	} else if (!strcmp(way, "maps")) {
		keep_maps();
	} else if (!strcmp(way, "thread")) {
		of_thread = take();
	} else if (!strcmp(way, "stack")) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, sleep_with_it, NULL) || pthread_detach(thread))
			target_broken("no thread");
		sem_wait(&begun);
	} else {
		target_broken("no such way: %s", way);
	}
}

static release_fn *kept(const char *way)
{
	if (!strcmp(way, "packed"))
		return packed.release;
	if (!strcmp(way, "closed"))
		return closed->release;
	if (!strcmp(way, "file"))
		return file->release;
	if (!strcmp(way, "shared"))
		return shared->release;
	if (!strncmp(way, "none", 4)) {
		protect(none, PROT_READ);
		return none->release;
	}
	if (!strcmp(way, "secret"))
		return secret->release;
	if (!strcmp(way, "code"))
		return (release_fn *)(uintptr_t)code;
	if (!strcmp(way, "distance"))
		return (release_fn *)(uintptr_t)distance;
	if (!strcmp(way, "tagged"))
		return (release_fn *)(uintptr_t)(tagged & ~tag);
	if (!strcmp(way, "jump"))
		return jump_register();
	if (!strcmp(way, "word"))
		return word->release;
	if (!strcmp(way, "dev"))
		return dev->release;
	if (!strcmp(way, "thread"))
		return of_thread;
	return NULL;
}

static void use(const char *way)
{
	release_fn *release = kept(way);

	if (release)
		release(malloc(100));
	else if (!strcmp(way, "many"))
		for (size_t i = 0; i < MANY; i++)
			many[i](malloc(100));
	else if (!strcmp(way, "stack"))
		sem_post(&ended);
	else if (!strcmp(way, "maps"))
		compare_maps();
}

/* Holds it in a register all the while. */
static void *spin(void *address)
{
	release_fn *release = (release_fn *)(uintptr_t)address;

	while (release) {
		release(malloc(100));
		spun++;
	}
	return NULL;
}

static void spin_in_thread(const char *way)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, spin, (void *)(uintptr_t)kept(way)))
		target_broken("no thread");
}

static void wait_for_calls(unsigned long calls)
{
	for (calls += spun; spun < calls;)
		sched_yield();
}

int main(void)
{
	unsigned long n;
	char line[64];

	sem_init(&begun, 0, 0);
	sem_init(&ended, 0, 0);
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (!strncmp(line, "keep ", 5)) {
			keep(line + 5);
			target_say(!strcmp(line + 5, "secret") && !secret ? "none" : "kept");
		} else if (!strncmp(line, "use ", 4)) {
			use(line + 4);
			target_say("used");
		} else if (!strncmp(line, "spin ", 5)) {
			spin_in_thread(line + 5);
			target_say("spinning");
		} else if (target_word(line, "calls", &n)) {
			wait_for_calls(n);
			target_say("called");
		} else if (!strcmp(line, "quit")) {
			return 0;
		} else {
			target_broken("unknown command '%s'", line);
		}
	}
	return 0;
}
