/* Copies of hook addresses in a child's memory, most of which was never touched: found by both ways
 * of telling which pages there are, and put back; and how a search ends that is not to go on. The
 * clock is the test's own.
 *
 * time-limit: 120 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/wire.h"
#include "injector/elf/inline_hook_layout.h"
#include "injector/hook/hook_pointers.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/ptrace/tracer.h"
#include "test/unit/clock_fixture.h"
#include "test/unit/target_of.h"

#define PAGE 4096u
/* Of words that are mangled. */
#define GUARD UINT64_C(0x8d1f35a2c9e6b074)
#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)
#define MS 1000000ull
/* How often a search looks around: fifty times a second. */
#define LOOK_MS 20u
/* Looks of a search through memory that is empty: by far not one for each piece of it. */
#define FEW_LOOKS 131072u
/* By so much each look moves the clock: few look on while they spin for a stop. */
#define LOOK_NS 1000u
/* As many pages apart as the ways look at in more than one go. */
#define SCATTERED 3000u
#define MANY 10240u /* whole pages of words */

/* A sanitizer's own shadow memory takes seconds to read page by page. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WAYS 1
#else
#define WAYS 2
#endif
static const enum limpet_pages_way ways[] = {LIMPET_PAGES_SCAN, LIMPET_PAGES_READ};

/* Nobody calls them: places in the air, and what the agent would say of them. */
static const struct limpet_agent_place place = {
	.start = 0x7a5b1c200000,
	.end = 0x7a5b1c300000,
	.thunks = 0x7a5b1c20fe00,
	.thunks_end = 0x7a5b1c20fe00 + LIMPET_MAX_HOOKS * 32,
};
static struct limpet_hook hooks[LIMPET_MAX_HOOKS];

/* A test's own: what one looked for may stand in dead words of the next one's child. */
static void have_hooks(unsigned first)
{
	memset(hooks, 0, sizeof(hooks));
	for (unsigned i = 0; i < 8; i++)
		hooks[first + i].original = 0x4000 + i;
}

static uint64_t thunk(unsigned hook)
{
	return place.thunks + hook * 32;
}

/* A mapping of its own: the kernel makes one of neighbours that are alike. */
static char *map(uint64_t bytes)
{
	char *memory = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(memory != MAP_FAILED);
	assert_int_equal(mprotect(memory + bytes, PAGE, PROT_NONE), 0);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	return memory;
}

static void unmap(char *memory, uint64_t bytes)
{
	munmap(memory, bytes + PAGE);
}

/* With the memory that is mapped now, as it is now. It has come to rest: on its way there it pushes
 * registers that hold thunks. */
