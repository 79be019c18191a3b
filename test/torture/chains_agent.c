#include "test/torture/chains_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/stack_cache.h"
#include "collector/stream/description.h"
#include "injector/proc/memfd.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/remote/agent_image.h"

#define TARGET_AT(agent, offset_name) ((agent)->info.shm + (agent)->shm.offset_name)

/* The image that a limpet of this build carries has its names still. */
static GElf_Sym symbol(const struct limpet_agent_image *image, const char *name)
{
	Elf *elf;
	Elf_Scn *section = NULL;
	GElf_Sym symbol = {0};

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)(uintptr_t)image->bytes, image->size);
	while (elf && (section = elf_nextscn(elf, section))) {
		Elf_Data *data = elf_getdata(section, NULL);
		GElf_Shdr header;
		GElf_Sym found;

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_SYMTAB)
			continue;
		for (int i = 0; gelf_getsym(data, i, &found); i++) {
			const char *word = elf_strptr(elf, header.sh_link, found.st_name);

			if (word && strcmp(word, name) == 0)
				symbol = found;
		}
	}
	elf_end(elf);
	return symbol;
}

/* Whether the code there is this image's. */
static bool is_image_at(pid_t pid, const struct limpet_agent_image *image, uint64_t text)
{
	uint8_t *copy = malloc(image->text_bytes);
	bool same = copy && limpet_memory_read_own(pid, text, copy, image->text_bytes) == 0 &&
		    memcmp(copy, image->bytes + image->text_offset, image->text_bytes) == 0;

	free(copy);
	return same;
}

static int find_info(pid_t pid, const struct limpet_agent_image *image, uint64_t *ret_base,
		     struct limpet_agent_info *ret)
{
	uint64_t base = 0;
	struct limpet_maps maps;
	int error = limpet_proc_maps_read(pid, &maps);

	if (error)
		return error;
	error = -ENOENT;
	for (size_t i = 0; i < maps.count && error; i++) {
		const struct limpet_map *map = &maps.list[i];

		if (strncmp(map->path, "/memfd:limpet-agent", 19) != 0)
			continue;
		if (!map->offset)
			base = map->start;
		if (!base || map->perms[2] != 'x' || map->offset != image->text_offset)
			continue;
		if (limpet_memory_read_own(pid, base + image->info_offset, ret, sizeof(*ret)) ==
			    0 &&
		    ret->magic == LIMPET_INFO_MAGIC && ret->state == LIMPET_AGENT_ACTIVE)
			error = is_image_at(pid, image, map->start) ? 0 : -ENOTUNIQ;
	}
	limpet_proc_maps_done(&maps);
	*ret_base = base;
	return error;
}

static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa}, leave_ret[] = {0xc9, 0xc3};
static const uint8_t int3 = 0xcc;

static int find_way(pid_t pid, uint64_t base, const GElf_Sym *path, struct way *ret)
{
	uint8_t code[1024];
	const uint8_t *out;

	if (!path->st_size || path->st_size > sizeof(code))
		return -ENOEXEC;
	ret->in = base + path->st_value;
	if (limpet_memory_read_own(pid, ret->in, code, path->st_size))
		return -EFAULT;
	out = memmem(code, path->st_size, leave_ret, sizeof(leave_ret));
	if (!out || memcmp(code, endbr64, sizeof(endbr64)) != 0)
		return -ENOEXEC;
	out++;
	ret->out = ret->in + (uint64_t)(out - code);
	/* There is one. */
	return memmem(out, path->st_size - (uint64_t)(out - code), leave_ret, sizeof(leave_ret))
		       ? -ENOEXEC
		       : 0;
}

