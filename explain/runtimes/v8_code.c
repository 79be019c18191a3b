#include "explain/runtimes/v8_code.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"

#define TABLE_LIMIT ((uint64_t)1 << 20)
#define CODE_LIMIT ((uint64_t)512 << 10)
/* Instructions begin at multiples of it. */
#define ALIGNMENT ((uint64_t)32)
#define STEP_BYTES ((uint64_t)4096)
/* Objects that are looked at: words of instructions may seem to be references. */
#define TRIES 64u
/* Of the deoptimization data, the words of which one refers to the function. */
#define DATA_WORDS 12u

/* ------------------------------------------------------------------ objects */

int limpet_v8_code_read(const struct limpet_v8 *v8, uint64_t address, struct limpet_v8_code *ret)
{
	const struct limpet_v8_layout *layout = v8->layout;
	struct limpet_v8_code code = {.address = address};
	struct limpet_v8_object object;
	uint32_t size;
	int error = limpet_v8_object(v8, address | 1, &object);

	if (!error && object.type != layout->type_code)
		error = -EBADMSG;
	if (!error)
		error = limpet_memory_reader_read(v8->memory, address + (uint64_t)layout->code_size,
						  &size, sizeof(size));
	if (!error && layout->code_is_inside)
		code.start = address + (uint64_t)layout->code_start;
	else if (!error && !limpet_v8_field(v8, &object, layout->code_start, &code.start))
		error = -ENODATA;
	if (!error && (!size || size > CODE_LIMIT || code.start > UINT64_MAX - size))
		error = -EBADMSG;
	if (!error)
		error = limpet_v8_reference(v8, &object, layout->code_data, &code.data);
	if (error)
		return error;
	code.end = code.start + size;
	*ret = code;
	return 0;
}

static bool covers(const struct limpet_v8_code *code, uint64_t pc)
{
	return pc > code->start && pc <= code->end;
}

/* Whether instructions that begin at `start` are those of a Code object to which the words before
 * them refer, or are part of. */
static int judge(const struct limpet_v8 *v8, uint64_t start, uint64_t word,
		 struct limpet_v8_code *ret)
{
	const uint64_t address = v8->layout->code_is_inside ? start - v8->layout->code_head
							    : limpet_v8_address(word);
	struct limpet_v8_code code;
	int error;

	if ((word & 3) != 1 || !limpet_v8_address(word))
		return -EBADMSG;
	error = limpet_v8_code_read(v8, address, &code);
	if (error || code.start != start)
		return error ? error : -EBADMSG;
	*ret = code;
	return 0;
}

/* Before the instructions is an object's head: its map, and the Code it is of; or the Code itself.
 */
int limpet_v8_code_at(const struct limpet_v8 *v8, uint64_t pc, struct limpet_v8_code *ret)
{
	const uint64_t head = v8->layout->code_head;
	const uint64_t at_word = v8->layout->code_is_inside ? 0 : 8;
	uint64_t start = (pc - 1) & ~(ALIGNMENT - 1), from = UINT64_MAX;
	uint64_t words[STEP_BYTES / 8] = {0};
	unsigned tries = TRIES;

	for (uint64_t end = start > CODE_LIMIT ? start - CODE_LIMIT : 0; start > end;
	     start -= ALIGNMENT) {
		const uint64_t at = start - head + at_word;
		struct limpet_v8_code code = {0};
		uint64_t word;
		int error;

		if (at < from) {
			from = (at & ~(STEP_BYTES - 1));
			error = limpet_memory_reader_read(v8->memory, from, words, sizeof(words));
			if (error)
				return error;
		}
		word = words[(at - from) / 8];
		if ((word & 3) != 1 || !limpet_v8_address(word))
			continue;
		if (!tries--)
			return -EBADMSG;
		if (judge(v8, start, word, &code) != 0)
			continue;
		if (!covers(&code, pc))
			return -EBADMSG;
		*ret = code;
		return 0;
	}
	return -EBADMSG;
}

bool limpet_v8_code_is_baseline(const struct limpet_v8 *v8, const struct limpet_v8_code *code)
{
	return code->data.type == v8->layout->type_bytecode;
}

bool limpet_v8_code_is_of(const struct limpet_v8 *v8, const struct limpet_v8_code *code,
			  uint64_t shared)
{
	const int32_t wrapper = limpet_v8_type_of(v8->layout, "SharedFunctionInfoWrapper");
	uint64_t words[DATA_WORDS], word;

	if (limpet_memory_reader_read(v8->memory, code->data.address, words, sizeof(words)) != 0)
		return false;
	for (size_t i = 2; i < LIMPET_COUNT_OF(words); i++) {
		struct limpet_v8_object object;

		if (limpet_v8_address(words[i]) == shared)
			return true;
		if (wrapper != LIMPET_V8_UNKNOWN && limpet_v8_address(words[i]) &&
		    limpet_v8_object(v8, words[i], &object) == 0 && object.type == wrapper)
			return limpet_v8_field(v8, &object, 8, &word) &&
			       limpet_v8_address(word) == shared;
	}
	return false;
}

