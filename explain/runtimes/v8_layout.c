#include "explain/runtimes/v8_layout.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "common/array.h"
#include "common/base_name.h"
#include "common/begins.h"
#include "injector/elf/elf_file.h"
#include "injector/elf/modules.h"

#define SEGMENTS_LIMIT 64u
#define VERSION_LIMIT 1000u
#define PREFIX "v8dbg_"
#define TYPE_PREFIX "type_"
/* src/utils/version.h: class Version, whose parts are variables. */
#define VERSION_PREFIX "_ZN2v88internal7Version"
/* src/interpreter/bytecodes.cc: Bytecodes::kBytecodeSizes */
#define SIZES_NAME "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"

struct wanted {
	const char *names[2];
	size_t at; /* in the layout */
};
static const struct wanted wanted[] = {
#define WANTED(field, name, other) {{name, other}, offsetof(struct limpet_v8_layout, field)},
	LIMPET_V8_CONSTANTS(WANTED)
#undef WANTED
};

/* The releases that are known, and what their constants leave out. */
struct release {
	unsigned major, minor;
	uint8_t module_scope;                     /* src/objects/scope-info.tq: enum ScopeType */
	uint8_t bytecode_positions;               /* src/objects/bytecode-array.tq */
	uint8_t bytecodes;                        /* src/interpreter/bytecodes.h */
	uint8_t code_start, code_size, code_data; /* src/objects/code.h */
	uint8_t code_head;                        /* src/objects/instruction-stream.h */
};
static const struct release releases[] = {
	{10, 2, 3, 32, 198, 128, 40, 16, 128},
	{11, 3, 3, 32, 198, 40, 56, 16, 16},
	{12, 4, 3, 24, 203, 40, 52, 8, 32},
	{13, 6, 5, 24, 208, 40, 56, 8, 32},
};

static int32_t *field_of(struct limpet_v8_layout *layout, size_t at)
{
	return (int32_t *)(void *)((char *)layout + at);
}

/* ------------------------------------------------------------------ constants in the file */

struct reading {
	struct limpet_elf_file *file;
	struct limpet_elf_segment segments[SEGMENTS_LIMIT];
	int segment_count;
	struct limpet_v8_layout *layout;
	bool has_constants;
	uint64_t bytecode_sizes; /* address in the file; 0: none */
};

/* What is at an address when the program starts. */
static bool read_bytes(const struct reading *reading, uint64_t address, void *ret, size_t bytes)
{
	for (int i = 0; i < reading->segment_count; i++) {
		const struct limpet_elf_segment *segment = &reading->segments[i];

		if (segment->type != PT_LOAD || address < segment->value ||
		    address - segment->value > segment->bytes ||
		    segment->bytes - (address - segment->value) < bytes)
			continue;
		return limpet_elf_file_read(reading->file,
					    segment->offset + (address - segment->value), ret,
					    bytes) == 0;
	}
	return false;
}

static bool read_value(const struct reading *reading, uint64_t address, int32_t *ret)
{
	return read_bytes(reading, address, ret, sizeof(*ret));
}

static void set_version(const struct reading *reading, const char *part, uint64_t address)
{
	struct limpet_v8_layout *layout = reading->layout;
	int32_t value;

	if (!read_value(reading, address, &value) || value < 0 || value > (int32_t)VERSION_LIMIT)
		return;
	if (!strcmp(part, "6major_E"))
		layout->major = (unsigned)value;
	else if (!strcmp(part, "6minor_E"))
		layout->minor = (unsigned)value;
	else if (!strcmp(part, "6build_E"))
		layout->build = (unsigned)value;
}

/* "JSFunction__JS_FUNCTION_TYPE". Classes that share a type with another one come later. */
static void parse_type(struct limpet_v8_layout *layout, const char *name, int32_t value)
{
	const char *end = strstr(name, "__");
	struct limpet_v8_type *type = &layout->types[layout->type_count];

	if (!end || layout->type_count == LIMPET_V8_TYPES || value < 0 || value > UINT16_MAX ||
	    (size_t)(end - name) >= sizeof(type->class))
		return;
	for (size_t i = 0; i < layout->type_count; i++)
		if (layout->types[i].type == value)
			return;
	type->type = (uint16_t)value;
	memcpy(type->class, name, (size_t)(end - name));
	type->class[end - name] = '\0';
	layout->type_count++;
}

static bool is_called(const char *name, const char *wanted_name)
{
	const size_t length = strlen(wanted_name);

	if (length > 2 && !strcmp(wanted_name + length - 2, "__"))
		return !strncmp(name, wanted_name, length);
	return !strcmp(name, wanted_name);
}