static pid_t start_child(void)
{
	pid_t parent = getpid(), pid = fork();
	struct limpet_proc_syscall call = {.running = true};

	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	while (call.running || call.number != SYS_pause)
		assert_int_equal(limpet_proc_syscall_read(pid, pid, &call), 0);
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void put_word(char *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

static uint64_t word_of(pid_t pid, const char *at)
{
	uint64_t value = 0;

	assert_int_equal(limpet_memory_read(pid, (uintptr_t)at, &value, sizeof(value)), 0);
	return value;
}

static unsigned idle_calls, checks_left;

static void count_idle(void *context)
{
	*(unsigned *)context += 1;
}

static int count_checks(const void *context)
{
	(void)context;
	return checks_left && !--checks_left ? -ESRCH : 0;
}

static struct limpet_tracer *tracer;

static int restore(pid_t pid, enum limpet_pages_way way, uint64_t deadline_ns,
		   struct limpet_hook_pointers_stats *stats)
{
	const struct limpet_hook_pointers_options options = {.way = way,
							     .wait.tracer = tracer,
							     .guard = GUARD,
							     .wait.deadline_ns = deadline_ns,
							     .wait.idle = count_idle,
							     .wait.idle_context = &idle_calls,
							     .wait.check = count_checks};

	return limpet_hook_pointers_restore(target_of(pid), &place, (uintptr_t)hooks, &options,
					    stats);
}

static void test_hook_pointers_in_sparse_memory(void **state)
{
	const uint64_t sparse_bytes = 64 * GIB, empty_bytes = 8192 * GIB;
	char *empty = map(empty_bytes), *sparse = map(sparse_bytes);
	char *const places[] = {sparse, sparse + 20 * GIB + 8 * PAGE + 64,
				sparse + sparse_bytes - sizeof(uint64_t)};

	pid_t pids[WAYS];

	(void)state;
	have_hooks(0);
	for (unsigned i = 0; i < LIMPET_COUNT_OF(places); i++)
		put_word(places[i], thunk(i));
	/* No hook's, or not one's beginning. */
	put_word(sparse + GIB, thunk(9));
	put_word(sparse + GIB + 8, thunk(1) + 8);
	for (unsigned i = 0; i < WAYS; i++)
		pids[i] = start_child();
	for (unsigned i = 0; i < WAYS; i++) {
		struct limpet_hook_pointers_stats stats;
		uint64_t began_ns = clock_fixture_ns();
		pid_t pid = pids[i];

		clock_fixture_step(LOOK_NS);
		assert_int_equal(restore(pid, ways[i], CLOCK_FIXTURE_NEVER, &stats), 0);
		clock_fixture_step(0);
		/* Of all that is mapped, no more than was ever written to. */
		if (WAYS > 1) {
			assert_true(clock_fixture_ns() - began_ns < FEW_LOOKS * LOOK_NS);
			assert_true(stats.scanned_bytes < GIB);
		}
		assert_int_equal(stats.found, 3);
		assert_int_equal(stats.restored, 3);
		for (unsigned k = 0; k < LIMPET_COUNT_OF(places); k++)
			assert_int_equal(word_of(pid, places[k]), hooks[k].original);
		assert_int_equal(word_of(pid, sparse + GIB), thunk(9));
		assert_int_equal(word_of(pid, sparse + GIB + 8), thunk(1) + 8);
		end_child(pid);
	}
	unmap(sparse, sparse_bytes);
	unmap(empty, empty_bytes);
}

/* Where nothing is put back: at any byte, across the pieces in which memory is read, in pages that
 * were closed since, in code, mangled, with a tag; and in memory that two mappings show. */
static void test_hook_pointers_at_any_byte(void **state)
{
	const uint64_t bytes = 4 << 20;
	char *open = map(bytes), *closed = map(bytes), *none = map(bytes), *code = map(bytes);
	char *const odd[] = {open + 3,
			     open + (1 << 20) - 3,
			     open + (2 << 20) - 2,
			     open + 4096 - 7,
			     open + 8192 - 6,
			     open + 12287 - 4,
			     closed + 64,
			     none + bytes - 8,
			     code + 2,
			     code + bytes - 64,
			     open + 65,
			     open + 127};
	char *const mangled = open + 64 * 3 + 8;
	const uint64_t marks = UINT64_C(0xfff9) << 48;
	int file = memfd_create("test-copies", MFD_CLOEXEC);
	char *writable, *readable;
	struct limpet_hook_pointers_stats stats;
	pid_t pid;

	(void)state;
	have_hooks(16);
	assert_true(file >= 0 && ftruncate(file, PAGE) == 0);
	writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	readable = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	assert_true(writable != MAP_FAILED && readable != MAP_FAILED);
	memset(open, 1, bytes);
	for (unsigned i = 0; i < LIMPET_COUNT_OF(odd); i++)
		put_word(odd[i], thunk(16 + i % 8));
	put_word(open + 16384, thunk(17) | marks);
	put_word(mangled, (thunk(18) ^ GUARD) << 17 | (thunk(18) ^ GUARD) >> 47);
	/* Put back through the one, gone from the other. */
	put_word(writable + 8, thunk(19));
	assert_int_equal(mprotect(closed, bytes, PROT_READ), 0);
	assert_int_equal(mprotect(none, bytes, PROT_NONE), 0);
	assert_int_equal(mprotect(code, bytes, PROT_READ | PROT_EXEC), 0);
	pid = start_child();
	/* Read once, its pages are the child's, too. */
	assert_int_equal(word_of(pid, writable + 8), thunk(19));
	assert_int_equal(word_of(pid, readable + 8), thunk(19));
	assert_int_equal(restore(pid, LIMPET_PAGES_SCAN, CLOCK_FIXTURE_NEVER, &stats), 0);
	/* Dead words of the child's stack may be others. */
	assert_true(stats.found >= 1);
	assert_int_equal(stats.restored, stats.found);
	assert_int_equal(stats.elsewhere, LIMPET_COUNT_OF(odd) + 1);
	assert_int_equal(word_of(pid, open + 16384), hooks[17].original | marks);
	for (unsigned i = 0; i < LIMPET_COUNT_OF(odd); i++)
		if (odd[i] < none || odd[i] >= none + bytes)
			assert_int_equal(word_of(pid, odd[i]), thunk(16 + i % 8));
	assert_int_equal(word_of(pid, writable + 8), hooks[19].original);
	end_child(pid);
	munmap(writable, PAGE);
	munmap(readable, PAGE);
	close(file);
	unmap(open, bytes);
	unmap(closed, bytes);
	unmap(none, bytes);
	unmap(code, bytes);
}

/* Of code that was copied while these were in it: at the same place in a page, across pages and
 * pieces of the search; and not anywhere else. */
static void test_copies_of_jumps(void **state)
{
	const uint64_t bytes = 2 * MIB;
	const uint64_t froms[] = {0x401100, 0x403ffd};
	char *memory = map(bytes);
	int file = memfd_create(LIMPET_MEMFD_AGENT, MFD_CLOEXEC);
	struct limpet_inline_hook_head head = {.magic = LIMPET_INLINE_HOOK_MAGIC, .count = 2};
	struct limpet_inline_hook_entry entries[2] = {0};
	struct limpet_hook_pointers_stats stats;
	pid_t pid;
	char *area;

	(void)state;
	have_hooks(0);
	assert_true(file >= 0 && ftruncate(file, PAGE) == 0);
	area = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	assert_true(area != MAP_FAILED);
	for (unsigned i = 0; i < LIMPET_COUNT_OF(froms); i++) {
		memcpy(entries[i].jump, (uint8_t[]){0xe9, (uint8_t)(i + 1), 0x7e, 0x5a, 0x3c},
		       sizeof(entries[i].jump));
		entries[i].from = froms[i];
	}
	memcpy(area, &head, sizeof(head));
	memcpy(area + sizeof(head), entries, sizeof(entries));
	memcpy(memory + 0x100, entries[0].jump, sizeof(entries[0].jump));
	memcpy(memory + 5 * PAGE - 3, entries[1].jump, sizeof(entries[1].jump));
	memcpy(memory + MIB - 3, entries[1].jump, sizeof(entries[1].jump));
	memcpy(memory + 9 * PAGE + 0x101, entries[0].jump, sizeof(entries[0].jump));
	memcpy(memory + 9 * PAGE + 0x200, entries[1].jump, sizeof(entries[1].jump));
	pid = start_child();
	assert_int_equal(restore(pid, LIMPET_PAGES_SCAN, CLOCK_FIXTURE_NEVER, &stats), 0);
	assert_int_equal(stats.jumps, 3);
	end_child(pid);
	munmap(area, PAGE);
	close(file);
	unmap(memory, bytes);
}

/* Across the parts in which each way looks at a large mapping. The children are made before a
 * search has copies in memory of its own. */
static void test_hook_pointers_across_parts(void **state)
{
	const uint64_t bytes = 2 * GIB + PAGE;
	char *memory = map(bytes);
	char *const odd[] = {memory + 64 * MIB - 3, memory + GIB - 1, memory + GIB + 64 * MIB - 5,
			     memory + 2 * GIB - 2};
	pid_t pids[WAYS];

	(void)state;
	have_hooks(24);
	for (unsigned i = 0; i < LIMPET_COUNT_OF(odd); i++)
		put_word(odd[i], thunk(24 + i));
	/* In one part there are no more pages than this. */
	memset(memory + GIB + PAGE, 1, 64 * MIB - PAGE - 5);
	for (unsigned i = 0; i < WAYS; i++)
		pids[i] = start_child();
	for (unsigned i = 0; i < WAYS; i++) {
		struct limpet_hook_pointers_stats stats;

		assert_int_equal(restore(pids[i], ways[i], CLOCK_FIXTURE_NEVER, &stats), 0);
		assert_int_equal(stats.elsewhere, LIMPET_COUNT_OF(odd));
		end_child(pids[i]);
	}
	unmap(memory, bytes);
}

/* As many as a program stores that keeps one in each of its objects: more than one stop's. */
static void test_many_hook_pointers(void **state)
{
	char *memory = map(MANY * sizeof(uint64_t));
	struct limpet_hook_pointers_stats stats;
	pid_t pid;

	(void)state;
	have_hooks(24);
	for (unsigned i = 0; i < MANY; i++)
		put_word(memory + i * sizeof(uint64_t), thunk(24 + i % 8));
	pid = start_child();
	assert_int_equal(restore(pid, LIMPET_PAGES_SCAN, CLOCK_FIXTURE_NEVER, &stats), 0);
	/* Dead words of the child's stack may be others. */
	assert_true(stats.found >= MANY);
	assert_int_equal(stats.restored, stats.found);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(word_of(pid, memory + i * sizeof(uint64_t)),
				 hooks[24 + i % 8].original);
	end_child(pid);
	unmap(memory, MANY * sizeof(uint64_t));
}

/* Of instructions, in code that reaches so far. */
static void test_distances_in_code(void **state)
{
	static const struct {
		const char *before;
		unsigned bytes;
		bool taken;
	} forms[] = {
		{"\xe8", 1, true},         {"\xe9", 1, true},          {"\x0f\x84", 2, true},
		{"\x48\x8d\x05", 3, true}, {"\x48\x8b\x05", 3, false},
	};
	char *code = mmap((void *)(uintptr_t)(place.start - GIB), 2 * PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	char *at = code + PAGE - 24;
	unsigned expected = 0;
	struct limpet_hook_pointers_stats stats;
	pid_t pid;

	(void)state;
	have_hooks(32);
	assert_true(code != MAP_FAILED);
	for (unsigned i = 0; i < LIMPET_COUNT_OF(forms); i++) {
		int32_t distance;

		memcpy(at, forms[i].before, forms[i].bytes);
		at += forms[i].bytes + sizeof(distance);
		distance = (int32_t)(int64_t)(thunk(32 + i) - (uintptr_t)at);
		memcpy(at - sizeof(distance), &distance, sizeof(distance));
		expected += forms[i].taken;
	}
	assert_int_equal(mprotect(code, 2 * PAGE, PROT_READ | PROT_EXEC), 0);
	pid = start_child();
	assert_int_equal(restore(pid, LIMPET_PAGES_SCAN, CLOCK_FIXTURE_NEVER, &stats), 0);
	assert_int_equal(stats.found, 0);
	assert_int_equal(stats.elsewhere, expected);
	end_child(pid);
	munmap(code, 2 * PAGE);
}

/* Of a file that is mapped privately, only pages that were written to are read. */
static void test_pages_of_files(void **state)
{
	const uint64_t bytes = 16 * PAGE;
	char name[] = "/tmp/test_hook_pointers.XXXXXX";
	int file = mkstemp(name);
	char *memory;

	(void)state;
	assert_true(file >= 0 && unlink(name) == 0 && ftruncate(file, (off_t)bytes) == 0);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	assert_true(memory != MAP_FAILED);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(*(volatile char *)(memory + i * PAGE), 0);
	memory[5 * PAGE] = 1;
	memory[12 * PAGE] = 1;
	for (unsigned i = 0; i < LIMPET_COUNT_OF(ways); i++) {
		struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
		uint64_t start = (uintptr_t)memory, at = start, named = 0;
		struct limpet_pages *pages = NULL;

		assert_int_equal(limpet_pages_new(target_of(getpid()), ways[i], &pages), 0);
		while (at < start + bytes) {
			int count = limpet_pages_next(pages, at, start + bytes, true, ranges, &at);

			assert_true(count >= 0);
			for (int k = 0; k < count; k++)
				for (uint64_t page = ranges[k].start; page < ranges[k].end;
				     page += PAGE)
					named |= 1u << ((page - start) / PAGE);
		}
		assert_int_equal(named, 1u << 5 | 1u << 12);
		limpet_pages_free(pages);
	}
	munmap(memory, bytes);
	close(file);
}

/* What the linker has bound and closed is put back where it is known to be a module's; and in files
 * alone where that is asked for. */
static void test_what_a_linker_has_closed(void **state)
{
	int file = memfd_create("test-copies", MFD_CLOEXEC);
	struct limpet_module module = {.relro_end = 0};
	const struct limpet_modules modules = {.list = &module, .count = 1};
	struct limpet_hook_pointers_options options = {
		.guard = GUARD, .wait.tracer = tracer, .wait.deadline_ns = CLOCK_FIXTURE_NEVER};
	struct limpet_hook_pointers_stats stats;
	char *closed, *open = map(PAGE);
	struct stat status = {0};
	pid_t pid;

	(void)state;
	have_hooks(40);
	assert_true(file >= 0 && !ftruncate(file, 2 * PAGE) && !fstat(file, &status));
	closed = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	assert_true(closed != MAP_FAILED);
	put_word(closed + 64, thunk(41));
	put_word(closed + PAGE + 64, thunk(42)); /* not of what the linker has closed */
	put_word(open + 64, thunk(43));
	assert_int_equal(mprotect(closed, 2 * PAGE, PROT_READ), 0);
	pid = start_child();
	module.start = module.relro_start = (uintptr_t)closed;
	module.end = module.start + 2 * PAGE;
	module.relro_end = module.start + PAGE;
	module.inode = status.st_ino;
	module.dev_major = major(status.st_dev);
	module.dev_minor = minor(status.st_dev);
	options.files_only = true;
	assert_int_equal(limpet_hook_pointers_restore(target_of(pid), &place, (uintptr_t)hooks,
						      &options, &stats),
			 0);
	assert_int_equal(stats.restored, 0);
	assert_int_equal(stats.elsewhere, 2);
	options.modules = &modules;
	assert_int_equal(limpet_hook_pointers_restore(target_of(pid), &place, (uintptr_t)hooks,
						      &options, &stats),
			 0);
	assert_int_equal(stats.restored, 1);
	assert_int_equal(stats.elsewhere, 1);
	assert_int_equal(word_of(pid, closed + 64), hooks[41].original);
	assert_int_equal(word_of(pid, open + 64), thunk(43));
	options.files_only = false;
	assert_int_equal(limpet_hook_pointers_restore(target_of(pid), &place, (uintptr_t)hooks,
						      &options, &stats),
			 0);
	assert_int_equal(word_of(pid, open + 64), hooks[43].original);
	end_child(pid);
	munmap(closed, 2 * PAGE);
	unmap(open, PAGE);
	close(file);
}

/* Every page that was written to, and of those that were not none. */
static void test_pages_are_named(void **state)
{
	const uint64_t bytes = 4 * GIB, step = bytes / SCATTERED / PAGE * PAGE;
	char *memory = map(bytes);
	/* Of each page: to look at the page itself would make it one that is there. */
	uint8_t *written = calloc(bytes / PAGE, 1);
	uint64_t start = (uintptr_t)memory, written_count = 0;

	(void)state;
	assert_non_null(written);
	for (unsigned i = 0; i < SCATTERED; i++)
		memory[i * step] = written[i * step / PAGE] = 1;
	/* Neighbours, more than are named in one go. */
	memset(memory + bytes / 2 + PAGE, 1, 20000 * (size_t)PAGE);
	memset(written + bytes / 2 / PAGE + 1, 1, 20000);
	for (uint64_t k = 0; k < bytes / PAGE; k++)
		written_count += written[k];
	for (unsigned i = 0; i < LIMPET_COUNT_OF(ways); i++) {
		struct limpet_page_range ranges[LIMPET_PAGES_RANGES];
		struct limpet_pages *pages = NULL;
		uint64_t named = 0, last = start, at = start;
		uint8_t *seen = calloc(bytes / PAGE, 1);

		assert_non_null(seen);
		assert_int_equal(limpet_pages_new(target_of(getpid()), ways[i], &pages), 0);
		while (at < start + bytes) {
			uint64_t from = at;
			int count = limpet_pages_next(pages, at, start + bytes, false, ranges, &at);

			assert_true(count >= 0 && count <= (int)LIMPET_PAGES_RANGES);
			assert_true(at > from && at <= start + bytes);
			for (int k = 0; k < count; k++) {
				assert_true(ranges[k].start >= last && ranges[k].start >= from);
				assert_true(ranges[k].end > ranges[k].start && ranges[k].end <= at);
				last = ranges[k].end;
				named += (ranges[k].end - ranges[k].start) / PAGE;
				memset(seen + (ranges[k].start - start) / PAGE, 1,
				       (ranges[k].end - ranges[k].start) / PAGE);
			}
		}
		assert_memory_equal(seen, written, bytes / PAGE);
		assert_int_equal(named, written_count);
		limpet_pages_free(pages);
		free(seen);
	}
	free(written);
	unmap(memory, bytes);
}

/* Each look at the clock takes a millisecond. */
static void test_a_search_that_takes_too_long(void **state)
{
	const uint64_t bytes = 8192 * GIB, limit_ms = 200;
	char *memory = map(bytes), *copy = memory + 8;
	struct limpet_hook_pointers_stats stats;
	uint64_t began_ns, took_ms;
	pid_t pid;

	(void)state;
	have_hooks(0);
	put_word(copy, thunk(1));
	pid = start_child();
	idle_calls = 0;
	clock_fixture_step(MS);
	began_ns = clock_fixture_ns();
	assert_int_equal(restore(pid, LIMPET_PAGES_READ, began_ns + limit_ms * MS, &stats),
			 -ETIMEDOUT);
	clock_fixture_step(0);
	took_ms = (clock_fixture_ns() - began_ns) / MS;
	/* By the next look around, of which each takes a millisecond more. */
	assert_in_range(took_ms, limit_ms, limit_ms + LOOK_MS + 2);
	assert_in_range(idle_calls, limit_ms / (LOOK_MS + 2), limit_ms / LOOK_MS + 1);
	/* Half a search puts nothing back. */
	assert_int_equal(word_of(pid, copy), thunk(1));
	end_child(pid);
	unmap(memory, bytes);
}

static void test_a_search_of_what_is_gone(void **state)
{
	const uint64_t bytes = 8192 * GIB;
	char *memory = map(bytes);
	struct limpet_hook_pointers_stats stats;
	pid_t pid;

	(void)state;
	memory[0] = 1;
	pid = start_child();
	checks_left = 3;
	clock_fixture_step(MS);
	assert_int_equal(restore(pid, LIMPET_PAGES_READ, CLOCK_FIXTURE_NEVER, &stats), -ESRCH);
	clock_fixture_step(0);
	assert_int_equal(checks_left, 0);
	end_child(pid);
	assert_true(restore(pid, LIMPET_PAGES_SCAN, CLOCK_FIXTURE_NEVER, &stats) < 0);
	unmap(memory, bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hook_pointers_in_sparse_memory),
		cmocka_unit_test(test_hook_pointers_at_any_byte),
		cmocka_unit_test(test_copies_of_jumps),
		cmocka_unit_test(test_hook_pointers_across_parts),
		cmocka_unit_test(test_many_hook_pointers),
		cmocka_unit_test(test_distances_in_code),
		cmocka_unit_test(test_pages_of_files),
		cmocka_unit_test(test_what_a_linker_has_closed),
		cmocka_unit_test(test_pages_are_named),
		cmocka_unit_test(test_a_search_that_takes_too_long),
		cmocka_unit_test(test_a_search_of_what_is_gone),
	};

	assert_int_equal(limpet_tracer_new(&tracer), 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
