/* Slots: put in, put back, and those of modules that come later.
 *
 * All of it runs inside dl_iterate_phdr's callback. The loader then holds the lock under which it
 * unmaps modules, so that a module that was just seen in the list cannot go away while its slots
 * are written. Called on a thread at a safe point (the injector's calls) or from the program's own
 * call into the loader, which takes the same lock itself; never from an allocation hook.
 *
 * Where the injector's calls come on a thread that may hold that lock (struct limpet_start,
 * from_outside), it puts slots in and back itself, and only those of modules that come later are
 * left to be put in here. */
#include "agent/agent.h"

#include <elf.h>
#include <link.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "common/arch.h"
#include "common/slots.h"

typedef int phdr_callback(struct dl_phdr_info *info, size_t size, void *context);
typedef int dl_iterate_phdr_fn(phdr_callback *callback, void *context);

static struct limpet_start config; /* a copy: the original lies in scratch memory */
static uint64_t adds_seen, subs_seen;
static uint32_t scanning; /* one thread at a time looks for new modules */
static bool leaving;      /* changed and read under the loader's lock; or from_outside */
/* Where each of the known modules lies. */
static struct extent {
	uint64_t start, end;
} extents[LIMPET_MAX_KNOWN_MODULES];

void limpet_patch_configure(const struct limpet_start *start)
{
	const uint8_t *from = (const uint8_t *)start;
	volatile uint8_t *to = (volatile uint8_t *)&config;

	for (size_t i = 0; i < sizeof(config); i++)
		to[i] = from[i];
}

static void iterate(phdr_callback *callback, void *context)
{
	if (config.dl_iterate_phdr)
		((dl_iterate_phdr_fn *)(uintptr_t)config.dl_iterate_phdr)(callback, context);
}

/* Whether the page may be written now, asked of the kernel: an atomic `or 0` on the word by the
 * futex call. A page in the middle of its own relocation is still writable and must stay so; one
 * that the loader has sealed answers EFAULT. Its protection is then changed and put back. */
static bool is_writable(uint64_t address)
{
	static uint32_t nobody_waits;
	const long or_zero = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);

	return limpet_syscall6(SYS_futex, (long)&nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,
			       0, 0, (long)address, or_zero) >= 0;
}

/* Answers 0, 1 (holds something else), or -errno. */
static int exchange(uint64_t address, uint64_t expected, uint64_t value)
{
	uint64_t *word = (uint64_t *)(uintptr_t)address;
	uint64_t page = address & ~(config.page_bytes - 1);
	bool sealed;
	int answer;

	if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != expected)
		return 1;
	sealed = !is_writable(address);
	if (sealed) {
		long error = limpet_syscall3(SYS_mprotect, (long)page, (long)config.page_bytes,
					     PROT_READ | PROT_WRITE);

		if (error < 0)
			return (int)error;
	}
	answer = !__atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE);
	if (sealed)
		limpet_syscall3(SYS_mprotect, (long)page, (long)config.page_bytes, PROT_READ);
	return answer;
}

static struct limpet_slot *slot_table(void)
{
	return limpet_shm_at(limpet_shm->slots_offset);
}

static struct limpet_known_module *module_table(void)
{
	return limpet_shm_at(limpet_shm->modules_offset);
}

static uint64_t thunk_of(uint32_t hook)
{
	return (uint64_t)(uintptr_t)limpet_thunks + (uint64_t)hook * LIMPET_THUNK_BYTES;
}

static void slot_patch(struct limpet_slot *slot)
{
	uint64_t original = limpet_hooks[slot->hook].original;
	int answer = exchange(slot->address, slot->old_value, thunk_of(slot->hook));

	/* A lazy slot that was bound since the plan was made, by our own dlopen for one. */
	if (answer == 1 && slot->old_value != original) {
		slot->old_value = original;
		answer = exchange(slot->address, original, thunk_of(slot->hook));
	}
	if (answer == 0)
		slot->state = LIMPET_SLOT_PATCHED;
	else if (answer < 0)
		slot->state = LIMPET_SLOT_FAILED;
	else
		slot->state = LIMPET_SLOT_FOREIGN;
}

