/* Durations and sizes: exact where they are read, to the tenth where they are shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/units.h"

#define MARK UINT64_C(0xfeedfacecafebeef)
#define S UINT64_C(1000000000)

struct reading {
	const char *text;
	int result;
	uint64_t value;
};

static void check_readings(int (*parse)(const char *, uint64_t *), const struct reading *list,
			   size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value = MARK;
		int result = parse(list[i].text, &value);

		if (result != list[i].result || value != (result ? MARK : list[i].value))
			fail_msg("\"%s\": got %d, %" PRIu64 "; expected %d, %" PRIu64, list[i].text,
				 result, value, list[i].result, list[i].value);
	}
}

static void test_durations_are_exact(void **state)
{
	static const struct reading list[] = {
		{"0", 0, 0},
		{"1", 0, S},
		{"90", 0, 90 * S},
		{"0.5", 0, S / 2},
		{"50ms", 0, 50000000},
		{"1.5ms", 0, 1500000},
		{"250us", 0, 250000},
		{"10ns", 0, 10},
		{"90s", 0, 90 * S},
		{"10m", 0, 600 * S},
		{"1h30m", 0, 5400 * S},
		{"1h30m15s", 0, 5415 * S},
		{"1h0.5m", 0, 3630 * S},
		{"1.5h", 0, 5400 * S},
		{"2d", 0, 172800 * S},
		{"2d1ns", 0, 172800 * S + 1},
		{"0.1s", 0, 100000000},
		{"0.000000001s", 0, 1},
		{"0.0000000019s", 0, 1},
		{"0.30000000000000000000000000000000001s", 0, 300000000},
		{"007s", 0, 7 * S},
		{"18446744073709551615ns", 0, UINT64_MAX},
		{"18446744073.709551615", 0, UINT64_MAX},
	};

	(void)state;
	check_readings(limpet_units_parse_duration, list, LIMPET_COUNT_OF(list));
}

static void test_durations_refuse_the_rest(void **state)
{
	static const struct reading list[] = {
		{"", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"1x", -EINVAL, 0},
		{"1S", -EINVAL, 0},
		{"1min", -EINVAL, 0},
		{"1h30", -EINVAL, 0},
		{"30m1h", -EINVAL, 0},
		{"1m1m", -EINVAL, 0},
		{"1.5h30m", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{".5", -EINVAL, 0},
		{"1.s", -EINVAL, 0},
		{"1..5", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{"0x10", -EINVAL, 0},
		{"inf", -EINVAL, 0},
		{"nan", -EINVAL, 0},
		{"1m-1s", -EINVAL, 0},
		{"1,5s", -EINVAL, 0},
		{"1h30m\n", -EINVAL, 0},
		{"\xc2\xbd", -EINVAL, 0},
		{"18446744073709551616ns", -ERANGE, 0},
		{"18446744074", -ERANGE, 0},
		{"18446744073.709551616", -ERANGE, 0},
		{"99999999999999999999d", -ERANGE, 0},
		{"213503d24h", -ERANGE, 0},
		{"5124095h9999999m", -ERANGE, 0},
	};

	(void)state;
	check_readings(limpet_units_parse_duration, list, LIMPET_COUNT_OF(list));
}

static void test_bytes_are_exact(void **state)
{
	static const struct reading list[] = {
		{"0", 0, 0},
		{"4096", 0, 4096},
		{"4096B", 0, 4096},
		{"1k", 0, 1024},
		{"64KiB", 0, 65536},
		{"64kib", 0, 65536},
		{"1.5MiB", 0, 1572864},
		{"2G", 0, UINT64_C(2) << 30},
		{"2GiB", 0, UINT64_C(2) << 30},
		{"3T", 0, UINT64_C(3) << 40},
		{"1P", 0, UINT64_C(1) << 50},
		{"15E", 0, UINT64_C(15) << 60},
		{"0.5E", 0, UINT64_C(1) << 59},
		{"0.1K", 0, 102},
		{"15.9999999999999999999999999EiB", 0, UINT64_C(18446744073709551614)},
		{"18446744073709551615", 0, UINT64_MAX},
	};

	(void)state;
	check_readings(limpet_units_parse_bytes, list, LIMPET_COUNT_OF(list));
}

static void test_bytes_refuse_the_rest(void **state)
{
	static const struct reading list[] = {
		{"", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"1.5", -EINVAL, 0},
		{"1.5B", -EINVAL, 0},
		{"1KB", -EINVAL, 0},
		{"1MB", -EINVAL, 0},
		{"1Ki", -EINVAL, 0},
		{"1KiBs", -EINVAL, 0},
		{"K", -EINVAL, 0},
		{"1 K", -EINVAL, 0},
		{"1KK", -EINVAL, 0},
		{"1X", -EINVAL, 0},
		{"1.K", -EINVAL, 0},
		{"0x1000", -EINVAL, 0},
		{"1e6", -EINVAL, 0},
		{"1\v", -EINVAL, 0},
		{"16E", -ERANGE, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"20000000000G", -ERANGE, 0},
	};

	(void)state;
	check_readings(limpet_units_parse_bytes, list, LIMPET_COUNT_OF(list));
}

struct showing {
	uint64_t value;
	const char *text;
};

static void check_showings(char *(*format)(char *, uint64_t), const struct showing *list,
			   size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char text[LIMPET_UNITS_TEXT];

		assert_ptr_equal(format(text, list[i].value), text);
		if (strcmp(text, list[i].text) != 0)
			fail_msg("%" PRIu64 ": got \"%s\", expected \"%s\"", list[i].value, text,
				 list[i].text);
	}
}

static void test_bytes_are_shown_to_the_tenth(void **state)
{
	static const struct showing list[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{1075, "1.0 KiB"},
		{1076, "1.1 KiB"},
		{1536, "1.5 KiB"},
		{1048524, "1023.9 KiB"},
		{1048525, "1.0 MiB"},
		{1048575, "1.0 MiB"},
		{1048576, "1.0 MiB"},
		{191260263, "182.4 MiB"},
		{UINT64_C(2) << 30, "2.0 GiB"},
		{UINT64_MAX, "16.0 EiB"},
	};

	(void)state;
	check_showings(limpet_units_format_bytes, list, LIMPET_COUNT_OF(list));
}

static void test_changes_carry_a_sign(void **state)
{
	char text[LIMPET_UNITS_TEXT];

	(void)state;
	assert_string_equal(limpet_units_format_bytes_change(text, 0), "0 B");
	assert_string_equal(limpet_units_format_bytes_change(text, -20), "-20 B");
	assert_string_equal(limpet_units_format_bytes_change(text, 1572864), "+1.5 MiB");
	assert_string_equal(limpet_units_format_bytes_change(text, INT64_MIN), "-8.0 EiB");
}

static size_t longest(size_t most, const char *text)
{
	const size_t length = strlen(text);

	return length > most ? length : most;
}

/* What is shown in columns is as wide as the headers say. */
static void test_the_longest_texts(void **state)
{
	char text[LIMPET_UNITS_TEXT];
	size_t bytes = 0, change = 0, count = 0;

	(void)state;
	/* Four digits before the point are the most: just below each power of two. */
	for (unsigned shift = 0; shift < 64; shift++) {
		for (uint64_t i = 0; i < 1000; i++) {
			const uint64_t most = UINT64_MAX >> shift, size = most - most / 20000 * i;
			const int64_t fall = -(int64_t)(size & INT64_MAX);

			bytes = longest(bytes, limpet_units_format_bytes(text, size));
			change = longest(change, limpet_units_format_bytes_change(text, fall));
			count = longest(count, limpet_units_format_count(text, size));
		}
	}
	assert_int_equal(bytes, LIMPET_UNITS_BYTES_MAX);
	assert_int_equal(change, LIMPET_UNITS_CHANGE_MAX);
	assert_in_range(count, 1, LIMPET_UNITS_BYTES_MAX);
}

