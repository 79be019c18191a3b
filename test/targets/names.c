/* names: a program that calls its allocator by each of its names, and counts itself what it asked
 * for. Built for glibc, for each allocator's library, and for one of its own (names_alias.c).
 *
 * "ready PID"; "run" calls each function: "counted ALLOCATIONS FREES BYTES". "destroy", "destroy by
 * number", "purge", "other": what frees blocks at once, what does not, and what is not followed, if
 * there is such a function. "open PATH": a module (names_late.c) makes 100 calls of each. "quit".
 */
#include <dlfcn.h>
#include <malloc.h>

#include "test/targets/target.h"

static unsigned long allocations, frees, bytes_asked;

static void *made(void *block, size_t bytes)
{
	if (!block)
		target_broken("no memory");
	allocations++;
	bytes_asked += bytes;
	return block;
}

/* The block before it is gone. */
static void *moved(void *block, size_t bytes)
{
	frees++;
	return made(block, bytes);
}

static bool destroy(void);
static bool destroy_by_number(void);
static bool purge(void);
static bool other(void);

/* clang-format off */
#if defined(NAMES_MIMALLOC)
#include <mimalloc.h>

#define ALLOCATE() mi_malloc(24)
#define RELEASE(block) mi_free(block)
#define EACH_MADE(X) \
	X(24, mi_malloc(24)) \
	X(24, mi_zalloc(24)) \
	X(24, mi_malloc_small(24)) \
	X(24, mi_zalloc_small(24)) \
	X(24, mi_calloc(3, 8)) \
	X(24, mi_mallocn(3, 8)) \
	X(6, mi_strdup("five5")) \
	X(4, mi_strndup("five5", 3)) \
	X(2, mi_realpath("/", NULL)) \
	X(6, mi_mbsdup((const unsigned char *)"five5")) \
	X(24, mi_malloc_aligned(24, 64)) \
	X(24, mi_malloc_aligned_at(24, 64, 8)) \
	X(24, mi_zalloc_aligned(24, 64)) \
	X(24, mi_zalloc_aligned_at(24, 64, 8)) \
	X(24, mi_calloc_aligned(3, 8, 64)) \
	X(24, mi_calloc_aligned_at(3, 8, 64, 8)) \
	X(24, mi_memalign(64, 24)) \
	X(24, mi_valloc(24)) \
	X(24, mi_pvalloc(24)) \
	X(64, mi_aligned_alloc(64, 64)) \
	X(24, mi_new(24)) \
	X(24, mi_new_aligned(24, 64)) \
	X(24, mi_new_nothrow(24)) \
	X(24, mi_new_aligned_nothrow(24, 64)) \
	X(24, mi_new_n(3, 8)) \
	X(24, mi_heap_malloc(heap, 24)) \
	X(24, mi_heap_zalloc(heap, 24)) \
	X(24, mi_heap_calloc(heap, 3, 8)) \
	X(24, mi_heap_mallocn(heap, 3, 8)) \
	X(24, mi_heap_malloc_small(heap, 24)) \
	X(6, mi_heap_strdup(heap, "five5")) \
	X(4, mi_heap_strndup(heap, "five5", 3)) \
	X(2, mi_heap_realpath(heap, "/", NULL)) \
	X(24, mi_heap_malloc_aligned(heap, 24, 64)) \
	X(24, mi_heap_malloc_aligned_at(heap, 24, 64, 8)) \
	X(24, mi_heap_zalloc_aligned(heap, 24, 64)) \
	X(24, mi_heap_zalloc_aligned_at(heap, 24, 64, 8)) \
	X(24, mi_heap_calloc_aligned(heap, 3, 8, 64)) \
	X(24, mi_heap_calloc_aligned_at(heap, 3, 8, 64, 8)) \
	X(24, mi_heap_alloc_new(heap, 24)) \
	X(24, mi_heap_alloc_new_n(heap, 3, 8))
