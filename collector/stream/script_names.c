#include "collector/stream/script_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/array.h"
#include "common/base_name.h"
#include "common/begins.h"
#include "common/clock.h"
#include "common/wire.h"
#include "explain/runtimes/v8_frames.h"
#include "explain/runtimes/v8_lines.h"

#define BUCKETS 16384u
#define FUNCTIONS_MAX 65536u
#define PLACES_MAX 262144u
#define SCRIPTS_MAX 4096u
#define LINES_MAX ((size_t)8 << 20) /* of all scripts */
/* In vain, for one function. */
#define TRIES_MAX 32u
/* Between two calls of limpet_script_names_begin(). */
#define READ_NS 25000000u
#define READS 50000u
/* Places of known functions that could not be read: to be tried again. */
#define UNREAD_MAX 4096u
#define PLACE_TRIES_MAX 4u
/* Between the first and the second time that a page's stacks are described anew; twice as much
 * between the next ones. */
#define REQUEST_NS UINT64_C(25000000)
#define REQUEST_MAX 12u
/* All that is known is looked at once in so many of these calls. */
#define ROUNDS 16u
#define CHECK_SHARE 20u /* of the time, at most */
/* Between two searches for more mappings of the interpreter. */
#define SEARCH_NS 100000000u
#define SEARCH_SHARE 100u /* of the time, at most */

static const char nameless[] = "(JavaScript)";

/* GONE: there are no new frames of it. DOUBTED: another function may have come to its place, before
 * or after the last check. */
enum state { UNNAMED, NAMED, GONE, DOUBTED };

/* What is known of a function in a script. */
struct named {
	char *name, *script; /* script NULL: none */
	uint64_t script_address;
	int32_t start;
};

struct function {
	struct limpet_v8_frame frame;
	uint64_t closure; /* what the function slot had, to be read; 0: nothing is */
	uint32_t moved;   /* number of its page in limpet_shm.moved */
	uint32_t next;    /* of its bucket; 0: none */
	uint32_t places;  /* the first; 0: none */
	enum state state;
	unsigned tries;
	struct limpet_v8_witness witness;
	struct named named;
};

/* A function, and how far it got. */
struct place {
	uint32_t function, offset;
	uint32_t next, next_of_function;
	uint32_t tries;
};

struct script {
	uint64_t address;
	char *name;
	struct limpet_v8_lines lines;
};

/* For a page of limpet_shm.moved. */
struct requested {
	uint64_t next_ns;
	unsigned times;
};

struct limpet_script_names {
	struct limpet_segment *segment;
	struct limpet_recorder *recorder;
	struct limpet_process_reader *process;
	struct limpet_v8_layout layout;
	struct limpet_page_cache cache;
	struct limpet_v8 v8;
	struct limpet_interpreter interpreter;
	uint64_t module_start, module_end;
	bool is_anywhere; /* in it */
	/* Mappings where it is again, of other code as well. */
	struct range {
		uint64_t start, end;
	} builtins[LIMPET_INTERPRETER_RANGES];
	bool found_again; /* a new one */
	uint64_t next_search_ns;
	pid_t pid;
	uint64_t key; /* random: the target chooses addresses, but not their chains */
	uint32_t functions_by[BUCKETS], places_by[BUCKETS];
	struct function *functions; /* from 1 */
	size_t function_capacity;
	uint32_t function_count, waiting, checked, doubts;
	uint64_t next_check_ns;
	struct requested requested[LIMPET_MOVED_PAGES];
	struct place *places; /* from 1 */
	size_t place_capacity;
	uint32_t place_count;
	uint32_t unread[UNREAD_MAX], unread_count; /* places */
	struct script *scripts;
	size_t script_count, script_capacity, next_script, line_count;
};

static void begin_budget(struct limpet_script_names *names)
{
	limpet_process_reader_limit(names->process, READS);
	limpet_process_reader_allow(names->process, READ_NS);
}

/* ------------------------------------------------------------------ tables */

static uint32_t bucket_of(const struct limpet_script_names *names, uint64_t a, uint64_t b)
{
	uint64_t hash = (a ^ names->key) * 0x9e3779b97f4a7c15ull;

	hash = (hash ^ hash >> 32 ^ b) * 0xd6e8feb86659fd93ull;
	return (uint32_t)(hash >> 32) % BUCKETS;
}

