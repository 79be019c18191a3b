#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/export/firefox_blocks.h"

#define MOST 16u
#define SECOND UINT64_C(1000000000)

/* A trace without stacks: that of every node is unknown. */
struct fixture {
	struct limpet_trace_target target;
	struct limpet_trace_node root;
	struct limpet_model model;
	struct limpet_locations locations;
	struct limpet_export_stacks stacks;
	struct limpet_firefox_blocks blocks;
};

static void begin(struct fixture *fixture)
{
	*fixture = (struct fixture){.model = {.node_count = 1}};
	fixture->model.target = &fixture->target;
	fixture->model.nodes = &fixture->root;
	fixture->locations.model = &fixture->model;
	fixture->stacks.locations = &fixture->locations;
	limpet_firefox_blocks_init(&fixture->blocks, &fixture->stacks, 100 * SECOND);
	fixture->blocks.entries_max = MOST;
}

static void end(struct fixture *fixture)
{
	limpet_firefox_blocks_done(&fixture->blocks);
	limpet_export_stacks_done(&fixture->stacks);
}

static void add(struct fixture *fixture, uint32_t tid, double bytes, uint64_t made_ns,
		uint64_t freed_ns)
{
	const struct limpet_replay_block block = {
		.tid = tid, .bytes = bytes, .made_ns = made_ns, .freed_ns = freed_ns};

	assert_int_equal(limpet_firefox_blocks_add(&fixture->blocks, &block), 0);
}

static double bytes_of(const struct fixture *fixture, uint32_t tid, bool live)
{
	const struct limpet_firefox_blocks *blocks = &fixture->blocks;
	double bytes = 0;

	for (size_t i = 0; i < blocks->entry_count; i++) {
		const struct limpet_firefox_entry *entry = &blocks->entries[i];

		assert_true(entry->made <= entry->freed);
		if (blocks->origins[entry->origin].tid == tid &&
		    (!live || entry->freed == LIMPET_FIREFOX_NEVER))
			bytes += entry->bytes;
	}
	return bytes;
}

static void test_alike_are_one(void **state)
{
	struct fixture fixture;

	(void)state;
	begin(&fixture);
	for (unsigned i = 0; i < 1000; i++)
		add(&fixture, 7, 10, 5 * SECOND, 5 * SECOND);
	add(&fixture, 7, 10, 5 * SECOND, UINT64_MAX);
	add(&fixture, 8, 10, 5 * SECOND, UINT64_MAX);
	/* Not known by its bytes. */
	add(&fixture, 9, 0, 5 * SECOND, UINT64_MAX);
	assert_int_equal(fixture.blocks.entry_count, 3);
	assert_true(bytes_of(&fixture, 7, false) == 10010 && bytes_of(&fixture, 7, true) == 10);
	assert_true(bytes_of(&fixture, 8, true) == 10);
	end(&fixture);
}

/* Steps get longer, nothing is lost, and what was freed stays freed. */
static void test_bounded(void **state)
{
	struct fixture fixture;
	uint64_t step_ns;

	(void)state;
	begin(&fixture);
	step_ns = fixture.blocks.step_ns;
	for (uint64_t i = 0; i < 1000; i++) {
		const uint64_t now = i * (SECOND / 10);

		add(&fixture, 7, 3, now, i % 3 ? now + SECOND : UINT64_MAX);
		assert_true(fixture.blocks.entry_count <= MOST);
	}
	assert_true(fixture.blocks.step_ns > step_ns);
	assert_true(bytes_of(&fixture, 7, false) == 3000 && bytes_of(&fixture, 7, true) == 3 * 334);
	/* As many as there are threads, if these are more. */
	for (uint32_t tid = 100; tid < 200; tid++) {
		add(&fixture, tid, 5, SECOND, 2 * SECOND);
		add(&fixture, tid, 5, 98 * SECOND, UINT64_MAX);
	}
	assert_true(fixture.blocks.entry_count <= 2 * 101);
	assert_true(bytes_of(&fixture, 150, false) == 10 && bytes_of(&fixture, 150, true) == 5);
	end(&fixture);
}

static void put_step(struct limpet_history *history, uint64_t step, uint64_t allocated,
		     uint64_t freed)
{
	const uint64_t values[] = {step, 1, allocated, 1, freed, 0, 0};

	for (size_t i = 0; i < LIMPET_COUNT_OF(values); i++)
		limpet_bytes_append_varint(&history->packed, values[i]);
}

static void test_sums_free_the_oldest(void **state)
{
	uint64_t edges[] = {0, 10 * SECOND, 20 * SECOND, 100 * SECOND};
	struct limpet_history_site site = {.count = 3};
	struct limpet_history history = {
		.edges_ns = edges, .step_count = 3, .sites = &site, .site_count = 1};
	struct fixture fixture;
	uint16_t second;

	(void)state;
	begin(&fixture);
	put_step(&history, 0, 100, 0);
	put_step(&history, 1, 50, 80);
	put_step(&history, 2, 0, 30);
	site.packed_bytes = history.packed.count;
	assert_int_equal(limpet_firefox_blocks_add_sums(&fixture.blocks, 7, &history), 0);
	assert_true(bytes_of(&fixture, 7, false) == 150 && bytes_of(&fixture, 7, true) == 40);
	/* What is left is of the second step. */
	second = (uint16_t)(edges[1] / fixture.blocks.step_ns);
	for (size_t i = 0; i < fixture.blocks.entry_count; i++)
		if (fixture.blocks.entries[i].freed == LIMPET_FIREFOX_NEVER)
			assert_int_equal(fixture.blocks.entries[i].made, second);
	limpet_bytes_done(&history.packed);
	end(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alike_are_one),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_sums_free_the_oldest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
