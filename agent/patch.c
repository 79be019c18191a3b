/* Patches and restores slots, also those of modules that are loaded later.
 *
 * All of it runs inside the visits of a walk (loaded.c), under a lock that the loader needs to
 * unmap a module: a listed module cannot disappear while its slots are written. Called on a thread
 * at a safe point (the injector's calls), or from the program's own call into the loader, which
 * takes the same lock itself; never from an allocation hook.
 *
 * If the injector's calls run on a thread that may hold that lock (LIMPET_METHOD_OUTSIDE), the
 * injector patches and restores slots itself; only slots of modules that are loaded later are
 * patched here. */
#include "agent/patch.h"
#include "agent/agent.h"
#include "agent/hook_paths.h"
#include "agent/late_modules.h"
#include "agent/loaded.h"
#include "agent/record.h"

#include <elf.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "common/arch.h"
#include "common/slots.h"

#define ERROR_FAULT 14 /* EFAULT */

static struct limpet_start config; /* a copy: the original is in scratch memory */
static uint32_t scanning;          /* one thread at a time changes slots or their table */
static bool detaching;             /* no more slots are written */
/* Of each known module. What is large lies behind all else, and is one array: most of it is never
 * touched, and the rest of the agent's data shares few pages, each of which costs the thread that
 * attaches a fault. */
static struct extent {
	uint64_t start, end; /* its addresses */
	bool late;           /* loaded after the plan was made */
	bool present;        /* seen by the scan that is under way */
	/* Not of this module, but the next of those that were loaded before any symbol was patched.
	 */
	struct limpet_known_module early;
} extents[LIMPET_MAX_KNOWN_MODULES] __attribute__((section(".bss.large")));
/* How many of these there are, and how many modules had been unloaded by then: if more have been
 * since, another module may be in the place of one of these. */
static uint32_t early_count;
static uint64_t early_unloads;
static uint64_t hooks_left[LIMPET_MAX_HOOKS / 64]; /* created here, for an unloaded module */
static uint32_t unread_seen;                       /* modules that cannot be examined */
/* Hooks whose symbols are patched: the linker binds to them from now on. */
static uint64_t hooks_bound[LIMPET_MAX_HOOKS / 64];
static bool begun; /* the modules loaded before the capture were examined */

static void note_extent(uint32_t index, const struct limpet_image *image)
{
	extents[index].start = image->low;
	extents[index].end = image->high;
}

void limpet_patch_configure(const struct limpet_start *start)
{
	const uint8_t *from = (const uint8_t *)start;
	volatile uint8_t *to = (volatile uint8_t *)&config;

	for (size_t i = 0; i < sizeof(config); i++)
		to[i] = from[i];
	limpet_loaded_configure(start);
	unread_seen = 0;
	detaching = false;
	begun = start->method == LIMPET_METHOD_OUTSIDE; /* then nothing searches for these */
}

/* Whether the page is writable now, by an atomic `or 0` on the word in a futex call. A page in the
 * middle of its own relocation is still writable and must stay so; one that the loader has
 * protected gives EFAULT. Its protection is then changed, and restored before the visit of its
 * module ends: often one page has all slots of a module. */
static long probe_writable(uint64_t address)
{
	static uint32_t nobody_waits;
	const long or_zero = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);

	return limpet_syscall6(SYS_futex, (long)&nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,
			       0, 0, (long)address, or_zero);
}

static uint64_t opened_page; /* 0: none */

static void close_page(void)
{
	if (opened_page)
		limpet_syscall3(SYS_mprotect, (long)opened_page, (long)config.page_bytes,
				PROT_READ);
	opened_page = 0;
}

static int open_page(uint64_t address)
{
	const uint64_t page = address & ~(config.page_bytes - 1);
	long error = probe_writable(address);

	if (error != -ERROR_FAULT)
		return error < 0 ? (int)error : 0;
	if (page != opened_page)
		close_page();
	error = limpet_syscall3(SYS_mprotect, (long)page, (long)config.page_bytes,
				PROT_READ | PROT_WRITE);
	if (!error)
		opened_page = page;
	return (int)error;
}

static bool may_read_word(uint64_t address)
{
	return limpet_loaded_may_read((const void *)(uintptr_t)address, sizeof(uint64_t));
}

/* Returns 0, 1 (holds another value), or -errno. The visit closes the page. */
static int exchange(uint64_t address, uint64_t expected, uint64_t value)
{
	uint64_t *word = (uint64_t *)(uintptr_t)address;
	int error;

	if (!may_read_word(address))
		return -ERROR_FAULT;
	if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != expected)
		return 1;
	error = open_page(address);
	/* The program may have forbidden either call. */
	if (error)
		return error;
	return !__atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
}

