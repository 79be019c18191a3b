#include "explain/runtimes/v8_sizes.h"

#include <string.h>

#include "common/err.h"

enum rule {
	UNKNOWN,
	WORDS,       /* a length, then words */
	BYTES,       /* a length, then bytes */
	ONE_BYTE,    /* characters of strings */
	TWO_BYTE,
	BYTECODE,
	FREE_SPACE,
	PROPERTIES,  /* the length shares its word with a hash */
	WEAK_LIST,   /* a capacity and a length, then words */
	TABLE,       /* a capacity and two more words, then words */
	MATCH_INFO,  /* a capacity and three more */
	DESCRIPTORS, /* three words for each property */
	FEEDBACK_METADATA,
	FEEDBACK_VECTOR,
	PREPARSE_DATA,
	BIG_INT,
	SCOPE_INFO,
	NATIVE_CONTEXT, /* the only context with a pointer behind its words */
	INSTRUCTIONS,
	EMPTY_TABLE, /* the only one of its class in these builds */
	ONE_WORD,
	FILLER
};

static const struct {
	const char *class;
	enum rule rule;
} rules[] = {
	{"FixedArray", WORDS},
	{"HashTable", WORDS},
	{"TransitionArray", WORDS},
	{"Context", WORDS},
	{"FixedDoubleArray", WORDS},
	{"WeakFixedArray", WORDS},
	{"TrustedFixedArray", WORDS},
	{"TrustedWeakFixedArray", WORDS},
	{"ProtectedFixedArray", WORDS},
	{"ProtectedWeakFixedArray", WORDS},
	{"EmbedderDataArray", WORDS},
	{"SloppyArgumentsElements", WORDS},
	{"ByteArray", BYTES},
	{"TrustedByteArray", BYTES},
	{"BytecodeArray", BYTECODE},
	{"FreeSpace", FREE_SPACE},
	{"PropertyArray", PROPERTIES},
	{"ClosureFeedbackCellArray", WORDS},
	{"ExternalPointerArray", WORDS},
	{"WeakArrayList", WEAK_LIST},
	{"DependentCode", WEAK_LIST},
	{"ArrayList", WEAK_LIST},
	{"ScriptContextTable", TABLE},
	{"ObjectBoilerplateDescription", TABLE},
	{"RegExpMatchInfo", MATCH_INFO},
	{"DescriptorArray", DESCRIPTORS},
	{"StrongDescriptorArray", DESCRIPTORS},
	{"FeedbackMetadata", FEEDBACK_METADATA},
	{"FeedbackVector", FEEDBACK_VECTOR},
	{"PreparseData", PREPARSE_DATA},
	{"BigInt", BIG_INT},
	{"ScopeInfo", SCOPE_INFO},
	{"NativeContext", NATIVE_CONTEXT},
	{"InstructionStream", INSTRUCTIONS},
	{"SwissNameDictionary", EMPTY_TABLE},
	{"WasmNull", ONE_WORD},
	{"Filler", FILLER},
};

/* What the constants do not tell. */
struct limpet_v8_sizes_release {
	unsigned major;
	bool has_parameter_counts;
	uint8_t free_unit; /* in which the size of free space is */
	uint8_t feedback_vector_head;
	bool has_code_object;
	uint8_t code_lengths; /* where they are */
	uint8_t code_head;
};
static const struct limpet_v8_sizes_release releases[] = {
	{10, false, 1, 48, false, 40, 128},
	{11, false, 1, 56, true, 56, 16},
	{12, false, 1, 56, true, 52, 32},
	{13, true, 8, 48, true, 56, 32},
};

/* ------------------------------------------------------------------ rules of types */

static void set(struct limpet_v8_sizes *sizes, int32_t type, enum rule rule)
{
	if (type >= 0 && type < (int32_t)LIMPET_V8_SIZES_TYPES)
		sizes->rules[type] = (uint8_t)rule;
}

