#include "explain/runtimes/v8_frames.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/modules.h"

/* What stands for a function's bytecode and refers to it: the data of a profiler's trampoline, or
 * unoptimized code. */
#define DATA_WORDS 5u

/* ------------------------------------------------------------------ functions */

/* Where the collector of young objects has moved one, its old place has the address of the new one
 * instead of a map, until it is used again. */
static int find_closure(const struct limpet_v8 *v8, uint64_t word, struct limpet_v8_object *ret)
{
	const uint64_t address = limpet_v8_address(word);
	uint64_t map;
	int error;

	if (!address || address % 8)
		return -EBADMSG;
	if (!limpet_memory_reader_read_word(v8->memory, address, &map))
		return -ENODATA;
	error = limpet_v8_object(v8, map % 8 ? word : map | 1, ret);
	return error ? error : limpet_v8_is_function(v8, ret) ? 0 : -EBADMSG;
}

static bool has_bytecode(const struct limpet_v8 *v8, uint64_t shared, uint64_t bytecode)
{
	const struct limpet_v8_object object = {.address = shared};
	struct limpet_v8_object data;
	uint64_t words[DATA_WORDS];

	if (limpet_v8_reference(v8, &object, v8->layout->shared_data, &data) != 0)
		return false;
	if (data.address == bytecode)
		return true;
	if (limpet_memory_reader_read(v8->memory, data.address, words, sizeof(words)) != 0)
		return false;
	for (size_t i = 1; i < LIMPET_COUNT_OF(words); i++)
		if (limpet_v8_address(words[i]) == bytecode)
			return true;
	return false;
}

static bool is_bytecode(const struct limpet_v8 *v8, uint64_t address)
{
	struct limpet_v8_object object;

	return limpet_v8_object(v8, address | 1, &object) == 0 &&
	       object.type == v8->layout->type_bytecode;
}

/* Whether the frame's code is that of the function; of compiled code `code` is what was found. */
static bool is_of_function(const struct limpet_v8 *v8, const struct limpet_v8_frame *frame,
			   const struct limpet_v8_code *code, uint64_t shared)
{
	if (frame->bytecode)
		return is_bytecode(v8, frame->bytecode) &&
		       has_bytecode(v8, shared, frame->bytecode);
	if (limpet_v8_code_is_baseline(v8, code))
		return has_bytecode(v8, shared, code->data.address);
	return limpet_v8_code_is_of(v8, code, shared);
}

/* ------------------------------------------------------------------ witnesses */

static int read_scope(const struct limpet_v8 *v8, struct limpet_v8_witness *witness)
{
	const struct limpet_v8_object shared = {.address = witness->shared};
	uint64_t scope;

	if (!limpet_v8_field(v8, &shared, v8->layout->shared_name_or_scope, &scope))
		return -ENODATA;
	scope = limpet_v8_address(scope);
	return scope ? limpet_memory_reader_read(v8->memory, scope, witness->scope_words,
						 sizeof(witness->scope_words))
		     : 0;
}

static int read_instructions(const struct limpet_v8 *v8, struct limpet_v8_witness *witness)
{
	return witness->frame.bytecode
		       ? 0
		       : limpet_memory_reader_read(
				 v8->memory, witness->frame.pc - sizeof(witness->instructions) / 2,
				 witness->instructions, sizeof(witness->instructions));
}

static int read_heads(const struct limpet_v8 *v8, struct limpet_v8_witness *witness)
{
	const uint64_t code = witness->code ? witness->code : witness->frame.bytecode;
	int error = limpet_memory_reader_read(v8->memory, code, witness->code_words,
					      sizeof(witness->code_words));

	return error ? error
		     : limpet_memory_reader_read(v8->memory, witness->shared, witness->shared_words,
						 sizeof(witness->shared_words));
}

static int read_witness(const struct limpet_v8 *v8, struct limpet_v8_witness *witness)
{
	int error = read_heads(v8, witness);

	if (!error)
		error = read_instructions(v8, witness);
	return error ? error : read_scope(v8, witness);
}

/* All that is read of a frame's function, in one reading; the function itself in two. */
struct reading {
	struct limpet_v8_witness witness;
	struct limpet_v8_function info;
};

