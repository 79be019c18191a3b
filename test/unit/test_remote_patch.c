/* Slots that are put in from outside: by our own list, whatever the target makes of the shared one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "injector/hook/remote_patch.h"
#include "injector/remote/segment.h"

#define ORIGINAL ((uint64_t)0x1000)
#define BIAS ((uint64_t)0x700000)
#define THUNKS 0x500000u
#define THUNK_BYTES 64u

/* What the target can write to is full of addresses of ours, and of places that are none. */
static void test_own_list(void **state)
{
	static uint64_t words[5] = {ORIGINAL, ORIGINAL, 7, ORIGINAL, ORIGINAL - BIAS};
	struct limpet_hook hooks[LIMPET_MAX_HOOKS] = {{0}, {.original = ORIGINAL}};
	struct limpet_slot slots[] = {
		{.address = (uint64_t)(uintptr_t)&words[0], .old_value = ORIGINAL, .hook = 1},
		{.address = (uint64_t)(uintptr_t)&words[2], .old_value = ORIGINAL, .hook = 1},
		{.address = (uint64_t)(uintptr_t)&words[3],
		 .old_value = ORIGINAL,
		 .hook = 1,
		 .state = LIMPET_SLOT_GONE},
		{.address = 8, .old_value = ORIGINAL, .hook = 1},
		{.address = (uint64_t)(uintptr_t)&words[4],
		 .old_value = ORIGINAL - BIAS,
		 .module = BIAS,
		 .hook = 1,
		 .kind = LIMPET_SLOT_OF_SYMBOL},
	};
	struct limpet_segment segment;
	int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	(void)state;
	assert_true(memory >= 0);
	assert_int_equal(limpet_segment_create(8u << 20, 0, NULL, &segment, NULL), 0);
	for (uint64_t i = 0; i < segment.shm_bytes / 8; i++)
		((uint64_t *)(void *)segment.shm)[i] =
			i % 2 ? UINT64_MAX : (uint64_t)(uintptr_t)&words[1];
	assert_int_equal(limpet_remote_patch_install(memory, slots, 5, hooks, THUNKS, THUNK_BYTES),
			 2);
	assert_int_equal(words[0], THUNKS + THUNK_BYTES);
	assert_int_equal(words[1], ORIGINAL);
	assert_int_equal(words[2], 7);
	assert_int_equal(words[3], ORIGINAL);
	assert_int_equal(words[4], THUNKS + THUNK_BYTES - BIAS);
	assert_int_equal(slots[0].state, LIMPET_SLOT_PATCHED);
	assert_int_equal(slots[1].state, LIMPET_SLOT_FOREIGN);
	assert_int_equal(slots[2].state, LIMPET_SLOT_GONE);
	assert_int_equal(slots[3].state, LIMPET_SLOT_FAILED);
	limpet_segment_done(&segment);
	close(memory);
}

static uint64_t *map_file(const char *name, uint64_t *at)
{
	int fd = memfd_create(name, MFD_CLOEXEC), fixed = at ? MAP_FIXED : 0;
	uint64_t *words;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	words = mmap(at, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | fixed, fd, 0);
	assert_true(words != MAP_FAILED);
	close(fd);
	words[0] = words[512] = ORIGINAL;
	return words;
}

/* Between the plan and the moment when all stand: another file, nothing, the same file a page
 * further, memory of no file; each holds the word that is looked for. What was only closed to
 * writing is the same. */
static void test_memory_that_is_another(void **state)
{
	struct limpet_hook hooks[LIMPET_MAX_HOOKS] = {{0}, {.original = ORIGINAL}};
	struct limpet_slot slots[5] = {{.address = 0}};
	struct limpet_maps before, now;
	uint64_t *modules[5];
	int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	(void)state;
	assert_true(memory >= 0);
	for (unsigned i = 0; i < 5; i++) {
		modules[i] = map_file("module", NULL);
		slots[i] = (struct limpet_slot){.address = (uint64_t)(uintptr_t)&modules[i][512],
						.old_value = ORIGINAL,
						.hook = 1};
	}
	assert_int_equal(limpet_proc_maps_read(getpid(), &before), 0);
	map_file("module", modules[0]);
	assert_int_equal(munmap(modules[1], 8192), 0);
	assert_ptr_equal(
		mremap(modules[2], 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, &modules[2][512]),
		&modules[2][512]);
	assert_ptr_equal(mmap(modules[3], 8192, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 modules[3]);
	modules[3][512] = ORIGINAL;
	assert_int_equal(mprotect(&modules[4][512], 4096, PROT_READ), 0);
	assert_int_equal(limpet_proc_maps_read(getpid(), &now), 0);

	assert_int_equal(limpet_remote_patch_check(slots, 5, &before, &now), 4);
	assert_int_equal(limpet_remote_patch_install(memory, slots, 5, hooks, THUNKS, THUNK_BYTES),
			 1);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(slots[i].state, LIMPET_SLOT_GONE);
		if (i != 1)
			assert_int_equal(modules[i][512], ORIGINAL);
	}
	assert_int_equal(slots[4].state, LIMPET_SLOT_PATCHED);
	assert_int_equal(modules[4][512], THUNKS + THUNK_BYTES);
	limpet_proc_maps_done(&before);
	limpet_proc_maps_done(&now);
	close(memory);
}

/* The tables lie where we laid them, not where the header says by now. */
static void test_own_layout(void **state)
{
	struct limpet_segment segment;
	uint64_t *head;

	(void)state;
	assert_int_equal(limpet_segment_create(8u << 20, 0, NULL, &segment, NULL), 0);
	head = (uint64_t *)(void *)&segment.shm->layout;
	assert_memory_equal(head, &segment.layout, sizeof(segment.layout));
	for (size_t i = 0; i < sizeof(segment.layout) / sizeof(*head); i++)
		head[i] = UINT64_MAX / (i + 1);
	memset(limpet_segment_thread(&segment, segment.layout.thread_count - 1), 1,
	       sizeof(struct limpet_thread));
	memset(limpet_segment_chunk(&segment, segment.layout.chunk_count), 1, LIMPET_CHUNK_BYTES);
	memset(limpet_segment_slots(&segment), 1, LIMPET_MAX_SLOTS * sizeof(struct limpet_slot));
	memset(limpet_segment_known_modules(&segment), 1,
	       LIMPET_MAX_KNOWN_MODULES * sizeof(struct limpet_known_module));
	memset(limpet_segment_free_chunks(&segment), 1, segment.layout.chunk_count / 8);
	assert_int_equal(limpet_segment_next_used(&segment, 0), segment.layout.thread_count);
	for (unsigned i = 0; i < 100; i++)
		limpet_segment_populate_needed(&segment);
	while (limpet_segment_populate_chunks(&segment))
		;
	for (unsigned i = 0; i < LIMPET_FINGERPRINT_TABLES; i++)
		while (limpet_segment_grow_fingerprints(&segment, i))
			;
	limpet_segment_done(&segment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_list),
		cmocka_unit_test(test_memory_that_is_another),
		cmocka_unit_test(test_own_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