static void set_strings(struct limpet_v8_sizes *sizes)
{
	for (int32_t type = 0; type < sizes->v8->layout->first_nonstring; type++)
		if (!(type & 7))
			set(sizes, type, type & 8 ? ONE_BYTE : TWO_BYTE);
}

static enum rule find_rule(const char *class)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(rules); i++)
		if (!strcmp(rules[i].class, class))
			return rules[i].rule;
	return UNKNOWN;
}

void limpet_v8_sizes_init(struct limpet_v8_sizes *sizes, const struct limpet_v8 *v8)
{
	memset(sizes, 0, sizeof(*sizes));
	sizes->v8 = v8;
	sizes->release = &releases[0];
	for (size_t i = 0; i < LIMPET_COUNT_OF(releases); i++)
		if (releases[i].major == v8->layout->major)
			sizes->release = &releases[i];
	for (size_t i = 0; i < v8->layout->type_count; i++)
		set(sizes, v8->layout->types[i].type, find_rule(v8->layout->types[i].class));
	/* The machine code was within it. */
	if (!sizes->release->has_code_object)
		set(sizes, v8->layout->type_code, INSTRUCTIONS);
	set_strings(sizes);
}

unsigned limpet_v8_sizes_rule(const struct limpet_v8_sizes *sizes, uint16_t type)
{
	return type < LIMPET_V8_SIZES_TYPES ? sizes->rules[type] : UNKNOWN;
}

bool limpet_v8_sizes_is_free(const struct limpet_v8_sizes *sizes, uint16_t type)
{
	const unsigned rule = limpet_v8_sizes_rule(sizes, type);

	return rule == FREE_SPACE || rule == FILLER;
}

/* ------------------------------------------------------------------ sizes */

#define CODE_ALIGN_BYTES 64u
#define LENGTH_LIMIT UINT64_C(1 << 30)

static uint64_t word_of(const uint8_t *object, uint64_t room, uint64_t offset)
{
	uint64_t word = UINT64_MAX;

	if (offset + sizeof(word) <= room)
		memcpy(&word, object + offset, sizeof(word));
	return word;
}

static uint64_t align(uint64_t bytes)
{
	return (bytes + 7) & ~UINT64_C(7);
}

/* A small integer, as a length; UINT64_MAX: it is none. */
static uint64_t length_of(uint64_t word)
{
	return limpet_v8_is_smi(word) && word >> 32 <= LENGTH_LIMIT ? word >> 32 : UINT64_MAX;
}

static uint64_t sum_words(uint64_t head, uint64_t words)
{
	return words == UINT64_MAX ? 0 : head + words * 8;
}

static uint64_t sum_bytes(uint64_t head, uint64_t bytes)
{
	return bytes == UINT64_MAX ? 0 : align(head + bytes);
}

/* src/objects/feedback-vector.h: kinds of 6 slots in 32 bits; since V8 13 they are followed by the
 * numbers of parameters of closures. */
static uint64_t size_of_metadata(const struct limpet_v8_sizes *sizes, const uint8_t *object,
				 uint64_t room)
{
	const uint64_t word = word_of(object, room, 8);
	const uint64_t slots = word & UINT32_MAX, closures = word >> 32;
	const uint64_t kinds = (slots + 5) / 6 * 4;

	if (slots > LENGTH_LIMIT || closures > LENGTH_LIMIT)
		return 0;
	return align(16 + kinds + (sizes->release->has_parameter_counts ? closures * 2 : 0));
}

/* src/objects/scope-info.tq: what is there says the beginning, see v8_objects.c. */
static uint64_t size_of_scope(const struct limpet_v8_sizes *sizes, const uint8_t *object,
			      uint64_t room)
{
	const struct limpet_v8_layout *layout = sizes->v8->layout;
	const uint32_t flags = limpet_v8_scope_flags(word_of(object, room, 8));
	const uint64_t first = (uint64_t)layout->scope_first_vars;
	const uint64_t locals =
		length_of(word_of(object, room, 8 + (uint64_t)layout->scope_local_count * 8));
	const bool is_module = (flags & 15) == layout->module_scope;
	uint64_t words = first + limpet_v8_scope_words(layout, flags, locals), variables = 0;

	if (locals == UINT64_MAX)
		return 0;
	if (is_module) {
		variables = length_of(word_of(object, room, 8 + first * 8));
		if (variables == UINT64_MAX)
			return 0;
		words += 1 + 3 * variables;
	}
	return 8 + words * 8;
}