/* By what stands there, not by the slot's state: the child of a fork has slots of its own, and
 * shares the table with a parent that may have put its own back. Answers -errno if it could not be
 * done. */
static int slot_restore(struct limpet_slot *slot)
{
	int answer = exchange(slot->address, thunk_of(slot->hook), slot->old_value);

	if (answer < 0)
		slot->state = LIMPET_SLOT_FAILED;
	else if (slot->state == LIMPET_SLOT_PATCHED)
		slot->state = answer == 0 ? LIMPET_SLOT_RESTORED : LIMPET_SLOT_FOREIGN;
	return answer < 0 ? answer : 0;
}

struct patch_walk {
	int done;
	bool restore;
};

static int patch_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct patch_walk *walk = context;
	struct limpet_slot *slots = slot_table();

	leaving = walk->restore;
	if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs)) {
		adds_seen = info->dlpi_adds;
		subs_seen = info->dlpi_subs;
	}
	for (uint32_t i = 0; i < limpet_shm->slot_count; i++) {
		struct limpet_slot *slot = &slots[i];

		if (slot->module != info->dlpi_addr ||
		    slot->module_phdr != (uint64_t)(uintptr_t)info->dlpi_phdr)
			continue;
		if (!walk->restore && slot->state == LIMPET_SLOT_PLANNED) {
			slot_patch(slot);
			walk->done += slot->state == LIMPET_SLOT_PATCHED;
		} else if (walk->restore) {
			walk->done += slot_restore(slot) < 0;
		}
	}
	return 0;
}

int limpet_patch_planned(void)
{
	struct patch_walk walk = {.done = 0, .restore = false};

	if (!config.from_outside)
		iterate(patch_module, &walk);
	return walk.done;
}

int limpet_patch_restore(void)
{
	struct patch_walk walk = {.done = 0, .restore = true};
	struct limpet_slot *slots = slot_table();

	if (config.from_outside) {
		/* The injector looks again when no thread is in a loader hook any more. */
		leaving = true;
		return 0;
	}
	iterate(patch_module, &walk);
	for (uint32_t i = 0; i < limpet_shm->slot_count; i++)
		if (slots[i].state == LIMPET_SLOT_PATCHED)
			slots[i].state = LIMPET_SLOT_GONE;
	return walk.done;
}

/* ---------------------------------------------------------------- modules that come later */

struct image {
	uint64_t bias, low, high, phdr;
};

static const struct limpet_hook *hook_for(uint32_t symbol, uint64_t original, uint32_t *ret_index)
{
	uint32_t op = limpet_family[symbol].op;

	for (uint32_t i = 0; i < LIMPET_MAX_HOOKS; i++) {
		struct limpet_hook *hook = &limpet_hooks[i];

		if (hook->original && (hook->original != original || hook->op != op))
			continue;
		if (!hook->original) {
			const struct limpet_hook made = {.original = original,
							 .usable_size = config.default_usable_size,
							 .op = (uint16_t)op,
							 .symbol = symbol};

			limpet_hook_set(i, &made);
		}
		*ret_index = i;
		return hook;
	}
	return NULL;
}