int agent_find(pid_t pid, struct agent *ret)
{
	static const char *const paths[WAYS] = {"limpet_path_malloc", "limpet_path_any"};
	const struct limpet_agent_image *image;
	struct limpet_hot hot;
	uint64_t base, hot_offset;
	int error = limpet_agent_image_get(&image);

	memset(ret, 0, sizeof(*ret));
	ret->pid = pid;
	if (!error)
		error = find_info(pid, image, &base, &ret->info);
	if (error)
		return error;
	for (unsigned i = 0; i < WAYS && !error; i++) {
		const GElf_Sym path = symbol(image, paths[i]);

		error = find_way(pid, base, &path, &ret->ways[i]);
	}
	hot_offset = symbol(image, "limpet_hot").st_value;
	if (!error && !hot_offset)
		error = -ENOEXEC;
	if (!error)
		error = limpet_memory_read_own(pid, ret->info.shm, &ret->shm, sizeof(ret->shm));
	if (!error)
		error = limpet_memory_read_own(pid, base + hot_offset, &hot, sizeof(hot));
	if (error)
		return error;
	ret->scratch = (uint64_t)(uintptr_t)hot.scratch;
	ret->stacks = limpet_stack_tree_new();
	return ret->stacks ? 0 : -ENOMEM;
}

void agent_done(struct agent *agent)
{
	limpet_stack_tree_free(agent->stacks);
}

int agent_set_traps(const struct agent *agent, bool on)
{
	char path[32];
	int file, error = 0;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)agent->pid);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return -errno;
	/* A single byte is there or not. */
	for (unsigned i = 0; i < WAYS && !error; i++)
		if (pwrite(file, on ? &int3 : &endbr64[0], 1, (off_t)agent->ways[i].in) != 1 ||
		    pwrite(file, on ? &int3 : &leave_ret[1], 1, (off_t)agent->ways[i].out) != 1)
			error = -errno;
	close(file);
	return error;
}

enum trap agent_pass_trap(const struct agent *agent, struct user_regs_struct *registers)
{
	const uint64_t at = registers->rip - sizeof(int3);
	uint64_t return_pc;

	for (unsigned i = 0; i < WAYS; i++) {
		if (at == agent->ways[i].in) {
			registers->rip = at + sizeof(endbr64);
			return TRAP_IN;
		}
		if (at == agent->ways[i].out &&
		    limpet_memory_read_own(agent->pid, registers->rsp, &return_pc,
					   sizeof(return_pc)) == 0) {
			registers->rip = return_pc;
			registers->rsp += sizeof(return_pc);
			return TRAP_OUT;
		}
	}
	return TRAP_NONE;
}

uint32_t agent_op(struct agent *agent, uint32_t hook)
{
	if (hook >= LIMPET_MAX_HOOKS)
		return 0;
	if (!agent->hooks[hook].original &&
	    limpet_memory_read_own(agent->pid, agent->info.hooks, agent->hooks,
				   sizeof(agent->hooks)))
		return 0;
	return agent->hooks[hook].op;
}

static uint64_t thread_at(const struct agent *agent, int thread)
{
	return TARGET_AT(agent, layout.threads_offset) +
	       (uint64_t)thread * sizeof(struct limpet_thread);
}

int agent_thread(struct agent *agent, pid_t tid)
{
	uint64_t bytes = agent->shm.layout.thread_count * sizeof(struct limpet_thread);
	struct limpet_thread *threads = malloc(bytes);
	int found = -ENOENT;

	if (!threads)
		return -ENOMEM;
	if (limpet_memory_read_own(agent->pid, thread_at(agent, 0), threads, bytes) == 0)
		for (uint32_t i = 0; i < agent->shm.layout.thread_count; i++)
			if (threads[i].thread_pointer && threads[i].tid == (uint32_t)tid)
				found = (int)i;
	free(threads);
	return found;
}

uint64_t agent_place(struct agent *agent, int thread)
{
	uint64_t place;

	if (thread < 0 || limpet_memory_read_own(agent->pid,
						 thread_at(agent, thread) - LIMPET_OWN_BYTES +
							 offsetof(struct limpet_own, at),
						 &place, sizeof(place)))
		return 0;
	return place;
}

