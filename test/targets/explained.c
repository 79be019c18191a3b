/* explained: memory of every kind that `limpet explain` tells apart, as much as it is told.
 *
 * Commands: "fragment N": N blocks of up to 900 bytes, all but every 20th freed; "small N": the
 * same of 24 to 120 bytes, which free(3) leaves in fastbins; "arenas N": as many threads, each with
 * such blocks in its arena; "bare N": threads like those of "stacks", whose stacks have no guards,
 * up to four, and as many that have ended; "within N": the same, each with a stack of 1 MiB in the
 * midst of 8 MiB that are written to; "lent N": the
 * same in blocks of 1 MiB; "table N": blocks to which a static table points; "outgrow
 * N": one more with N of them; "stacks N": threads that have touched 256 KiB of their stacks;
 * "blocks N": blocks of 1 MiB, mapped one by one; "aligned N": the same, aligned to 2 MiB; "split
 * N": the same, their mappings split by what the program does with a part; "closed N": the same,
 * without access to the first page, to the first and the last one, or to all; "memfd N", "shm N",
 * "sysv N", "clean N", "dirty N": MiB of shared memory, of a file that was read, of a file that was
 * written to privately; "private N": MiB of a memfd that is mapped privately and read, and of one
 * that is written to; "anonymous N": MiB by mmap alone;
 * "forged N": the same, in what looks like blocks; "wall": from now on brk(2) fails; "foreign N": N
 * KiB by sbrk(3), past malloc; "trim": malloc_trim(0); "devzero N" and "named N": MiB of /dev/zero,
 * mapped privately, and of shared memory with a name of its own; "fork": a child that shares
 * everything; "heads": the first segments of libraries leave memory; "pin": a byte of the heap is
 * locked; "partly N": N MiB of it, as many before its end; "lock": mlockall(2); "untouched N" and
 * "awaited N": pointers, from data and from what looks like heaps of V8, into N MiB of memory that
 * was never touched, or of which a userfaultfd that nobody serves is told; "circle N": N blocks in
 * an arena of several heaps, the last of which is then said to follow itself; "numbered N": threads
 * named pool-1-thr-1 and so on; "zeros N": blocks of N MiB in the main heap, read but not written,
 * and freed; "churn N": threads that allocate and free all the time; "grow N": a thread that
 * allocates blocks up to N MiB in all, frees them, and so on all the time; "hide": the main heap's
 * top is as malloc leaves it when it has moved it, but its head is not written yet, until "show";
 * "damage"
 * and "discard": the head of a block is overwritten, or its page given back, so that malloc is not
 * to be called any more; "info": mallinfo2(3) as JSON; "quit". */
#include <fcntl.h>
#include <link.h>
#include <linux/prctl.h>
#include <linux/userfaultfd.h>
#ifndef JEMALLOC
#include <malloc.h>
#endif
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "test/targets/target.h"

#ifdef JEMALLOC
#include <jemalloc/jemalloc.h>
#endif

enum { KEPT_OF = 20, STACK_BYTES = 256 << 10 };
#define MIB ((size_t)1 << 20)

static sem_t done;