static void parse_constant(struct reading *reading, const char *name, uint64_t address)
{
	int32_t value;

	if (!read_value(reading, address, &value) || value == LIMPET_V8_UNKNOWN)
		return;
	reading->has_constants = true;
	if (limpet_begins(name, TYPE_PREFIX))
		parse_type(reading->layout, name + strlen(TYPE_PREFIX), value);
	for (size_t i = 0; i < LIMPET_COUNT_OF(wanted); i++)
		for (size_t k = 0; k < LIMPET_COUNT_OF(wanted[i].names); k++)
			if (wanted[i].names[k] && is_called(name, wanted[i].names[k]))
				*field_of(reading->layout, wanted[i].at) = value;
}

static bool visit_object(void *context, const char *name, uint64_t address)
{
	struct reading *reading = context;

	if (limpet_begins(name, PREFIX))
		parse_constant(reading, name + strlen(PREFIX), address);
	else if (limpet_begins(name, VERSION_PREFIX))
		set_version(reading, name + strlen(VERSION_PREFIX), address);
	else if (!strcmp(name, SIZES_NAME))
		reading->bytecode_sizes = address;
	return true;
}

/* ------------------------------------------------------------------ without constants */

/* Where in "V8 version 13.9.205.1-rusty" the suffix is: that is how embedders call theirs. */
static bool visit_suffix(void *context, const char *at, size_t before, size_t after)
{
	struct limpet_v8_layout *layout = context;
	unsigned numbers[4] = {0}, scale = 1, count = 0;
	size_t back = 1;

	(void)after;
	for (; back <= before && count < LIMPET_COUNT_OF(numbers); back++) {
		const char byte = at[-(ptrdiff_t)back];

		if (byte >= '0' && byte <= '9' && scale <= 10000) {
			numbers[count] += scale * (unsigned)(byte - '0');
			scale *= 10;
		} else if (byte == '.' && scale > 1) {
			count++;
			scale = 1;
		} else {
			break;
		}
	}
	if (count != 3 || scale == 1)
		return true;
	layout->major = numbers[3];
	layout->minor = numbers[2];
	layout->build = numbers[1];
	return false;
}

/* For the message alone. */
static void search_version(const struct reading *reading)
{
	static const char *const suffixes[] = {"-rusty", "-electron.", "-node.", "-nwjs"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(suffixes) && !reading->layout->major; i++)
		(void)limpet_elf_file_search(reading->file, suffixes[i], visit_suffix,
					     reading->layout);
}

/* ------------------------------------------------------------------ what is known */

static const struct release *find_release(const struct limpet_v8_layout *layout)
{
	for (size_t i = 0; i < LIMPET_COUNT_OF(releases); i++)
		if (releases[i].major == layout->major && releases[i].minor == layout->minor)
			return &releases[i];
	return NULL;
}

/* ------------------------------------------------------------------ types without constants */

static void add_type(struct limpet_v8_layout *layout, int32_t type, const char *class)
{
	if (type <= 0 || type > UINT16_MAX || layout->type_count == LIMPET_V8_TYPES)
		return;
	for (size_t i = 0; i < layout->type_count; i++)
		if (layout->types[i].type == type)
			return;
	layout->types[layout->type_count].type = (uint16_t)type;
	snprintf(layout->types[layout->type_count++].class, LIMPET_V8_TYPE_NAME_BYTES, "%s", class);
}

static bool has_type(const struct limpet_v8_layout *layout, int32_t type)
{
	for (size_t i = 0; i < layout->type_count; i++)
		if (layout->types[i].type == type)
			return true;
	return false;
}

/* Types that the constants leave out, by those that are told: each has its place among them. */
static void add_types(struct limpet_v8_layout *layout)
{
	static const struct {
		const char *before, *class;
	} neighbours[] = {
		{"Symbol", "BigInt"},
		{"WeakFixedArray", "TransitionArray"},
		{"EmbedderDataArray", "FeedbackMetadata"},
		{"FeedbackVector", "Filler"},
		{"Filler", "FreeSpace"},
		{"PromiseResolveThenableJobTask", "LoadHandler"},
		{"LoadHandler", "StoreHandler"},
		{"TurbofanUnionType", "Foreign"},
	};
	int32_t type = limpet_v8_type_of(layout, "FixedArray");

	/* Dictionaries and other tables derive from it. */
	while (type > 0 && type < UINT16_MAX && !has_type(layout, type + 1))
		add_type(layout, ++type, "HashTable");
	/* By their names: await, block, catch, debug, eval, function, module, native. */
	add_type(layout, layout->first_context + 7, "NativeContext");
	for (type = layout->first_context; type > 0 && type <= layout->last_context; type++)
		add_type(layout, type, "Context");
	for (size_t i = 0; i < LIMPET_COUNT_OF(neighbours); i++)
		if (limpet_v8_type_of(layout, neighbours[i].class) < 0)
			add_type(layout, limpet_v8_type_of(layout, neighbours[i].before) + 1,
				 neighbours[i].class);
}

