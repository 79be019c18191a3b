#include "injector/hidden/slot_calls.h"

#include <elf.h>
#include <string.h>

#include "common/arch.h"
#include "common/array.h"
#include "injector/hidden/call_sites.h"

#define MOST_SEGMENTS 64u
#define MOST_SLOTS (1u << 22)
#define MOST_CODE_BYTES ((uint64_t)512 << 20)
#define MOST_DYNAMIC 512u
#define WINDOW_BYTES ((size_t)1 << 20)
#define STUB_BYTES 24u
#define STUBS_IN_A_ROW 3u
/* A function that so many places call is one that a program uses for everything. */
#define PLACES_OF_MALLOC 64u
#define LEAST_PLACES 8u
/* What a program asks for is freed in at least a good part as many places. */
#define FREES_SHARE 4u
/* The functions of an allocator are in one object file, or in a few that follow each other. */
#define NEAR_BYTES 65536u

struct slot {
	uint64_t at, target;
	uint32_t places, tested;
};

struct scan {
	const struct limpet_elf_file *file;
	struct limpet_elf_segment segments[MOST_SEGMENTS];
	unsigned segment_count;
	struct slot *slots; /* sorted by address once they are complete */
	size_t count, capacity;
	size_t reads; /* at words that may be slots */
	/* The table of .eh_frame_hdr; 0 entries: none that can be read. */
	uint64_t table, table_base;
	uint32_t table_count;
};

static const struct limpet_elf_segment *segment_of(const struct scan *scan, uint64_t value)
{
	for (unsigned i = 0; i < scan->segment_count; i++) {
		const struct limpet_elf_segment *segment = &scan->segments[i];

		if (segment->type == PT_LOAD && value >= segment->value &&
		    value - segment->value < segment->bytes)
			return segment;
	}
	return NULL;
}

static bool is_code(const struct scan *scan, uint64_t value)
{
	const struct limpet_elf_segment *segment = segment_of(scan, value);

	return segment && segment->flags & PF_X;
}

/* Reads up to `bytes` of what the file has at this address; returns how many. */
static size_t read_value(const struct scan *scan, uint64_t value, void *ret, size_t bytes)
{
	const struct limpet_elf_segment *segment = segment_of(scan, value);
	const uint64_t from = segment ? value - segment->value : 0;

	if (!segment)
		return 0;
	if (bytes > segment->bytes - from)
		bytes = (size_t)(segment->bytes - from);
	return limpet_elf_file_read(scan->file, segment->offset + from, ret, bytes) < 0 ? 0 : bytes;
}

/* ---------------------------------------------------------------- functions */

/* DW_EH_PE_* (LSB Core, "Exception Frames"), as linkers write them. */
#define HEADER_VERSION 1u
#define ENCODING_COUNT 0x03u /* udata4 */
#define ENCODING_TABLE 0x3bu /* datarel, sdata4 */

struct header {
	uint8_t version, pointer_encoding, count_encoding, table_encoding;
	int32_t frames;
	uint32_t count;
};
/* Relative to the header. */
struct row {
	int32_t function, frame;
};

static void find_table(struct scan *scan)
{
	for (unsigned i = 0; i < scan->segment_count; i++) {
		const struct limpet_elf_segment *segment = &scan->segments[i];
		struct header header;

		if (segment->type != PT_GNU_EH_FRAME ||
		    read_value(scan, segment->value, &header, sizeof(header)) < sizeof(header) ||
		    header.version != HEADER_VERSION || header.count_encoding != ENCODING_COUNT ||
		    header.table_encoding != ENCODING_TABLE)
			continue;
		scan->table_base = segment->value;
		scan->table = segment->value + sizeof(header);
		scan->table_count = header.count;
	}
}

static struct row read_row(const struct scan *scan, size_t i)
{
	struct row row;

	if (read_value(scan, scan->table + i * sizeof(row), &row, sizeof(row)) < sizeof(row))
		return (struct row){INT32_MAX, 0};
	return row;
}

/* Exceptions that pass the function look at it: it may have clean-ups, and is not C's. `cie`: where
 * its common information begins. */
