#include "injector/hook/plan.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/arch.h"
#include "common/array.h"
#include "common/base_name.h"
#include "common/family.h"
#include "common/mounts.h"
#include "injector/elf/modules_memory.h"
#include "injector/elf/preflight_allocators.h"
#include "injector/hook/kept_values.h"
#include "injector/hook/slot_aliases.h"
#include "injector/proc/memory.h"
#include "injector/proc/proc.h"
#include "injector/proc/target_process.h"
#include "injector/remote/agent_image.h"
#include "injector/remote/loader_error.h"
#include "injector/remote/loader_lock.h"

#define RTLD_NOW_LOCAL 2u
#define RTLD_DLOPEN 0x80000000u /* __libc_dlopen_mode's flag to behave like dlopen */

/* Limits the words that are examined, however many slots the relocations claim. */
#define MAX_VISITS (4 * LIMPET_MAX_SLOTS)
#define MAX_TEXT_BYTES (64u << 20) /* how much is searched for instructions */

enum { MAX_COPIED = 4096 };

struct planner {
	struct limpet_modules *modules;
	struct limpet_entries *entries;
	struct limpet_plan *plan;
	struct limpet_module *module; /* the module being scanned */
	const struct limpet_module *program;
	struct limpet_copied *copied;
	size_t copied_count, copied_capacity;
	struct limpet_slot_aliases aliases;
	/* The module whose malloc the linker finds first, and for each module a function of another
	 * allocator to which it is bound: it looks in its own libraries first (RTLD_DEEPBIND). */
	const struct limpet_module *first;
	uint64_t *deep;
	/* The address in a symbol's slots if the program takes the function's address: the
	 * program's own PLT entry, not the function. */
	uint64_t canonical[LIMPET_FAMILY_COUNT];
	bool learning; /* first pass: only note what bound slots contain */
	unsigned visits;
	int error;
};

static const struct limpet_module *definer(const struct planner *planner, uint64_t address)
{
	return limpet_modules_find(planner->modules, address);
}

static bool defines_malloc(const struct planner *planner, const struct limpet_module *module)
{
	return module && limpet_module_has_malloc(planner->modules->target,
						  (struct limpet_module *)(uintptr_t)module);
}

static uint64_t symbol_in(const struct planner *planner, const struct limpet_module *module,
			  const char *name)
{
	return limpet_module_symbol(planner->modules->target,
				    (struct limpet_module *)(uintptr_t)module, name, NULL);
}

static bool is_in(const struct limpet_module *module, uint64_t address)
{
	return address >= module->start && address < module->end;
}

/* To what a lazy slot leads. */
enum binding {
	BOUND,
	UNBOUND,  /* it was not called through yet: its own module's PLT */
	REPLACED, /* another function of its module, with which the program has replaced it */
};

static enum binding binding_of(const struct planner *planner, const struct limpet_slot_found *found,
			       uint64_t value)
{
	const struct limpet_module *module = planner->module;
	uint8_t code[LIMPET_ARCH_PLT_BYTES];

	if (!LIMPET_ARCH_RELOCATION_IS_LAZY(found->type) || !is_in(module, value) ||
	    (found->defined && value == module->bias + found->symbol_value))
		return BOUND;
	return limpet_memory_read(planner->modules->target->pid, value, code, sizeof(code)) == 0 &&
			       limpet_arch_is_plt(code)
		       ? UNBOUND
		       : REPLACED;
}

static int hook_for(struct planner *planner, uint32_t symbol, uint64_t original, uint32_t *ret_hook)
{
	struct limpet_start *start = &planner->plan->start;
	uint32_t op = limpet_family[symbol].op;
	struct limpet_hook *hook;

	for (uint32_t i = 0; i < start->hook_count; i++) {
		if (start->hooks[i].original == original && start->hooks[i].op == op) {
			*ret_hook = i;
			return 0;
		}
	}
	if (start->hook_count == LIMPET_MAX_HOOKS)
		return -ENOSPC;
	hook = &start->hooks[start->hook_count];
	hook->original = original;
	hook->op = (uint16_t)op;
	hook->flags = 0;
	hook->symbol = symbol;
	hook->usable_size = 0;
	if (limpet_op_releases(op) || limpet_family[symbol].flags & LIMPET_FAMILY_CONTROL) {
		const struct limpet_module *module = definer(planner, original);

		if (module)
			hook->usable_size = symbol_in(planner, module,
						      limpet_op_releases(op) ? "malloc_usable_size"
									     : LIMPET_NAME_TO_MIB);
	}
	if (op == LIMPET_OP_FREE || op == LIMPET_OP_MALLOC || op == LIMPET_OP_CALLOC) {
		const struct limpet_module *module = definer(planner, original);

		/* glibc's libraries release, allocate and map nothing through slots. */
		if (module && symbol_in(planner, module, "gnu_get_libc_version"))
			hook->flags = LIMPET_HOOK_LEAF;
	}
	*ret_hook = start->hook_count++;
	return 0;
}

/* glibc's reallocarray calls the program's realloc, to which the block belongs. */
static bool calls_another(const struct planner *planner, uint32_t symbol,
			  const struct limpet_module *module)
{
	uint64_t realloc =
		planner->plan->start.default_original[limpet_family_first(LIMPET_OP_REALLOC)];

	return limpet_family[symbol].op == LIMPET_OP_REALLOCARRAY && realloc &&
	       !is_in(module, realloc);
}

