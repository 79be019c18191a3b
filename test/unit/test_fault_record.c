/* Records of page-fault events: whole, cut short anywhere, and with lengths that are not true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/perf_event.h>

#include "collector/pages/fault_record.h"

struct builder {
	uint8_t bytes[4096];
	size_t count;
};

static void put(struct builder *builder, const void *bytes, size_t count)
{
	assert_true(builder->count + count <= sizeof(builder->bytes));
	memcpy(builder->bytes + builder->count, bytes, count);
	builder->count += count;
}

static void put_word(struct builder *builder, uint64_t word)
{
	put(builder, &word, sizeof(word));
}

static void put_thread(struct builder *builder, uint32_t pid, uint32_t tid)
{
	put(builder, &pid, sizeof(pid));
	put(builder, &tid, sizeof(tid));
}

static void begin(struct builder *builder, uint32_t type, uint16_t misc)
{
	const struct perf_event_header header = {.type = type, .misc = misc};

	*builder = (struct builder){.count = 0};
	put(builder, &header, sizeof(header));
}

static void finish(struct builder *builder)
{
	struct perf_event_header header;

	memcpy(&header, builder->bytes, sizeof(header));
	header.size = (uint16_t)builder->count;
	memcpy(builder->bytes, &header, sizeof(header));
}

/* A copy in memory of its own, so that a sanitizer sees a read beyond its end. */
static int read_part(const struct builder *builder, size_t count, struct limpet_fault_record *ret)
{
	uint8_t *copy = malloc(count ? count : 1);
	struct limpet_fault_record record;
	int error;

	assert_non_null(copy);
	memcpy(copy, builder->bytes, count);
	error = limpet_fault_record_read(copy, count, &record);
	if (!error) {
		record.stack = record.stack ? builder->bytes + (record.stack - copy) : NULL;
		*ret = record;
	}
	free(copy);
	return error;
}

enum { STACK = 64 };

static void make_sample(struct builder *builder, uint64_t abi, uint64_t room, uint64_t copied)
{
	uint8_t stack[STACK];

	memset(stack, 0x5a, sizeof(stack));
	begin(builder, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL);
	put_thread(builder, 7, 8);
	put_word(builder, 1000);
	put_word(builder, 0x7f0000001234);
	put_word(builder, abi);
	if (abi != PERF_SAMPLE_REGS_ABI_NONE) {
		put_word(builder, 0xb0);
		put_word(builder, 0x50);
		put_word(builder, 0x10);
	}
	put_word(builder, room);
	put(builder, stack, sizeof(stack));
	put_word(builder, copied);
	finish(builder);
}

static void test_a_fault_has_registers_and_stack(void **state)
{
	struct limpet_fault_record record;
	struct builder builder;

	(void)state;
	make_sample(&builder, PERF_SAMPLE_REGS_ABI_64, STACK, 40);
	assert_int_equal(read_part(&builder, builder.count, &record), 0);
	assert_int_equal(record.kind, LIMPET_FAULT_TAKEN);
	assert_true(record.has_registers);
	assert_int_equal(record.pid, 7);
	assert_int_equal(record.tid, 8);
	assert_int_equal(record.time_ns, 1000);
	assert_int_equal(record.address, 0x7f0000001234);
	assert_int_equal(record.fp, 0xb0);
	assert_int_equal(record.sp, 0x50);
	assert_int_equal(record.pc, 0x10);
	assert_int_equal(record.stack_bytes, 40);
	assert_int_equal(record.stack[39], 0x5a);
}

static void test_other_abis_have_no_registers(void **state)
{
	struct limpet_fault_record record;
	struct builder builder;

	(void)state;
	make_sample(&builder, PERF_SAMPLE_REGS_ABI_32, STACK, STACK);
	assert_int_equal(read_part(&builder, builder.count, &record), 0);
	assert_false(record.has_registers);
	assert_int_equal(record.pc, 0);
	make_sample(&builder, PERF_SAMPLE_REGS_ABI_NONE, STACK, STACK);
	assert_int_equal(read_part(&builder, builder.count, &record), 0);
	assert_false(record.has_registers);
}

static void test_a_record_cut_short_is_refused(void **state)
{
	struct limpet_fault_record record = {.tid = 77};
	struct builder builder;

	(void)state;
	make_sample(&builder, PERF_SAMPLE_REGS_ABI_64, STACK, STACK);
	for (size_t count = 0; count < builder.count; count++) {
		struct builder part = builder;

		/* As it is, and with a size that agrees. */
		assert_int_equal(read_part(&part, count, &record), -EBADMSG);
		part.count = count;
		if (count >= sizeof(struct perf_event_header)) {
			finish(&part);
			assert_int_equal(read_part(&part, count, &record), -EBADMSG);
		}
	}
	assert_int_equal(record.tid, 77);
}

static void test_lengths_that_are_not_true_are_refused(void **state)
{
	static const uint64_t rooms[] = {STACK + 8, 1u << 20, UINT64_MAX, UINT64_MAX - 7};
	struct limpet_fault_record record;
	struct builder builder;

	(void)state;
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		make_sample(&builder, PERF_SAMPLE_REGS_ABI_64, rooms[i], STACK);
		assert_int_equal(read_part(&builder, builder.count, &record), -EBADMSG);
	}
	make_sample(&builder, PERF_SAMPLE_REGS_ABI_64, STACK, STACK + 1);
	assert_int_equal(read_part(&builder, builder.count, &record), -EBADMSG);
	make_sample(&builder, PERF_SAMPLE_REGS_ABI_64, STACK, UINT64_MAX);
	assert_int_equal(read_part(&builder, builder.count, &record), -EBADMSG);
}

static void make_other(struct builder *builder, uint32_t type, uint16_t misc, uint64_t first,
		       uint64_t second)
{
	begin(builder, type, misc);
	put_word(builder, first);
	put_word(builder, second);
	put_thread(builder, 7, 9);
	put_word(builder, 2000);
	finish(builder);
}

static void test_other_records_have_a_time(void **state)
{
	static const struct {
		uint32_t type;
		uint16_t misc;
		enum limpet_fault_kind kind;
	} list[] = {
		{PERF_RECORD_LOST, 0, LIMPET_FAULT_LOST},
		{PERF_RECORD_MMAP2, 0, LIMPET_FAULT_CODE},
		{PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_DATA, LIMPET_FAULT_MAPPED},
		{PERF_RECORD_COMM, 0, LIMPET_FAULT_OTHER},
		{PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, LIMPET_FAULT_EXEC},
		{PERF_RECORD_EXIT, 0, LIMPET_FAULT_OTHER},
		{200, 0, LIMPET_FAULT_OTHER},
	};
	struct limpet_fault_record record;
	struct builder builder;

	(void)state;
	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		make_other(&builder, list[i].type, list[i].misc, 1, 42);
		assert_int_equal(read_part(&builder, builder.count, &record), 0);
		assert_int_equal(record.kind, list[i].kind);
		assert_int_equal(record.time_ns, 2000);
		assert_int_equal(record.tid, 9);
		if (record.kind == LIMPET_FAULT_LOST)
			assert_int_equal(record.lost, 42);
	}
	begin(&builder, PERF_RECORD_LOST, 0);
	put_word(&builder, 1);
	finish(&builder);
	assert_int_equal(read_part(&builder, builder.count, &record), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_fault_has_registers_and_stack),
		cmocka_unit_test(test_other_abis_have_no_registers),
		cmocka_unit_test(test_a_record_cut_short_is_refused),
		cmocka_unit_test(test_lengths_that_are_not_true_are_refused),
		cmocka_unit_test(test_other_records_have_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