static bool handles_exceptions(const struct scan *scan, uint64_t cie)
{
	char head[24] = "";
	const size_t before = 2 * sizeof(uint32_t) + 1; /* length, number, version */
	const size_t bytes = read_value(scan, cie, head, sizeof(head) - 1);

	return bytes < sizeof(head) - 1 || strchr(head + before, 'P');
}

/* The length of the function that begins at `value`, by its unwind table; 0: none begins there, or
 * one that exceptions may leave: a watched return would be in their way. */
static uint64_t bytes_of(const struct scan *scan, uint64_t value)
{
	const int64_t wanted = (int64_t)(value - scan->table_base);
	const size_t i =
		LIMPET_PARTITION_POINT(k, scan->table_count, read_row(scan, k).function < wanted);
	const struct row row = i < scan->table_count ? read_row(scan, i) : (struct row){0, 0};
	/* Length, distance of the CIE, pc-relative address, length of the code. */
	int32_t entry[4];
	uint64_t at;

	if (row.function != wanted)
		return 0;
	at = scan->table_base + (uint64_t)(int64_t)row.frame;
	if (read_value(scan, at, entry, sizeof(entry)) < sizeof(entry) ||
	    at + 8 + (uint64_t)(int64_t)entry[2] != value || entry[3] <= 0 ||
	    handles_exceptions(scan, at + 4 - (uint64_t)(int64_t)entry[1]))
		return 0;
	return (uint64_t)entry[3];
}

/* ---------------------------------------------------------------- slots */

static int add_slot(struct scan *scan, uint64_t at, uint64_t target)
{
	if (!is_code(scan, target))
		return 0;
	if (scan->count == MOST_SLOTS)
		return -EFBIG;
	if (limpet_reserve(&scan->slots, &scan->capacity, scan->count + 1, sizeof(*scan->slots)) <
	    0)
		return -ENOMEM;
	scan->slots[scan->count++] = (struct slot){.at = at, .target = target};
	return 0;
}

/* Reads whole items of a table of which `left` bytes are left, at most `room` bytes; returns how
 * many items. */
static size_t read_items(const struct scan *scan, uint64_t value, uint64_t left, void *ret,
			 size_t room, size_t item_bytes)
{
	return read_value(scan, value, ret, left < room ? (size_t)left : room) / item_bytes;
}

static int read_relocations(struct scan *scan, uint64_t value, uint64_t bytes)
{
	Elf64_Rela list[256];
	size_t got;

	for (uint64_t done = 0; (got = read_items(scan, value + done, bytes - done, list,
						  sizeof(list), sizeof(list[0])));
	     done += got * sizeof(list[0]))
		for (size_t i = 0; i < got; i++) {
			int error = 0;

			if (LIMPET_ARCH_RELOCATION_IS_RELATIVE(ELF64_R_TYPE(list[i].r_info)))
				error = add_slot(scan, list[i].r_offset,
						 (uint64_t)list[i].r_addend);
			if (error)
				return error;
		}
	return 0;
}

/* The target of a slot whose addend is in the slot itself. */
static int add_implicit(struct scan *scan, uint64_t at)
{
	uint64_t target;

	if (++scan->reads > MOST_SLOTS)
		return -EFBIG;
	if (read_value(scan, at, &target, sizeof(target)) < sizeof(target))
		return 0;
	return add_slot(scan, at, target);
}

/* A word of DT_RELR (System V ABI, generic-abi): an address, or a bitmap of the 63 words that
 * follow *where. */
static int add_compact(struct scan *scan, uint64_t word, uint64_t *where)
{
	int error = 0;

	if (!(word & 1)) {
		*where = word + sizeof(word);
		return add_implicit(scan, word);
	}
	for (unsigned bit = 0; bit < 63 && !error; bit++)
		if (word >> (bit + 1) & 1)
			error = add_implicit(scan, *where + bit * sizeof(word));
	*where += 63 * sizeof(word);
	return error;
}

static int read_compact(struct scan *scan, uint64_t value, uint64_t bytes)
{
	uint64_t list[512], where = 0;
	size_t got;

	for (uint64_t done = 0; (got = read_items(scan, value + done, bytes - done, list,
						  sizeof(list), sizeof(list[0])));
	     done += got * sizeof(list[0]))
		for (size_t i = 0; i < got; i++) {
			const int error = add_compact(scan, list[i], &where);

			if (error)
				return error;
		}
	return 0;
}

