#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/number_table.h"

/* No two are the same, and neighbours are far apart. */
static uint64_t key_of(uint64_t i)
{
	return i * 0xd6e8feb86659fd93ull;
}

static void test_numbers_in_order_of_appearance(void **state)
{
	enum { KEYS = 100000 };
	struct limpet_number_table table = {0};

	(void)state;
	for (uint32_t i = 0; i < KEYS; i++)
		assert_int_equal(limpet_number_table_of(&table, key_of(i)), i + 1);
	for (uint32_t i = KEYS; i-- > 0;)
		assert_int_equal(limpet_number_table_of(&table, key_of(i)), i + 1);
	assert_int_equal(table.count, KEYS);
	limpet_number_table_done(&table);
}

static void test_any_key_has_a_number(void **state)
{
	struct limpet_number_table table = {0};

	(void)state;
	assert_int_equal(limpet_number_table_of(&table, 0), 1);
	assert_int_equal(limpet_number_table_of(&table, UINT64_MAX), 2);
	assert_int_equal(limpet_number_table_of(&table, 1ull << 32), 3);
	assert_int_equal(limpet_number_table_of(&table, 0), 1);
	limpet_number_table_done(&table);
}

static void test_cleared_and_used_again(void **state)
{
	struct limpet_number_table table = {0};
	uint32_t slots;

	(void)state;
	limpet_number_table_clear(&table);
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(limpet_number_table_of(&table, key_of(i)), i + 1);
	slots = table.slot_count;
	limpet_number_table_clear(&table);
	for (uint32_t i = 5000; i-- > 0;)
		assert_int_equal(limpet_number_table_of(&table, key_of(i)), 5000 - i);
	assert_int_equal(table.slot_count, slots);
	limpet_number_table_done(&table);
	assert_int_equal(limpet_number_table_of(&table, 7), 1);
	limpet_number_table_done(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_in_order_of_appearance),
		cmocka_unit_test(test_any_key_has_a_number),
		cmocka_unit_test(test_cleared_and_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