static void make_holes(unsigned long count, size_t least, size_t range, uint64_t seed)
{
	char **blocks = mmap(NULL, count * sizeof(*blocks), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (blocks == MAP_FAILED)
		target_broken("no memory");
	for (unsigned long i = 0; i < count; i++) {
		size_t bytes = least + target_random(&seed) % range;

		blocks[i] = malloc(bytes);
		if (!blocks[i])
			target_broken("no memory");
		memset(blocks[i], 1, bytes);
	}
	for (unsigned long i = 0; i < count; i++)
		if (i % KEPT_OF)
			free(blocks[i]);
	munmap(blocks, count * sizeof(*blocks));
}

static void *fill_arena(void *context)
{
	prctl(PR_SET_NAME, "arena");
	make_holes(20000, 16, 900, (uintptr_t)context);
	sem_post(&done);
	for (;;)
		pause();
	return NULL;
}

static void *outgrow_arena(void *context)
{
	prctl(PR_SET_NAME, "arena");
	make_holes(*(unsigned long *)context, 16, 900, 1);
	sem_post(&done);
	for (;;)
		pause();
	return NULL;
}

TARGET_FRAME static void touch_stack(void)
{
	volatile char bytes[STACK_BYTES];

	for (size_t i = 0; i < sizeof(bytes); i += 4096)
		bytes[i] = 1;
	bytes[sizeof(bytes) - 1] = 1;
}

static void *use_stack(void *context)
{
	prctl(PR_SET_NAME, context);
	touch_stack();
	sem_post(&done);
	for (;;)
		pause();
	return NULL;
}

static void *churn(void *context)
{
	uint64_t seed = (uintptr_t)context;
	char *blocks[1000] = {NULL};

	prctl(PR_SET_NAME, "churn");
	sem_post(&done);
	for (;;) {
		size_t i = target_random(&seed) % 1000;

		free(blocks[i]);
		blocks[i] = malloc(16 + target_random(&seed) % 3000);
		if (!blocks[i])
			target_broken("no memory");
		blocks[i][0] = 1;
	}
	return NULL;
}

static void *grow(void *context)
{
	const size_t most = *(unsigned long *)context * MIB;
	uint64_t seed = 1;

	prctl(PR_SET_NAME, "grow");
	sem_post(&done);
	for (;;) {
		void **last = NULL;

		for (size_t sum = 0; sum < most;) {
			size_t bytes = 16 + target_random(&seed) % 3000;
			void **block = malloc(bytes);

			if (!block)
				target_broken("no memory");
			*block = (void *)last;
			last = block;
			sum += bytes;
		}
		while (last) {
			void **block = last;

			last = *block;
			free((void *)block);
		}
	}
	return NULL;
}

/* `context`: of each thread; NULL: its number. */
static void start_threads(unsigned long count, void *(*call)(void *), void *context)
{
	for (unsigned long i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, call, context ? context : (void *)(i + 1)))
			target_broken("no thread");
		while (sem_wait(&done) < 0)
			;
	}
}

/* Stacks of threads as `attributes` say. */
static void start_thread(const pthread_attr_t *attributes)
{
	static char bare[] = "bare";
	pthread_t thread;

	if (pthread_create(&thread, attributes, use_stack, bare))
		target_broken("no thread");
	while (sem_wait(&done) < 0)
		;
}

static sem_t ending;

static void *end_once(void *context)
{
	(void)context;
	touch_stack();
	sem_post(&done);
	while (sem_wait(&ending) < 0)
		;
	return NULL;
}

/* As many as these have ended again. */
static void start_bare(unsigned long count)
{
	pthread_attr_t attributes;
	pthread_t ended[4];

	if (count > sizeof(ended) / sizeof(*ended) || pthread_attr_init(&attributes) ||
	    pthread_attr_setguardsize(&attributes, 0) || sem_init(&ending, 0, 0))
		target_broken("there are guards");
	for (unsigned long i = 0; i < count; i++) {
		if (pthread_create(&ended[i], &attributes, end_once, NULL))
			target_broken("no thread");
		while (sem_wait(&done) < 0)
			;
	}
	for (unsigned long i = 0; i < count; i++)
		start_thread(&attributes);
	for (unsigned long i = 0; i < count; i++)
		sem_post(&ending);
	for (unsigned long i = 0; i < count; i++)
		pthread_join(ended[i], NULL);
	pthread_attr_destroy(&attributes);
}

static void start_within(unsigned long count)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	while (count--) {
		char *at = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				-1, 0);

		if (at == MAP_FAILED || pthread_attr_setstack(&attributes, at + 4 * MIB, MIB))
			target_broken("no stack");
		memset(at, 1, 4 * MIB);
		memset(at + 5 * MIB, 1, 3 * MIB);
		start_thread(&attributes);
	}
	pthread_attr_destroy(&attributes);
}

static void start_lent(unsigned long count)
{
	pthread_attr_t attributes;

	pthread_attr_init(&attributes);
	while (count--) {
		char *block = malloc(MIB);

		if (!block || pthread_attr_setstack(&attributes, block, MIB - 8192))
			target_broken("no stack");
		memset(block, 1, MIB);
		start_thread(&attributes);
	}
	pthread_attr_destroy(&attributes);
}