#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

static int read_slots(struct scan *scan)
{
	uint64_t rela = 0, rela_bytes = 0, relr = 0, relr_bytes = 0;
	Elf64_Dyn list[MOST_DYNAMIC];
	size_t count = 0;
	int error = 0;

	for (unsigned i = 0; i < scan->segment_count; i++)
		if (scan->segments[i].type == PT_DYNAMIC)
			count = read_value(scan, scan->segments[i].value, list, sizeof(list)) /
				sizeof(list[0]);
	for (size_t i = 0; i < count && list[i].d_tag != DT_NULL; i++) {
		const uint64_t value = list[i].d_un.d_val;

		rela = list[i].d_tag == DT_RELA ? value : rela;
		rela_bytes = list[i].d_tag == DT_RELASZ ? value : rela_bytes;
		relr = list[i].d_tag == DT_RELR ? value : relr;
		relr_bytes = list[i].d_tag == DT_RELRSZ ? value : relr_bytes;
	}
	if (rela_bytes > MOST_SLOTS * sizeof(Elf64_Rela) || relr_bytes > MOST_SLOTS)
		return -EFBIG;
	if (rela)
		error = read_relocations(scan, rela, rela_bytes);
	if (relr && !error)
		error = read_compact(scan, relr, relr_bytes);
	return error;
}

static int compare_slots(const void *a, const void *b)
{
	const struct slot *left = a, *right = b;

	return (left->at > right->at) - (left->at < right->at);
}

static struct slot *find_slot(const struct scan *scan, uint64_t at)
{
	size_t i = LIMPET_PARTITION_POINT(k, scan->count, scan->slots[k].at < at);

	return i < scan->count && scan->slots[i].at == at ? &scan->slots[i] : NULL;
}

/* ---------------------------------------------------------------- calls */

static void count_calls(const struct scan *scan, const uint8_t *code, size_t bytes,
			uint64_t address)
{
	for (size_t i = 0; i + LIMPET_CALL_SITE_BYTES <= bytes; i++) {
		struct limpet_call_site site;
		struct slot *slot;

		if (!limpet_call_site_at(code + i, address + i, &site))
			continue;
		slot = find_slot(scan, site.slot);
		if (!slot)
			continue;
		slot->places++;
		slot->tested += site.tested;
	}
}

static int read_code(const struct scan *scan)
{
	LIMPET_FREE uint8_t *window = malloc(WINDOW_BYTES);
	uint64_t left = MOST_CODE_BYTES;

	if (!window)
		return -ENOMEM;
	for (unsigned i = 0; i < scan->segment_count; i++) {
		const struct limpet_elf_segment *segment = &scan->segments[i];

		if (segment->type != PT_LOAD || !(segment->flags & PF_X))
			continue;
		if (segment->bytes > left)
			return -EFBIG;
		left -= segment->bytes;
		/* Windows overlap, so that a call at the end of one is seen in the next. */
		for (uint64_t at = 0; at < segment->bytes;
		     at += WINDOW_BYTES - LIMPET_CALL_SITE_BYTES + 1) {
			const size_t bytes =
				read_value(scan, segment->value + at, window, WINDOW_BYTES);

			count_calls(scan, window, bytes, segment->value + at);
			if (bytes < WINDOW_BYTES)
				break;
		}
	}
	return 0;
}

/* The function behind stubs that only jump on. */
static uint64_t behind_stubs(const struct scan *scan, uint64_t function)
{
	for (unsigned i = 0; i < STUBS_IN_A_ROW; i++) {
		uint8_t code[STUB_BYTES];
		const size_t bytes = read_value(scan, function, code, sizeof(code));
		const uint64_t at = limpet_call_stub_slot(code, bytes, function);
		const struct slot *slot = at ? find_slot(scan, at) : NULL;

		if (!slot)
			break;
		function = slot->target;
	}
	return function;
}

static int compare_calls(const void *a, const void *b)
{
	const struct limpet_slot_call *left = a, *right = b;

	return (left->function > right->function) - (left->function < right->function);
}