/* ------------------------------------------------------------------ what is known of all */

static void set_default(int32_t *field, int32_t value)
{
	if (*field == LIMPET_V8_UNKNOWN)
		*field = value;
}

/* What has been in the same place in all known releases, and what the constants of some leave out.
 */
static void add_defaults(struct limpet_v8_layout *layout)
{
	set_default(&layout->tagged_size, 8);
	set_default(&layout->object_tag, 1);
	set_default(&layout->smi_shift_size, 31);
	set_default(&layout->map_instance_size, 8);
	set_default(&layout->map_instance_type, 12);
	set_default(&layout->map_bit_field3, 16);
	set_default(&layout->map_prototype, 24);
	set_default(&layout->map_constructor, 32);
	set_default(&layout->first_nonstring, 128);
	set_default(&layout->string_length, 12);
	set_default(&layout->string_chars, 16);
	set_default(&layout->cons_first, 16);
	set_default(&layout->cons_second, 24);
	set_default(&layout->sliced_parent, 16);
	set_default(&layout->sliced_offset, 24);
	set_default(&layout->thin_actual, 16);
	set_default(&layout->array_length, 8);
	set_default(&layout->array_data, 16);
	set_default(&layout->shared_data, 8);
	set_default(&layout->deoptimization_literals, 2);
	set_default(&layout->deoptimization_inlining, 7);
	set_default(&layout->script_source, 8);
	set_default(&layout->script_name, 16);
	set_default(&layout->uncompiled_name, 8);
	set_default(&layout->uncompiled_start, 16);
	set_default(&layout->uncompiled_end, 20);
	add_types(layout);
}

static void set_release(const struct reading *reading, const struct release *release)
{
	struct limpet_v8_layout *layout = reading->layout;
	const uint64_t count = release->bytecodes;

	layout->module_scope = release->module_scope;
	layout->code_data = release->code_data;
	layout->code_head = release->code_head;
	layout->code_is_inside = release->code_head == release->code_start;
	set_default(&layout->bytecode_positions, release->bytecode_positions);
	set_default(&layout->code_start, release->code_start);
	set_default(&layout->code_size, release->code_size);
	for (uint64_t i = 0; reading->bytecode_sizes && i < 3; i++)
		if (!read_bytes(reading, reading->bytecode_sizes + i * count,
				layout->bytecode_sizes[i], count))
			memset(layout->bytecode_sizes, 0, sizeof(layout->bytecode_sizes));
}

static bool is_plausible_offset(int32_t offset)
{
	return offset >= 8 && offset < 256;
}

/* The rest relies on these. */
static bool is_usable(const struct limpet_v8_layout *layout)
{
	return layout->tagged_size == 8 && layout->object_tag == 1 &&
	       layout->smi_shift_size == 31 && layout->type_map > 0 && layout->type_function > 0 &&
	       layout->type_shared > 0 && layout->type_scope > 0 && layout->type_script > 0 &&
	       is_plausible_offset(layout->map_instance_type) &&
	       is_plausible_offset(layout->function_shared) &&
	       is_plausible_offset(layout->shared_name_or_scope) &&
	       is_plausible_offset(layout->shared_script) &&
	       is_plausible_offset(layout->script_name);
}

static int compare_types(const void *a, const void *b)
{
	const struct limpet_v8_type *one = a, *other = b;

	return (int)one->type - (int)other->type;
}

static int judge(struct reading *reading)
{
	struct limpet_v8_layout *layout = reading->layout;
	const struct release *release = find_release(layout);
	const unsigned major = layout->major, minor = layout->minor, build = layout->build;

	if (reading->has_constants && release) {
		add_defaults(layout);
		set_release(reading, release);
		qsort(layout->types, layout->type_count, sizeof(*layout->types), compare_types);
		if (is_usable(layout))
			return 0;
	}
	*layout = (struct limpet_v8_layout){.major = major, .minor = minor, .build = build};
	return -EOPNOTSUPP;
}

static int read_layout(int fd, bool searches, struct limpet_v8_layout *ret)
{
	LIMPET_FREE struct limpet_v8_layout *layout = calloc(1, sizeof(*layout));
	struct reading reading = {.layout = layout};
	int error;

	if (!layout)
		return -ENOMEM;
	error = limpet_elf_file_open(fd, &reading.file);
	if (error)
		return error;
	for (size_t i = 0; i < LIMPET_COUNT_OF(wanted); i++)
		*field_of(layout, wanted[i].at) = LIMPET_V8_UNKNOWN;
	reading.segment_count =
		limpet_elf_file_segments(reading.file, reading.segments, SEGMENTS_LIMIT);
	error = limpet_elf_file_objects(reading.file, visit_object, &reading);
	if (!layout->major && searches)
		search_version(&reading);
	if (!layout->major && !reading.has_constants) {
		limpet_elf_file_free(reading.file);
		return error == -ENOMEM ? error : -ENOENT;
	}
	error = judge(&reading);
	limpet_elf_file_free(reading.file);
	*ret = *layout;
	return error;
}