static void *volatile table[(size_t)1 << 20]; /* read from outside */

static void fill_table(unsigned long count)
{
	for (unsigned long i = 0; i < count && i < sizeof(table) / sizeof(*table); i++) {
		void *block = malloc(100);

		if (!block)
			target_broken("no memory");
		memset(block, 1, 100);
		table[i] = block;
	}
}

static void take_blocks(unsigned long count, size_t alignment)
{
	for (unsigned long i = 0; i < count; i++) {
		void *block = NULL;

		if (!alignment)
			block = malloc(MIB);
		else if (posix_memalign(&block, alignment, MIB))
			block = NULL;
		if (!block)
			target_broken("no memory");
		memset(block, 1, MIB);
	}
}

/* Of each in turn another part: madvise(2), mlock(2), mprotect(2). */
static void split_blocks(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		char *block = malloc(MIB), *part = block - 16 + MIB / 2;

		if (!block)
			target_broken("no memory");
		memset(block, 1, MIB);
		if ((i % 5 == 0 && madvise(part, MIB / 4, MADV_DONTDUMP)) ||
		    (i % 5 == 1 && mlock(block - 16, 4096)) ||
		    (i % 5 == 2 && mprotect(part, MIB / 4, PROT_READ)) ||
		    (i % 5 == 3 && mprotect(part, MIB / 4, PROT_NONE)) ||
		    (i % 5 == 4 && madvise(block - 16, 8192, MADV_DONTFORK)))
			target_broken("a block cannot be split");
	}
}

/* What is closed of one block is next to what is closed of another. */
static void close_blocks(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		char *block = malloc(MIB), *start = block - 16;

		if (!block)
			target_broken("no memory");
		memset(block, 1, MIB);
		if (mprotect(start, i % 3 == 2 ? MIB + 4096 : 4096, PROT_NONE) ||
		    (i % 3 == 1 && mprotect(start + MIB, 4096, PROT_NONE)))
			target_broken("a block cannot be closed");
	}
}

/* Heads like that of a block of 1 MiB. */
static void forge_blocks(unsigned long count)
{
	const size_t bytes = MIB + 4096;
	char *at = mmap(NULL, count * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED)
		target_broken("mmap failed");
	memset(at, 1, count * bytes);
	for (unsigned long i = 0; i < count; i++) {
		((size_t *)(void *)(at + i * bytes))[0] = 0;
		((size_t *)(void *)(at + i * bytes))[1] = bytes | 2;
	}
}

static void map(int fd, size_t bytes, int protection, int flags)
{
	volatile char *at = mmap(NULL, bytes, protection, flags, fd, 0);

	if (at == MAP_FAILED)
		target_broken("mmap failed");
	for (size_t i = 0; i < bytes; i += 4096)
		if (protection & PROT_WRITE)
			at[i] = 1;
		else
			(void)at[i];
	if (fd >= 0)
		close(fd);
}

/* A file of ordinary pages in this directory, which is removed at once. */
static int make_file(size_t bytes)
{
	static const char zeros[65536];
	int fd = open("explained.file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	for (size_t i = 0; i < bytes; i += sizeof(zeros))
		if (fd < 0 || write(fd, zeros, sizeof(zeros)) != (ssize_t)sizeof(zeros))
			target_broken("no file");
	unlink("explained.file");
	return fd;
}

static int make_shm(size_t bytes)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/limpet-explained-%d", getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		target_broken("no shm");
	shm_unlink(name);
	return fd;
}