static bool is_call(uint32_t symbol)
{
	return !(limpet_family[symbol].flags & (LIMPET_FAMILY_LOADER | LIMPET_FAMILY_FINDER));
}

/* Calls through the word would have to be seen, and will not be. */
static int leave_alone(struct planner *planner, uint32_t symbol)
{
	planner->plan->slots_unhooked += !planner->learning && is_call(symbol);
	return 0;
}

static bool wanted(const struct planner *planner, uint32_t symbol, uint64_t original)
{
	const struct limpet_module *module = definer(planner, original);

	/* Its callers reach the inline hook at its entry. */
	if (limpet_entries_at(planner->entries, original))
		return false;
	if (limpet_family[symbol].flags & LIMPET_FAMILY_FINDER)
		return planner->plan->method != LIMPET_METHOD_DLOPEN && module && !module->agent;
	if (!module || module->loader || module->agent)
		return limpet_family[symbol].flags & LIMPET_FAMILY_LOADER && module &&
		       !module->agent;
	if (calls_another(planner, symbol, module))
		return false;
	/* libstdc++'s operators call malloc, and are counted there. An allocator's own operators do
	 * not. */
	if (limpet_family[symbol].flags & LIMPET_FAMILY_CXX)
		return defines_malloc(planner, module);
	if (limpet_family[symbol].flags & LIMPET_FAMILY_CONTROL)
		return symbol_in(planner, module, LIMPET_NAME_TO_MIB);
	return true;
}

static uint64_t *deep_of(const struct planner *planner)
{
	return &planner->deep[planner->module - planner->modules->list];
}

/* Notes it if the module is bound to another allocator than the linker finds first, for a function
 * that both have. */
static bool note_if_deep(struct planner *planner, uint32_t symbol, uint64_t value)
{
	const struct limpet_module *module = definer(planner, value);
	const uint32_t others = LIMPET_FAMILY_MMAP | LIMPET_FAMILY_CXX | LIMPET_FAMILY_CONTROL;

	if (!is_call(symbol) || limpet_family[symbol].flags & others || !planner->first ||
	    module == planner->first || !defines_malloc(planner, module) ||
	    !symbol_in(planner, planner->first, limpet_family[symbol].name))
		return false;
	*deep_of(planner) = value;
	return true;
}

/* The allocator to which the module is bound before the others'; NULL: none. That is also bound to
 * itself. */
static const struct limpet_module *own_allocator(const struct planner *planner)
{
	if (*deep_of(planner))
		return definer(planner, *deep_of(planner));
	for (size_t i = 0; i < planner->modules->count; i++)
		if (planner->deep[i] && is_in(planner->module, planner->deep[i]))
			return planner->module;
	return NULL;
}

/* What an unbound slot will be bound to; 0: nothing. In a namespace other than the program's this
 * is known only if there is a single definition. */
static uint64_t unbound_original(struct planner *planner, uint32_t symbol)
{
	uint64_t original = 0;
	uint32_t definitions;

	if (!planner->module->space) {
		const struct limpet_module *own = own_allocator(planner);

		if (own)
			original = symbol_in(planner, own, limpet_family[symbol].name);
		return original ? original : planner->plan->start.default_original[symbol];
	}
	definitions = limpet_modules_symbol_in_space(planner->modules, planner->module->space,
						     limpet_family[symbol].name, &original);
	if (definitions <= 1)
		return original;
	planner->plan->slots_unhooked++;
	return 0;
}

/* Several libraries may have a function of that name. */
static uint64_t original_of_alias(const struct planner *planner,
				  const struct limpet_slot_alias *alias, uint64_t value,
				  bool unbound)
{
	if (unbound)
		return !planner->module->space &&
				       limpet_modules_symbol(planner->modules, alias->name, NULL) ==
					       alias->address
			       ? alias->address
			       : 0;
	return value == alias->address ? value : 0;
}

/* For a word of a library that contains the address: plans the program's copy of it, if there is
 * one. */
static void plan_copy(struct planner *planner, const struct limpet_slot *slot)
{
	struct limpet_plan *plan = planner->plan;

	for (size_t i = 0; i < planner->copied_count; i++) {
		const struct limpet_copied *copied = &planner->copied[i];
		uint64_t offset = slot->address - copied->from, value;
		struct limpet_slot copy = *slot;

		copy.address = copied->to + offset;
		if (offset >= copied->bytes || !is_in(planner->program, copy.address) ||
		    limpet_memory_read(planner->modules->target->pid, copy.address, &value,
				       sizeof(value)) < 0 ||
		    value != slot->old_value)
			continue;
		copy.module = planner->program->bias;
		copy.module_phdr = planner->program->phdr;
		if (plan->slot_count < LIMPET_MAX_SLOTS)
			plan->slots[plan->slot_count++] = copy;
		else
			plan->slots_unhooked++;
	}
}