#define EACH_MOVED(X) \
	X(800, mi_realloc(block, 800)) \
	X(800, mi_reallocf(block, 800)) \
	X(800, mi_reallocn(block, 100, 8)) \
	X(800, mi_rezalloc(block, 800)) \
	X(800, mi_recalloc(block, 100, 8)) \
	X(800, mi_realloc_aligned(block, 800, 64)) \
	X(800, mi_realloc_aligned_at(block, 800, 64, 8)) \
	X(800, mi_rezalloc_aligned(block, 800, 64)) \
	X(800, mi_rezalloc_aligned_at(block, 800, 64, 8)) \
	X(800, mi_recalloc_aligned(block, 100, 8, 64)) \
	X(800, mi_recalloc_aligned_at(block, 100, 8, 64, 8)) \
	X(800, mi_heap_realloc(heap, block, 800)) \
	X(800, mi_heap_reallocf(heap, block, 800)) \
	X(800, mi_heap_reallocn(heap, block, 100, 8)) \
	X(800, mi_heap_rezalloc(heap, block, 800)) \
	X(800, mi_heap_recalloc(heap, block, 100, 8)) \
	X(800, mi_heap_realloc_aligned(heap, block, 800, 64)) \
	X(800, mi_heap_realloc_aligned_at(heap, block, 800, 64, 8)) \
	X(800, mi_heap_rezalloc_aligned(heap, block, 800, 64)) \
	X(800, mi_heap_rezalloc_aligned_at(heap, block, 800, 64, 8)) \
	X(800, mi_heap_recalloc_aligned(heap, block, 100, 8, 64)) \
	X(800, mi_heap_recalloc_aligned_at(heap, block, 100, 8, 64, 8)) \
	X(800, mi_reallocarray(block, 100, 8)) \
	X(800, mi_new_realloc(block, 800)) \
	X(800, mi_new_reallocn(block, 100, 8)) \
	X(800, mi_aligned_recalloc(block, 100, 8, 64)) \
	X(800, mi_aligned_offset_recalloc(block, 100, 8, 64, 8)) \
	X(20, mi_expand(block, 20)) \
	X(20, mi__expand(block, 20))
#define EACH_FREED(X) \
	X(mi_free(block)) X(mi_cfree(block)) X(mi_free_size(block, 24)) \
	X(mi_free_size_aligned(block, 24, 8)) X(mi_free_aligned(block, 8))
#define OWN_ONES()                                             \
	{                                                      \
		if (mi_posix_memalign(&block, 64, 24))         \
			target_broken("no memory");            \
		RELEASE(made(block, 24));                      \
		frees++;                                       \
	}
static mi_heap_t *heap;
#define BEGIN() (heap = mi_heap_get_default())

static bool destroy(void)
{
	mi_heap_t *own = mi_heap_new();

	for (int i = 0; i < 10; i++)
		made(mi_heap_malloc(own, 100), 100);
	mi_heap_destroy(own);
	return true;
}
static bool destroy_by_number(void) { return false; }
static bool purge(void)
{
	mi_heap_t *own = mi_heap_new();

	mi_heap_collect(own, true);
	mi_heap_delete(own);
	return true;
}
static bool other(void)
{
	static const unsigned short text[] = {'a', 0};

	mi_free(mi_wcsdup(text));
	return true;
}

#elif defined(NAMES_JEMALLOC)
#include <jemalloc/jemalloc.h>

#define ALLOCATE() mallocx(24, 0)
#define RELEASE(block) dallocx(block, 0)
#define EACH_MADE(X) X(24, mallocx(24, 0)) X(24, mallocx(24, MALLOCX_ALIGN(64))) X(24, malloc(24)) X(24, memalign(64, 24)) X(24, valloc(24))
/* In place: 24 bytes lie in a block of 32. */
#define EACH_MOVED(X) X(800, rallocx(block, 800, 0)) X(800, realloc(block, 800)) X(30, in_place(block, 30)) X(20, in_place(block, 20))
#define EACH_FREED(X) X(free(block)) X(dallocx(block, 0)) X(sdallocx(block, 24, 0))
#define OWN_ONES()                                                              \
	{                                                                       \
		block = made(mallocx(24, 0), 24);                               \
		if (xallocx(block, 800, 0, 0) >= 800)                           \
			target_broken("it grew in place");                      \
		RELEASE(block);                                                 \
		frees++;                                                        \
	}
#define BEGIN() (void)0

static void *in_place(void *block, size_t bytes)
{
	return xallocx(block, bytes, 0, 0) >= bytes ? block : NULL;
}

static unsigned fill(void)
{
	unsigned arena;
	size_t length = sizeof(arena);

	if (mallctl("arenas.create", &arena, &length, NULL, 0))
		target_broken("no arena");
	for (int i = 0; i < 10; i++)
		made(mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE), 100);
	return arena;
}
static bool destroy(void)
{
	char name[64];

	snprintf(name, sizeof(name), "arena.%u.reset", fill());
	return mallctl(name, NULL, NULL, NULL, 0) == 0;
}
static int by_number(const char *name)
{
	size_t mib[3], length = 3;

	if (mallctlnametomib(name, mib, &length))
		target_broken("no %s", name);
	mib[1] = fill();
	return mallctlbymib(mib, length, NULL, NULL, NULL, 0);
}
static bool destroy_by_number(void) { return by_number("arena.0.destroy") == 0; }
static bool purge(void)
{
	size_t epoch = 1;

	return by_number("arena.0.purge") == 0 && by_number("arena.0.decay") == 0 &&
	       mallctl("arena.0.purge", NULL, NULL, NULL, 0) == 0 &&
	       mallctl("thread.tcache.flush", NULL, NULL, NULL, 0) == 0 &&
	       mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch)) == 0;
}
static bool other(void)
{
	struct {
		void **blocks;
		size_t count, size;
		int flags;
	} batch;
	size_t filled, length = sizeof(filled);
	void *blocks[4];

	batch.blocks = blocks;
	batch.count = 4;
	batch.size = 100;
	batch.flags = 0;
	if (mallctl("experimental.batch_alloc", &filled, &length, &batch, sizeof(batch)))
		return false;
	while (filled)
		free(blocks[--filled]);
	return true;
}