bool agent_record(struct agent *agent, uint64_t place, uint64_t address, struct record *ret)
{
	uint64_t words[4];

	if (limpet_memory_read_own(agent->pid, place - sizeof(words), words, sizeof(words)))
		return false;
	for (int start = 1; start >= 0; start--) {
		const uint64_t *word = words + start;
		uint32_t type = LIMPET_EVENT_TYPE(word[0]);
		bool wide = type & LIMPET_EVENT_WIDE;

		ret->type = type & ~LIMPET_EVENT_WIDE;
		if (wide == (start == 1) || word[1] != LIMPET_HIDDEN(address) ||
		    (ret->type != LIMPET_EVENT_ALLOC && ret->type != LIMPET_EVENT_MMAP))
			continue;
		ret->address = address;
		ret->size = wide ? word[2] : (uint32_t)word[2];
		ret->stack = (uint32_t)(wide ? word[3] : word[2] >> 32) & ~LIMPET_EVENT_REALLOC;
		return true;
	}
	return false;
}

/* What a description of an allocator's stack is about must be known, or it is left out. */
static void learn_from(struct agent *agent, const uint8_t *data, uint32_t bytes)
{
	static struct limpet_description description;
	struct limpet_description_base base = {0};
	uint32_t at = 0;

	while (at + 24 <= bytes) {
		uint32_t taken = 0, below;
		uint64_t head;

		memcpy(&head, data + at, sizeof(head));
		if (LIMPET_EVENT_TYPE(head) == LIMPET_EVENT_STACK)
			taken = limpet_description_read(data + at, bytes - at, &description);
		if (taken) {
			below = limpet_description_below(&description);
			if (!below || limpet_stack_tree_find(agent->stacks, below))
				(void)limpet_description_enter(&description, agent->stacks, &base);
		} else {
			taken = head & LIMPET_EVENT_WIDE ? 32 : 24;
		}
		at += taken;
	}
}

int agent_learn(struct agent *agent, int thread)
{
	uint8_t chunk[LIMPET_CHUNK_BYTES];
	struct limpet_own own;
	uint64_t start;
	int error = limpet_memory_read_own(agent->pid, thread_at(agent, thread) - LIMPET_OWN_BYTES,
					   &own, sizeof(own));

	if (error || !own.end)
		return error;
	start = own.end - LIMPET_CHUNK_BYTES;
	if (own.at < start + sizeof(struct limpet_chunk) || own.at > own.end)
		return -EBADMSG;
	error = limpet_memory_read_own(agent->pid, start, chunk, own.at - start);
	if (!error)
		learn_from(agent, chunk + sizeof(struct limpet_chunk),
			   (uint32_t)(own.at - start - sizeof(struct limpet_chunk)));
	return error;
}

static int clear(struct agent *agent, uint64_t at, uint64_t bytes)
{
	void *zeros = calloc(1, bytes);
	int error = zeros ? limpet_memory_write(agent->pid, at, zeros, bytes) : -ENOMEM;

	free(zeros);
	return error;
}

static int forget_cache(struct agent *agent, uint32_t place)
{
	const uint64_t nothing = 0;
	uint64_t at = agent->scratch + (uint64_t)(place >> 8) * LIMPET_SCRATCH_BYTES;
	int error = 0;

	for (uint32_t i = 0; i < (place & 0xff) && !error; i++)
		error = limpet_memory_write(agent->pid,
					    at + i * sizeof(struct limpet_stack_cache_entry) +
						    offsetof(struct limpet_stack_cache_entry, pc),
					    &nothing, sizeof(nothing));
	return error;
}