static void test_counts_and_rates(void **state)
{
	static const struct showing counts[] = {
		{0, "0"},
		{999, "999"},
		{1000, "1.0 k"},
		{999949, "999.9 k"},
		{999950, "1.0 M"},
		{3100000, "3.1 M"},
		{2000000000, "2.0 G"},
		{UINT64_MAX, "18.4 E"},
	};
	static const struct showing rates[] = {
		{0, "0 /s"},
		{950, "950 /s"},
		{1234, "1.2 k/s"},
		{3100000, "3.1 M/s"},
	};

	(void)state;
	check_showings(limpet_units_format_count, counts, LIMPET_COUNT_OF(counts));
	check_showings(limpet_units_format_rate, rates, LIMPET_COUNT_OF(rates));
}

static void test_durations_are_rounded_like_sizes(void **state)
{
	static const struct showing list[] = {
		{0, "0s"},
		{999, "999ns"},
		{1000, "1us"},
		{1499, "1us"},
		{1500, "2us"},
		{417999, "418us"},
		{999499, "999us"},
		{999500, "1ms"},
		{450 * S / 1000, "450ms"},
		{999499999, "999ms"},
		{999500000, "1.0s"},
		{S, "1.0s"},
		{2549999999, "2.5s"},
		{2550000000, "2.6s"},
		{7299550000, "7.3s"},
		{9949999999, "9.9s"},
		{9950000000, "10s"},
		{12 * S + S / 2 - 1, "12s"},
		{12 * S + S / 2, "13s"},
		{59 * S + 499999999, "59s"},
		{59 * S + 960000000, "1m00s"},
		{62 * S, "1m02s"},
		{3599 * S + 499999999, "59m59s"},
		{3600 * S - 1, "1h00m"},
		{3720 * S, "1h02m"},
		{3749 * S, "1h02m"},
		{3750 * S, "1h03m"},
		{86369 * S, "23h59m"},
		{86400 * S - 1, "1d00h"},
		{(3 * 86400 + 4 * 3600) * S, "3d04h"},
		{(3 * 86400 + 4 * 3600 + 1800) * S, "3d05h"},
		{UINT64_MAX, "213504d00h"},
	};

	(void)state;
	check_showings(limpet_units_format_duration, list, LIMPET_COUNT_OF(list));
}