static int slot_found(const struct limpet_slot_found *found, void *context)
{
	const struct image *image = context;
	uint32_t count = limpet_shm->slot_count;
	struct limpet_slot slot = {.address = image->bias + found->offset,
				   .module = image->bias,
				   .module_phdr = image->phdr,
				   .state = LIMPET_SLOT_PLANNED};
	uint64_t address = slot.address, original;

	if (address < image->low || address + sizeof(uint64_t) > image->high || address % 8)
		return 0;
	if (limpet_family[found->symbol].flags & LIMPET_FAMILY_CXX)
		return 0;
	original = __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_ACQUIRE);
	/* Ours already: the module was looked at before, and has since been forgotten. */
	if (original - thunk_of(0) < LIMPET_MAX_HOOKS * LIMPET_THUNK_BYTES)
		return 0;
	slot.old_value = original;
	/* A value inside the module that asks is its own PLT: not bound yet. */
	if (!found->defined && original >= image->low && original < image->high)
		original = found->symbol < LIMPET_MAX_FAMILY
				   ? config.default_original[found->symbol]
				   : 0;
	if (!original || count >= LIMPET_MAX_SLOTS ||
	    !hook_for(found->symbol, original, &slot.hook)) {
		limpet_shm->slots_not_taken++;
		return 0;
	}
	slot_table()[count] = slot;
	/* The collector reads the table up to this count. */
	__atomic_store_n(&limpet_shm->slot_count, count + 1, __ATOMIC_RELEASE);
	slot_patch(&slot_table()[count]);
	return 0;
}

/* glibc relocates the pointers of a dynamic section in place, musl does not. */
static const void *dynamic_pointer(const struct image *image, uint64_t value)
{
	if (value < image->low || value >= image->high)
		value += image->bias;
	if (value < image->low || value >= image->high)
		return NULL;
	return (const void *)(uintptr_t)value;
}

static void scan_module(const struct image *image, const Elf64_Dyn *dynamic)
{
	struct limpet_slot_tables tables = {.string_bytes = 0};
	uint64_t rela_bytes = 0, jmprel_bytes = 0;

	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		switch (dynamic->d_tag) {
		case DT_RELA:
			tables.rela[0] = dynamic_pointer(image, dynamic->d_un.d_ptr);
			break;
		case DT_RELASZ:
			rela_bytes = dynamic->d_un.d_val;
			break;
		case DT_JMPREL:
			tables.rela[1] = dynamic_pointer(image, dynamic->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			jmprel_bytes = dynamic->d_un.d_val;
			break;
		case DT_SYMTAB:
			tables.symbols = dynamic_pointer(image, dynamic->d_un.d_ptr);
			break;
		case DT_STRTAB:
			tables.strings = dynamic_pointer(image, dynamic->d_un.d_ptr);
			break;
		case DT_STRSZ:
			tables.string_bytes = dynamic->d_un.d_val;
			break;
		default:
			break;
		}
	}
	if (!tables.symbols || !tables.strings)
		return;
	/* The loader itself has just walked these tables by the same indices. */
	tables.symbol_count = UINT32_MAX;
	tables.rela_count[0] = rela_bytes / sizeof(Elf64_Rela);
	tables.rela_count[1] = jmprel_bytes / sizeof(Elf64_Rela);
	limpet_slots_scan(&tables, slot_found, (void *)(uintptr_t)image);
}

/* Remembers it, too. */
static bool is_known(const struct image *image)
{
	struct limpet_known_module *modules = module_table();
	uint32_t count = limpet_shm->module_count, place = count;

	for (uint32_t i = 0; i < count && i < LIMPET_MAX_KNOWN_MODULES; i++) {
		if (modules[i].bias == image->bias && modules[i].phdr == image->phdr) {
			extents[i] = (struct extent){image->low, image->high};
			return true;
		}
		if (!modules[i].phdr)
			place = i; /* of one that is gone */
	}
	if (place == LIMPET_MAX_KNOWN_MODULES)
		return false;
	modules[place].bias = image->bias;
	modules[place].phdr = image->phdr;
	extents[place] = (struct extent){image->low, image->high};
	if (place == count)
		__atomic_store_n(&limpet_shm->module_count, count + 1, __ATOMIC_RELEASE);
	return false;
}

static int has_changed(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	*(bool *)context = info->dlpi_adds != adds_seen || info->dlpi_subs != subs_seen;
	return 1;
}