static int make_memfd(size_t bytes)
{
	int fd = memfd_create("cache", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		target_broken("no memfd");
	return fd;
}

static void map_privately(size_t bytes)
{
	map(make_memfd(bytes), bytes, PROT_READ, MAP_PRIVATE);
	map(make_memfd(bytes), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static void take_sysv(size_t bytes)
{
	int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
	char *at = id < 0 ? NULL : shmat(id, NULL, 0);

	if (id < 0 || at == (void *)-1)
		target_broken("no shared memory");
	shmctl(id, IPC_RMID, NULL);
	memset(at, 1, bytes);
}

/* Linux 6.2; before, it has no name. */
static void name_shared(size_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		target_broken("mmap failed");
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, "queue");
	memset(at, 1, bytes);
}

static void build_wall(void)
{
	char *end = sbrk(0);
	void *at = (void *)(((uintptr_t)end + 4095) & ~(uintptr_t)4095);

	if (mmap(at, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) !=
	    at)
		target_broken("no wall");
}

static void take_foreign(size_t bytes)
{
	char *at = sbrk((intptr_t)bytes);

	if (at == (void *)-1)
		target_broken("no memory by sbrk");
	memset(at, 1, bytes);
}

/* ------------------------------------------------------------------ what must not be touched */

#define POINTERS 4096u
#define V8_PAGE ((size_t)256 << 10)
static void *volatile pointers[POINTERS];

/* As a userfaultfd of this process that is never answered. */
static void await(void *at, size_t bytes)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {
		.range = {.start = (uintptr_t)at, .len = bytes},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &range) < 0)
		target_broken("no userfaultfd");
}

static void point_at(size_t bytes, bool awaited)
{
	const size_t heads = 64;
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *pages = mmap(NULL, (heads + 1) * V8_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || pages == MAP_FAILED || madvise(at, bytes, MADV_NOHUGEPAGE) < 0)
		target_broken("no memory");
	if (awaited)
		await(at, bytes);
	for (size_t i = 0; i < POINTERS; i++)
		pointers[i] = at + bytes / POINTERS * i / 64 * 64;
	pages += V8_PAGE - (uintptr_t)pages % V8_PAGE;
	for (size_t i = 0; i < heads; i++) {
		memset(pages + i * V8_PAGE, 1, V8_PAGE);
		((uint64_t *)(pages + i * V8_PAGE))[0] = 8;
		((void **)(pages + i * V8_PAGE))[1] = at + bytes / heads * i;
	}
}

#define HEAP_BYTES ((uintptr_t)64 << 20)

/* malloc/arena.c: heap_info's second word is the heap before. */
static void *make_circle(void *context)
{
	const unsigned long count = *(unsigned long *)context;
	volatile uintptr_t *heap;
	void *last = NULL;

	prctl(PR_SET_NAME, "circle");
	for (unsigned long i = 0; i < count; i++) {
		last = malloc(900);
		if (!last)
			target_broken("no memory");
		*(volatile char *)last = 1;
	}
	heap = (volatile uintptr_t *)((uintptr_t)last & ~(HEAP_BYTES - 1));
	heap[1] = (uintptr_t)heap;
	sem_post(&done);
	for (;;)
		pause();
	return NULL;
}

static void pin_byte(void)
{
	static char *byte;

	byte = calloc(1, 1);
	if (!byte || mlock(byte, 1) < 0)
		target_broken("a byte cannot be locked");
}

/* Of the main heap, as many bytes before its end. */
static bool pin_part(size_t bytes)
{
	const uintptr_t start = (uintptr_t)sbrk(0) - 2 * bytes;

	return mlock((void *)(start & ~(uintptr_t)4095), bytes) == 0;
}

/* Of a block at the end of the heap, for which there is no room elsewhere. */
static void break_block(bool discard)
{
	size_t *volatile block = malloc(100 << 10);

	if (!block)
		target_broken("no memory");
	if (!discard)
		block[-1] = (size_t)0x4141414141414141;
	else if (madvise((void *)((uintptr_t)block & ~(uintptr_t)4095), 4096, MADV_DONTNEED) < 0)
		target_broken("a page stays");
}

/* As if the kernel had reclaimed them. */
static int drop_head(struct dl_phdr_info *info, size_t bytes, void *context)
{
	(void)bytes;
	(void)context;
	for (unsigned i = 0; strstr(info->dlpi_name, ".so") && i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];

		/* This is where it stands itself. */
		if (head->p_type == PT_LOAD && !head->p_offset) {
			madvise((void *)(info->dlpi_addr + head->p_vaddr), head->p_memsz,
				MADV_DONTNEED);
			break;
		}
	}
	return 0;
}
#ifndef JEMALLOC
static volatile size_t *top_head;
static size_t top_bytes;