static void note_copied(struct planner *planner, const struct limpet_slot_tables *tables,
			const Elf64_Rela *relocation)
{
	struct limpet_modules *modules = planner->modules;
	uint64_t index = ELF64_R_SYM(relocation->r_info);
	const Elf64_Sym *symbol = &tables->symbols[index];

	if (index >= tables->symbol_count || symbol->st_name >= tables->string_bytes)
		return;
	if (planner->copied_count == MAX_COPIED ||
	    limpet_reserve(&planner->copied, &planner->copied_capacity, planner->copied_count + 1,
			   sizeof(*planner->copied)) < 0) {
		planner->plan->slots_unhooked++;
		return;
	}
	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		Elf64_Sym defined;
		uint64_t from;

		if (!module->in_list || module->space || module->agent ||
		    module == planner->program)
			continue;
		from = limpet_module_symbol(modules->target, module,
					    tables->strings + symbol->st_name, &defined);
		if (!from)
			continue;
		planner->copied[planner->copied_count++] =
			(struct limpet_copied){.from = from,
					       .to = planner->program->bias + relocation->r_offset,
					       .bytes = defined.st_size};
		return;
	}
}

static void find_copied(struct planner *planner)
{
	struct limpet_slot_tables tables;

	for (size_t i = 0; i < planner->modules->count && !planner->program; i++)
		if (planner->modules->list[i].executable)
			planner->program = &planner->modules->list[i];
	if (!planner->program ||
	    limpet_module_tables_read(planner->modules->target,
				      (struct limpet_module *)(uintptr_t)planner->program,
				      &tables) < 0)
		return;
	for (uint64_t i = 0; tables.rela[0] && i < tables.rela_count[0]; i++)
		if (LIMPET_ARCH_RELOCATION_IS_COPY(
			    (uint32_t)ELF64_R_TYPE(tables.rela[0][i].r_info)))
			note_copied(planner, &tables, &tables.rela[0][i]);
	limpet_module_tables_done(&tables);
}

/* A variable that began as this function, and that the program has set to another one: that is not
 * what the name stands for, and not what a slot of that name will be bound to. */
static bool was_set(const struct planner *planner, const struct limpet_slot_found *found,
		    uint64_t value)
{
	const struct limpet_module *module;

	if (!LIMPET_ARCH_RELOCATION_IS_VARIABLE(found->type) ||
	    value == planner->plan->start.default_original[found->symbol])
		return false;
	module = definer(planner, value);
	return !module || symbol_in(planner, module, limpet_family[found->symbol].name) != value;
}

/* The value may be read as data, and copied. */
static void note_address(struct planner *planner, const struct limpet_slot *slot)
{
	if (!defines_malloc(planner, planner->module))
		planner->plan->address_slots = true;
	plan_copy(planner, slot);
}

/* Where slots that are not bound yet will lead. Not to what another tool has put in a slot: its
 * definer has no such function by that name. */
static void learn(struct planner *planner, uint32_t symbol, uint64_t value)
{
	uint64_t *known = &planner->plan->start.default_original[symbol];
	const struct limpet_module *module = definer(planner, value);

	if (note_if_deep(planner, symbol, value) || *known)
		return;
	if (module && symbol_in(planner, module, limpet_family[symbol].name) == value)
		*known = value;
}

static int slot_found(const struct limpet_slot_found *found, void *context)
{
	struct planner *planner = context;
	struct limpet_plan *plan = planner->plan;
	struct limpet_slot *slot;
	uint64_t address = planner->module->bias + found->offset, value, original;
	enum binding binding;
	uint32_t hook;

	if (planner->visits++ >= MAX_VISITS)
		return leave_alone(planner, found->symbol);
	if (!LIMPET_ARCH_RELOCATION_IS_SLOT(found->type))
		return wanted(planner, found->symbol, plan->start.default_original[found->symbol])
			       ? leave_alone(planner, found->symbol)
			       : 0;
	if (!is_in(planner->module, address))
		return leave_alone(planner, found->symbol);
	/* Nobody calls through a word that cannot be read: its module was unloaded meanwhile. */
	if (limpet_memory_read(planner->modules->target->pid, address, &value, sizeof(value)) < 0 ||
	    !value)
		return 0;
	/* Calls through this word continue through the program's own slot, which is patched. */
	if ((value == planner->canonical[found->symbol] && !found->alias) ||
	    was_set(planner, found, value))
		return 0;
	binding = binding_of(planner, found, value);
	if (binding == REPLACED)
		return leave_alone(planner, found->symbol);
	if (planner->learning) {
		if (!found->alias && binding == BOUND)
			learn(planner, found->symbol, value);
		return 0;
	}
	original = value;
	if (found->alias)
		original = original_of_alias(planner, found->alias, value, binding == UNBOUND);
	else if (binding == UNBOUND)
		original = unbound_original(planner, found->symbol);
	/* Another tool's code, which is in no module, stands before the function. */
	if (original && !definer(planner, original))
		return leave_alone(planner, found->symbol);
	if (!original || !wanted(planner, found->symbol, original))
		return 0;
	if (plan->slot_count == LIMPET_MAX_SLOTS ||
	    hook_for(planner, found->symbol, original, &hook) < 0) {
		plan->slots_unhooked++;
		return 0;
	}
	slot = &plan->slots[plan->slot_count++];
	*slot = (struct limpet_slot){.address = address,
				     .old_value = value,
				     .module = planner->module->bias,
				     .module_phdr = planner->module->phdr,
				     .hook = hook,
				     .state = LIMPET_SLOT_PLANNED,
				     .kind = limpet_slot_kind(found->type)};
	if (!LIMPET_ARCH_RELOCATION_IS_LAZY(found->type))
		note_address(planner, slot);
	return 0;
}

static int note_canonical(const struct limpet_slot_found *found, void *context)
{
	struct planner *planner = context;

	if (!found->defined && found->symbol_value)
		planner->canonical[found->symbol] = planner->module->bias + found->symbol_value;
	return 0;
}