static struct limpet_v8_frame frame_of(const struct limpet_stack_node *node)
{
	struct limpet_v8_frame frame = {.pc = node->address};

	if (node->address & LIMPET_FRAME_INTERPRETED)
		frame = (struct limpet_v8_frame){.bytecode = LIMPET_FRAME_BYTECODE(node->address)};
	return frame;
}

static uint32_t bucket_of_node(const struct limpet_script_names *names,
			       const struct limpet_stack_node *node)
{
	const struct limpet_v8_frame frame = frame_of(node);

	return bucket_of(names, frame.bytecode ^ frame.pc << 1,
			 LIMPET_STACK_NODE_GONE(node->flags));
}

/* 0: it is not known. */
static uint32_t find_function(const struct limpet_script_names *names,
			      const struct limpet_stack_node *node)
{
	const struct limpet_v8_frame frame = frame_of(node);
	const uint32_t moved = LIMPET_STACK_NODE_GONE(node->flags);
	uint32_t at;

	for (at = names->functions_by[bucket_of_node(names, node)]; at;
	     at = names->functions[at].next) {
		const struct function *function = &names->functions[at];

		if (function->frame.bytecode == frame.bytecode && function->frame.pc == frame.pc &&
		    function->moved == moved)
			break;
	}
	return at;
}

/* 0: no room. */
static uint32_t make_function(struct limpet_script_names *names,
			      const struct limpet_stack_node *node)
{
	uint32_t *bucket = &names->functions_by[bucket_of_node(names, node)];
	uint32_t at = find_function(names, node);

	if (at)
		return at;
	at = names->function_count + 1;
	if (at >= FUNCTIONS_MAX || limpet_reserve(&names->functions, &names->function_capacity,
						  (size_t)at + 1, sizeof(*names->functions)) < 0)
		return 0;
	names->functions[at] = (struct function){.frame = frame_of(node),
						 .moved = LIMPET_STACK_NODE_GONE(node->flags),
						 .next = *bucket};
	*bucket = names->function_count = at;
	return at;
}

/* 0: no room. *ret_is_new: it was made. */
static uint32_t find_place(struct limpet_script_names *names, uint32_t function, uint32_t offset,
			   bool *ret_is_new)
{
	uint32_t *bucket = &names->places_by[bucket_of(names, function, offset)], at;

	*ret_is_new = false;
	for (at = *bucket; at; at = names->places[at].next)
		if (names->places[at].function == function && names->places[at].offset == offset)
			return at;
	at = names->place_count + 1;
	if (at >= PLACES_MAX || limpet_reserve(&names->places, &names->place_capacity,
					       (size_t)at + 1, sizeof(*names->places)) < 0)
		return 0;
	names->places[at] = (struct place){.function = function,
					   .offset = offset,
					   .next = *bucket,
					   .next_of_function = names->functions[function].places};
	*bucket = names->place_count = at;
	names->functions[function].places = at;
	*ret_is_new = true;
	return at;
}

/* ------------------------------------------------------------------ lines */

static void forget_script(struct limpet_script_names *names, struct script *script)
{
	names->line_count -= script->lines.count;
	limpet_v8_lines_done(&script->lines);
	free(script->name);
	*script = (struct script){0};
}

/* A place for another one: if all are taken, that of the one that was read first. */
static struct script *claim_script(struct limpet_script_names *names)
{
	struct script *script;

	if (names->script_count < SCRIPTS_MAX) {
		if (limpet_reserve(&names->scripts, &names->script_capacity,
				   names->script_count + 1, sizeof(*names->scripts)) < 0)
			return NULL;
		script = &names->scripts[names->script_count++];
		*script = (struct script){0};
		return script;
	}
	script = &names->scripts[names->next_script++ % SCRIPTS_MAX];
	forget_script(names, script);
	return script;
}

static struct script *find_script(struct limpet_script_names *names, const struct named *named)
{
	struct script *script;