/* The chunk after a block that no free one has room for. */
static void hide_top(void)
{
	char *volatile block = malloc(100 << 10);
	char *top;

	if (!block)
		target_broken("no memory");
	top = block - 16 + (((size_t *)(void *)block)[-1] & ~(size_t)7);
	top_head = (volatile size_t *)(void *)(top + 8);
	top_bytes = *top_head;
	if (top + (top_bytes & ~(size_t)7) != (char *)sbrk(0))
		target_broken("no top");
	*top_head = 0;
}

static void show_top(void)
{
	*top_head = top_bytes;
}
#endif

static void fork_child(void)
{
	int ready[2];
	char byte = 0;
	pid_t child;

	if (pipe(ready) < 0)
		target_broken("no pipe");
	child = fork();
	if (child < 0)
		target_broken("no child");
	/* In the child libc writes to the stack of each thread that it does not have. */
	if (child) {
		if (read(ready[0], &byte, 1) != 1)
			target_broken("the child is gone");
		close(ready[0]);
		close(ready[1]);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (write(ready[1], &byte, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static void *have_number(void *context)
{
	char name[16];

	snprintf(name, sizeof(name), "pool-1-thr-%u", (unsigned)(uintptr_t)context);
	return use_stack(name);
}

#ifndef JEMALLOC
static void take_zeros(size_t bytes)
{
	const size_t part = 16 * MIB;
	char *blocks[64];
	size_t count = 0;

	/* The highest threshold that malloc accepts. */
	mallopt(M_MMAP_THRESHOLD, 32 * (int)MIB);
	while (count < 64 && count * part < bytes) {
		char *block = malloc(part);

		if (!block)
			target_broken("no memory");
		/* Of huge pages there is one of zeros, too. */
		madvise((void *)(((uintptr_t)block + 4095) & ~(uintptr_t)4095), part - 8192,
			MADV_NOHUGEPAGE);
		for (size_t i = 4096; i + 4096 < part; i += 4096)
			(void)((volatile char *)block)[i];
		blocks[count++] = block;
	}
	/* Between these and the top. */
	if (!malloc(MIB))
		target_broken("no memory");
	while (count)
		free(blocks[--count]);
}
#endif

#ifdef JEMALLOC
static size_t statistic(const char *name)
{
	size_t value, bytes = sizeof(value);

	if (mallctl(name, &value, &bytes, NULL, 0))
		target_broken("no %s", name);
	return value;
}

static void say_info(void)
{
	uint64_t epoch = 1;
	size_t bytes = sizeof(epoch);

	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	mallctl("epoch", &epoch, &bytes, &epoch, bytes);
	target_say("info {\"active\":%zu,\"allocated\":%zu}", statistic("stats.active"),
		   statistic("stats.allocated"));
}

static void trim(void)
{
	mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
}
#else
static void say_info(void)
{
	struct mallinfo2 info = mallinfo2();

	target_say("info {\"arena\":%zu,\"uordblks\":%zu,\"fordblks\":%zu,\"keepcost\":%zu,"
		   "\"hblkhd\":%zu}",
		   info.arena, info.uordblks, info.fordblks, info.keepcost, info.hblkhd);
}

static void trim(void)
{
	malloc_trim(0);
}
#endif

/* The program moves its break itself: the main heap is in parts, which begin and end in the middle
 * of pages. */
static void share_break(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		char *block = malloc(100 + i % 900);

		if (!block)
			target_broken("no memory");
		*block = 1;
		if (i % 2000 == 0 && sbrk(4096 + 16) == (void *)-1)
			target_broken("no break");
		if (i % 3)
			free(block);
	}
}

static bool take_memory(const char *line)
{
	const int both = PROT_READ | PROT_WRITE;
	static char deep[] = "deep";
	unsigned long n;

	if (target_word(line, "fragment", &n))
		make_holes(n, 16, 900, 1);
	else if (target_word(line, "small", &n))
		make_holes(n, 24, 97, 1);
	else if (target_word(line, "arenas", &n))
		start_threads(n, fill_arena, NULL);
	else if (target_word(line, "stacks", &n))
		start_threads(n, use_stack, deep);
	else if (target_word(line, "bare", &n))
		start_bare(n);
	else if (target_word(line, "within", &n))
		start_within(n);
	else if (target_word(line, "lent", &n))
		start_lent(n);
	else if (target_word(line, "outgrow", &n))
		start_threads(1, outgrow_arena, &n);
	else if (target_word(line, "churn", &n))
		start_threads(n, churn, NULL);
	else if (target_word(line, "grow", &n))
		start_threads(1, grow, &n);
	else if (target_word(line, "numbered", &n))
		start_threads(n, have_number, NULL);
	else if (target_word(line, "untouched", &n))
		point_at(n * MIB, false);
	else if (target_word(line, "awaited", &n))
		point_at(n * MIB, true);
	else if (target_word(line, "circle", &n))
		start_threads(1, make_circle, &n);
	else if (target_word(line, "fork", &n))
		fork_child();
	else if (target_word(line, "damage", &n) || target_word(line, "discard", &n))
		break_block(line[1] == 'i');
	else if (target_word(line, "pin", &n))
		pin_byte();
	else if (target_word(line, "heads", &n))
		dl_iterate_phdr(drop_head, NULL);
	else if (target_word(line, "blocks", &n))
		take_blocks(n, 0);
	else if (target_word(line, "split", &n))
		split_blocks(n);
	else if (target_word(line, "closed", &n))
		close_blocks(n);
	else if (target_word(line, "shared-break", &n))
		share_break(n);
	else if (target_word(line, "forged", &n))
		forge_blocks(n);
	else if (target_word(line, "table", &n))
		fill_table(n);
	else if (target_word(line, "aligned", &n))
		take_blocks(n, 2 * MIB);
	else if (target_word(line, "memfd", &n))
		map(make_memfd(n * MIB), n * MIB, both, MAP_SHARED);
	else if (target_word(line, "private", &n))
		map_privately(n * MIB);
	else if (target_word(line, "shm", &n))
		map(make_shm(n * MIB), n * MIB, both, MAP_SHARED);
	else if (target_word(line, "sysv", &n))
		take_sysv(n * MIB);
	else if (target_word(line, "clean", &n))
		map(make_file(n * MIB), n * MIB, PROT_READ, MAP_PRIVATE);
	else if (target_word(line, "dirty", &n))
		map(make_file(n * MIB), n * MIB, both, MAP_PRIVATE);
	else if (target_word(line, "anonymous", &n))
		map(-1, n * MIB, both, MAP_PRIVATE | MAP_ANONYMOUS);
	else if (target_word(line, "devzero", &n))
		map(open("/dev/zero", O_RDWR | O_CLOEXEC), n * MIB, both, MAP_PRIVATE);
	else if (target_word(line, "named", &n))
		name_shared(n * MIB);
	else if (target_word(line, "wall", &n))
		build_wall();
	else if (target_word(line, "foreign", &n))
		take_foreign(n << 10);
	else
		return false;
	return true;
}

int main(void)
{
	char line[64];
	unsigned long n;

	if (sem_init(&done, 0, 0) < 0)
		target_broken("no semaphore");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (take_memory(line)) {
			target_say("taken");
		} else if (target_word(line, "trim", &n)) {
			trim();
			target_say("trimmed");
		} else if (target_word(line, "lock", &n)) {
			target_say("locked %d", mlockall(MCL_CURRENT) == 0);
		} else if (target_word(line, "partly", &n)) {
			target_say("locked %d", pin_part(n * MIB));
#ifndef JEMALLOC
		} else if (target_word(line, "zeros", &n)) {
			take_zeros(n * MIB);
			target_say("taken");
		} else if (target_word(line, "hide", &n)) {
			hide_top();
			target_say("hidden");
		} else if (target_word(line, "show", &n)) {
			show_top();
			target_say("shown");
#endif
		} else if (target_word(line, "info", &n)) {
			say_info();
		} else {
			break;
		}
	}
	return 0;
}
