/* The modules that are loaded, of every namespace of the dynamic linker, and what they define.
 *
 * A loader function may be called under any lock of the program, which another thread may want in a
 * callback of dl_iterate_phdr. So its hook takes only locks that the function itself takes next,
 * and finds out without a lock whether there is anything to do:
 *
 *                     glibc               musl
 *   dlopen, dlmopen   load lock           its lock, to write
 *   dlsym, dlvsym     load lock           its lock, to read
 *   dlclose           load lock           none: there is nothing to do then
 *   dl_iterate_phdr   write lock          its lock, to read, and not while it calls back
 *   dlerror           none                none
 *   dladdr, dlinfo    load lock or none   its lock, to read, or none
 *
 * The last three are not hooked. glibc's dlopen and dlclose also take the write lock, but only if
 * they load or unload. A hook waits for the load lock only for a limited time, since dlopen with an
 * invalid mode takes none. Nor does a hook that holds it wait for anything without a limit.
 *
 * Under glibc's load lock the lists of link_maps are walked: no module is loaded or unloaded, and
 * all are relocated, unless the thread itself is relocating one. The injector tells where the
 * program's ELF header is, since that need not be at the load bias; all other modules begin with
 * their ELF headers. Namespaces other than the program's (dlmopen, LD_AUDIT) are found in the list
 * that glibc keeps for debuggers since 2.35: struct r_debug_extended of <link.h>. Each of them has
 * its own C library.
 *
 * Otherwise dl_iterate_phdr lists the modules; musl's takes no lock before the second one. In the
 * injector's calls it also does where a module does not begin with its ELF header, under both of
 * glibc's locks: it takes the second one again. Not otherwise: a child that is forked while the
 * second lock is held cannot load any more, as fork resets only the first one. */
#include "agent/loaded.h"
#include "agent/agent.h"
#include "agent/record.h"

#include <elf.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/time_types.h>

#include "common/loader_mutex.h"
#include "common/slots.h"

#define MAX_SPACES 64u /* glibc has 16 */
#define MAX_LINK_MAPS 16384u
#define MAX_PHDRS 64u
#define ERROR_AGAIN 11 /* EAGAIN */
#define ERROR_FAULT 14 /* EFAULT */
#define ERROR_TIMEDOUT 110

typedef int dl_iterate_phdr_fn(int (*callback)(struct dl_phdr_info *, size_t, void *), void *);

static dl_iterate_phdr_fn *program_list;
static const struct r_debug_extended *debug_list;
static struct limpet_loader loader;
static uint64_t page_bytes;
static uint64_t adds_seen, subs_seen;
static uint64_t asked_page; /* the last one that was readable in this visit; 0: none */
/* Whether pages are asked for under this hold. */
static bool asks = true;
/* What was read of the program's own modules, in the order of their list: once under each hold that
 * asks, right after the question. New modules are added at the list's end. */
static struct head {
	uint64_t phdr, phdr_count; /* phdr 0: unread */
	uint64_t low, high;
} heads[LIMPET_MAX_KNOWN_MODULES];
static uint32_t heads_read;

/* Loader hooks make only system calls that the loader makes too, which a program that still loads
 * modules must permit: mprotect, and futex for locks. */
static long wait_for_word(const uint32_t *word, uint32_t value,
			  const struct __kernel_timespec *how_long)
{
	return limpet_syscall6(SYS_futex, (long)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value,
			       (long)how_long, 0, 0);
}

/* Whether the word is readable, found by a futex call that compares it, with what no file has there
 * but by chance: a call that begins to wait may take the place where the kernel keeps what is left
 * of a timed call of the program's. */
static bool is_readable(uint64_t address)
{
	static const struct __kernel_timespec not_at_all;
	const uint32_t unlikely = 0xa7c2f15b;
	long answer = wait_for_word((const uint32_t *)(uintptr_t)address, unlikely, &not_at_all);

	return answer == -ERROR_AGAIN || answer == -ERROR_TIMEDOUT;
}

bool limpet_loaded_may_read(const void *start, uint64_t bytes)
{
	const uint64_t address = (uint64_t)(uintptr_t)start;
	uint64_t page = address & ~(page_bytes - 1);

	for (; asks && page < address + bytes; page += page_bytes) {
		if (page == asked_page)
			continue;
		if (!is_readable(page))
			return false;
		asked_page = page;
	}
	return true;
}