/* Machine code behind a head: its length, and that of what belongs to it, are in an object of their
 * own; in V8 10 they are in the head. */
static uint64_t size_of_instructions(const struct limpet_v8_sizes *sizes, const uint8_t *object,
				     uint64_t room)
{
	const struct limpet_v8_sizes_release *release = sizes->release;
	struct limpet_v8_object code;
	uint64_t lengths = word_of(object, room, release->code_lengths), bytes;

	if (release->has_code_object &&
	    (limpet_v8_object(sizes->v8, word_of(object, room, 8), &code) < 0 ||
	     code.type != sizes->v8->layout->type_code ||
	     !limpet_memory_reader_read_word(sizes->v8->memory,
					     code.address + release->code_lengths, &lengths)))
		return 0;
	bytes = (lengths & UINT32_MAX) + (lengths >> 32);
	if (bytes > LENGTH_LIMIT)
		return 0;
	return (release->code_head + bytes + CODE_ALIGN_BYTES - 1) &
	       ~(uint64_t)(CODE_ALIGN_BYTES - 1);
}

uint64_t limpet_v8_sizes_of(const struct limpet_v8_sizes *sizes, unsigned rule,
			    const uint8_t *object, uint64_t room)
{
	const struct limpet_v8_layout *layout = sizes->v8->layout;
	const uint64_t word = word_of(object, room, 8), low = word & UINT32_MAX, high = word >> 32;

	switch ((enum rule)rule) {
	case WORDS:
		return sum_words(16, length_of(word));
	case NATIVE_CONTEXT:
		return sum_words(24, length_of(word));
	case BYTES:
		return sum_bytes(16, length_of(word));
	case ONE_BYTE:
		return high <= LENGTH_LIMIT ? align((uint64_t)layout->string_chars + high) : 0;
	case TWO_BYTE:
		return high <= LENGTH_LIMIT ? align((uint64_t)layout->string_chars + high * 2) : 0;
	case BYTECODE:
		return sum_bytes((uint64_t)layout->bytecode_data, length_of(word));
	case FREE_SPACE:
		return length_of(word) == UINT64_MAX ? 0 : high * sizes->release->free_unit;
	case PROPERTIES:
		return limpet_v8_is_smi(word) ? 16 + (high & 1023) * 8 : 0;
	case WEAK_LIST:
		return sum_words(24, length_of(word));
	case TABLE:
		return sum_words(32, length_of(word));
	case MATCH_INFO:
		return sum_words(40, length_of(word));
	case DESCRIPTORS:
		return 24 + (word & 0xffff) * 24;
	case FEEDBACK_METADATA:
		return size_of_metadata(sizes, object, room);
	case FEEDBACK_VECTOR:
		return low <= LENGTH_LIMIT ? sizes->release->feedback_vector_head + low * 8 : 0;
	case PREPARSE_DATA:
		return low <= LENGTH_LIMIT && high <= LENGTH_LIMIT ? align(16 + low) + high * 8
								  : 0;
	case BIG_INT:
		return 16 + (word >> 1 & 0x3fffffff) * 8;
	case SCOPE_INFO:
		return size_of_scope(sizes, object, room);
	case INSTRUCTIONS:
		return size_of_instructions(sizes, object, room);
	case EMPTY_TABLE:
		return high ? 0 : 40;
	case ONE_WORD:
		return 8;
	case UNKNOWN:
	case FILLER:
	default:
		return 0;
	}
}