static void scan(struct planner *planner, int (*visit)(const struct limpet_slot_found *, void *),
		 bool program_only)
{
	struct limpet_modules *modules = planner->modules;

	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_slot_tables tables;
		int error;

		planner->module = &modules->list[i];
		if (!planner->module->in_list || planner->module->loader || planner->module->vdso ||
		    planner->module->agent || (program_only && !planner->module->executable) ||
		    (planner->learning && planner->module->space))
			continue;
		error = limpet_module_tables_read(modules->target, planner->module, &tables);
		if (error == -EFBIG || error == -EOPNOTSUPP || error == -ENOMEM)
			planner->plan->slots_unhooked += !planner->learning && !program_only;
		if (error)
			continue;
		tables.aliases = planner->aliases.list;
		tables.alias_count = planner->aliases.count;
		limpet_slots_scan(&tables, visit, planner);
		limpet_module_tables_done(&tables);
	}
}

/* ---------------------------------------------------------------- the dynamic linker's own calls
 *
 * Since 2.31 glibc's linker allocates what it needs (threads' TLS, lists of modules) by the
 * program's allocator, through four pointers without names: elf/dl-minimal-malloc.c, rtld-malloc.h.
 * It makes them read-only with the rest of its data. They are recognized by their values, each of
 * which occurs once in that data, side by side. */

enum { LINKER_WORDS = 4, LINKER_BYTES = 16384 };

static struct limpet_module *find_linker(const struct planner *planner)
{
	for (size_t i = 0; i < planner->modules->count; i++) {
		struct limpet_module *module = &planner->modules->list[i];

		if (module->loader && module->in_list && !module->space && !module->libc_loader &&
		    module->relro_end > module->relro_start)
			return module;
	}
	return NULL;
}

/* Finds the four words, counted from `at`; false: they are not found, or not with certainty. */
static bool find_linker_words(const uint64_t *words, size_t count,
			      const uint64_t originals[LINKER_WORDS],
			      size_t ret_places[LINKER_WORDS])
{
	unsigned found[LINKER_WORDS] = {0};
	size_t first = count, last = 0;

	for (size_t i = 0; i < count; i++)
		for (unsigned k = 0; k < LINKER_WORDS; k++) {
			if (!originals[k] || words[i] != originals[k])
				continue;
			found[k]++;
			ret_places[k] = i;
			first = i < first ? i : first;
			last = i;
		}
	for (unsigned k = 0; k < LINKER_WORDS; k++)
		if (found[k] != 1)
			return false;
	return last - first < 2 * (size_t)LINKER_WORDS;
}

static void linker_slot(struct planner *planner, const struct limpet_module *linker,
			uint64_t address, uint32_t symbol, uint64_t original)
{
	struct limpet_plan *plan = planner->plan;
	struct limpet_slot slot = {.address = address,
				   .old_value = original,
				   .module = linker->bias,
				   .module_phdr = linker->phdr};

	if (plan->slot_count < LIMPET_MAX_SLOTS &&
	    hook_for(planner, symbol, original, &slot.hook) == 0)
		plan->slots[plan->slot_count++] = slot;
	else
		plan->slots_unhooked++;
}

static void plan_linker(struct planner *planner)
{
	static const char *const names[LINKER_WORDS] = {"malloc", "calloc", "realloc", "free"};
	const struct limpet_module *linker = find_linker(planner);
	uint64_t words[LINKER_BYTES / sizeof(uint64_t)], at, originals[LINKER_WORDS], bytes;
	size_t places[LINKER_WORDS];
	uint32_t symbols[LINKER_WORDS];

	if (!linker)
		return;
	at = (linker->relro_start + sizeof(at) - 1) / sizeof(at) * sizeof(at);
	for (unsigned k = 0; k < LINKER_WORDS; k++) {
		symbols[k] = (uint32_t)limpet_family_find(names[k], UINT64_MAX);
		originals[k] = planner->plan->start.default_original[symbols[k]];
		if (!wanted(planner, symbols[k], originals[k]))
			return;
	}
	/* Some hundreds of words. */
	bytes = (linker->relro_end - at) / sizeof(at) * sizeof(at);
	if (bytes > sizeof(words) ||
	    limpet_memory_read(planner->modules->target->pid, at, words, bytes) < 0 ||
	    !find_linker_words(words, bytes / sizeof(at), originals, places))
		return;
	for (unsigned k = 0; k < LINKER_WORDS; k++)
		linker_slot(planner, linker, at + places[k] * sizeof(at), symbols[k], originals[k]);
}

/* ---------------------------------------------------------------- symbols
 *
 * While the dynamic symbol of a function leads to a thunk, everything that is bound is bound to the
 * thunk: a module's slots before its constructors run, those of modules that libc loads by itself,
 * and slots that are bound at their first call. */

struct symbols {
	struct planner *planner;
	const struct limpet_module *module;
	uint32_t hook;
};

/* The agent makes the whole mapping writable for a moment, so it must contain only data; from
 * outside any page can be written. */
static bool may_be_written(const struct planner *planner, uint64_t address)
{
	const struct limpet_map *map = limpet_proc_maps_find(&planner->modules->maps, address);

	return map && map->inode && map->perms[0] == 'r' && map->perms[3] == 'p' &&
	       (planner->plan->method == LIMPET_METHOD_OUTSIDE || map->perms[2] != 'x');
}