int agent_forget(struct agent *agent)
{
	const struct limpet_shm_layout *layout = &agent->shm.layout;
	uint64_t bytes = layout->thread_count * sizeof(struct limpet_own);
	struct limpet_own *own = malloc(bytes);
	int error = own ? limpet_memory_read_own(agent->pid, thread_at(agent, 0) - LIMPET_OWN_BYTES,
						 own, bytes)
			: -ENOMEM;

	for (unsigned i = 0; i < LIMPET_FINGERPRINT_TABLES && !error; i++)
		error = clear(agent, TARGET_AT(agent, layout.fingerprints_offset[i]),
			      layout->fingerprint_count[i] * sizeof(struct limpet_fingerprint));
	for (uint32_t i = 0; i < layout->thread_count && !error; i++)
		if (own[i].stack_cache)
			error = forget_cache(agent, own[i].stack_cache);
	free(own);
	return error;
}

int agent_chain(struct agent *agent, uint32_t number, struct chain *ret)
{
	uint32_t node = limpet_stack_tree_find(agent->stacks, number);
	bool first;

	ret->count = 0;
	ret->whole = true;
	if (!number || node == LIMPET_STACK_UNSEEN || node == LIMPET_STACK_LOST)
		return -ENODATA;
	first = !limpet_stack_tree_mark(agent->stacks, node);
	while (node) {
		const struct limpet_stack_node *it = limpet_stack_tree_node(agent->stacks, node);

		if (ret->count == CHAIN_MAX)
			return -EBADMSG;
		if (it->flags & LIMPET_STACK_NODE_TRUNCATED)
			ret->whole = false;
		/* Whose block it is, is no frame. */
		if (!(it->flags & LIMPET_STACK_NODE_OWNER))
			ret->pcs[ret->count++] = it->address;
		node = it->parent;
	}
	return first;
}

/* ------------------------------------------------------------------ negative controls */

int spoil_stack_caches(struct agent *agent, int thread)
{
	const uint32_t few = LIMPET_STACK_CACHE_STEP;
	uint64_t stack_cache;
	uint32_t place;
	int spoiled = 0, error;

	error = limpet_memory_read_own(agent->pid,
				       thread_at(agent, thread) - LIMPET_OWN_BYTES +
					       offsetof(struct limpet_own, stack_cache),
				       &place, sizeof(place));
	if (error)
		return error;
	stack_cache = agent->scratch + (uint64_t)(place >> 8) * LIMPET_SCRATCH_BYTES;
	for (uint32_t i = 0; i < (place & 0xff); i++) {
		uint64_t at = stack_cache + i * sizeof(struct limpet_stack_cache_entry) +
			      offsetof(struct limpet_stack_cache_entry, words);
		uint32_t words;

		error = limpet_memory_read_own(agent->pid, at, &words, sizeof(words));
		if (!error && words > few)
			error = limpet_memory_write(agent->pid, at, &few, sizeof(few));
		if (error)
			return error;
		spoiled += words > few;
	}
	return spoiled;
}

static int spoil_some_fingerprints(struct agent *agent, uint64_t at,
				   struct limpet_fingerprint *fingerprints, uint32_t count,
				   uint32_t number)
{
	int spoiled = 0, error = limpet_memory_read_own(agent->pid, at, fingerprints,
							count * sizeof(*fingerprints));

	for (uint32_t i = 0; i < count && !error; i++) {
		if (!(uint32_t)fingerprints[i].state || fingerprints[i].state >> 32 & 1)
			continue;
		fingerprints[i].state = (fingerprints[i].state & ~(uint64_t)UINT32_MAX) | number;
		error = limpet_memory_write(agent->pid, at + i * sizeof(*fingerprints),
					    &fingerprints[i], sizeof(*fingerprints));
		spoiled++;
	}
	return error ? error : spoiled;
}