	for (size_t i = 0; i < names->script_count; i++) {
		script = &names->scripts[i];
		if (script->address == named->script_address && script->name &&
		    !strcmp(script->name, named->script))
			return script;
	}
	script = claim_script(names);
	if (!script)
		return NULL;
	script->address = named->script_address;
	script->name = strdup(named->script);
	/* Without lines, if they cannot be read, and then for good. */
	if (!script->name || limpet_v8_lines_read(&names->v8, script->address, &script->lines) < 0)
		return script;
	if (script->lines.count > LINES_MAX - names->line_count) {
		limpet_v8_lines_done(&script->lines);
		return script;
	}
	names->line_count += script->lines.count;
	return script;
}

static uint32_t line_of(struct limpet_script_names *names, const struct named *named,
			int32_t position)
{
	const struct script *script = named->script ? find_script(names, named) : NULL;

	return script ? limpet_v8_line_of(&script->lines, position) : 0;
}

/* ------------------------------------------------------------------ names */

static void forget_name(struct named *named)
{
	free(named->name);
	free(named->script);
	*named = (struct named){0};
}

/* Functions without a name are called by where they stand. */
static char *name_of(struct limpet_script_names *names, const struct named *named, const char *name)
{
	const uint32_t line = name[0] ? 0 : line_of(names, named, named->start);
	char *made;
	int length;

	if (name[0])
		return strdup(name);
	if (!named->script)
		return strdup("(anonymous)");
	length = line && named->start
			 ? asprintf(&made, "(anonymous %s:%u)", limpet_base_name(named->script),
				    line)
			 : asprintf(&made, "(anonymous %s)", limpet_base_name(named->script));
	return length < 0 ? NULL : made;
}

/* Scripts are called by their path, or by a URL. */
static const char *path_of(const char *script)
{
	return limpet_begins(script, "file://") ? script + strlen("file://") : script;
}

static bool set_name(struct limpet_script_names *names, const struct limpet_v8_function *info,
		     struct named *ret)
{
	struct named named = {.script_address = info->script_address, .start = info->start};

	named.script = info->script[0] ? strdup(path_of(info->script)) : NULL;
	if (!info->script[0] || named.script)
		named.name = name_of(names, &named, info->name);
	if (!named.name) {
		forget_name(&named);
		return false;
	}
	*ret = named;
	return true;
}

static struct limpet_recorder_frame frame_at(struct limpet_script_names *names,
					     const struct named *named, int32_t position)
{
	const struct script *script =
		named->name && named->script ? find_script(names, named) : NULL;

	return (struct limpet_recorder_frame){
		.function = named->name ?: nameless,
		.file = named->name ? named->script : NULL,
		.line = script ? limpet_v8_line_of(&script->lines, position) : 0,
		.column = script ? limpet_v8_column_of(&script->lines, position) : 0};
}

/* A function that is inlined. */
static void read_inlined(struct limpet_script_names *names, uint64_t shared, struct named *ret)
{
	struct limpet_v8_function info;

	if (limpet_v8_function_info(&names->v8, shared | 1, &info) < 0 ||
	    !set_name(names, &info, ret))
		*ret = (struct named){0};
}

/* What could not be read may be there the next time, unless it is gone. */
static void try_again(struct limpet_script_names *names, uint32_t at)
{
	if (names->places[at].tries++ < PLACE_TRIES_MAX && names->unread_count < UNREAD_MAX)
		names->unread[names->unread_count++] = at;
}

static void add_place(struct limpet_script_names *names, uint32_t at)
{
	const struct place *place = &names->places[at];
	const struct function *function = &names->functions[place->function];
	struct limpet_recorder_frame frames[LIMPET_V8_PLACES] = {{.function = nameless}};
	struct limpet_v8_place places[LIMPET_V8_PLACES] = {{.position = -1}};
	struct named inlined[LIMPET_V8_PLACES] = {{0}};
	int count = 1;

	if (function->state == NAMED)
		count = limpet_v8_frame_places(&names->v8, &function->witness, place->offset,
					       places, LIMPET_V8_PLACES);
	if (count < 1) {
		if (count != -EBADMSG)
			try_again(names, at);
		count = 1;
		places[0].position = -1;
	}
	for (int i = 0; i + 1 < count; i++) {
		read_inlined(names, places[i].shared, &inlined[i]);
		frames[i] = frame_at(names, &inlined[i], places[i].position);
	}
	if (function->state == NAMED)
		frames[count - 1] = frame_at(names, &function->named, places[count - 1].position);
	limpet_recorder_name_script(names->recorder, LIMPET_TRACE_SCRIPT_ADDRESS | at, frames,
				    (uint32_t)count);
	for (int i = 0; i + 1 < count; i++)
		forget_name(&inlined[i]);
}