static void symbol_found(uint64_t address, void *context)
{
	const struct symbols *symbols = context;
	struct limpet_plan *plan = symbols->planner->plan;
	uint64_t original = plan->start.hooks[symbols->hook].original;

	if (address % sizeof(uint64_t) || plan->slot_count == LIMPET_MAX_SLOTS ||
	    !is_in(symbols->module, address) || !may_be_written(symbols->planner, address))
		return;
	plan->slots[plan->slot_count++] = (struct limpet_slot){
		.address = address,
		.old_value = original - symbols->module->bias,
		.module = symbols->module->bias,
		.module_phdr = symbols->module->phdr,
		.hook = symbols->hook,
		.kind = LIMPET_SLOT_OF_SYMBOL,
	};
	plan->symbols = true;
}

/* A function that nobody calls yet may be called by a module that is loaded later. Functions of
 * another allocator beside the program's are not hooked for that. */
static void hook_defaults(struct planner *planner)
{
	const struct limpet_start *start = &planner->plan->start;
	const struct limpet_module *allocator =
		definer(planner, start->default_original[limpet_family_first(LIMPET_OP_MALLOC)]);

	for (uint32_t i = 0; i < LIMPET_FAMILY_COUNT; i++) {
		uint64_t original = start->default_original[i];
		uint32_t hook, flags = limpet_family[i].flags;

		if (!original || flags & LIMPET_FAMILY_FINDER || !wanted(planner, i, original))
			continue;
		if (!(flags & (LIMPET_FAMILY_LOADER | LIMPET_FAMILY_MMAP)) &&
		    definer(planner, original) != allocator)
			continue;
		(void)!hook_for(planner, i, original, &hook);
	}
}

static void plan_symbols(struct planner *planner)
{
	const struct limpet_start *start = &planner->plan->start;

	hook_defaults(planner);
	for (uint32_t i = 0; i < start->hook_count; i++) {
		const struct limpet_hook *hook = &start->hooks[i];
		struct symbols symbols = {
			.planner = planner, .module = definer(planner, hook->original), .hook = i};

		if (hook->op == LIMPET_OP_FINDER ||
		    limpet_entries_at(planner->entries, hook->original) || !symbols.module ||
		    !symbols.module->in_list || symbols.module->agent)
			continue;
		limpet_module_names_of(planner->modules->target,
				       (struct limpet_module *)(uintptr_t)symbols.module,
				       hook->original, hook->op, symbol_found, &symbols);
	}
}

static uint16_t hook_flags(const struct limpet_entry *entry)
{
	uint16_t flags = entry->what.hook_flags;

	return flags & LIMPET_HOOK_PROBE ? flags : flags | LIMPET_HOOK_ENTRY;
}

/* First, since there is one entry of each, however many slots there are. Until the hook area
 * is mapped, hooks have the functions' addresses. */
static void plan_entries(struct planner *planner)
{
	struct limpet_start *start = &planner->plan->start;

	for (size_t i = 0; i < planner->entries->count; i++) {
		struct limpet_entry *entry = &planner->entries->list[i];

		entry->hook = start->hook_count;
		start->hooks[start->hook_count++] = (struct limpet_hook){
			.original = entry->address,
			.usable_size = entry->usable_size,
			.op = (uint16_t)entry->what.op,
			.flags = hook_flags(entry),
			.symbol = entry->what.symbol,
		};
	}
}

/* ---------------------------------------------------------------- several allocators */

/* Names the allocator of a hook's blocks: for entries it is known; slots lead into a library. */
static void name_owner(struct planner *planner, uint32_t hook, char *ret, size_t bytes)
{
	const struct limpet_hook *it = &planner->plan->start.hooks[hook];
	const struct limpet_module *module;
	const char *library;

	ret[0] = '\0';
	if (limpet_family[it->symbol].flags &
	    (LIMPET_FAMILY_MMAP | LIMPET_FAMILY_LOADER | LIMPET_FAMILY_FINDER))
		return;
	for (size_t i = 0; i < planner->entries->count; i++)
		if (planner->entries->list[i].hook == hook) {
			snprintf(ret, bytes, "%s", planner->entries->list[i].owner);
			return;
		}
	module = definer(planner, it->original);
	if (!module)
		return;
	library = limpet_allocator_of_library(module->path);
	if (library)
		snprintf(ret, bytes, "%s", library);
	else if (symbol_in(planner, module, "gnu_get_libc_version"))
		snprintf(ret, bytes, "glibc");
	else
		snprintf(ret, bytes, "malloc of %.30s", limpet_base_name(module->path));
}

static uint32_t owner_number(struct limpet_plan *plan, const char *name)
{
	uint32_t i = 0;

	while (i < plan->owner_count && strcmp(plan->owners[i], name) != 0)
		i++;
	if (i == LIMPET_HOOK_OWNERS || !name[0])
		return 0;
	if (i == plan->owner_count)
		snprintf(plan->owners[plan->owner_count++], sizeof(plan->owners[0]), "%s", name);
	return i + 1;
}