/* A ByteArray, copied; free() it. -EBADMSG: it is none, is empty or longer than any such table. */
static int read_bytes(const struct limpet_v8 *v8, const struct limpet_v8_object *array,
		      uint8_t **ret_bytes, size_t *ret_count)
{
	LIMPET_FREE uint8_t *bytes = NULL;
	uint64_t length;
	int error;

	if (!limpet_v8_field(v8, array, v8->layout->array_length, &length))
		return -ENODATA;
	if (!limpet_v8_is_smi(length) || !(length >> 32) || length >> 32 > TABLE_LIMIT)
		return -EBADMSG;
	length >>= 32;
	bytes = malloc(length);
	if (!bytes)
		return -ENOMEM;
	error = limpet_memory_reader_read(
		v8->memory, array->address + (uint64_t)v8->layout->array_data, bytes, length);
	if (error)
		return error;
	*ret_count = length;
	*ret_bytes = LIMPET_TAKE(bytes);
	return 0;
}

/* ------------------------------------------------------------------ unoptimized code */

/* A list of bytecodes, and the lengths of the instructions for each. */
struct pairs {
	const uint8_t *lengths, *bytecodes;
	size_t length_count, bytecode_count;
	size_t at; /* in the lengths */
};

/* Seven bits a byte, low bits first. */
static bool parse_number(const uint8_t *bytes, size_t count, size_t *at, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < count && shift < 64; shift += 7) {
		const uint8_t byte = bytes[(*at)++];

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		*ret = value;
		return true;
	}
	return false;
}

static bool parse_length(struct pairs *pairs, uint64_t *ret)
{
	return parse_number(pairs->lengths, pairs->length_count, &pairs->at, ret) &&
	       *ret < (uint64_t)1 << 35;
}

/* src/interpreter/bytecodes.h: the first four say that the operands of the next are wider. */
static size_t size_of(const struct limpet_v8_layout *layout, const struct pairs *pairs, size_t at)
{
	const uint8_t first = pairs->bytecodes[at];
	const unsigned prefixes = 4;

	if (first >= prefixes)
		return layout->bytecode_sizes[0][first];
	if (at + 1 >= pairs->bytecode_count ||
	    !layout->bytecode_sizes[1 + first % 2][pairs->bytecodes[at + 1]])
		return 0;
	return 1u + layout->bytecode_sizes[1 + first % 2][pairs->bytecodes[at + 1]];
}

/* The first length is that of what comes before all bytecodes. */
static bool find_bytecode(const struct limpet_v8_layout *layout, struct pairs *pairs,
			  uint64_t pc_offset, uint32_t *ret)
{
	uint64_t end, length;
	size_t next = 0;

	if (!parse_length(pairs, &end))
		return false;
	*ret = 0;
	while (end < pc_offset) {
		const size_t size = next < pairs->bytecode_count ? size_of(layout, pairs, next) : 0;

		if (!size || !parse_length(pairs, &length))
			return false;
		*ret = (uint32_t)next;
		end += length;
		next += size;
	}
	return true;
}

int limpet_v8_code_bytecode_offset(const struct limpet_v8 *v8, const struct limpet_v8_code *code,
				   uint64_t pc, uint32_t *ret_offset)
{
	const struct limpet_v8_layout *layout = v8->layout;
	const struct limpet_v8_object object = {.address = code->address};
	LIMPET_FREE uint8_t *lengths = NULL, *bytecodes = NULL;
	struct limpet_v8_object table;
	struct pairs pairs = {0};
	uint64_t count;
	int error = limpet_v8_reference(v8, &object, layout->code_data + 8, &table);

	if (!error)
		error = read_bytes(v8, &table, &lengths, &pairs.length_count);
	if (!error && !limpet_v8_field(v8, &code->data, layout->array_length, &count))
		error = -ENODATA;
	if (error)
		return error;
	if (!limpet_v8_is_smi(count) || count >> 32 > TABLE_LIMIT || layout->bytecode_data < 0)
		return -EBADMSG;
	pairs.bytecode_count = count >> 32;
	bytecodes = malloc(pairs.bytecode_count + 1);
	if (!bytecodes)
		return -ENOMEM;
	error = limpet_memory_reader_read(v8->memory,
					  code->data.address + (uint64_t)layout->bytecode_data,
					  bytecodes, pairs.bytecode_count);
	if (error)
		return error;
	pairs.lengths = lengths;
	pairs.bytecodes = bytecodes;
	return find_bytecode(layout, &pairs, pc - code->start, ret_offset) ? 0 : -EBADMSG;
}

/* ------------------------------------------------------------------ positions */

/* The lowest bit is the sign. */
static bool parse_signed(const uint8_t *bytes, size_t count, size_t *at, int64_t *ret)
{
	uint64_t value;

	if (!parse_number(bytes, count, at, &value))
		return false;
	*ret = (int64_t)(value >> 1 ^ (0 - (value & 1)));
	return true;
}

/* src/codegen/source-position-table.cc: differences of the offset, whose sign tells statements from
 * expressions, and of the position. */
