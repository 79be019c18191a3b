/* The walk over a captured stack, the mappings that count, and why the kernel refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collector/pages/counted_maps.h"
#include "collector/pages/fault_events.h"
#include "collector/pages/fault_losses.h"
#include "collector/pages/fault_stacks.h"
#include "collector/pages/ring_room.h"
#include "test/unit/proc_fixture.h"
#include "test/unit/target_of.h"

/* Three frames by frame pointer, in code without a description; the last one is the outermost. */
static struct limpet_fault_record make_stack(uint64_t words[8], uint64_t at)
{
	words[0] = 11; /* a local variable */
	words[1] = at + 4 * 8;
	words[2] = 0x402000;
	words[3] = 12;
	words[4] = 0; /* the frame pointer of the outermost */
	words[5] = 0x403000;
	words[6] = words[7] = 0;
	return (struct limpet_fault_record){.kind = LIMPET_FAULT_TAKEN,
					    .has_registers = true,
					    .pc = 0x401000,
					    .sp = at,
					    .fp = at + 8,
					    .stack = (const uint8_t *)words,
					    .stack_bytes = 64};
}

static void test_a_captured_stack_is_walked(void **state)
{
	const struct limpet_walk_map map = {.modules = NULL};
	uint64_t words[8], pcs[16];
	struct limpet_fault_record fault = make_stack(words, 0x7ffd00001000);
	bool cut = true;

	(void)state;
	assert_int_equal(limpet_fault_walk(&map, NULL, &fault, pcs, 16, &cut), 3);
	assert_int_equal(pcs[0], 0x401001);
	assert_int_equal(pcs[1], 0x402000);
	assert_int_equal(pcs[2], 0x403000);
	assert_false(cut);
}

static void test_a_stack_that_was_copied_in_part_is_cut(void **state)
{
	const struct limpet_walk_map map = {.modules = NULL};
	uint64_t words[8], pcs[16];
	struct limpet_fault_record fault = make_stack(words, 0x7ffd00001000);
	bool cut;

	(void)state;
	for (uint64_t bytes = 0; bytes < 48; bytes++) {
		/* In memory of its own: a sanitizer sees a read beyond its end. */
		uint8_t *copy = malloc(bytes ? bytes : 1);

		assert_non_null(copy);
		memcpy(copy, words, bytes);
		fault.stack = copy;
		fault.stack_bytes = bytes;
		cut = false;
		assert_int_equal(limpet_fault_walk(&map, NULL, &fault, pcs, 16, &cut),
				 bytes < 24 ? 1 : 2);
		assert_true(cut);
		free(copy);
	}
}

static void test_hostile_stacks_end(void **state)
{
	const struct limpet_walk_map map = {.modules = NULL};
	uint64_t words[8], pcs[16];
	struct limpet_fault_record fault = make_stack(words, 0x7ffd00001000);
	bool cut = false;

	(void)state;
	words[1] = 0x7ffd00001000 + 8; /* a circle */
	assert_int_equal(limpet_fault_walk(&map, NULL, &fault, pcs, 16, &cut), 2);
	assert_true(cut);
	fault.sp = UINT64_MAX - 16;
	fault.fp = UINT64_MAX - 8;
	cut = false;
	assert_int_equal(limpet_fault_walk(&map, NULL, &fault, pcs, 16, &cut), 1);
	assert_true(cut);
	fault.stack = NULL;
	fault.stack_bytes = 0;
	assert_int_equal(limpet_fault_walk(&map, NULL, &fault, pcs, 16, &cut), 1);
}

static struct limpet_map map_at(uint64_t start, const char *perms, uint64_t inode, const char *path)
{
	struct limpet_map map = {
		.start = start, .end = start + 0x1000, .inode = inode, .path = strdup(path)};

	memcpy(map.perms, perms, sizeof(map.perms));
	return map;
}

static void test_mappings_that_count(void **state)
{
	struct limpet_map list[] = {
		map_at(0x1000, "r--p", 5, "/bin/cat"),
		map_at(0x3000, "rw-p", 5, "/bin/cat"),
		map_at(0x5000, "rw-p", 0, "[heap]"),
		map_at(0x7000, "rwxp", 0, ""),
		map_at(0x9000, "rw-s", 6, "/memfd:x (deleted)"),
		map_at(0xb000, "rw-s", 7, "/var/lib/data"),
		map_at(0xd000, "rw-p", 8, "/anon_hugepage (deleted)"),
		map_at(0xf000, "r--p", 0, "[vvar]"),
	};
	static const bool counts[] = {true, true, true, true, true, false, false, false};
	struct limpet_counted_maps maps = {0};
	const struct limpet_maps all = {list, sizeof(list) / sizeof(list[0])};

	(void)state;
	assert_int_equal(limpet_counted_maps_set(&maps, &all), 0);
	for (size_t i = 0; i < all.count; i++) {
		const struct limpet_counted_map *map =
			limpet_counted_maps_find(&maps, list[i].end - 1);

		assert_non_null(map);
		assert_int_equal(map->start, list[i].start);
		assert_int_equal(map->counts, counts[i]);
		assert_int_equal(map->own, list[i].inode != 0 && i != 4);
		assert_int_equal(map->executable, i == 3);
		assert_null(limpet_counted_maps_find(&maps, list[i].end));
		free(list[i].path);
	}
	assert_null(limpet_counted_maps_find(&maps, 0));
	limpet_counted_maps_done(&maps);
}