/* Slots of the same function become one. */
static size_t merge(struct limpet_slot_call *list, size_t count)
{
	size_t kept = 0;

	qsort(list, count, sizeof(*list), compare_calls);
	for (size_t i = 0; i < count; i++) {
		if (kept && list[kept - 1].function == list[i].function) {
			list[kept - 1].places += list[i].places;
			list[kept - 1].tested += list[i].tested;
		} else {
			list[kept++] = list[i];
		}
	}
	return kept;
}

/* Those that are the beginning of a function. */
static size_t keep_functions(const struct scan *scan, struct limpet_slot_call *list, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		const struct limpet_elf_segment *segment = segment_of(scan, list[i].function);

		if (list[i].places < LEAST_PLACES)
			continue;
		list[i].bytes = bytes_of(scan, list[i].function);
		list[i].offset = segment->offset + (list[i].function - segment->value);
		if (list[i].bytes &&
		    list[i].bytes <= segment->bytes - (list[i].function - segment->value))
			list[kept++] = list[i];
	}
	return kept;
}

static int find_calls(struct scan *scan, struct limpet_slot_call **ret, size_t *ret_count)
{
	LIMPET_FREE struct limpet_slot_call *list = NULL;
	size_t count = 0;
	int error = read_slots(scan);

	if (error)
		return error;
	if (scan->count)
		qsort(scan->slots, scan->count, sizeof(*scan->slots), compare_slots);
	error = read_code(scan);
	if (error)
		return error;
	list = calloc(scan->count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < scan->count; i++)
		if (scan->slots[i].places)
			list[count++] = (struct limpet_slot_call){
				.function = behind_stubs(scan, scan->slots[i].target),
				.places = scan->slots[i].places,
				.tested = scan->slots[i].tested,
			};
	count = merge(list, count);
	*ret_count = keep_functions(scan, list, count);
	*ret = LIMPET_TAKE(list);
	return 0;
}

int limpet_slot_calls_find(const struct limpet_elf_file *file, struct limpet_slot_call **ret,
			   size_t *ret_count)
{
	struct scan scan = {.file = file};
	int error = limpet_elf_file_segments(file, scan.segments, MOST_SEGMENTS);

	if (error < 0)
		return error;
	scan.segment_count = (unsigned)error;
	find_table(&scan);
	error = find_calls(&scan, ret, ret_count);
	free(scan.slots);
	return error;
}

/* ---------------------------------------------------------------- choice */

static bool requests_memory(const struct limpet_slot_call *call)
{
	return call->places >= PLACES_OF_MALLOC &&
	       (uint64_t)call->tested * 10 >= (uint64_t)call->places * 6;
}

static bool is_near(const struct limpet_slot_call *call, const struct limpet_slot_call *other)
{
	const uint64_t away = call->function > other->function ? call->function - other->function
							       : other->function - call->function;

	return away <= NEAR_BYTES;
}

/* Its result is asked for in some places; or it may be free. */
static bool may_be_of(const struct limpet_slot_call *call, const struct limpet_slot_call *most)
{
	return call->places >= LEAST_PLACES && is_near(call, most) &&
	       (call->tested || call->places >= most->places / FREES_SHARE);
}

static int compare_places(const void *a, const void *b)
{
	const struct limpet_slot_call *left = a, *right = b;

	return (left->places < right->places) - (left->places > right->places);
}

size_t limpet_slot_calls_choose(const struct limpet_slot_call *list, size_t count,
				struct limpet_slot_call *ret, size_t max)
{
	const struct limpet_slot_call *most = NULL;
	size_t chosen = 0;

	for (size_t i = 0; i < count; i++)
		if (requests_memory(&list[i]) && (!most || list[i].places > most->places))
			most = &list[i];
	if (!most || !max)
		return 0;
	ret[chosen++] = *most;
	for (size_t i = 0; i < count; i++) {
		const struct limpet_slot_call *call = &list[i];

		if (call == most || !may_be_of(call, most))
			continue;
		if (chosen < max)
			ret[chosen++] = *call;
		else if (max > 1 && ret[max - 1].places < call->places)
			ret[max - 1] = *call;
		else
			continue;
		qsort(ret + 1, chosen - 1, sizeof(*ret), compare_places);
	}
	return chosen;
}