static int read_frame(const struct limpet_v8 *v8, const struct limpet_v8_frame *frame,
		      uint64_t closure, struct reading *ret)
{
	struct limpet_v8_object function, shared;
	struct limpet_v8_code code = {0};
	int error = find_closure(v8, closure, &function);

	memset(ret, 0, sizeof(*ret));
	ret->witness.frame = *frame;
	if (!error)
		error = limpet_v8_reference(v8, &function, v8->layout->function_shared, &shared);
	if (!error && !frame->bytecode)
		error = limpet_v8_code_at(v8, frame->pc, &code);
	if (error)
		return error;
	ret->witness.shared = shared.address;
	ret->witness.code = code.address;
	ret->witness.start = code.start;
	ret->witness.data = code.data.address;
	error = read_witness(v8, &ret->witness);
	if (!error && !is_of_function(v8, frame, &code, shared.address))
		error = -EBADMSG;
	return error ? error : limpet_v8_function_info(v8, shared.address | 1, &ret->info);
}

int limpet_v8_frame_function(const struct limpet_v8 *v8, const struct limpet_v8_frame *frame,
			     uint64_t closure, struct limpet_v8_function *ret,
			     struct limpet_v8_witness *ret_witness)
{
	struct reading once, again;
	int error;

	limpet_v8_refresh(v8);
	error = read_frame(v8, frame, closure, &once);
	/* The function was read anew last. */
	if (!error)
		error = read_frame(v8, frame, closure, &again);
	if (error)
		return error;
	if (memcmp(&once, &again, sizeof(once)) != 0)
		return -EAGAIN;
	*ret = once.info;
	*ret_witness = once.witness;
	return 0;
}

/* Its code may have changed since, or its feedback. */
static bool is_same_function(const struct limpet_v8 *v8, const struct limpet_v8_witness *before,
			     const struct limpet_v8_witness *now)
{
	const size_t name = (size_t)v8->layout->shared_name_or_scope / 8;

	return name < LIMPET_V8_WITNESS_WORDS && before->shared_words[0] == now->shared_words[0] &&
	       before->shared_words[name] == now->shared_words[name] &&
	       !memcmp(before->scope_words, now->scope_words, sizeof(now->scope_words));
}

static bool is_same_code(const struct limpet_v8 *v8, const struct limpet_v8_witness *before,
			 const struct limpet_v8_witness *now)
{
	struct limpet_v8_code code = {0};

	/* Its map. */
	if (before->code_words[0] != now->code_words[0] ||
	    memcmp(before->instructions, now->instructions, sizeof(now->instructions)) != 0)
		return false;
	/* The same function may be compiled anew, and its calls be elsewhere. */
	if (now->code &&
	    (limpet_v8_code_read(v8, now->code, &code) < 0 || code.start != before->start ||
	     code.data.address != before->data || now->frame.pc > code.end))
		return false;
	return is_of_function(v8, &now->frame, &code, now->shared);
}

/* Intel's manual, volume 2, CALL: e8, or ff with 2 in the middle of the next byte. True for some
 * others, too. */
static bool may_be_call(const uint8_t *end)
{
	if (end[-5] == 0xe8)
		return true;
	for (int i = 2; i <= 7; i++)
		if (end[-i] == 0xff && (end[1 - i] >> 3 & 7) == 2)
			return true;
	return false;
}

/* The code is gone: whether a call of other code may return to the same address. */
static bool is_code_replaced(const struct limpet_v8 *v8, const struct limpet_v8_witness *before)
{
	struct limpet_v8_witness now = {.frame = before->frame};
	struct limpet_v8_code code;

	if (before->frame.bytecode)
		return is_bytecode(v8, before->frame.bytecode);
	if (read_instructions(v8, &now) < 0)
		return false;
	if (!memcmp(now.instructions, before->instructions, sizeof(now.instructions)))
		return limpet_v8_code_at(v8, before->frame.pc, &code) == 0;
	return may_be_call(now.instructions + sizeof(now.instructions) / 2);
}

/* Its words are those of before, but for what the collector of V8 writes there. */
static bool has_same_heads(const struct limpet_v8 *v8, const struct limpet_v8_witness *before,
			   const struct limpet_v8_witness *now)
{
	const size_t name = (size_t)v8->layout->shared_name_or_scope / 8;
	const size_t data = (size_t)v8->layout->shared_data / 8;

	return name < LIMPET_V8_WITNESS_WORDS && data < LIMPET_V8_WITNESS_WORDS &&
	       before->shared_words[0] == now->shared_words[0] &&
	       before->shared_words[name] == now->shared_words[name] &&
	       before->shared_words[data] == now->shared_words[data] &&
	       !memcmp(before->code_words, now->code_words, sizeof(now->code_words));
}