static void test_a_refusal_has_a_hint(void **state)
{
	struct limpet_err err = {0};

	(void)state;
	proc_fixture_begin();
	proc_fixture_write("sys/kernel/perf_event_paranoid", "3\n");
	assert_int_equal(limpet_fault_events_explain(target_of(7), -EACCES, &err), -EACCES);
	assert_non_null(strstr(err.hint, "perf_event_paranoid=2"));
	proc_fixture_write("sys/kernel/perf_event_paranoid", "2\n");
	assert_int_equal(limpet_fault_events_explain(target_of(7), -EACCES, &err), -EACCES);
	assert_null(strstr(err.hint, "perf_event_paranoid"));
	assert_non_null(strstr(err.hint, "as the user of the process"));
	assert_int_equal(limpet_fault_events_explain(target_of(7), -EPERM, &err), -EPERM);
	assert_non_null(strstr(err.hint, "seccomp"));
	proc_fixture_write("sys/kernel/perf_event_paranoid", "-1\n");
	assert_int_equal(limpet_fault_events_explain(target_of(7), -EPERM, &err), -EPERM);
	assert_null(strstr(err.hint, "perf_event_paranoid"));
	assert_int_equal(limpet_fault_events_explain(target_of(7), -EMFILE, &err), -EMFILE);
	assert_non_null(strstr(err.hint, "ulimit -n"));
	assert_int_equal(limpet_fault_events_explain(target_of(7), -ENOSYS, &err), -ENOSYS);
	assert_non_null(strstr(err.hint, "CONFIG_PERF_EVENTS"));
	proc_fixture_end();
}

static void test_a_full_ring_may_have_lost_until_a_record_follows(void **state)
{
	struct limpet_ring_room room = {0};

	(void)state;
	assert_false(limpet_ring_room_is_unsure(&room, 0));
	/* A record of 100 bytes finds room, as the kernel leaves one byte free. */
	limpet_ring_room_check(&room, 1024, 100, 4096, 4096 + 923);
	assert_false(limpet_ring_room_is_unsure(&room, 4096 + 923));
	limpet_ring_room_check(&room, 1024, 100, 4096, 4096 + 924);
	assert_true(limpet_ring_room_is_unsure(&room, 4096 + 924));
	/* As it is read, there is room again. */
	limpet_ring_room_check(&room, 1024, 100, 5000, 5020);
	assert_true(limpet_ring_room_is_unsure(&room, 5020));
	/* The record that followed is the one that tells, or nothing was lost. */
	assert_false(limpet_ring_room_is_unsure(&room, 5120));
}

static void says(const struct limpet_fault_losses *losses, const char *words)
{
	char because[512] = "";

	limpet_fault_losses_report(losses, because, sizeof(because));
	assert_string_equal(because, words);
	assert_int_equal(limpet_fault_losses_any(losses), *words != 0);
}

static void test_each_loss_has_its_reason(void **state)
{
	(void)state;
	says(&(struct limpet_fault_losses){0}, "");
	says(&(struct limpet_fault_losses){.partial = true},
	     "pages without a stack: threads came too fast for all to be followed");
	says(&(struct limpet_fault_losses){.lost = 1, .may_have_lost = true, .stacks = 2},
	     "pages without a stack: 1 fault came faster than limpet reads, no room for the "
	     "stacks of 2 pages");
	says(&(struct limpet_fault_losses){.may_have_lost = true},
	     "pages without a stack: faults may have come faster than limpet reads");
	says(&(struct limpet_fault_losses){.broken = 3},
	     "pages without a stack: records made no sense 3 times");
	says(&(struct limpet_fault_losses){.stacks = 1, .no_room = true},
	     "pages without a stack: no room for the stack of 1 page, others are left out for "
	     "lack of room");
	says(&(struct limpet_fault_losses){.no_room = true},
	     "there was no room for some pages: left out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_captured_stack_is_walked),
		cmocka_unit_test(test_a_stack_that_was_copied_in_part_is_cut),
		cmocka_unit_test(test_hostile_stacks_end),
		cmocka_unit_test(test_mappings_that_count),
		cmocka_unit_test(test_a_refusal_has_a_hint),
		cmocka_unit_test(test_each_loss_has_its_reason),
		cmocka_unit_test(test_a_full_ring_may_have_lost_until_a_record_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