void limpet_loaded_configure(const struct limpet_start *start)
{
	program_list = (dl_iterate_phdr_fn *)(uintptr_t)start->dl_iterate_phdr;
	debug_list = (const struct r_debug_extended *)(uintptr_t)start->r_debug;
	loader = start->loader;
	page_bytes = start->page_bytes;
	adds_seen = subs_seen = 0;
	asked_page = heads_read = 0;
	asks = true;
}

/* ------------------------------------------------------------------ whether they changed */

/* The counters of dl_iterate_phdr: modules loaded so far, and unloaded. Read without a lock, each
 * is the value of some moment. */
static void read_counts(uint64_t *ret_adds, uint64_t *ret_subs)
{
	uint64_t spaces = *(const uint64_t *)(uintptr_t)loader.space_count, loaded = 0;
	uint64_t adds = __atomic_load_n((const uint64_t *)(uintptr_t)loader.adds, __ATOMIC_ACQUIRE);

	for (uint64_t i = 0; i < spaces && i < LIMPET_LOADER_SPACES; i++)
		loaded += __atomic_load_n((const uint32_t *)(uintptr_t)(loader.spaces +
									i * loader.space_bytes +
									LIMPET_LOADER_SPACE_COUNT),
					  __ATOMIC_ACQUIRE);
	*ret_adds = adds;
	*ret_subs = adds - loaded;
}

static int note_counts(struct dl_phdr_info *info, size_t size, void *context)
{
	uint64_t *counts = context;

	(void)size; /* all members are older than any libc that limpet can attach to */
	counts[0] = info->dlpi_adds;
	counts[1] = info->dlpi_subs;
	return 1;
}

bool limpet_loaded_has_changed(void)
{
	uint64_t counts[2] = {adds_seen, subs_seen};

	if (loader.lock)
		read_counts(&counts[0], &counts[1]);
	else if (loader.is_musl && program_list)
		program_list(note_counts, counts);
	return counts[0] != adds_seen || counts[1] != subs_seen;
}

/* ------------------------------------------------------------------ the lock */

void limpet_loaded_pause(bool may_sleep)
{
	static const uint32_t nobody_wakes;
	const struct __kernel_timespec pause = {0, 100000};
	const unsigned spins = 2000; /* 140 cycles each on many processors, 10 on some */

	if (may_sleep)
		wait_for_word(&nobody_wakes, 0, &pause);
	for (unsigned i = 0; !may_sleep && i < spins; i++)
		limpet_pause();
}