int limpet_v8_layout_read(int fd, struct limpet_v8_layout *ret)
{
	return read_layout(fd, true, ret);
}

/* ------------------------------------------------------------------ in a process */

static int read_module(const struct limpet_modules *modules, const struct limpet_module *module,
		       bool searches, struct limpet_v8_layout *ret)
{
	LIMPET_CLOSE int fd = limpet_module_open(modules->target, module);

	return fd < 0 ? -ENOENT : read_layout(fd, searches, ret);
}

/* Libraries that may be V8, as Debian's libnode.so.108. */
static bool may_be_library(const struct limpet_module *module)
{
	const char *name = limpet_base_name(module->path);

	return strstr(name, "node") || strstr(name, "v8");
}

static int find_layout(const struct limpet_modules *modules, bool searches,
		       struct limpet_v8_layout *ret, const struct limpet_module **ret_module)
{
	for (int libraries = 0; libraries < 2; libraries++)
		for (size_t i = 0; i < modules->count; i++) {
			const struct limpet_module *module = &modules->list[i];
			int error;

			if (module->executable == libraries ||
			    (libraries && !may_be_library(module)))
				continue;
			error = read_module(modules, module, searches, ret);
			if (error && error != -EOPNOTSUPP)
				continue;
			*ret_module = module;
			return error;
		}
	return -ENOENT;
}

int limpet_v8_layout_find(const struct limpet_modules *modules, struct limpet_v8_layout *ret)
{
	const struct limpet_module *module;

	return find_layout(modules, true, ret, &module);
}

int limpet_v8_layout_find_known(const struct limpet_modules *modules, struct limpet_v8_layout *ret,
				const struct limpet_module **ret_module)
{
	return find_layout(modules, false, ret, ret_module);
}

/* ------------------------------------------------------------------ types */

const char *limpet_v8_class_of(const struct limpet_v8_layout *layout, uint16_t type)
{
	const struct limpet_v8_type *list = layout->types;
	/* cppcheck-suppress constStatement */
	size_t at = LIMPET_PARTITION_POINT(i, layout->type_count, list[i].type < type);

	return at < layout->type_count && list[at].type == type ? list[at].class : NULL;
}

int32_t limpet_v8_type_of(const struct limpet_v8_layout *layout, const char *class)
{
	for (size_t i = 0; i < layout->type_count; i++)
		if (!strcmp(layout->types[i].class, class))
			return layout->types[i].type;
	return LIMPET_V8_UNKNOWN;
}

/* ------------------------------------------------------------------ spaces */

/* src/common/globals.h: enum AllocationSpace. */
#define SPACES 13u
static const char *const spaces_10[SPACES] = {"V8: read-only space",
					      "V8: old space",
					      "V8: code space",
					      "V8: map space",
					      "V8: large objects",
					      "V8: large code",
					      "V8: large objects, new ones",
					      "V8: new space"};
static const char *const spaces_11[SPACES] = {
	"V8: read-only space", "V8: new space",    "V8: old space",
	"V8: code space",      "V8: shared space", "V8: large objects, new ones",
	"V8: large objects",   "V8: large code",   "V8: large objects, shared"};
static const char *const spaces_12[SPACES] = {"V8: read-only space",
					      "V8: new space",
					      "V8: old space",
					      "V8: code space",
					      "V8: shared space",
					      "V8: trusted space",
					      "V8: large objects, new ones",
					      "V8: large objects",
					      "V8: large code",
					      "V8: large objects, shared",
					      "V8: large objects, trusted"};
static const char *const spaces_13[SPACES] = {"V8: read-only space",
					      "V8: new space",
					      "V8: old space",
					      "V8: code space",
					      "V8: shared space",
					      "V8: trusted space",
					      "V8: trusted space, shared",
					      "V8: large objects, new ones",
					      "V8: large objects",
					      "V8: large code",
					      "V8: large objects, shared",
					      "V8: large objects, trusted and shared",
					      "V8: large objects, trusted"};

const char *limpet_v8_space_name(const struct limpet_v8_layout *layout, uint32_t id)
{
	static const struct {
		unsigned major;
		const char *const *spaces;
	} lists[] = {{10, spaces_10}, {11, spaces_11}, {12, spaces_12}, {13, spaces_13}};

	for (size_t i = 0; i < LIMPET_COUNT_OF(lists) && id < SPACES; i++)
		if (lists[i].major == layout->major)
			return lists[i].spaces[id];
	return NULL;
}