#elif defined(NAMES_TCMALLOC)
#include <gperftools/tcmalloc.h>

#define ALLOCATE() tc_malloc(24)
#define RELEASE(block) tc_free(block)
#define EACH_MADE(X) \
	X(24, tc_malloc(24)) X(24, tc_malloc_skip_new_handler(24)) X(24, tc_calloc(3, 8)) \
	X(24, tc_memalign(64, 24)) X(24, tc_valloc(24)) X(24, tc_pvalloc(24))
#define EACH_MOVED(X) X(800, tc_realloc(block, 800))
#define EACH_FREED(X) X(tc_free(block)) X(tc_cfree(block)) X(tc_free_sized(block, 24))
#define OWN_ONES()
#define BEGIN() (void)0
static bool destroy(void) { return false; }
static bool destroy_by_number(void) { return false; }
static bool purge(void) { return false; }
static bool other(void) { return false; }

#elif defined(NAMES_ALIAS)
/* Of names_alias.c, whose malloc has these names, too. */
void *alias_malloc(size_t bytes);
void *alias_calloc(size_t count, size_t bytes);
void *alias_realloc(void *block, size_t bytes);
void alias_free(void *block);
int mallctl(int number);

#define ALLOCATE() alias_malloc(24)
#define RELEASE(block) alias_free(block)
#define EACH_MADE(X) X(24, alias_malloc(24)) X(24, alias_calloc(3, 8))
#define EACH_MOVED(X) X(800, alias_realloc(block, 800))
#define EACH_FREED(X) X(alias_free(block)) X(free(block))
#define OWN_ONES()                                      \
	if (mallctl(7) != 8)                            \
		target_broken("an argument was lost");
#define BEGIN() (void)0
static bool destroy(void) { return false; }
static bool destroy_by_number(void) { return false; }
static bool purge(void) { return false; }
static bool other(void) { return false; }

#else
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *__libc_valloc(size_t bytes);
void *__libc_pvalloc(size_t bytes);
void __libc_free(void *block);

#define ALLOCATE() __libc_malloc(24)
#define RELEASE(block) __libc_free(block)
#define EACH_MADE(X) \
	X(24, __libc_malloc(24)) X(24, __libc_calloc(3, 8)) X(24, __libc_memalign(64, 24)) \
	X(24, __libc_valloc(24)) X(24, __libc_pvalloc(24)) X(24, __libc_realloc(NULL, 24))
#define EACH_MOVED(X) X(800, __libc_realloc(block, 800)) X(800, realloc(block, 800))
#define EACH_FREED(X) X(__libc_free(block)) X(free(block))
#define OWN_ONES()
#define BEGIN() (void)0
static bool destroy(void) { return false; }
static bool destroy_by_number(void) { return false; }
static bool purge(void) { return false; }
static bool other(void) { return false; }
#endif

#define RUN_MADE(bytes, call)           \
	RELEASE(made(call, bytes));     \
	frees++;
#define RUN_MOVED(bytes, call)             \
	block = made(ALLOCATE(), 24);      \
	RELEASE(moved(call, bytes));       \
	frees++;
#define RUN_FREED(call)                \
	block = made(ALLOCATE(), 24);  \
	call;                          \
	frees++;
/* clang-format on */

TARGET_FRAME static void run(void)
{
	void *block;

	BEGIN();
	EACH_MADE(RUN_MADE)
	EACH_MOVED(RUN_MOVED)
	EACH_FREED(RUN_FREED)
	OWN_ONES()
}

static bool open_module(const char *path)
{
	void *module = dlopen(path, RTLD_NOW);
	void (*late)(unsigned long) =
		module ? (void (*)(unsigned long))dlsym(module, "names_late") : NULL;

	if (late)
		late(100);
	return late;
}

int main(void)
{
	char line[1024];

	/* What is made at the first call, by functions that are hooked, too. */
	run();
	allocations = frees = bytes_asked = 0;
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		bool done = true;

		if (!strcmp(line, "quit"))
			return 0;
		if (!strcmp(line, "run"))
			run();
		else if (!strcmp(line, "destroy"))
			done = destroy();
		else if (!strcmp(line, "destroy by number"))
			done = destroy_by_number();
		else if (!strcmp(line, "purge"))
			done = purge();
		else if (!strcmp(line, "other"))
			done = other();
		else
			done = !strncmp(line, "open ", 5) && open_module(line + 5);
		if (!done)
			target_broken("'%s' cannot be done", line);
		target_say("counted %lu %lu %lu", allocations, frees, bytes_asked);
	}
	return 0;
}
