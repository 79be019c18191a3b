/* Modules that the agent told of: what the collector takes from memory that the program may write
 * to. */
#include "test/unit/sample_trace.h"

#include "collector/stream/module_table.h"

enum { LOW = 0x7f0000000000, HIGH = 0x7f0000010000 };

static struct limpet_shm *shm;
static struct limpet_module_table *table;
static struct limpet_modules modules;
static struct limpet_recorder *recorder;
static struct sample sample;

static int setup(void **state)
{
	(void)state;
	sample_init(&sample);
	recorder = sample_open(&sample, -1);
	shm = calloc(1, sizeof(*shm));
	assert_non_null(shm);
	assert_int_equal(limpet_module_table_new(&modules, shm, recorder, &table), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	limpet_module_table_free(table);
	limpet_recorder_free(recorder);
	free(shm);
	sample_done(&sample);
	return 0;
}

static struct limpet_late_module *tell(uint32_t at, const char *path)
{
	struct limpet_late_module *late = &shm->late[at];

	*late = (struct limpet_late_module){.start = LOW,
					    .end = HIGH,
					    .bias = LOW,
					    .gone = 3,
					    .number = 7,
					    .build_id_bytes = 20};
	memcpy(late->path, path, strlen(path));
	return late;
}

static uint32_t find(uint64_t address, uint32_t gone)
{
	return limpet_module_table_find_late(table, address, gone);
}

/* By address, and by how many had been unloaded there; the second time it is in the table. */
static void test_found(void **state)
{
	uint32_t number;

	(void)state;
	tell(LIMPET_LATE_MODULES - 1, "/plugin.so");
	assert_int_equal(find(LOW - 1, 3), 0);
	assert_int_equal(find(HIGH, 3), 0);
	assert_int_equal(find(LOW, 2), 0);
	assert_int_equal(find(LOW, 4), 0);
	assert_int_equal(limpet_module_table_find(table, LOW, 3), 0);
	number = find(HIGH - 1, 3);
	assert_true(number > 0);
	assert_int_equal(limpet_module_table_find(table, LOW, 3), number);
	assert_int_equal(limpet_module_table_find(table, LOW, 2), 0);
	assert_int_equal(limpet_module_table_find(table, LOW, 4), 0);
}

static void test_made_up(void **state)
{
	struct limpet_late_module *late;

	(void)state;
	tell(0, "/plugin.so")->number = 0; /* being written */
	assert_int_equal(find(LOW, 3), 0);
	tell(0, "plugin.so"); /* of a directory that nobody knows */
	assert_int_equal(find(LOW, 3), 0);
	tell(0, "");
	assert_int_equal(find(LOW, 3), 0);
	tell(0, "/plugin.so")->build_id_bytes = 0;
	assert_int_equal(find(LOW, 3), 0);
	tell(0, "/plugin.so")->build_id_bytes = LIMPET_LATE_BUILD_ID + 1;
	assert_int_equal(find(LOW, 3), 0);
	late = tell(0, "/plugin.so");
	late->end = LOW - 1;
	assert_int_equal(find(LOW, 3), 0);
	/* Without an end: cut. */
	late = tell(0, "/plugin.so");
	memset(late->path, '/', sizeof(late->path));
	assert_true(find(LOW, 3) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_found, setup, teardown),
		cmocka_unit_test_setup_teardown(test_made_up, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