static struct limpet_slot *slot_table(void)
{
	return limpet_shm_at(limpet_shm->layout.slots_offset);
}

/* Sets the new state, by the result of an exchange. */
static void slot_note(struct limpet_slot *slot, int answer, bool restore)
{
	if (answer < 0)
		slot->state = LIMPET_SLOT_FAILED;
	else if (!restore)
		slot->state = answer ? LIMPET_SLOT_FOREIGN : LIMPET_SLOT_PATCHED;
	else if (slot->state == LIMPET_SLOT_PATCHED)
		slot->state = answer ? LIMPET_SLOT_FOREIGN : LIMPET_SLOT_RESTORED;
	limpet_shm->slots_unhooked += !restore && limpet_slot_is_unhooked(slot);
}

static struct limpet_known_module *module_table(void)
{
	return limpet_shm_at(limpet_shm->layout.modules_offset);
}

/* ---------------------------------------------------------------- symbols
 *
 * Nobody writes to symbol tables, so each is in one mapping. Its protection is changed as a whole:
 * a mapping of which a part was ever writable stays split. A thread that looks up a function
 * meanwhile reads its value in one access, and the old and the new value are both right. */

static struct limpet_image_part opened;

static int set_protection(const struct limpet_image_part *part, uint32_t protection)
{
	return (int)limpet_syscall3(SYS_mprotect, (long)part->start, (long)part->bytes,
				    (long)protection);
}

static int open_symbols(const struct limpet_image *image, uint64_t address)
{
	struct limpet_image_part part;
	int error = 0;

	if (!limpet_image_part_of(image, address, &part) || part.flags & PF_X)
		return -ERROR_FAULT;
	if (address - opened.start < opened.bytes || part.flags & PF_W)
		return 0;
	error = set_protection(&part, PROT_READ | PROT_WRITE);
	if (!error)
		opened = part;
	return error;
}

static void close_symbols(void)
{
	if (opened.bytes)
		set_protection(&opened, PROT_READ);
	opened.bytes = 0;
}

/* As exchange(). */
static int exchange_symbol(const struct limpet_image *image, const struct limpet_slot *slot,
			   uint64_t expected, uint64_t value)
{
	uint64_t *word = (uint64_t *)(uintptr_t)slot->address;
	int error;

	if (!may_read_word(slot->address))
		return -ERROR_FAULT;
	if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != expected)
		return 1;
	error = open_symbols(image, slot->address);
	if (error)
		return error;
	return !__atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE);
}

static bool is_symbol_of(const struct limpet_slot *slot, const struct limpet_image *image)
{
	struct limpet_image_part part;

	return slot->kind == LIMPET_SLOT_OF_SYMBOL && slot->module == image->bias &&
	       slot->module_phdr == image->phdr &&
	       limpet_image_part_of(image, slot->address, &part);
}

struct patch_walk {
	int done;
	bool restore;
};

static int patch_symbols(const struct limpet_image *image, void *context)
{
	struct patch_walk *walk = context;
	struct limpet_slot *slots = slot_table();

	for (uint32_t i = 0; i < limpet_shm->slot_count; i++) {
		struct limpet_slot *slot = &slots[i];
		uint64_t ours = limpet_slot_value_ours(slot, limpet_thunk(slot->hook));
		int answer;

		if (!is_symbol_of(slot, image) ||
		    (!walk->restore && slot->state != LIMPET_SLOT_PLANNED))
			continue;
		if (walk->restore)
			answer = exchange_symbol(image, slot, ours, slot->old_value);
		else
			answer = exchange_symbol(image, slot, slot->old_value, ours);
		slot_note(slot, answer, walk->restore);
		walk->done += walk->restore ? answer < 0 : answer == 0;
	}
	close_symbols();
	return 0;
}

/* Determined again for each scan: slots may be written from outside at any time. */
static void note_bound(void)
{
	const struct limpet_slot *slots = slot_table();

	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS / 64; i++)
		hooks_bound[i] = 0;
	for (uint32_t i = 0; i < config.slot_count; i++)
		if (slots[i].kind == LIMPET_SLOT_OF_SYMBOL &&
		    slots[i].state == LIMPET_SLOT_PATCHED && slots[i].hook < LIMPET_MAX_HOOKS)
			hooks_bound[slots[i].hook / 64] |= 1ull << slots[i].hook % 64;
}

static bool is_bound_by_symbol(uint32_t op, uint64_t original)
{
	for (uint32_t i = 0; i < config.hook_count && i < LIMPET_MAX_HOOKS; i++)
		if (limpet_hooks[i].original == original && limpet_hooks[i].op == op)
			return hooks_bound[i / 64] >> i % 64 & 1;
	return false;
}