/* Two moments that are a second apart differ in a capture of days, too. */
static void test_times_are_shown_to_a_tenth(void **state)
{
	static const struct showing list[] = {
		{0, "0s"},
		{450 * S / 1000, "450ms"},
		{2549999999, "2.5s"},
		{9950000000, "10.0s"},
		{12 * S + S / 4, "12.3s"},
		{59 * S + 949999999, "59.9s"},
		{59 * S + 950000000, "1m00.0s"},
		{113 * S + 200000000, "1m53.2s"},
		{3600 * S - 1, "1h00m00.0s"},
		{(3 * 86400 + 4 * 3600 + 62) * S, "76h01m02.0s"},
		{UINT64_MAX, "5124095h34m33.7s"},
	};

	(void)state;
	check_showings(limpet_units_format_time, list, LIMPET_COUNT_OF(list));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations_are_exact),
		cmocka_unit_test(test_durations_refuse_the_rest),
		cmocka_unit_test(test_bytes_are_exact),
		cmocka_unit_test(test_bytes_refuse_the_rest),
		cmocka_unit_test(test_bytes_are_shown_to_the_tenth),
		cmocka_unit_test(test_changes_carry_a_sign),
		cmocka_unit_test(test_the_longest_texts),
		cmocka_unit_test(test_counts_and_rates),
		cmocka_unit_test(test_durations_are_rounded_like_sizes),
		cmocka_unit_test(test_times_are_shown_to_a_tenth),
	};

	return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