/* As pthread_mutex_trylock, which the program may have replaced. */
static bool try_lock(struct limpet_loader_mutex *mutex)
{
	int32_t tid = (int32_t)limpet_record_tid(), nobody = 0;

	if (__atomic_load_n(&mutex->owner, __ATOMIC_RELAXED) == tid) {
		mutex->count++;
		return true;
	}
	if (!__atomic_compare_exchange_n(&mutex->lock, &nobody, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	__atomic_store_n(&mutex->owner, tid, __ATOMIC_RELAXED);
	mutex->count = 1;
	mutex->users++;
	return true;
}

static void begin_hold(bool may_ask)
{
	uint64_t adds, subs;

	read_counts(&adds, &subs);
	asks = may_ask || subs != subs_seen;
	if (asks)
		heads_read = 0;
}

bool limpet_loaded_hold(bool wait, bool may_ask)
{
	const unsigned patience = wait ? LIMPET_LOADER_PATIENCE : 1;

	for (unsigned i = 0; loader.lock && i < patience; i++) {
		if (i)
			limpet_loaded_pause(true);
		if (!try_lock((struct limpet_loader_mutex *)(uintptr_t)loader.lock))
			continue;
		begin_hold(may_ask);
		return true;
	}
	return !loader.lock;
}

static void unlock(struct limpet_loader_mutex *mutex)
{
	const int waited_for = 2;

	if (!mutex || --mutex->count)
		return;
	__atomic_store_n(&mutex->owner, 0, __ATOMIC_RELAXED);
	mutex->users--;
	if (__atomic_exchange_n(&mutex->lock, 0, __ATOMIC_RELEASE) == waited_for)
		limpet_syscall3(SYS_futex, (long)&mutex->lock, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
}

void limpet_loaded_release(void)
{
	unlock((struct limpet_loader_mutex *)(uintptr_t)loader.lock);
}

bool limpet_loaded_closes_unlocked(void)
{
	return loader.is_musl;
}

/* ------------------------------------------------------------------ the lists */

struct walk {
	limpet_image_fn *visit;
	void *context;
	uint32_t unread;
	bool others_done;
	bool settles;
	bool shrunk;
	uint64_t unloads;
};

static void note_change(struct walk *walk, uint64_t adds, uint64_t subs)
{
	walk->shrunk = subs != subs_seen;
	walk->unloads = subs;
	if (!walk->settles)
		return;
	adds_seen = adds;
	subs_seen = subs;
}

static void set_phdrs(struct limpet_image *image, const Elf64_Phdr *phdrs, uint64_t count)
{
	image->phdr = (uint64_t)(uintptr_t)phdrs;
	image->phdr_count = count;
	image->low = UINT64_MAX;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = image->bias + phdrs[i].p_vaddr;

		if (phdrs[i].p_type == PT_DYNAMIC)
			image->dynamic = start;
		if (phdrs[i].p_type != PT_LOAD)
			continue;
		if (start < image->low)
			image->low = start;
		if (start + phdrs[i].p_memsz > image->high)
			image->high = start + phdrs[i].p_memsz;
	}
}

/* Whether a table that the loader also reads is in the page: then it was readable when the module
 * was loaded. glibc relocates these pointers in place, except the vDSO's. */
static bool holds_a_table(const struct link_map *map, uint64_t page)
{
	for (const Elf64_Dyn *dynamic = map->l_ld; dynamic && dynamic->d_tag != DT_NULL;
	     dynamic++) {
		uint64_t at = dynamic->d_un.d_ptr;

		if (dynamic->d_tag != DT_GNU_HASH && dynamic->d_tag != DT_HASH &&
		    dynamic->d_tag != DT_SYMTAB && dynamic->d_tag != DT_STRTAB)
			continue;
		if (at - page < page_bytes || (at < page_bytes && map->l_addr == page))
			return true;
	}
	return false;
}

/* Usually in the same page as the header. BOLT puts them behind all else, as far from it in memory
 * as in the file. What is there is checked by the caller. */
static const Elf64_Phdr *find_phdrs(uint64_t at, const Elf64_Ehdr *head)
{
	const uint64_t bytes = head->e_phnum * sizeof(Elf64_Phdr);
	uint64_t page;

	if (head->e_phoff <= page_bytes && head->e_phoff + bytes <= page_bytes)
		return (const Elf64_Phdr *)(uintptr_t)(at + head->e_phoff);
	at += head->e_phoff;
	page = at & ~(page_bytes - 1);
	if (at % 8 || bytes > page_bytes - (at - page) || !is_readable(page))
		return NULL;
	return (const Elf64_Phdr *)(uintptr_t)at;
}

/* Whether the ELF header, at the start of a page, leads to program headers of this module; then
 * fills in `image`. A page that the loader has read may have been closed since, or its file cut
 * short: the kernel is asked, unless the module has just come. */
static bool read_head(const struct link_map *map, struct limpet_image *image)
{
	bool program = !image->space && !map->l_prev;
	uint64_t at = program ? loader.program_head : map->l_addr;
	const Elf64_Phdr *phdrs;
	Elf64_Ehdr head;

	if (!at || at % page_bytes || !((!asks && holds_a_table(map, at)) || is_readable(at)))
		return false;
	head = *(const Elf64_Ehdr *)(uintptr_t)at;
	if (head.e_ident[0] != ELFMAG0 || head.e_ident[1] != ELFMAG1 ||
	    head.e_ident[2] != ELFMAG2 || head.e_ident[3] != ELFMAG3 ||
	    head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum > MAX_PHDRS)
		return false;
	phdrs = find_phdrs(at, &head);
	if (!phdrs)
		return false;
	set_phdrs(image, phdrs, head.e_phnum);
	return image->dynamic && image->dynamic == (uint64_t)(uintptr_t)map->l_ld;
}

/* `index`: in its list. */
static bool read_image(const struct link_map *map, uint32_t index, struct limpet_image *image)
{
	struct head *known;

	image->bias = map->l_addr;
	if (image->space || index >= LIMPET_MAX_KNOWN_MODULES)
		return read_head(map, image);
	known = &heads[index];
	if (index < heads_read) {
		image->phdr = known->phdr;
		image->phdr_count = known->phdr_count;
		image->low = known->low;
		image->high = known->high;
		image->dynamic = (uint64_t)(uintptr_t)map->l_ld;
		return image->phdr;
	}
	if (!read_head(map, image))
		image->phdr = 0;
	*known = (struct head){image->phdr, image->phdr_count, image->low, image->high};
	heads_read = index + 1;
	return image->phdr;
}

static int visit_space(const struct link_map *first, uint64_t space, struct walk *walk)
{
	const struct link_map *map = first;
	int answer = 0;

	for (uint32_t i = 0; map && !answer && i < MAX_LINK_MAPS; i++, map = map->l_next) {
		struct limpet_image image = {.space = space,
					     .name = map->l_name,
					     .shrunk = walk->shrunk,
					     .unloads = walk->unloads};

		asked_page = 0;
		if (read_image(map, i, &image))
			answer = walk->visit(&image, walk->context);
		else
			walk->unread++;
	}
	return answer;
}

static int visit_others(struct walk *walk)
{
	const struct r_debug_extended *space = debug_list;
	int answer = 0;

	/* Since version 2 an entry has a next one. An entry whose modules were all unloaded is
	 * empty. */
	for (uint32_t i = 0; space && space->base.r_version >= 2 && !answer && i < MAX_SPACES;
	     i++) {
		space = space->r_next;
		if (space)
			answer = visit_space(space->base.r_map,
					     (uint64_t)(uintptr_t)space->base.r_map, walk);
	}
	return answer;
}

static int visit_listed(struct dl_phdr_info *info, size_t size, void *context)
{
	struct limpet_image image = {.bias = info->dlpi_addr, .name = info->dlpi_name};
	struct walk *walk = context;

	(void)size;
	if (!walk->others_done) {
		int answer;

		walk->others_done = true;
		note_change(walk, info->dlpi_adds, info->dlpi_subs);
		answer = visit_others(walk);
		if (answer)
			return answer;
	}
	image.shrunk = walk->shrunk;
	image.unloads = walk->unloads;
	asked_page = 0;
	if (!limpet_loaded_may_read(info->dlpi_phdr, info->dlpi_phnum * sizeof(Elf64_Phdr))) {
		walk->unread++;
		return 0;
	}
	set_phdrs(&image, info->dlpi_phdr, info->dlpi_phnum);
	return walk->visit(&image, walk->context);
}

static int walk_listed(struct walk *walk)
{
	return program_list ? program_list(visit_listed, walk) : 0;
}

static int walk_held(struct walk *walk)
{
	uint64_t adds, subs;
	int answer;

	if (!loader.lock)
		return walk_listed(walk);
	read_counts(&adds, &subs);
	note_change(walk, adds, subs);
	answer = visit_others(walk);
	return answer ? answer : visit_space(debug_list->base.r_map, 0, walk);
}

static int visit_nothing(const struct limpet_image *image, void *context)
{
	(void)image;
	(void)context;
	return 0;
}

/* While all is held: with some unread, both locks are, and dl_iterate_phdr is to be used. */
static uint32_t unread_held;

/* In the order in which the loader takes them. */
bool limpet_loaded_hold_all(void)
{
	struct limpet_loader_mutex *locks = (struct limpet_loader_mutex *)(uintptr_t)loader.lock;

	for (unsigned i = 0; locks && i < LIMPET_CALL_PATIENCE; i++) {
		if (i)
			limpet_loaded_pause(false);
		if (!try_lock(&locks[0]))
			continue;
		begin_hold(true);
		unread_held = limpet_loaded_walk_held(visit_nothing, NULL, false);
		if (!unread_held || try_lock(&locks[1]))
			return true;
		unread_held = 0;
		unlock(&locks[0]);
	}
	return !locks;
}

uint32_t limpet_loaded_unread(void)
{
	return unread_held;
}

void limpet_loaded_let_all_go(void)
{
	struct limpet_loader_mutex *locks = (struct limpet_loader_mutex *)(uintptr_t)loader.lock;

	if (!locks)
		return;
	if (unread_held)
		unlock(&locks[1]);
	unread_held = 0;
	unlock(&locks[0]);
}

int limpet_loaded_walk(limpet_image_fn *visit, void *context, uint32_t *ret_unread)
{
	struct walk walk = {.visit = visit, .context = context};
	int answer = loader.lock && !unread_held ? walk_held(&walk) : walk_listed(&walk);

	if (ret_unread)
		*ret_unread = walk.unread;
	return answer;
}

uint32_t limpet_loaded_walk_held(limpet_image_fn *visit, void *context, bool settles)
{
	struct walk walk = {.visit = visit, .context = context, .settles = settles};

	walk_held(&walk);
	return walk.unread;
}

/* ------------------------------------------------------------------ what they define */

/* glibc relocates the pointers of a dynamic section in place, musl does not. */
static const void *dynamic_pointer(const struct limpet_image *image, uint64_t value)
{
	if (value < image->low || value >= image->high)
		value += image->bias;
	if (value < image->low || value >= image->high)
		return NULL;
	return (const void *)(uintptr_t)value;
}

/* Where they are not, but for their middle. The relocations are the caller's. */
static bool are_readable(const struct limpet_image_tables *tables)
{
	const char *strings = tables->slots.strings;
	const uint64_t bytes = tables->slots.string_bytes;

	return limpet_loaded_may_read(tables->slots.symbols, sizeof(Elf64_Sym)) &&
	       limpet_loaded_may_read(strings, 1) &&
	       (!bytes || limpet_loaded_may_read(strings + bytes - 1, 1)) &&
	       (!tables->hash || limpet_loaded_may_read(tables->hash, sizeof(*tables->hash))) &&
	       (!tables->versions ||
		limpet_loaded_may_read(tables->versions, sizeof(*tables->versions)));
}

static bool is_dynamic_readable(const struct limpet_image *image)
{
	const Elf64_Dyn *dynamic = (const Elf64_Dyn *)(uintptr_t)image->dynamic;

	while (dynamic && limpet_loaded_may_read(dynamic, sizeof(*dynamic)))
		if (dynamic++->d_tag == DT_NULL)
			return true;
	return false;
}

int limpet_image_tables(const struct limpet_image *image, struct limpet_image_tables *ret)
{
	const Elf64_Dyn *dynamic = (const Elf64_Dyn *)(uintptr_t)image->dynamic;
	/* The loader itself has walked these tables by the same indices. */
	struct limpet_image_tables tables = {.slots = {.symbol_count = UINT32_MAX}};
	uint64_t rela_bytes = 0, jmprel_bytes = 0;

	if (!is_dynamic_readable(image))
		return image->dynamic ? -ERROR_FAULT : 0;
	for (; dynamic->d_tag != DT_NULL; dynamic++) {
		const void *pointer = dynamic_pointer(image, dynamic->d_un.d_ptr);

		switch (dynamic->d_tag) {
		case DT_RELA:
			tables.slots.rela[0] = pointer;
			break;
		case DT_RELASZ:
			rela_bytes = dynamic->d_un.d_val;
			break;
		case DT_JMPREL:
			tables.slots.rela[1] = pointer;
			break;
		case DT_PLTRELSZ:
			jmprel_bytes = dynamic->d_un.d_val;
			break;
		case DT_RELSZ:
			tables.is_rel |= dynamic->d_un.d_val > 0;
			break;
		case DT_PLTREL:
			tables.is_rel |= dynamic->d_un.d_val == DT_REL;
			break;
		case DT_SYMTAB:
			tables.slots.symbols = pointer;
			break;
		case DT_STRTAB:
			tables.slots.strings = pointer;
			break;
		case DT_STRSZ:
			tables.slots.string_bytes = dynamic->d_un.d_val;
			break;
		case DT_GNU_HASH:
			tables.hash = pointer;
			break;
		case DT_VERSYM:
			tables.versions = pointer;
			break;
		default:
			break;
		}
	}
	if (!tables.slots.symbols || !tables.slots.strings)
		return 0;
	if (!are_readable(&tables))
		return -ERROR_FAULT;
	if (tables.is_rel)
		tables.slots.rela[0] = tables.slots.rela[1] = NULL;
	tables.slots.rela_count[0] = rela_bytes / sizeof(Elf64_Rela);
	tables.slots.rela_count[1] = jmprel_bytes / sizeof(Elf64_Rela);
	*ret = tables;
	return 1;
}

/* Skips the older of two versions, which serves programs linked long ago. */
static uint64_t value_of(const struct limpet_image *image, const struct limpet_image_tables *tables,
			 uint32_t index, const char *name)
{
	const Elf64_Sym *symbol = &tables->slots.symbols[index];
	const uint16_t is_old = 0x8000;
	const char *own = tables->slots.strings + symbol->st_name;
	uint32_t type = ELF64_ST_TYPE(symbol->st_info);

	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value ||
	    (type != STT_FUNC && type != STT_NOTYPE) ||
	    (tables->versions && tables->versions[index] & is_old))
		return 0;
	for (; *name && *name == *own; name++)
		own++;
	return *name == *own ? image->bias + symbol->st_value : 0;
}

/* By DT_GNU_HASH: Drepper, "How To Write Shared Libraries"; the Bloom filter is skipped. */
uint64_t limpet_image_symbol(const struct limpet_image *image, const char *name)
{
	struct limpet_image_tables tables;
	const uint32_t *buckets, *chain;
	uint32_t hash = 5381, index, first;

	if (limpet_image_tables(image, &tables) <= 0 || !tables.hash || !tables.hash[0])
		return 0;
	for (const char *at = name; *at; at++)
		hash = hash * 33 + (uint8_t)*at;
	first = tables.hash[1];
	buckets = tables.hash + 4 + (uint64_t)tables.hash[2] * 2;
	chain = buckets + tables.hash[0];
	index = buckets[hash % tables.hash[0]];
	for (; index >= first; index++) {
		uint64_t value = 0;

		if ((chain[index - first] | 1) == (hash | 1))
			value = value_of(image, &tables, index, name);
		if (value)
			return value;
		if (chain[index - first] & 1)
			return 0;
	}
	return 0;
}

uint32_t limpet_space_symbol(const struct limpet_image *image, const char *name, uint64_t *ret)
{
	const struct link_map *map = (const struct link_map *)(uintptr_t)image->space;
	uint32_t found = 0;

	for (uint32_t i = 0; map && i < MAX_LINK_MAPS; i++, map = map->l_next) {
		struct limpet_image other = {.space = image->space};
		uint64_t value = read_image(map, i, &other) ? limpet_image_symbol(&other, name) : 0;

		if (!value)
			continue;
		found++;
		*ret = value;
	}
	return found;
}

bool limpet_image_has_word(const struct limpet_image *image, uint64_t address)
{
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(uintptr_t)image->phdr;

	for (uint64_t i = 0; i < image->phdr_count; i++) {
		uint64_t offset = address - image->bias - phdrs[i].p_vaddr;

		if (phdrs[i].p_type == PT_LOAD && phdrs[i].p_flags & PF_W &&
		    offset < phdrs[i].p_memsz && phdrs[i].p_memsz - offset >= sizeof(uint64_t))
			return address % sizeof(uint64_t) == 0;
	}
	return false;
}

bool limpet_image_part_of(const struct limpet_image *image, uint64_t address,
			  struct limpet_image_part *ret)
{
	const Elf64_Phdr *phdrs = (const Elf64_Phdr *)(uintptr_t)image->phdr;

	for (uint64_t i = 0; i < image->phdr_count; i++) {
		uint64_t start = image->bias + phdrs[i].p_vaddr, end = start + phdrs[i].p_filesz;

		if (phdrs[i].p_type != PT_LOAD || address < start || address >= end ||
		    end - address < sizeof(uint64_t))
			continue;
		ret->start = start & ~(page_bytes - 1);
		ret->bytes = ((end + page_bytes - 1) & ~(page_bytes - 1)) - ret->start;
		ret->flags = phdrs[i].p_flags;
		return true;
	}
	return false;
}

struct search {
	uint64_t address;
	struct limpet_image *image;
	bool found;
};

static int note_holder(const struct limpet_image *image, void *context)
{
	struct search *search = context;

	if (search->address < image->low || search->address >= image->high)
		return 0;
	*search->image = *image;
	search->found = true;
	return 1;
}

bool limpet_loaded_find(uint64_t address, struct limpet_image *ret)
{
	struct search search = {.address = address, .image = ret};

	limpet_loaded_walk_held(note_holder, &search, false);
	return search.found;
}