/* ---------------------------------------------------------------- slots */

static void slot_patch(struct limpet_slot *slot)
{
	uint64_t original = limpet_hooks[slot->hook].original;
	int answer = exchange(slot->address, slot->old_value, limpet_thunk(slot->hook));

	/* A lazy slot that was bound since the plan was made, for example by the dlopen of the
	 * agent. */
	if (answer == 1 && slot->old_value != original) {
		slot->old_value = original;
		answer = exchange(slot->address, original, limpet_thunk(slot->hook));
	}
	slot_note(slot, answer, false);
}

/* Depends on the slot's value, not on its state. Returns -errno on failure. */
static int slot_restore(struct limpet_slot *slot)
{
	uint64_t value = limpet_slot_value_before(slot, limpet_hooks[slot->hook].original);
	int answer = exchange(slot->address, limpet_thunk(slot->hook), value);

	slot_note(slot, answer, true);
	return answer < 0 ? answer : 0;
}

static bool is_from(const struct limpet_slot *slot, const struct limpet_image *image)
{
	return slot->kind != LIMPET_SLOT_OF_SYMBOL && slot->module == image->bias &&
	       slot->module_phdr == image->phdr;
}

/* Whether the slot is in this module's data: another module may have been mapped there since. */
static bool is_of(const struct limpet_slot *slot, const struct limpet_image *image)
{
	return is_from(slot, image) && limpet_image_has_word(image, slot->address);
}

static int patch_module(const struct limpet_image *image, void *context)
{
	struct patch_walk *walk = context;
	struct limpet_slot *slots = slot_table();

	if (!walk->restore)
		early_unloads = image->unloads;
	for (uint32_t i = 0; i < limpet_shm->slot_count; i++) {
		struct limpet_slot *slot = &slots[i];

		if (!is_of(slot, image)) {
			/* Unaligned, or in code: threads that run on could see a part of a write.
			 */
			if (!walk->restore && is_from(slot, image) &&
			    slot->state == LIMPET_SLOT_PLANNED)
				slot_note(slot, -ERROR_FAULT, false);
			continue;
		}
		if (!walk->restore && slot->state == LIMPET_SLOT_PLANNED) {
			slot_patch(slot);
			walk->done += slot->state == LIMPET_SLOT_PATCHED;
		} else if (walk->restore) {
			walk->done += slot_restore(slot) < 0;
		}
	}
	close_page();
	return 0;
}

/* Copied, as a forked child shares the table with its parent. */
static void note_early(void)
{
	const struct limpet_known_module *modules = module_table();

	for (early_count = 0;
	     early_count < limpet_shm->module_count && early_count < LIMPET_MAX_KNOWN_MODULES;
	     early_count++)
		extents[early_count].early = modules[early_count];
}

/* In doubt it was not. The modules are mostly visited in the order of the plan. */
static bool is_early(const struct limpet_image *image)
{
	static uint32_t next;

	if (image->unloads != early_unloads)
		return false;
	for (uint32_t i = 0; i < early_count; i++, next++) {
		if (next >= early_count)
			next = 0;
		if (extents[next].early.bias == image->bias &&
		    extents[next].early.phdr == image->phdr)
			return true;
	}
	return false;
}

/* One thread at a time. A second thread, in a loader call of its own, waits: what it has loaded
 * must not run unseen. */