static void add_places(struct limpet_script_names *names, const struct function *function)
{
	for (uint32_t at = function->places; at; at = names->places[at].next_of_function)
		add_place(names, at);
}

static uint64_t address_of(const struct limpet_v8_frame *frame)
{
	return frame->bytecode ? frame->bytecode : frame->pc;
}

/* From now on, stacks with functions on its page are described anew. */
static void note_move(struct limpet_script_names *names, const struct limpet_v8_frame *frame)
{
	const uint64_t address = address_of(frame);
	struct limpet_shm *shm = names->segment->shm;

	__atomic_fetch_add(&shm->moved[limpet_moved_page(address)], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&shm->moved_count, 1, __ATOMIC_RELEASE);
	limpet_segment_renew_stacks(names->segment);
}

/* What tells a function is told once for each stack, and its closure may have moved by the time
 * that it is read: then the stacks on its page are described anew, less and less often. */
static void request_again(struct limpet_script_names *names, const struct limpet_v8_frame *frame)
{
	struct requested *requested = &names->requested[limpet_moved_page(address_of(frame))];
	const uint64_t now_ns = limpet_monotonic_ns();

	if (requested->times == REQUEST_MAX || now_ns < requested->next_ns)
		return;
	requested->next_ns = now_ns + (REQUEST_NS << requested->times++);
	note_move(names, frame);
}

static void read_function(struct limpet_script_names *names, struct function *function)
{
	struct limpet_v8_function info;
	const uint64_t closure = function->closure;

	function->closure = 0;
	function->tries++;
	if (limpet_v8_frame_function(&names->v8, &function->frame, closure, &info,
				     &function->witness) < 0 ||
	    !set_name(names, &info, &function->named)) {
		request_again(names, &function->frame);
		return;
	}
	function->state = NAMED;
	add_places(names, function);
}

static bool is_builtin(const struct limpet_script_names *names, uint64_t address)
{
	for (unsigned i = 1; i < LIMPET_INTERPRETER_RANGES && names->builtins[i].end; i++)
		if (address >= names->builtins[i].start && address < names->builtins[i].end)
			return true;
	return false;
}

/* For the tree. */
static void on_function(void *context, const struct limpet_stack_node *frame, uint64_t closure)
{
	struct limpet_script_names *names = context;
	struct function *function;
	uint32_t at;

	if (is_builtin(names, frame->address))
		return;
	at = make_function(names, frame);
	function = &names->functions[at];
	if (!at || function->state != UNNAMED || function->tries >= TRIES_MAX)
		return;
	names->waiting += !function->closure;
	function->closure = closure;
	if (limpet_memory_reader_is_spent(names->v8.memory))
		return;
	names->waiting--;
	read_function(names, function);
}

uint64_t limpet_script_names_address(struct limpet_script_names *names,
				     const struct limpet_stack_node *frame)
{
	const bool interpreted = frame->address & LIMPET_FRAME_INTERPRETED;
	uint32_t function, at;
	bool is_new = false;

	if (frame->address == LIMPET_SCRIPT_NAMES_ANY)
		return LIMPET_TRACE_SCRIPT_ADDRESS;
	function = interpreted ? make_function(names, frame) : find_function(names, frame);
	if (!interpreted && (!function || names->functions[function].state != NAMED))
		return 0;
	at = function ? find_place(names, function,
				   interpreted ? LIMPET_FRAME_OFFSET(frame->address) : 0, &is_new)
		      : 0;
	if (is_new)
		add_place(names, at);
	return LIMPET_TRACE_SCRIPT_ADDRESS | at;
}

/* ------------------------------------------------------------------ whether they are right */