static void number_owners(struct planner *planner)
{
	struct limpet_plan *plan = planner->plan;
	char name[LIMPET_ENTRY_OWNER_BYTES];

	for (uint32_t i = 0; i < plan->start.hook_count; i++) {
		name_owner(planner, i, name, sizeof(name));
		plan->start.hooks[i].flags |= LIMPET_HOOK_OWNER_FLAG(owner_number(plan, name));
	}
	if (plan->owner_count > 1)
		return;
	plan->owner_count = 0;
	for (uint32_t i = 0; i < plan->start.hook_count; i++)
		plan->start.hooks[i].flags &= (uint16_t)~LIMPET_HOOK_OWNER_FLAG(LIMPET_HOOK_OWNERS);
}

/* What an unbound slot of this name would be bound to: what bound slots contain, else the first
 * definition in the loader's order. */
static void find_defaults(struct planner *planner)
{
	struct limpet_start *start = &planner->plan->start;
	struct limpet_module *first = NULL;

	limpet_modules_symbol(planner->modules, "malloc", &first);
	planner->first = first;
	planner->learning = true;
	scan(planner, slot_found, false);
	planner->learning = false;
	planner->visits = 0;
	for (uint32_t i = 0; i < LIMPET_FAMILY_COUNT; i++)
		if (!start->default_original[i])
			start->default_original[i] = limpet_modules_symbol(
				planner->modules, limpet_family[i].name, NULL);
}

static int note_finder(const struct limpet_slot_found *found, void *context)
{
	if (limpet_family[found->symbol].flags & LIMPET_FAMILY_FINDER)
		*(bool *)context = true;
	return 0;
}

/* Whether some hooked function may throw, other than by a signal's handler: an operator new that is
 * followed itself, since it is an allocator's or the program's own, or a function that the user has
 * named. malloc and its kin do not, nor does the hook of the malloc that an operator new calls. */
static bool may_throw(struct limpet_modules *modules, const struct limpet_entries *entries)
{
	struct limpet_module *definer = NULL;

	if (entries->families[LIMPET_ENTRY_OPERATORS] || entries->families[LIMPET_ENTRY_LISTED] ||
	    entries->families[LIMPET_ENTRY_FOUND])
		return true;
	return limpet_modules_symbol(modules, "_Znwm", &definer) &&
	       limpet_module_has_malloc(modules->target, definer);
}

/* Whether exceptions can pass the hooks of a mapped agent: the program's unwinder must ask a
 * function for the tables of an address, and that function must be hookable (agent/finder.c). A
 * program without an unwinder may load one later. */
static bool passes_exceptions(struct limpet_modules *modules, const struct limpet_entries *entries)
{
	struct limpet_module *unwinder = NULL;
	struct limpet_slot_tables tables;
	bool finds = entries->families[LIMPET_ENTRY_FINDER];

	if (!limpet_modules_symbol(modules, "_dl_find_object", NULL))
		return finds;
	if (!limpet_modules_symbol(modules, "_Unwind_RaiseException", &unwinder))
		return finds || !may_throw(modules, entries);
	if (limpet_module_tables_read(modules->target, unwinder, &tables) < 0)
		return finds;
	limpet_slots_scan(&tables, note_finder, &finds);
	limpet_module_tables_done(&tables);
	return finds;
}

/* dlopen opens the agent through /proc/thread-self/fd. The root directory itself is not examined: a
 * program may serve it. */
static bool sees_proc(const struct limpet_target *target)
{
	char process[PATH_MAX], type[32];
	int code;

	snprintf(process, sizeof(process), "%s/%d", limpet_proc_root,
		 limpet_proc_resident(target->pid));
	code = limpet_mount_type_at(process, "/proc", type);
	return code == 0 ? !strcmp(type, "proc") : code != -ENOENT;
}

/* From libc's own libraries: a function that a preloaded library or the program provides instead
 * may take locks, and call anything, on the hijacked thread. */
static uint64_t libc_symbol(struct limpet_modules *modules, const char *name)
{
	static const char *const libraries[] = {"libc.so.6", "libdl.so.2", "libc-2.", "libdl-2."};

	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];
		const char *base = module->path ? limpet_base_name(module->path) : "";
		uint64_t address = 0;

		if (!module->in_list || module->space || module->agent)
			continue;
		for (size_t k = 0; k < LIMPET_COUNT_OF(libraries) && !address; k++)
			if (!strncmp(base, libraries[k], strlen(libraries[k])))
				address = limpet_module_symbol(modules->target, module, name, NULL);
		if (address)
			return address;
	}
	/* It has another name, or is not in glibc. */
	return limpet_modules_symbol(modules, name, NULL);
}

bool limpet_plan_has_collector(struct limpet_modules *modules)
{
	return limpet_modules_symbol(modules, "GC_gcollect", NULL);
}

/* Whether an auditor (LD_AUDIT) sees each call from its beginning to its end: the linker makes the
 * call then, and stands below all that the program waits in. An auditor has a namespace of its own,
 * which glibc lists since 2.35. */
static bool has_auditor(struct limpet_modules *modules)
{
	static const char *const sees[] = {"la_x86_64_gnu_pltenter", "la_x86_64_gnu_pltexit"};

	for (size_t i = 0; i < modules->count; i++) {
		struct limpet_module *module = &modules->list[i];

		if (module->agent || (module->in_list && !module->space))
			continue;
		for (size_t k = 0; k < LIMPET_COUNT_OF(sees); k++)
			if (limpet_module_symbol(modules->target, module, sees[k], NULL))
				return true;
	}
	return false;
}

/* And the dynamic linker calls it, too. In a library that is an allocator, all code is the
 * allocator's; in a program, only functions with known names are. */