static bool begin_scan(unsigned patience, bool may_sleep)
{
	for (unsigned i = 0; i < patience; i++) {
		uint32_t free_to_scan = 0;

		if (i)
			limpet_loaded_pause(may_sleep);
		if (__atomic_compare_exchange_n(&scanning, &free_to_scan, 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

static void end_scan(void)
{
	__atomic_store_n(&scanning, 0, __ATOMIC_RELEASE);
}

bool limpet_patch_begin(void)
{
	if (config.method == LIMPET_METHOD_OUTSIDE)
		return true;
	/* In the order of limpet_patch_on_loader_call(). */
	if (!limpet_loaded_hold_all())
		return false;
	if (begin_scan(LIMPET_CALL_PATIENCE, false))
		return true;
	limpet_loaded_let_all_go();
	return false;
}

void limpet_patch_end(void)
{
	if (config.method == LIMPET_METHOD_OUTSIDE)
		return;
	end_scan();
	limpet_loaded_let_all_go();
}

int limpet_patch_planned(void)
{
	struct patch_walk walk = {.done = 0, .restore = false};
	uint32_t unread;

	if (config.method == LIMPET_METHOD_OUTSIDE)
		return 0;
	note_early();
	limpet_loaded_walk(patch_module, &walk, &unread);
	limpet_loaded_walk(patch_symbols, &walk, NULL);
	/* By dl_iterate_phdr more of them are found than by the list, which scan() reads. */
	limpet_shm->slots_unhooked += unread;
	unread_seen = limpet_loaded_unread();
	return walk.done;
}

static bool may_read_relocations(const struct limpet_slot_tables *tables, int index)
{
	return !tables->rela[index] ||
	       limpet_loaded_may_read(tables->rela[index],
				      tables->rela_count[index] * sizeof(Elf64_Rela));
}

static int restore_if_bound(const struct limpet_image *image, const Elf64_Rela *relocation)
{
	uint64_t address = image->bias + relocation->r_offset, value;

	if (!ELF64_R_SYM(relocation->r_info) ||
	    !LIMPET_ARCH_RELOCATION_IS_SLOT((uint32_t)ELF64_R_TYPE(relocation->r_info)) ||
	    !limpet_image_has_word(image, address))
		return 0;
	if (!may_read_word(address))
		return 1;
	value = __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
	return limpet_is_thunk(value) && exchange(address, value, limpet_original_of(value)) < 0;
}

/* Restores slots bound to thunks by symbols, in modules not examined since, or loaded later. Of
 * those that were loaded before, the linker had only calls left to bind: the other table can be a
 * hundred times as long. */
static int restore_bound(const struct limpet_image *image, void *context)
{
	struct patch_walk *walk = context;
	struct limpet_image_tables tables;
	int answer = image->dynamic ? limpet_image_tables(image, &tables) : 0;

	walk->done += answer < 0;
	if (answer <= 0)
		return 0;
	for (int i = is_early(image) ? 1 : 0; i < 2; i++) {
		if (!may_read_relocations(&tables.slots, i)) {
			walk->done++;
			continue;
		}
		for (uint64_t k = 0; tables.slots.rela[i] && k < tables.slots.rela_count[i]; k++)
			walk->done += restore_if_bound(image, &tables.slots.rela[i][k]);
	}
	close_page();
	return 0;
}

/* Symbols first: from then on nothing new is bound to thunks. */
static int restore_all(void)
{
	struct patch_walk walk = {.done = 0, .restore = true};
	struct limpet_slot *slots = slot_table();
	uint32_t unread;

	limpet_loaded_walk(patch_symbols, &walk, NULL);
	limpet_loaded_walk(patch_module, &walk, &unread);
	limpet_loaded_walk(restore_bound, &walk, NULL);
	for (uint32_t i = 0; i < limpet_shm->slot_count; i++) {
		if (slots[i].state != LIMPET_SLOT_PATCHED)
			continue;
		if (unread)
			walk.done++; /* it may exist, and can no longer be examined */
		else
			slots[i].state = LIMPET_SLOT_GONE;
	}
	return walk.done;
}

static bool is_detaching(void)
{
	return __atomic_load_n(&detaching, __ATOMIC_RELAXED) || !limpet_is_alive();
}

int limpet_patch_restore(void)
{
	int answer;

	__atomic_store_n(&detaching, true, __ATOMIC_RELAXED);
	/* The injector checks again when no thread is in a loader hook. */
	if (config.method == LIMPET_METHOD_OUTSIDE)
		return 0;
	/* From then on, a hook that was scanning writes no more slots, and has finished those that
	 * it had begun. */
	if (!limpet_patch_begin())
		return 1;
	answer = restore_all();
	limpet_patch_end();
	return answer;
}

/* ---------------------------------------------------------------- modules loaded later */

/* Whether the hook's original was unloaded with its module: nothing calls it any more. */
static bool is_left(uint32_t index)
{
	return index >= config.hook_count && hooks_left[index / 64] >> index % 64 & 1;
}

/* The hook's entry, or a new one. Entries of unloaded modules are reused if no new one is left. */
static int hook_for(uint32_t symbol, uint64_t original, uint32_t *ret_index)
{
	uint32_t op = limpet_family[symbol].op, index = LIMPET_MAX_HOOKS;
	struct limpet_hook made = {.original = original, .op = (uint16_t)op, .symbol = symbol};
	struct limpet_image holder;

	for (uint32_t i = LIMPET_FIRST_HOOK; i < LIMPET_MAX_HOOKS; i++) {
		const struct limpet_hook *hook = &limpet_hooks[i];

		if (hook->original == original && hook->op == op && !is_left(i)) {
			*ret_index = i;
			return 0;
		}
		if (!hook->original || is_left(i))
			index = i;
		if (!hook->original)
			break;
	}
	/* The loader binds only to addresses in modules; other values are not functions. */
	if (index == LIMPET_MAX_HOOKS || !limpet_loaded_find(original, &holder))
		return -1;
	/* The same as in the injector's plan (plan.c). */
	if (limpet_op_releases(op))
		made.usable_size = limpet_image_symbol(&holder, "malloc_usable_size");
	if (limpet_family[symbol].flags & LIMPET_FAMILY_CONTROL)
		made.usable_size = limpet_image_symbol(&holder, LIMPET_NAME_TO_MIB);
	if ((op == LIMPET_OP_FREE || op == LIMPET_OP_MALLOC || op == LIMPET_OP_CALLOC) &&
	    limpet_image_symbol(&holder, "gnu_get_libc_version"))
		made.flags = LIMPET_HOOK_LEAF;
	hooks_left[index / 64] &= ~(1ull << index % 64);
	limpet_hook_set(index, &made);
	*ret_index = index;
	return 0;
}

static bool is_in(const struct limpet_image *image, uint64_t address)
{
	return address >= image->low && address < image->high;
}

/* The future target of a slot that is not bound yet; 0: unknown. In another namespace: its
 * definition there, if it is the only one. */
static uint64_t unbound_original(const struct limpet_image *image, uint32_t symbol)
{
	uint64_t original = 0;

	if (!image->space)
		return symbol < LIMPET_MAX_FAMILY ? config.default_original[symbol] : 0;
	if (limpet_space_symbol(image, limpet_family[symbol].name, &original) <= 1)
		return original;
	limpet_shm->slots_unhooked++;
	return 0;
}

/* The same as in the injector's plan: glibc's reallocarray calls the program's own realloc, which
 * knows the block. */
static bool calls_another(uint32_t symbol, uint64_t original)
{
	struct limpet_image holder;
	uint64_t realloc = config.default_original[limpet_family_first(LIMPET_OP_REALLOC)];

	if (limpet_family[symbol].op != LIMPET_OP_REALLOCARRAY)
		return false;
	return realloc && limpet_loaded_find(original, &holder) && !is_in(&holder, realloc);
}

/* The same as in the injector's plan: only jemalloc's. */
static bool is_control(uint32_t symbol, uint64_t original)
{
	struct limpet_image holder;

	return !(limpet_family[symbol].flags & LIMPET_FAMILY_CONTROL) ||
	       (limpet_loaded_find(original, &holder) &&
		limpet_image_symbol(&holder, LIMPET_NAME_TO_MIB));
}

struct late {
	const struct limpet_image *image;
	uint64_t low, high; /* of the functions that are hooked */
	bool called;        /* it may have called an allocator unseen */
};

static bool is_call(uint32_t symbol)
{
	return !(limpet_family[symbol].flags & (LIMPET_FAMILY_LOADER | LIMPET_FAMILY_FINDER));
}

static void slot_add(const struct limpet_slot *slot)
{
	uint32_t count = limpet_shm->slot_count;

	slot_table()[count] = *slot;
	/* The collector reads the table up to this count. */
	__atomic_store_n(&limpet_shm->slot_count, count + 1, __ATOMIC_RELEASE);
}

static bool is_kept(const struct limpet_slot *slot)
{
	const struct limpet_slot *slots = slot_table();

	for (uint32_t i = 0; i < limpet_shm->slot_count; i++)
		if (slots[i].address == slot->address && slots[i].module == slot->module &&
		    slots[i].module_phdr == slot->module_phdr &&
		    slots[i].state == LIMPET_SLOT_PATCHED)
			return true;
	return false;
}

/* A slot that already leads to a thunk. It is restored even if there is no entry for it. */
static void slot_keep(struct limpet_slot *slot, uint64_t thunk)
{
	if (is_kept(slot))
		return;
	slot->hook = (uint32_t)((thunk - limpet_thunk(0)) / LIMPET_THUNK_BYTES);
	slot->old_value = limpet_hooks[slot->hook].original;
	slot->state = LIMPET_SLOT_PATCHED;
	if (limpet_shm->slot_count < LIMPET_MAX_SLOTS)
		slot_add(slot);
}

/* The same as in the injector's plan: a variable that the module has set to another function. */
static bool was_set(const struct limpet_slot_found *found, uint64_t value)
{
	struct limpet_image holder;

	return LIMPET_ARCH_RELOCATION_IS_VARIABLE(found->type) &&
	       (!limpet_loaded_find(value, &holder) ||
		/* The symbol may lead to a thunk by now. */
		limpet_original_of(
			limpet_image_symbol(&holder, limpet_family[found->symbol].name)) != value);
}

static bool is_allocators(const struct limpet_hook *hook)
{
	return hook->original && hook->op >= LIMPET_OP_MALLOC && hook->op <= LIMPET_OP_MEMALIGN &&
	       !(hook->flags & (LIMPET_HOOK_ENTRY | LIMPET_HOOK_PROBE));
}

static void note_reach(struct late *late)
{
	late->low = UINT64_MAX;
	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS; i++) {
		const uint64_t original = limpet_hooks[i].original;

		if (!is_allocators(&limpet_hooks[i]))
			continue;
		late->low = original < late->low ? original : late->low;
		late->high = original > late->high ? original : late->high;
	}
}

/* A library may have an allocator's function under several names. */
static int find_by_word(uint64_t offset, void *context)
{
	const struct late *late = context;
	const uint64_t address = late->image->bias + offset;
	uint64_t value;

	if (!limpet_image_has_word(late->image, address) || !may_read_word(address))
		return -1;
	value = __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
	if (value < late->low || value > late->high)
		return -1;
	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS; i++)
		if (limpet_hooks[i].original == value && is_allocators(&limpet_hooks[i]))
			return (int)limpet_hooks[i].symbol;
	return -1;
}

/* A word that cannot be exchanged while threads run on: unaligned, or in code. If it leads to a
 * thunk, by the symbol's value, its calls are seen; the injector finds it at the end. */
static int leave_alone(const struct limpet_image *image, const struct limpet_slot_found *found)
{
	const uint32_t flags = limpet_family[found->symbol].flags;
	struct limpet_image_part part;
	const void *at = (const void *)(uintptr_t)(image->bias + found->offset);
	uint64_t value = 0;

	if (LIMPET_ARCH_RELOCATION_IS_SLOT(found->type) &&
	    limpet_image_part_of(image, image->bias + found->offset, &part) && part.flags & PF_R &&
	    limpet_loaded_may_read(at, sizeof(value)))
		__builtin_memcpy(&value, at, sizeof(value));
	limpet_shm->slots_unhooked +=
		is_call(found->symbol) && !(flags & LIMPET_FAMILY_CXX) && !limpet_is_thunk(value);
	return 0;
}

/* As long as a slot is not bound. */
static bool leads_to_plt(const struct limpet_image *image, uint64_t address)
{
	struct limpet_image_part part;

	return limpet_image_part_of(image, address, &part) && part.flags & PF_R &&
	       limpet_image_part_of(image, address + LIMPET_ARCH_PLT_BYTES - 1, &part) &&
	       part.flags & PF_R &&
	       limpet_loaded_may_read((const void *)(uintptr_t)address, LIMPET_ARCH_PLT_BYTES) &&
	       limpet_arch_is_plt((const uint8_t *)(uintptr_t)address);
}

static int slot_found(const struct limpet_slot_found *found, void *context)
{
	struct late *late = context;
	const struct limpet_image *image = late->image;
	uint32_t count = limpet_shm->slot_count;
	struct limpet_slot slot = {.address = image->bias + found->offset,
				   .module = image->bias,
				   .module_phdr = image->phdr,
				   .state = LIMPET_SLOT_PLANNED,
				   .kind = limpet_slot_kind(found->type)};
	uint64_t address = slot.address, original;
	bool bound = true;

	if (!LIMPET_ARCH_RELOCATION_IS_SLOT(found->type) ||
	    !limpet_image_has_word(image, address) || !may_read_word(address))
		return leave_alone(image, found);
	original = __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
	/* Already bound to a thunk, by a symbol or since an earlier scan of the module. */
	if (limpet_is_thunk(original)) {
		slot_keep(&slot, original);
		return 0;
	}
	if (limpet_family[found->symbol].flags & LIMPET_FAMILY_CXX || was_set(found, original))
		return 0;
	if (limpet_family[found->symbol].flags & LIMPET_FAMILY_FINDER && !config.map_bytes)
		return 0;
	slot.old_value = original;
	if (LIMPET_ARCH_RELOCATION_IS_LAZY(found->type) && is_in(image, original) &&
	    (!found->defined || original != image->bias + found->symbol_value)) {
		/* Not the module's own PLT: its program has replaced the function. */
		if (!leads_to_plt(image, original))
			return leave_alone(image, found);
		original = limpet_original_of(unbound_original(image, found->symbol));
		if (is_bound_by_symbol(limpet_family[found->symbol].op, original))
			return 0;
		bound = false;
	}
	if (!original || calls_another(found->symbol, original) ||
	    !is_control(found->symbol, original))
		return 0;
	late->called = late->called || (bound && is_call(found->symbol));
	/* The module may have kept the value, to compare the two. The injector looks for that
	 * (kept_values.c); from here, memory that the module has closed since could not be read. */
	if (LIMPET_ARCH_RELOCATION_IS_VARIABLE(found->type))
		return leave_alone(image, found);
	if (count >= LIMPET_MAX_SLOTS || hook_for(found->symbol, original, &slot.hook) < 0) {
		limpet_shm->slots_unhooked++;
		return 0;
	}
	slot_add(&slot);
	slot_patch(&slot_table()[count]);
	return 0;
}

bool limpet_patch_loads_address(uint64_t pc, uint64_t thunk)
{
	const struct limpet_slot *slots = slot_table();
	struct limpet_image caller;
	bool known, loads = false;

	if (!limpet_loaded_hold(false, false))
		return false;
	known = limpet_loaded_find(pc, &caller);
	limpet_loaded_release();
	for (uint32_t i = 0; known && i < limpet_shm->slot_count && !loads; i++)
		loads = slots[i].kind == LIMPET_SLOT_OF_ADDRESS && slots[i].module == caller.bias &&
			slots[i].state == LIMPET_SLOT_PATCHED &&
			limpet_thunk(slots[i].hook) == thunk;
	return loads;
}

/* Called before a recorded call can map something else there. */
static void note_gone(struct extent *extent)
{
	uint32_t number = limpet_shm->gone_count + 1, count = limpet_shm->gone_places, i = 0;
	struct limpet_gone *places = limpet_shm->gone;

	if (!extent->end || number > LIMPET_MAX_GONE_NUMBER)
		return;
	while (i < count && (places[i].start != extent->start || places[i].end != extent->end))
		i++;
	if (i == LIMPET_MAX_GONE) {
		i--;
		if (places[i].start > extent->start)
			places[i].start = extent->start;
		if (places[i].end < extent->end)
			places[i].end = extent->end;
	} else if (i == count) {
		places[i].start = extent->start;
		places[i].end = extent->end;
	}
	__atomic_store_n(&places[i].number, number, __ATOMIC_RELEASE);
	if (i == count)
		__atomic_store_n(&limpet_shm->gone_places, count + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&limpet_shm->gone_count, number, __ATOMIC_RELEASE);
	extent->end = 0;
}

static void leave_hooks(const struct extent *extent)
{
	for (uint32_t i = config.hook_count; i < LIMPET_MAX_HOOKS; i++)
		if (limpet_hooks[i].original >= extent->start &&
		    limpet_hooks[i].original < extent->end)
			hooks_left[i / 64] |= 1ull << i % 64;
}

static void forget(uint32_t index)
{
	struct limpet_known_module *module = &module_table()[index];
	struct limpet_slot *slots = slot_table();

	for (uint32_t i = 0; i < limpet_shm->slot_count; i++)
		if (slots[i].module == module->bias && slots[i].module_phdr == module->phdr)
			slots[i].state = LIMPET_SLOT_GONE;
	leave_hooks(&extents[index]);
	note_gone(&extents[index]);
	module->phdr = 0;
}

/* After an unload, a known module may be a different one at the same place: its slots then do not
 * lead to thunks. What cannot be read is taken for the same. A module without slots cannot be
 * distinguished; unless it was in the plan, it is examined again. */
static bool is_the_same(const struct limpet_image *image, bool *ret_has_slots)
{
	const struct limpet_slot *slots = slot_table();
	bool same = true;

	*ret_has_slots = false;
	for (uint32_t i = 0; i < limpet_shm->slot_count; i++) {
		const struct limpet_slot *slot = &slots[i];

		if (slot->module != image->bias || slot->module_phdr != image->phdr ||
		    slot->state == LIMPET_SLOT_GONE)
			continue;
		*ret_has_slots = true;
		if (slot->state != LIMPET_SLOT_PATCHED)
			continue;
		same = is_in(image, slot->address) &&
		       (!may_read_word(slot->address) ||
			__atomic_load_n((const uint64_t *)(uintptr_t)slot->address,
					__ATOMIC_ACQUIRE) == limpet_thunk(slot->hook));
		if (same)
			break;
	}
	return same;
}

/* Whether the module's slots need not be searched. Also adds it to the known modules. */
static bool is_known(const struct limpet_image *image)
{
	struct limpet_known_module *modules = module_table();
	uint32_t count = limpet_shm->module_count, place = count;
	bool has_slots = true;

	for (uint32_t i = 0; i < count && i < LIMPET_MAX_KNOWN_MODULES; i++) {
		if (modules[i].bias == image->bias && modules[i].phdr == image->phdr) {
			if (!image->shrunk || is_the_same(image, &has_slots)) {
				note_extent(i, image);
				return has_slots || !extents[i].late;
			}
			forget(i);
		}
		if (!modules[i].phdr)
			place = i; /* of an unloaded one */
	}
	if (place == LIMPET_MAX_KNOWN_MODULES)
		return false;
	modules[place].bias = image->bias;
	modules[place].phdr = image->phdr;
	note_extent(place, image);
	extents[place].late = true;
	if (place == count)
		__atomic_store_n(&limpet_shm->module_count, count + 1, __ATOMIC_RELEASE);
	return false;
}

static int new_module(const struct limpet_image *image, void *context)
{
	struct late late = {.image = image};
	struct limpet_image_tables tables;
	int answer;

	(void)context;
	if (is_detaching() || !image->dynamic || is_known(image) ||
	    is_in(image, (uint64_t)(uintptr_t)limpet_paths))
		return 0;
	if (begun)
		limpet_late_module_note(image);
	answer = limpet_image_tables(image, &tables);
	if (answer > 0 &&
	    (!may_read_relocations(&tables.slots, 0) || !may_read_relocations(&tables.slots, 1)))
		answer = -ERROR_FAULT;
	limpet_shm->slots_unhooked += answer < 0;
	if (answer > 0) {
		note_reach(&late);
		tables.slots.by_word = find_by_word;
		limpet_slots_scan(&tables.slots, slot_found, &late);
		limpet_shm->slots_unhooked += tables.is_rel;
	}
	close_page();
	limpet_shm->late_modules += late.called && begun;
	return 0;
}

static int note_present(const struct limpet_image *image, void *context)
{
	const struct limpet_known_module *modules = module_table();

	(void)context;
	for (uint32_t i = 0; i < limpet_shm->module_count && i < LIMPET_MAX_KNOWN_MODULES; i++)
		if (modules[i].bias == image->bias && modules[i].phdr == image->phdr)
			extents[i].present = true;
	return 0;
}

/* Forgets modules that are no longer in the list, so that a module mapped at the same address later
 * is examined anew. */
static void forget_gone_modules(void)
{
	const struct limpet_known_module *modules = module_table();
	uint32_t unread;

	for (uint32_t i = 0; i < limpet_shm->module_count && i < LIMPET_MAX_KNOWN_MODULES; i++)
		extents[i].present = false;
	unread = limpet_loaded_walk_held(note_present, NULL, false);
	for (uint32_t i = 0; i < limpet_shm->module_count && i < LIMPET_MAX_KNOWN_MODULES; i++)
		if (modules[i].phdr && !extents[i].present && !unread)
			forget(i);
}

/* A lazy binding that was in progress may have overwritten the thunk's address. A variable was set
 * back by the program, which may do so since it compares the two: it stays. */
static int patch_again(const struct limpet_image *image, void *context)
{
	struct limpet_slot *slots = slot_table();

	if (is_detaching())
		return 1;
	for (uint32_t i = 0; i < limpet_shm->slot_count; i++) {
		struct limpet_slot *slot = &slots[i];
		uint64_t original = limpet_hooks[slot->hook].original;

		if (slot->state != LIMPET_SLOT_PATCHED || slot->kind == LIMPET_SLOT_OF_VARIABLE ||
		    !is_from(slot, image))
			continue;
		if (exchange(slot->address, original, limpet_thunk(slot->hook)) == 0) {
			slot->old_value = original;
			++*(int *)context;
		}
	}
	close_page();
	return 0;
}

/* Between hold and release. `all`: also of the modules that were seen before. */
static int scan(bool all)
{
	uint32_t before = limpet_shm->slot_count, unread;
	int again = 0;

	note_bound();
	forget_gone_modules();
	unread = limpet_loaded_walk_held(new_module, NULL, true);
	if (unread > unread_seen)
		limpet_shm->slots_unhooked += unread - unread_seen;
	unread_seen = unread;
	if (all)
		limpet_loaded_walk_held(patch_again, &again, false);
	return (int)(limpet_shm->slot_count - before) + again;
}

int limpet_patch_new_modules(void)
{
	int answer = 0;

	if (limpet_loaded_hold(false, true)) {
		if (begin_scan(1, false)) {
			answer = scan(true);
			end_scan();
		}
		limpet_loaded_release();
	}
	begun = true;
	return answer;
}

void limpet_patch_on_loader_call(bool closes, bool answers)
{
	bool changed = false;

	/* Until the agent is active, slots are still being written. */
	if (!limpet_is_alive() ||
	    __atomic_load_n(&limpet_agent_info.state, __ATOMIC_ACQUIRE) != LIMPET_AGENT_ACTIVE ||
	    (closes && limpet_loaded_closes_unlocked()) || !limpet_loaded_has_changed() ||
	    !limpet_loaded_hold(true, !answers))
		return;
	if (begin_scan(LIMPET_LOADER_PATIENCE, true)) {
		changed = limpet_loaded_has_changed();
		if (changed)
			scan(!answers);
		end_scan();
	}
	limpet_loaded_release();
	if (!changed)
		return;
	limpet_shm->modules_seen++;
	limpet_record_ring();
}