static void check_function(struct limpet_script_names *names, struct function *function,
			   bool closely)
{
	enum limpet_v8_still still;

	if (function->state != NAMED)
		return;
	still = limpet_v8_is_still(&names->v8, &function->witness, closely);
	if (still == LIMPET_V8_STILL || still == LIMPET_V8_UNREAD)
		return;
	function->state = still == LIMPET_V8_GONE ? GONE : DOUBTED;
	names->doubts += function->state == DOUBTED;
	note_move(names, &function->frame);
}

/* All of them, and a part more closely. */
static void check_all(struct limpet_script_names *names)
{
	const uint32_t count = names->function_count, some = count / ROUNDS + 1;

	limpet_v8_refresh(&names->v8);
	for (uint32_t i = 1; i <= count; i++)
		check_function(names, &names->functions[i],
			       i >= names->checked && i - names->checked < some);
	names->checked += some;
	if (names->checked > count)
		names->checked = 1;
}

bool limpet_script_names_check(struct limpet_script_names *names)
{
	const uint64_t began_ns = limpet_monotonic_ns();
	const uint32_t doubts = names->doubts;

	if (began_ns < names->next_check_ns)
		return false;
	begin_budget(names);
	check_all(names);
	names->next_check_ns = began_ns + (limpet_monotonic_ns() - began_ns) * CHECK_SHARE;
	return names->doubts != doubts;
}

bool limpet_script_names_is_doubtful(const struct limpet_script_names *names,
				     const struct limpet_stack_node *frame)
{
	const uint32_t function =
		frame->flags & LIMPET_STACK_NODE_OWNER ? 0 : find_function(names, frame);

	return function && names->functions[function].state == DOUBTED;
}

/* ------------------------------------------------------------------ the interpreter */

static void add_again(struct limpet_script_names *names, const struct limpet_map *again,
		      uint64_t start, uint64_t end)
{
	for (unsigned i = 1; i < LIMPET_INTERPRETER_RANGES; i++) {
		if (names->interpreter.start[i] == start)
			return;
		if (names->interpreter.end[i])
			continue;
		names->interpreter.start[i] = start;
		names->interpreter.end[i] = end;
		names->builtins[i] = (struct range){again->start, again->end};
		names->found_again = true;
		return;
	}
}

/* The code is mapped again: V8 does so for each isolate, to have it near the code that it compiles.
 * If it is not known where in the module the interpreter is, all of such a mapping may be it. */
static void find_again(struct limpet_script_names *names, const struct limpet_maps *maps)
{
	const struct limpet_interpreter *interpreter = &names->interpreter;
	const struct limpet_map *map = limpet_proc_maps_find(maps, interpreter->start[0]);
	const uint64_t bytes = interpreter->end[0] - interpreter->start[0];
	uint64_t offset;

	if (!map || !map->inode)
		return;
	offset = interpreter->start[0] - map->start + map->offset;
	for (size_t i = 0; i < maps->count; i++) {
		const struct limpet_map *again = &maps->list[i];
		uint64_t start;

		if (again->perms[2] != 'x' || !limpet_map_is_same_file(again, map) ||
		    (again->start >= names->module_start && again->end <= names->module_end))
			continue;
		start = again->start + (offset - again->offset);
		if (names->is_anywhere)
			add_again(names, again, again->start, again->end);
		else if (offset >= again->offset &&
			 offset - again->offset + bytes <= again->end - again->start)
			add_again(names, again, start, start + bytes);
	}
}

static bool find_interpreter(struct limpet_script_names *names,
			     const struct limpet_modules *modules,
			     const struct limpet_module *module)
{
	const struct limpet_v8_layout *layout = &names->layout;
	struct limpet_interpreter *ret = &names->interpreter;

	if (layout->frame_function == LIMPET_V8_UNKNOWN ||
	    layout->frame_bytecode_array == LIMPET_V8_UNKNOWN ||
	    layout->frame_bytecode_offset == LIMPET_V8_UNKNOWN ||
	    limpet_v8_interpreter_code(modules, module, &ret->start[0], &ret->end[0]) < 0)
		return false;
	names->module_start = module->start;
	names->module_end = module->end;
	names->is_anywhere = ret->start[0] == module->text_start;
	find_again(names, &modules->maps);
	ret->function = layout->frame_function;
	ret->bytecode = layout->frame_bytecode_array;
	ret->offset = layout->frame_bytecode_offset;
	ret->is_known = 1;
	return true;
}