int spoil_fingerprints(struct agent *agent, uint32_t number)
{
	enum { AT_ONCE = 4096 };
	struct limpet_fingerprint *fingerprints = malloc(AT_ONCE * sizeof(*fingerprints));
	uint32_t count = agent->shm.layout.fingerprint_count[LIMPET_BY_WORDS];
	int spoiled = 0, answer = fingerprints ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < count && answer >= 0; i += AT_ONCE) {
		answer = spoil_some_fingerprints(
			agent,
			TARGET_AT(agent, layout.fingerprints_offset[LIMPET_BY_WORDS]) +
				i * sizeof(*fingerprints),
			fingerprints, count - i < AT_ONCE ? count - i : AT_ONCE, number);
		spoiled += answer > 0 ? answer : 0;
	}
	free(fingerprints);
	return answer < 0 ? answer : spoiled;
}

/* +1 whenever the tables change; bit 0: the list in force. */
static uint32_t generation(const struct agent *agent)
{
	uint32_t current = 0;

	if (limpet_memory_read_own(agent->pid,
				   agent->info.shm + offsetof(struct limpet_shm, unwind_current),
				   &current, sizeof(current)))
		return 0;
	return current;
}

/* The file in which the target has its tables, and where they begin there: behind the memory that
 * limpet maps, too. */
static int open_arena(pid_t collector, uint64_t *ret_offset)
{
	struct limpet_maps maps;
	char path[128] = "";
	uint64_t most = 0;

	if (limpet_proc_maps_read(collector, &maps))
		return -1;
	for (size_t i = 0; i < maps.count; i++) {
		const struct limpet_map *map = &maps.list[i];

		if (!limpet_memfd_is_shared(map->path) || map->end - map->start <= most)
			continue;
		most = map->end - map->start;
		*ret_offset = map->offset + most;
		snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", collector,
			 (unsigned long long)map->start, (unsigned long long)map->end);
	}
	limpet_proc_maps_done(&maps);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int spoil_table(int arena, uint64_t table, int32_t bytes)
{
	struct limpet_unwind_table head;
	struct limpet_unwind_rule *rules = NULL;
	size_t size = 0;
	int spoiled = 0,
	    error = pread(arena, &head, sizeof(head), (off_t)table) == sizeof(head) ? 0 : -EIO;

	if (!error && head.magic != LIMPET_UNWIND_MAGIC)
		error = -EBADMSG;
	if (!error) {
		size = head.rule_count * sizeof(*rules);
		rules = malloc(size);
		error = rules && pread(arena, rules, size, (off_t)(table + head.rules_offset)) ==
						(ssize_t)size
				? 0
				: -EIO;
	}
	for (uint32_t i = 0; !error && i < head.rule_count; i++)
		if (rules[i].cfa == LIMPET_CFA_SP) {
			rules[i].cfa_offset += bytes;
			spoiled++;
		}
	if (!error &&
	    pwrite(arena, rules, size, (off_t)(table + head.rules_offset)) != (ssize_t)size)
		error = -EIO;
	free(rules);
	return error ? error : spoiled;
}

int spoil_tables(struct agent *agent, pid_t collector, int32_t bytes)
{
	uint32_t current = generation(agent) & 1, count;
	uint64_t offset = 0, list, spoiled = 0;
	LIMPET_CLOSE int arena = open_arena(collector, &offset);
	struct limpet_unwind_module module;
	int answer = arena < 0 ? -ENOENT : 0;

	if (!answer)
		answer = limpet_memory_read_own(agent->pid,
						agent->info.shm +
							offsetof(struct limpet_shm, unwind_count) +
							current * sizeof(count),
						&count, sizeof(count));
	list = TARGET_AT(agent, layout.unwind_modules_offset) +
	       current * LIMPET_MAX_UNWIND_MODULES * sizeof(module);
	for (uint32_t i = 0; answer >= 0 && i < count; i++) {
		answer = limpet_memory_read_own(agent->pid, list + i * sizeof(module), &module,
						sizeof(module));
		if (answer < 0 || !module.table)
			continue;
		answer = spoil_table(arena, offset + module.table, bytes);
		spoiled += answer > 0 ? (uint64_t)answer : 0;
	}
	return answer < 0 ? answer : (int)spoiled;
}