enum limpet_v8_still limpet_v8_is_still(const struct limpet_v8 *v8,
					const struct limpet_v8_witness *witness, bool closely)
{
	struct limpet_v8_witness now = {
		.frame = witness->frame, .code = witness->code, .shared = witness->shared};
	int error = read_heads(v8, &now);

	if (!error && !closely && has_same_heads(v8, witness, &now))
		return LIMPET_V8_STILL;
	if (!error)
		error = read_witness(v8, &now);
	if (error == -ETIME || error == -ESRCH)
		return LIMPET_V8_UNREAD;
	if (!error && is_same_function(v8, witness, &now) && is_same_code(v8, witness, &now))
		return LIMPET_V8_STILL;
	if (limpet_memory_reader_is_spent(v8->memory))
		return LIMPET_V8_UNREAD;
	return is_code_replaced(v8, witness) ? LIMPET_V8_REPLACED : LIMPET_V8_GONE;
}

/* ------------------------------------------------------------------ places */

/* `offset`: from the first bytecode. */
static int bytecode_position(const struct limpet_v8 *v8, uint64_t bytecode, int64_t offset,
			     int32_t *ret_position)
{
	const struct limpet_v8_object object = {.address = bytecode};
	uint64_t position;
	int error = limpet_v8_position_at(v8, &object, v8->layout->bytecode_positions, offset,
					  &position);

	if (!error)
		*ret_position = limpet_v8_position(position);
	return error;
}

static int compiled_places(const struct limpet_v8 *v8, const struct limpet_v8_witness *witness,
			   struct limpet_v8_place *places, size_t room)
{
	struct limpet_v8_code code;
	uint32_t offset;
	int error = limpet_v8_code_read(v8, witness->code, &code);

	if (error)
		return error;
	if (!limpet_v8_code_is_baseline(v8, &code))
		return limpet_v8_code_places(v8, &code, witness->frame.pc, places, room);
	error = limpet_v8_code_bytecode_offset(v8, &code, witness->frame.pc, &offset);
	if (!error)
		error = bytecode_position(v8, code.data.address, offset, &places->position);
	return error ? error : 1;
}

/* The number in an interpreter's frame counts from the reference to the bytecode, which has a tag.
 */
int limpet_v8_frame_places(const struct limpet_v8 *v8, const struct limpet_v8_witness *witness,
			   uint32_t offset, struct limpet_v8_place *ret, size_t room)
{
	struct limpet_v8_place places[LIMPET_V8_PLACES] = {{0}};
	int count = 1, error = 0;

	if (v8->layout->bytecode_data < 0)
		return -EBADMSG;
	if (room > LIMPET_V8_PLACES)
		room = LIMPET_V8_PLACES;
	if (witness->frame.bytecode)
		error = bytecode_position(v8, witness->frame.bytecode,
					  (int64_t)offset - (v8->layout->bytecode_data - 1),
					  &places[0].position);
	else
		count = compiled_places(v8, witness, places, room);
	if (error || count < 0)
		return error ? error : count;
	limpet_v8_refresh(v8);
	if (limpet_v8_is_still(v8, witness, true) != LIMPET_V8_STILL)
		return -EAGAIN;
	for (int i = 0; i < count; i++)
		if (!places[i].shared)
			places[i].shared = witness->shared;
	memcpy(ret, places, (size_t)count * sizeof(*ret));
	return count;
}

/* ------------------------------------------------------------------ the interpreter */

struct symbol {
	uint64_t value, bytes;
};

static bool visit_function(void *context, const struct limpet_elf_function *function)
{
	struct symbol *symbol = context;

	if (strcmp(function->name, "Builtins_InterpreterEntryTrampoline") != 0)
		return true;
	*symbol = (struct symbol){function->value, function->bytes};
	return false;
}

int limpet_v8_interpreter_code(const struct limpet_modules *modules,
			       const struct limpet_module *module, uint64_t *ret_start,
			       uint64_t *ret_end)
{
	LIMPET_CLOSE int fd = limpet_module_open(modules->target, module);
	struct limpet_elf_file *file;
	struct symbol symbol = {0};
	int error;

	if (fd < 0)
		return -ENOENT;
	error = limpet_elf_file_open(fd, &file);
	if (error)
		return error;
	error = limpet_elf_file_functions(file, visit_function, &symbol);
	limpet_elf_file_free(file);
	if (error == -ENOMEM)
		return error;
	*ret_start = symbol.bytes ? module->bias + symbol.value : module->text_start;
	*ret_end = symbol.bytes ? *ret_start + symbol.bytes : module->text_end;
	return 0;
}