static bool has_own_malloc(struct limpet_modules *modules)
{
	struct limpet_module *module;

	return limpet_modules_symbol(modules, "malloc", &module) && module->executable;
}

/* The linker calls its malloc, which needs a state of its own for each thread: threads of the
 * runtime's own have none. */
static bool has_sanitizer(struct limpet_modules *modules)
{
	static const char *const begins[] = {"__asan_init", "__tsan_init", "__msan_init",
					     "__hwasan_init", "__lsan_init"};

	for (size_t i = 0; i < LIMPET_COUNT_OF(begins); i++)
		if (limpet_modules_symbol(modules, begins[i], NULL))
			return true;
	return false;
}

/* Why no function of the dynamic linker may be called; NULL: they may. */
static const char *why_not_called(struct limpet_modules *modules, const struct limpet_plan *plan)
{
	if (modules->fully_static)
		return "the program has none";
	if (!limpet_modules_symbol(modules, "gnu_get_libc_version", NULL))
		return "musl's never unloads a library";
	if (!plan->dlopen || !plan->dlclose || !plan->start.dl_iterate_phdr)
		return "the program has no dlopen";
	if (!sees_proc(modules->target))
		return "there is no /proc in its root directory";
	if (limpet_plan_has_collector(modules))
		return "its garbage collector would read what is loaded";
	if (has_own_malloc(modules))
		return "it would call the program's own malloc";
	if (has_sanitizer(modules))
		return "it would call a sanitizer's malloc, in a thread of which that may not "
		       "know";
	if (has_auditor(modules))
		return "an auditor (LD_AUDIT) has the linker make each call";
	return NULL;
}

static void choose(struct limpet_modules *modules, struct limpet_entries *entries,
		   enum limpet_method wish, struct limpet_plan *plan)
{
	const bool pass = passes_exceptions(modules, entries);

	plan->method = LIMPET_METHOD_MAP;
	if (plan->reason) {
		plan->method = LIMPET_METHOD_OUTSIDE;
	} else if (wish == LIMPET_METHOD_OUTSIDE) {
		plan->method = LIMPET_METHOD_OUTSIDE;
		plan->reason = "LIMPET_LOAD=map says so";
	} else if (wish == LIMPET_METHOD_DLOPEN) {
		plan->method = LIMPET_METHOD_DLOPEN;
		plan->reason = "LIMPET_LOAD=dlopen says so";
	} else if (!pass || may_throw(modules, entries)) {
		/* The linker shows it to every unwinder, from the first call to the last. */
		plan->method = LIMPET_METHOD_DLOPEN;
		plan->reason = "exceptions are to pass its hooks";
	}
	plan->start.method = plan->method;
	if (plan->method == LIMPET_METHOD_OUTSIDE && !pass)
		limpet_entries_leave_operators(entries);
}

/* The program itself writes the file that its dlopen opens: one that is larger than it may write
 * ends it (SIGXFSZ). */
static int check_file_size(const struct limpet_target *target, struct limpet_err *err)
{
	const struct limpet_agent_image *image;
	uint64_t limit;

	if (limpet_agent_image_get(&image) < 0 ||
	    limpet_proc_limit(target->pid, "Max file size", &limit) < 0 || limit >= image->size)
		return 0;
	limpet_err_set(err, -ENOTSUP,
		       "the agent is to be loaded by the program's own dlopen, from a file that is "
		       "larger than the program may write (RLIMIT_FSIZE)");
	limpet_err_hint(err, "sudo prlimit --pid %d --fsize=unlimited", target->pid);
	return -ENOTSUP;
}

int limpet_plan_choose_method(struct limpet_modules *modules, struct limpet_entries *entries,
			      enum limpet_method wish, struct limpet_plan *plan,
			      struct limpet_err *err)
{
	plan->dlopen_mode = RTLD_NOW_LOCAL;
	plan->dlopen = libc_symbol(modules, "dlopen");
	plan->dlclose = libc_symbol(modules, "dlclose");
	plan->dlerror = libc_symbol(modules, "dlerror");
	if (!plan->dlopen || !plan->dlclose) {
		/* glibc before 2.34, program without libdl */
		plan->dlopen = limpet_modules_symbol(modules, "__libc_dlopen_mode", NULL);
		plan->dlclose = limpet_modules_symbol(modules, "__libc_dlclose", NULL);
		plan->dlopen_mode |= RTLD_DLOPEN;
		plan->dlerror = 0;
	}
	plan->start.dl_iterate_phdr = libc_symbol(modules, "dl_iterate_phdr");
	if (!modules->fully_static && !plan->dlopen &&
	    !limpet_modules_symbol(modules, "malloc", NULL)) {
		limpet_err_set(err, -ENOENT,
			       "no C library is loaded: the program has none, or it is only "
			       "starting");
		limpet_err_hint(err, "try again; `limpet run` captures from the entry point on");
		return -ENOENT;
	}
	plan->reason = why_not_called(modules, plan);
	if (plan->reason && wish == LIMPET_METHOD_DLOPEN) {
		limpet_err_set(err, -ENOTSUP, "the agent cannot be loaded by a dynamic linker (%s)",
			       plan->reason);
		limpet_err_hint(err, "leave out LIMPET_LOAD=dlopen: the agent is mapped then");
		return -ENOTSUP;
	}
	choose(modules, entries, wish, plan);
	plan->start.r_debug = modules->r_debug;
	return plan->method == LIMPET_METHOD_DLOPEN ? check_file_size(modules->target, err) : 0;
}