static bool find_position(const uint8_t *bytes, size_t count, int64_t offset, uint64_t *ret)
{
	uint64_t position = 0;
	int64_t at_offset = 0, step;
	size_t at = 0;
	bool found = false;

	while (at < count) {
		if (!parse_signed(bytes, count, &at, &step))
			return false;
		at_offset += (step >= 0 ? step : -(step + 1)) & UINT32_MAX;
		if (!parse_signed(bytes, count, &at, &step))
			return false;
		if (at_offset > offset)
			break;
		position += (uint64_t)step;
		found = true;
	}
	*ret = position;
	return found && limpet_v8_position(position) >= 0;
}

int limpet_v8_position_at(const struct limpet_v8 *v8, const struct limpet_v8_object *object,
			  int32_t field, int64_t offset, uint64_t *ret)
{
	LIMPET_FREE uint8_t *bytes = NULL;
	struct limpet_v8_object table;
	size_t count;
	int error = limpet_v8_reference(v8, object, field, &table);

	if (!error)
		error = read_bytes(v8, &table, &bytes, &count);
	if (error)
		return error;
	return find_position(bytes, count, offset, ret) ? 0 : -EBADMSG;
}

/* ------------------------------------------------------------------ inlined calls */

/* src/codegen/source-position.h: struct InliningPosition */
struct inlined_call {
	uint64_t position; /* of the call */
	int32_t function;  /* among the literals; -1: the code's own one */
	uint32_t pad;
};

static int read_item(const struct limpet_v8 *v8, const struct limpet_v8_object *array,
		     int32_t index, struct limpet_v8_object *ret)
{
	uint64_t length;

	if (!limpet_v8_field(v8, array, v8->layout->array_length, &length))
		return -ENODATA;
	if (!limpet_v8_is_smi(length) || index < 0 || index >= limpet_v8_smi(length))
		return -EBADMSG;
	return limpet_v8_reference(v8, array, v8->layout->array_data + index * 8, ret);
}

struct inlining {
	struct limpet_v8_object literals;
	struct inlined_call *calls;
	size_t count;
};

static int read_inlining(const struct limpet_v8 *v8, const struct limpet_v8_code *code,
			 struct inlining *ret)
{
	struct limpet_v8_object calls;
	LIMPET_FREE uint8_t *bytes = NULL;
	size_t count;
	int error = read_item(v8, &code->data, v8->layout->deoptimization_literals, &ret->literals);

	if (!error)
		error = read_item(v8, &code->data, v8->layout->deoptimization_inlining, &calls);
	if (!error)
		error = read_bytes(v8, &calls, &bytes, &count);
	if (error)
		return error;
	ret->count = count / sizeof(*ret->calls);
	ret->calls = calloc(ret->count + 1, sizeof(*ret->calls));
	if (!ret->calls)
		return -ENOMEM;
	memcpy(ret->calls, bytes, ret->count * sizeof(*ret->calls));
	return 0;
}

/* The function of an inlined call; 0: the code's own one, which is recursive. */
static int read_inlined(const struct limpet_v8 *v8, const struct inlining *inlining, int32_t index,
			uint64_t *ret_shared)
{
	struct limpet_v8_object shared = {0};
	int error = index == -1 ? 0 : read_item(v8, &inlining->literals, index, &shared);

	if (!error && index != -1 && shared.type != v8->layout->type_shared)
		error = -EBADMSG;
	if (!error)
		*ret_shared = shared.address;
	return error;
}

static int follow(const struct limpet_v8 *v8, const struct inlining *inlining, uint64_t position,
		  struct limpet_v8_place *ret, size_t room)
{
	size_t count = 0;
	int32_t call;

	/* Numbers become lower: a circle ends. */
	for (int32_t before = INT32_MAX; (call = limpet_v8_inlined_call(position)) >= 0;
	     before = call) {
		int error;

		if (call >= before || (size_t)call >= inlining->count || count + 1 >= room)
			return -EBADMSG;
		ret[count].position = limpet_v8_position(position);
		error = read_inlined(v8, inlining, inlining->calls[call].function,
				     &ret[count++].shared);
		if (error)
			return error;
		position = inlining->calls[call].position;
	}
	ret[count++] = (struct limpet_v8_place){.position = limpet_v8_position(position)};
	return (int)count;
}

/* The instruction before the return address is the call. */
int limpet_v8_code_places(const struct limpet_v8 *v8, const struct limpet_v8_code *code,
			  uint64_t pc, struct limpet_v8_place *ret, size_t room)
{
	const struct limpet_v8_object object = {.address = code->address};
	struct inlining inlining = {.count = 0};
	uint64_t position;
	int error = limpet_v8_position_at(v8, &object, v8->layout->code_data + 8,
					  (int64_t)(pc - code->start) - 1, &position);

	if (!error && limpet_v8_inlined_call(position) >= 0)
		error = read_inlining(v8, code, &inlining);
	if (!error)
		error = follow(v8, &inlining, position, ret, room);
	free(inlining.calls);
	return error;
}
