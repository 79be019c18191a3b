#include "collector/pages/fault_record.h"

#include <linux/perf_event.h>
#include <string.h>

#include "collector/pages/arch.h"

/* Of the user, process and time at the end of each record that is no sample. */
#define TRAILER_BYTES 16u
#ifndef PERF_RECORD_MISC_COMM_EXEC
#define PERF_RECORD_MISC_COMM_EXEC (1u << 13)
#endif

uint64_t limpet_fault_sample_type(void)
{
	return PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_REGS_USER |
	       PERF_SAMPLE_STACK_USER;
}

struct cursor {
	const uint8_t *at;
	size_t left;
	bool failed;
};

static const uint8_t *read_bytes(struct cursor *cursor, size_t bytes)
{
	const uint8_t *at = cursor->at;

	if (cursor->failed || bytes > cursor->left) {
		cursor->failed = true;
		return NULL;
	}
	cursor->at += bytes;
	cursor->left -= bytes;
	return at;
}

static uint64_t read_word(struct cursor *cursor)
{
	const uint8_t *at = read_bytes(cursor, sizeof(uint64_t));
	uint64_t word = 0;

	if (at)
		memcpy(&word, at, sizeof(word));
	return word;
}

static void read_thread(struct cursor *cursor, struct limpet_fault_record *record)
{
	const uint8_t *at = read_bytes(cursor, 2 * sizeof(uint32_t));

	if (!at)
		return;
	memcpy(&record->pid, at, sizeof(record->pid));
	memcpy(&record->tid, at + sizeof(record->pid), sizeof(record->tid));
}

static void read_registers(struct cursor *cursor, struct limpet_fault_record *record)
{
	const uint64_t abi = read_word(cursor);
	uint64_t registers[LIMPET_SAMPLED_COUNT];

	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	for (size_t i = 0; i < LIMPET_SAMPLED_COUNT; i++)
		registers[i] = read_word(cursor);
	if (cursor->failed || abi != PERF_SAMPLE_REGS_ABI_64)
		return;
	record->has_registers = true;
	record->pc = registers[LIMPET_SAMPLED_PC];
	record->sp = registers[LIMPET_SAMPLED_SP];
	record->fp = registers[LIMPET_SAMPLED_FP];
}

/* The size that was asked for, so many bytes, and how many of these were copied. */
static void read_stack(struct cursor *cursor, struct limpet_fault_record *record)
{
	const uint64_t room = read_word(cursor);
	const uint8_t *stack = room ? read_bytes(cursor, room) : NULL;
	uint64_t copied = room ? read_word(cursor) : 0;

	if (cursor->failed || copied > room) {
		cursor->failed = true;
		return;
	}
	record->stack = stack;
	record->stack_bytes = copied;
}

static void read_sample(struct cursor *cursor, struct limpet_fault_record *record)
{
	record->kind = LIMPET_FAULT_TAKEN;
	read_thread(cursor, record);
	record->time_ns = read_word(cursor);
	record->address = read_word(cursor);
	read_registers(cursor, record);
	read_stack(cursor, record);
}

static void read_other(struct cursor *cursor, const struct perf_event_header *header,
		       struct limpet_fault_record *record)
{
	struct cursor trailer;

	if (cursor->left < TRAILER_BYTES) {
		cursor->failed = true;
		return;
	}
	cursor->left -= TRAILER_BYTES;
	trailer = (struct cursor){cursor->at + cursor->left, TRAILER_BYTES, false};
	switch (header->type) {
	case PERF_RECORD_LOST:
		(void)read_word(cursor); /* which event */
		record->lost = read_word(cursor);
		record->kind = LIMPET_FAULT_LOST;
		break;
	case PERF_RECORD_LOST_SAMPLES:
		record->lost = read_word(cursor);
		record->kind = LIMPET_FAULT_LOST;
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		record->kind = header->misc & PERF_RECORD_MISC_MMAP_DATA ? LIMPET_FAULT_MAPPED
									 : LIMPET_FAULT_CODE;
		break;
	case PERF_RECORD_COMM:
		if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
			record->kind = LIMPET_FAULT_EXEC;
		break;
	default:
		break;
	}
	read_thread(&trailer, record);
	record->time_ns = read_word(&trailer);
}

int limpet_fault_record_read(const uint8_t *bytes, size_t count, struct limpet_fault_record *ret)
{
	struct limpet_fault_record record = {.kind = LIMPET_FAULT_OTHER};
	struct cursor cursor = {bytes, count, false};
	const uint8_t *head = read_bytes(&cursor, sizeof(struct perf_event_header));
	struct perf_event_header header;

	if (!head)
		return -EBADMSG;
	memcpy(&header, head, sizeof(header));
	if (header.size != count)
		return -EBADMSG;
	if (header.type == PERF_RECORD_SAMPLE)
		read_sample(&cursor, &record);
	else
		read_other(&cursor, &header, &record);
	if (cursor.failed)
		return -EBADMSG;
	*ret = record;
	return 0;
}