static int find_gadgets(struct planner *planner, struct limpet_err *err)
{
	struct limpet_modules *modules = planner->modules;
	struct limpet_module *libc = NULL;
	uint8_t *code;
	uint64_t bytes;

	limpet_modules_symbol(modules, "malloc_usable_size", &libc);
	limpet_modules_symbol(modules, "sigaction", &libc);
	for (size_t i = 0; i <= modules->count; i++) {
		const struct limpet_module *module = i ? &modules->list[i - 1] : libc;

		if (!module || module->agent)
			continue;
		bytes = module->text_end - module->text_start;
		if (bytes > MAX_TEXT_BYTES)
			bytes = MAX_TEXT_BYTES;
		if (!limpet_module_spend(module, bytes))
			continue;
		code = malloc(bytes);
		if (!code)
			return limpet_err_set(err, -ENOMEM, "out of memory");
		if (limpet_module_read(modules->target, module, module->text_start, code, bytes) ==
			    0 &&
		    limpet_tracee_find_gadgets(code, bytes, module->text_start,
					       &planner->plan->gadgets) &&
		    planner->plan->gadgets.restorer) {
			free(code);
			return 0;
		}
		free(code);
	}
	if (planner->plan->gadgets.syscall && planner->plan->gadgets.pop_rax)
		return 0;
	return limpet_err_set(err, -ENOENT,
			      "found no system call instruction in the program's libc");
}

void limpet_plan_fill_segment(const struct limpet_plan *plan, const struct limpet_modules *modules,
			      struct limpet_segment *segment)
{
	struct limpet_known_module *known = limpet_segment_known_modules(segment);
	struct limpet_shm *shm = segment->shm;

	shm->module_count = 0;
	for (size_t i = 0; i < modules->count && shm->module_count < LIMPET_MAX_KNOWN_MODULES;
	     i++) {
		if (!modules->list[i].in_list)
			continue;
		known[shm->module_count].bias = modules->list[i].bias;
		known[shm->module_count++].phdr = modules->list[i].phdr;
	}
	memcpy(limpet_segment_slots(segment), plan->slots, plan->slot_count * sizeof(*plan->slots));
	shm->slot_count = plan->slot_count;
}

static int leave_kept(struct planner *planner)
{
	const struct limpet_kept_values kept = {.modules = planner->modules,
						.copied = planner->copied,
						.copied_count = planner->copied_count};
	int left =
		limpet_kept_values_leave(&kept, planner->plan->slots, &planner->plan->slot_count);

	if (left < 0)
		return left;
	planner->plan->slots_unhooked += (uint32_t)left;
	return 0;
}

static int plan_slots(struct planner *planner)
{
	int error;

	planner->deep = calloc(planner->modules->count + 1, sizeof(*planner->deep));
	if (!planner->deep)
		return -ENOMEM;
	scan(planner, note_canonical, true);
	find_defaults(planner);
	find_copied(planner);
	error = limpet_slot_aliases_find(planner->modules, &planner->aliases);
	planner->plan->slots_unhooked += planner->aliases.left_out;
	scan(planner, slot_found, false);
	if (!error)
		error = leave_kept(planner);
	limpet_slot_aliases_done(&planner->aliases);
	free(planner->copied);
	free(planner->deep);
	return error;
}

int limpet_plan_make(struct limpet_modules *modules, struct limpet_entries *entries,
		     enum limpet_method wish, struct limpet_plan *ret, struct limpet_err *err)
{
	struct planner planner = {.modules = modules, .entries = entries, .plan = ret};
	uint32_t called;
	int error;

	memset(ret, 0, sizeof(*ret));
	ret->slots = calloc(LIMPET_MAX_SLOTS, sizeof(*ret->slots));
	if (!ret->slots)
		return limpet_err_set(err, -ENOMEM, "out of memory");
	ret->start.abi = LIMPET_AGENT_ABI;
	ret->start.bytes = sizeof(ret->start);
	ret->start.hook_count = LIMPET_FIRST_HOOK;
	ret->start.page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	error = limpet_plan_choose_method(modules, entries, wish, ret, err);
	if (!error)
		error = find_gadgets(&planner, err);
	if (error)
		return error;
	ret->loader_lock = limpet_loader_lock_find(modules);
	limpet_loader_describe(modules, &ret->start.loader);
	/* Also where this capture does not call dlopen: an earlier one may have. */
	ret->loader_error =
		ret->method == LIMPET_METHOD_OUTSIDE ? 0 : limpet_loader_error_find(modules);
	plan_entries(&planner);
	error = plan_slots(&planner);
	if (error)
		return limpet_err_set(err, error, "out of memory");
	/* Otherwise the agent examines them, as if they were loaded later. */
	if (ret->method == LIMPET_METHOD_OUTSIDE)
		ret->slots_unhooked += modules->unlisted;
	called = ret->slot_count;
	plan_linker(&planner);
	plan_symbols(&planner);
	number_owners(&planner);
	ret->start.slot_count = ret->slot_count;
	if (!called && !entries->count)
		return limpet_err_set(err, -ENOENT,
				      "the program calls no allocator through its tables");
	return 0;
}

void limpet_plan_done(struct limpet_plan *plan)
{
	free(plan->slots);
	plan->slots = NULL;
}