/* A thread with an isolate may have begun, or the program itself. */
static void search_again(struct limpet_script_names *names)
{
	struct limpet_interpreter *shared = &names->segment->shm->interpreter;
	const uint64_t now_ns = limpet_monotonic_ns();
	struct limpet_maps maps;

	if (now_ns < names->next_search_ns)
		return;
	if (limpet_proc_maps_read(names->pid, &maps) < 0)
		return;
	names->found_again = false;
	find_again(names, &maps);
	limpet_proc_maps_done(&maps);
	names->next_search_ns =
		limpet_monotonic_ns() + SEARCH_NS + (limpet_monotonic_ns() - now_ns) * SEARCH_SHARE;
	if (!names->found_again)
		return;
	for (unsigned i = 1; i < LIMPET_INTERPRETER_RANGES; i++) {
		shared->start[i] = names->interpreter.start[i];
		__atomic_store_n(&shared->end[i], names->interpreter.end[i], __ATOMIC_RELEASE);
	}
	limpet_segment_renew_stacks(names->segment);
}

static void add_unread(struct limpet_script_names *names)
{
	const uint32_t count = names->unread_count;

	names->unread_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (limpet_memory_reader_is_spent(names->v8.memory))
			names->unread[names->unread_count++] = names->unread[i];
		else
			add_place(names, names->unread[i]);
	}
}

void limpet_script_names_begin(struct limpet_script_names *names)
{
	const uint32_t count = names->function_count;

	begin_budget(names);
	search_again(names);
	for (uint32_t i = 1; i <= count && names->waiting; i++) {
		struct function *function = &names->functions[i];

		if (limpet_memory_reader_is_spent(names->v8.memory))
			return;
		if (!function->closure)
			continue;
		names->waiting--;
		read_function(names, function);
	}
	add_unread(names);
}

/* ------------------------------------------------------------------ life */

static int open_names(struct limpet_script_names *names, struct limpet_session *session)
{
	struct limpet_modules *modules = limpet_session_modules(session);
	const struct limpet_module *module;
	int error = limpet_v8_layout_find_known(modules, &names->layout, &module);

	if (error)
		return error;
	names->pid = limpet_session_target(session)->pid;
	if (!find_interpreter(names, modules, module))
		return -EOPNOTSUPP;
	error = limpet_process_reader_new(limpet_session_target(session), &names->process);
	if (error)
		return error;
	limpet_page_cache_init(&names->cache, limpet_process_reader(names->process));
	names->v8 = (struct limpet_v8){&names->layout, &names->cache.reader, &names->cache};
	if (getrandom(&names->key, sizeof(names->key), 0) < 0)
		names->key = (uint64_t)(uintptr_t)names; /* enough against accidents */
	return 0;
}

int limpet_script_names_new(struct limpet_session *session, struct limpet_recorder *recorder,
			    struct limpet_stack_tree *stacks, struct limpet_script_names **ret)
{
	struct limpet_script_names *names = calloc(1, sizeof(*names));
	int error;

	if (!names)
		return -ENOMEM;
	names->segment = limpet_session_segment(session);
	names->recorder = recorder;
	error = open_names(names, session);
	if (error) {
		limpet_script_names_free(names);
		*ret = NULL;
		return error == -ENOMEM ? error : 0;
	}
	names->segment->shm->interpreter = names->interpreter;
	limpet_recorder_name_script(recorder, LIMPET_TRACE_SCRIPT_ADDRESS,
				    &(struct limpet_recorder_frame){.function = nameless}, 1);
	stacks->on_function = on_function;
	stacks->context = names;
	*ret = names;
	return 0;
}

void limpet_script_names_free(struct limpet_script_names *names)
{
	if (!names)
		return;
	for (uint32_t i = 1; i <= names->function_count; i++)
		forget_name(&names->functions[i].named);
	for (size_t i = 0; i < names->script_count; i++)
		forget_script(names, &names->scripts[i]);
	free(names->functions);
	free(names->places);
	free(names->scripts);
	limpet_process_reader_free(names->process);
	free(names);
}