static int new_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct image image = {.bias = info->dlpi_addr,
			      .phdr = (uint64_t)(uintptr_t)info->dlpi_phdr,
			      .low = UINT64_MAX};
	const Elf64_Dyn *dynamic = NULL;

	(void)size;
	(void)context;
	adds_seen = info->dlpi_adds;
	subs_seen = info->dlpi_subs;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const Elf64_Phdr *phdr = &info->dlpi_phdr[i];
		uint64_t start = image.bias + phdr->p_vaddr;

		if (phdr->p_type == PT_DYNAMIC)
			dynamic = (const Elf64_Dyn *)(uintptr_t)start;
		if (phdr->p_type != PT_LOAD)
			continue;
		if (start < image.low)
			image.low = start;
		if (start + phdr->p_memsz > image.high)
			image.high = start + phdr->p_memsz;
	}
	if (leaving || !dynamic || is_known(&image))
		return 0;
	if ((uint64_t)(uintptr_t)limpet_thunks >= image.low &&
	    (uint64_t)(uintptr_t)limpet_thunks < image.high)
		return 0; /* ourselves */
	scan_module(&image, dynamic);
	return 0;
}

/* Forgets modules that are no longer in the list, so that one which comes back to the same address
 * is looked at anew. The list is walked once per known module; modules go away seldom. */
struct presence {
	uint64_t bias, phdr;
	bool present;
};

static int is_present(struct dl_phdr_info *info, size_t size, void *context)
{
	struct presence *wanted = context;

	(void)size;
	if (info->dlpi_addr == wanted->bias && (uint64_t)(uintptr_t)info->dlpi_phdr == wanted->phdr)
		wanted->present = true;
	return wanted->present;
}

/* Before anything else can come to lie there by a call that we see. */
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

static void forget_gone_modules(void)
{
	struct limpet_known_module *modules = module_table();
	struct limpet_slot *slots = slot_table();

	for (uint32_t i = 0; i < limpet_shm->module_count; i++) {
		struct presence wanted = {modules[i].bias, modules[i].phdr, false};

		if (!wanted.phdr)
			continue;
		iterate(is_present, &wanted);
		if (wanted.present)
			continue;
		for (uint32_t s = 0; s < limpet_shm->slot_count; s++)
			if (slots[s].module == wanted.bias && slots[s].module_phdr == wanted.phdr)
				slots[s].state = LIMPET_SLOT_GONE;
		note_gone(&extents[i]);
		modules[i].phdr = 0;
	}
}

/* A lazy binding that was under way while we patched may have written over our value. */
static int patch_again(struct dl_phdr_info *info, size_t size, void *context)
{
	struct limpet_slot *slots = slot_table();

	(void)size;
	if (leaving)
		return 1;
	for (uint32_t i = 0; i < limpet_shm->slot_count; i++) {
		struct limpet_slot *slot = &slots[i];
		uint64_t original = limpet_hooks[slot->hook].original;

		if (slot->module != info->dlpi_addr || slot->state != LIMPET_SLOT_PATCHED ||
		    slot->module_phdr != (uint64_t)(uintptr_t)info->dlpi_phdr)
			continue;
		if (exchange(slot->address, original, thunk_of(slot->hook)) == 0) {
			slot->old_value = original;
			++*(int *)context;
		}
	}
	return 0;
}

int limpet_patch_new_modules(void)
{
	uint32_t before = limpet_shm->slot_count;
	uint32_t free_to_scan = 0;
	int again = 0;

	if (!__atomic_compare_exchange_n(&scanning, &free_to_scan, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0; /* another thread does it */
	forget_gone_modules();
	iterate(new_module, NULL);
	iterate(patch_again, &again);
	__atomic_store_n(&scanning, 0, __ATOMIC_RELEASE);
	return (int)(limpet_shm->slot_count - before) + again;
}

void limpet_patch_on_loader_call(void)
{
	bool changed = false;

	if (!__atomic_load_n(&limpet_control->alive, __ATOMIC_ACQUIRE))
		return;
	iterate(has_changed, &changed);
	if (!changed)
		return;
	limpet_patch_new_modules();
	limpet_shm->modules_seen++;
	limpet_channel_send(LIMPET_MSG_MODULES, 0, limpet_shm->modules_seen, 0);
}
