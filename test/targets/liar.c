/* liar: a program that lies to whoever attaches to it.
 *
 *	liar
 *
 * One thread allocates all the while. "lie MODE [SEED]" begins to lie, "truth" ends it, "quit" ends
 * with 0 if nobody wrote where we did not ask for it.
 *
 * Modes for before the attach:
 *	list		the loader's list goes round and leads nowhere
 *	images		files that look like modules with absurd heads
 *	remains		of another limpet, without end
 * For before or during it:
 *	tables		our own ELF headers and unwind tables, other ones all the time
 *	layout, slots	where in the shared memory what lies; of that, the slots
 * For during it:
 *	memory		random words all over the shared memory
 *	heads		of chunks and threads, and stacks, plausible and wrong
 *	header		its first page
 *	counts		what the agent has counted as lost
 *	info		what the agent tells of itself
 *	unmap		the shared memory goes, and we with it
 *	all		memory, heads, header and info */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/wire.h"
#include "test/targets/target.h"

enum { IMAGES = 64, CANARY_BYTES = 1 << 20, PAGE = 4096 };

static _Atomic bool lying, quitting;
static atomic_uint rounds;
static const char *mode = "";
static uint64_t seed = 1;
static unsigned char *canary;
static pthread_t liar;

/* ------------------------------------------------------------------ what is ours, what is limpet's
 */

struct region {
	uint64_t *words;
	size_t count;
};

/* The largest run of mappings that begins with one whose line holds `name` and `access`: neighbours
 * with the same rights belong to it, if they hold the name or have none (LIMPET_WINDOW_BYTES). */
static struct region find_region(const char *name, const char *access)
{
	static char text[1 << 16];
	struct region found = {NULL, 0};
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	unsigned long first = 0, last = 0;
	size_t used = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)got;
	close(fd);
	text[used] = '\0';
	for (char *line = text, *next; line && *line; line = next) {
		unsigned long start, end;
		char rights[5];
		bool named;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		named = strstr(line, name);
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3 ||
		    strncmp(rights, access, strlen(access)) != 0 ||
		    !(named || (start == last && !strchr(line, '/') && !strchr(line, '['))))
			continue;
		first = start == last ? first : start;
		last = end;
		if (named && last - first > found.count * 8)
			found = (struct region){(uint64_t *)first, (last - first) / 8};
	}
	return found;
}

/* ------------------------------------------------------------------ lies for before the attach */

static struct link_map lies[3];
static struct r_debug lie;

/* Only debuggers read DT_DEBUG: the loader does not miss it. */
static void lie_about_list(void)
{
	for (ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
		uintptr_t page = (uintptr_t)entry & ~(uintptr_t)(PAGE - 1);
		struct r_debug *truth;

		if (entry->d_tag != DT_DEBUG)
			continue;
		truth = (struct r_debug *)entry->d_un.d_ptr;
		if (truth == &lie || mprotect((void *)page, 2 * PAGE, PROT_READ | PROT_WRITE))
			target_broken("cannot lie about the list");
		lie = *truth;
		lies[0] = *truth->r_map;
		lies[1] = *truth->r_map->l_next;
		lies[2] = *truth->r_map->l_next->l_next;
		lies[0].l_next = &lies[1];
		lies[1].l_next = &lies[2];
		lies[1].l_name = (char *)8;
		lies[2].l_next = seed % 2 ? &lies[1] : (struct link_map *)0x123456789000;
		lies[2].l_addr = target_random(&seed);
		lies[2].l_ld = (ElfW(Dyn) *)(uintptr_t)target_random(&seed);
		lie.r_map = &lies[0];
		entry->d_un.d_ptr = (uintptr_t)&lie;
	}
}

static void lie_about_images(void)
{
	static const uint64_t odd[] = {0,          1,          PAGE,      1ull << 31,
				       1ull << 39, 1ull << 47, INT64_MAX, UINT64_MAX - 4095,
				       UINT64_MAX};
	size_t bytes = 16 * PAGE;
	int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	for (unsigned i = 0; i < IMAGES; i++) {
		int fd = memfd_create("libc.so.6", MFD_CLOEXEC);
		unsigned char *image;
		ElfW(Ehdr) * head;
		ElfW(Phdr) * segments;

		if (fd < 0 || ftruncate(fd, (off_t)bytes))
			target_broken("cannot make an image");
		image = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (image == MAP_FAILED || pread(own, image, bytes, 0) < (ssize_t)PAGE)
			target_broken("cannot fill an image");
		head = (ElfW(Ehdr) *)(void *)image;
		segments = (ElfW(Phdr) *)(void *)(image + head->e_phoff);
		for (unsigned k = 0; k < 4; k++) {
			ElfW(Phdr) *segment = &segments[target_random(&seed) % head->e_phnum];
			uint64_t value = odd[target_random(&seed) % 9];

			switch (target_random(&seed) % 4) {
			case 0:
				segment->p_memsz = value;
				break;
			case 1:
				segment->p_vaddr = value;
				break;
			case 2:
				segment->p_type = (uint32_t)target_random(&seed) % 8;
				break;
			default:
				head->e_phnum = (uint16_t)(1 + value % 4096);
				break;
			}
			if (head->e_phnum > 64)
				break;
		}
		if (mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			target_broken("cannot map an image");
		munmap(image, bytes);
		close(fd);
	}
	close(own);
}

/* ------------------------------------------------------------------ lies for during it */

static void lie_in_memory(void)
{
	struct region shared = find_region("limpet-shared", "-w");

	for (unsigned i = 0; shared.words && i < 10000; i++)
		shared.words[target_random(&seed) % shared.count] =
			target_random(&seed) % 4 ? target_random(&seed) : UINT64_MAX;
}

static void lie_in_header(void)
{
	struct region shared = find_region("limpet-shared", "-w");
	struct limpet_shm *shm = (struct limpet_shm *)(void *)shared.words;

	if (!shm)
		return;
	shm->time = (uint32_t)target_random(&seed);
	shm->slot_count = shm->module_count = UINT32_MAX;
	shm->lost_no_thread = UINT64_MAX;
	shm->nonce = target_random(&seed);
}

/* Counts that no process can have. Those of kinds stay: the agent adds to them. Written past the
 * kernel's checks, since limpet may unmap the memory meanwhile. */
static void lie_about_counts(void)
{
	static struct limpet_shm shm;
	const struct region shared = find_region("limpet-shared", "-w");
	const uint64_t many = 13947085620630083708ull;
	const off_t at = (off_t)(uintptr_t)shared.words;
	const int memory = shared.words ? open("/proc/self/mem", O_RDWR | O_CLOEXEC) : -1;

	if (memory < 0)
		return;
	if (pread(memory, &shm, sizeof(shm), at) == sizeof(shm) && shm.magic == LIMPET_SHM_MAGIC) {
		shm.lost_no_thread = shm.lost_no_sample = UINT64_MAX / 3;
		shm.slots_unhooked = shm.late_modules = UINT32_MAX / 3 * 2;
		(void)!pwrite(memory, &shm.lost_no_thread, sizeof(shm.lost_no_thread),
			      at + (off_t)offsetof(struct limpet_shm, lost_no_thread));
		(void)!pwrite(memory, &shm.lost_no_sample, sizeof(shm.lost_no_sample),
			      at + (off_t)offsetof(struct limpet_shm, lost_no_sample));
		(void)!pwrite(memory, &shm.slots_unhooked, sizeof(shm.slots_unhooked),
			      at + (off_t)offsetof(struct limpet_shm, slots_unhooked));
		(void)!pwrite(memory, &shm.late_modules, sizeof(shm.late_modules),
			      at + (off_t)offsetof(struct limpet_shm, late_modules));
		for (unsigned i = 0; i < 64; i++)
			(void)!pwrite(memory, &many, sizeof(many),
				      at + (off_t)(shm.layout.threads_offset +
						   i * sizeof(struct limpet_thread) +
						   offsetof(struct limpet_thread, dropped)));
	}
	close(memory);
}

/* As fast as it can: what is checked in one moment is another in the next. The agent goes by all of
 * it but the slots, which it has read by then, and mostly does not survive. */
static void lie_about_layout(bool all)
{
	const unsigned often = 20000;
	struct region shared = find_region("limpet-shared", "-w");
	struct limpet_shm *shm = (struct limpet_shm *)(void *)shared.words;
	uint64_t *words = shm ? (uint64_t *)(void *)&shm->layout : NULL;

	for (unsigned i = 0; words && i < often; i++) {
		uint64_t word = target_random(&seed);
		uint64_t *lie_at = all ? &words[word % (sizeof(shm->layout) / sizeof(*words))]
				       : &shm->layout.slots_offset;

		/* Of a table's size, of an address's, and of none. */
		__atomic_store_n(lie_at, word >> (word >> 8 & 63), __ATOMIC_RELAXED);
		if (all)
			shm->slot_count = shm->module_count = (uint32_t)word;
	}
}

/* A description of a stack where a record may begin: each of its fields is possible, or just not.
 */
static void lie_about_stack(uint64_t *words, uint64_t word)
{
	static const uint32_t counts[] = {0, 1, 60, 255, 256, 512, 513, 0xffffff};
	static const uint32_t numbers[] = {0, 1, 70, LIMPET_STACKS_MAX, UINT32_MAX};
	static const uint32_t shared[] = {0, 1, 59, 256, UINT32_MAX};

	words[0] = (uint64_t)(numbers[word % 5] + (word >> 3 & 63)) << 32 |
		   counts[word >> 9 & 7] << 8 | LIMPET_EVENT_STACK;
	words[1] = (word >> 12 & 15) << 32 | shared[(word >> 16 & 15) % 5];
	words[2] = word >> 20 & 127;
}

static void lie_in_heads(void)
{
	struct region shared = find_region("limpet-shared", "-w");
	struct limpet_shm *shm = (struct limpet_shm *)(void *)shared.words;
	uint8_t *base = (uint8_t *)shm;

	if (!shm || shm->magic != LIMPET_SHM_MAGIC)
		return;
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t word = target_random(&seed);
		struct limpet_thread *thread =
			(struct limpet_thread *)(void *)(base + shm->layout.threads_offset) +
			(word & 63);
		struct limpet_chunk *chunk =
			(struct limpet_chunk *)(void *)(base + shm->layout.chunks_offset +
							(word >> 6 & 63) * LIMPET_CHUNK_BYTES);
		uint64_t *record = (uint64_t *)(void *)(chunk + 1) + (word >> 12 & 255) * 3;

		chunk->thread = (uint32_t)(word & 63);
		chunk->sequence = word >> 20 & 7;
		chunk->next = (uint32_t)(word >> 24 & 63);
		chunk->committed = LIMPET_CHUNK_BYTES;
		chunk->describes = (uint32_t)(word >> 31 & 3);
		lie_about_stack(record, target_random(&seed));
		if (word >> 60 == 0) {
			thread->intent = (uint32_t)(word >> 8);
			thread->held_intent = (uint32_t)(word >> 16);
			thread->generation++;
			thread->stack_high = 0;
			thread->thread_pointer = word >> 16 & ~7ull;
			thread->first_chunk = (uint32_t)(word >> 24 & 63);
			shm->next_stack = (uint32_t)(word >> 24);
		}
	}
}

static int answer_five(void)
{
	return 5;
}

static void lie_about_agent(void)
{
	struct region agent = find_region("memfd:limpet-agent", "-w");

	for (size_t i = 0; i < agent.count; i++) {
		struct limpet_agent_info *info =
			(struct limpet_agent_info *)(void *)&agent.words[i];

		if (info->magic != LIMPET_INFO_MAGIC)
			continue;
		switch (target_random(&seed) % 5) {
		case 0:
			info->nonce = target_random(&seed);
			break;
		case 1:
			info->detach = (uint64_t)(uintptr_t)answer_five;
			break;
		case 2:
			info->thunks = 0;
			info->thunk_bytes = UINT64_MAX / 3;
			break;
		case 3:
			info->hooks = target_random(&seed);
			break;
		default:
			info->shm = (uint64_t)(uintptr_t)canary;
			break;
		}
		return;
	}
}

/* ------------------------------------------------------------------ our own headers and tables */

static struct {
	unsigned char *start, *truth;
	size_t bytes;
} told[2]; /* ELF and program headers; .eh_frame_hdr and what follows it in its segment */

static void take_told(unsigned which, uintptr_t start, uintptr_t end)
{
	uintptr_t page = start & ~(uintptr_t)(PAGE - 1);

	told[which].start = (unsigned char *)start;
	told[which].bytes = end - start;
	told[which].truth = malloc(end - start);
	if (!told[which].truth || mprotect((void *)page, end - page, PROT_READ | PROT_WRITE) < 0)
		target_broken("no table to lie in");
	memcpy(told[which].truth, told[which].start, end - start);
}

/* Of the program itself, which comes first. */
static int find_told(struct dl_phdr_info *info, size_t bytes, void *nothing)
{
	uintptr_t header = (uintptr_t)getauxval(AT_PHDR) & ~(uintptr_t)(PAGE - 1), frames = 0;

	(void)bytes, (void)nothing;
	take_told(0, header, header + sizeof(ElfW(Ehdr)) + info->dlpi_phnum * sizeof(ElfW(Phdr)));
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			frames = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	for (unsigned i = 0; i < info->dlpi_phnum && frames; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type == PT_LOAD && frames >= start && frames < start + phdr->p_memsz)
			take_told(1, frames, start + phdr->p_memsz);
	}
	return 1;
}

static void lie_in_tables(void)
{
	uint64_t random = target_random(&seed);
	unsigned which = (random & 3) == 0 ? 0 : 1;

	if (!told[0].start)
		dl_iterate_phdr(find_told, NULL);
	if (random >> 60 < 4) {
		memcpy(told[which].start, told[which].truth, told[which].bytes);
		return;
	}
	for (unsigned i = 0; i < 16; i++)
		told[which].start[target_random(&seed) % told[which].bytes] =
			(unsigned char)target_random(&seed);
}

/* What looks like remains of a limpet that has died: there again as soon as it was removed. */
static void remain(void)
{
	enum { KEPT = 900 }; /* which nobody else gets */
	int fd;

	if (fcntl(KEPT, F_GETFD) >= 0)
		return;
	fd = memfd_create("limpet-agent", MFD_CLOEXEC);
	dup3(fd, KEPT, O_CLOEXEC);
	close(fd);
}

static bool is(const char *name)
{
	return !strcmp(mode, name) || !strcmp(mode, "all");
}

static void *lie_on(void *nothing)
{
	while (!quitting) {
		const bool all_layout = !strcmp(mode, "layout");

		if (lying && is("memory"))
			lie_in_memory();
		if (lying && is("header"))
			lie_in_header();
		if (lying && !strcmp(mode, "counts"))
			lie_about_counts();
		if (lying && (all_layout || !strcmp(mode, "slots")))
			lie_about_layout(all_layout);
		if (lying && is("heads"))
			lie_in_heads();
		if (lying && is("info"))
			lie_about_agent();
		if (lying && !strcmp(mode, "tables"))
			lie_in_tables();
		if (lying && !strcmp(mode, "remains"))
			remain();
		if (lying && !strcmp(mode, "unmap")) {
			struct region shared = find_region("limpet-shared", "-w");

			if (shared.words)
				munmap(shared.words, shared.count * 8);
		}
		rounds++;
		if (!all_layout && strcmp(mode, "slots") != 0 && strcmp(mode, "remains") != 0)
			usleep(200);
	}
	return nothing;
}

/* ------------------------------------------------------------------ all */

static void *work(void *nothing)
{
	uint64_t random = 77;

	while (!quitting) {
		void *block = malloc(16 + target_random(&random) % 500);

		if (!block)
			target_broken("no memory");
		*(volatile char *)block = 1;
		free(block);
		if (!(target_random(&random) & 255))
			usleep(100);
	}
	return nothing;
}

static void check_canary(void)
{
	for (size_t i = 0; i < CANARY_BYTES; i++)
		if (canary[i] != (unsigned char)(i * 7))
			target_broken("somebody wrote at %zu of what is ours", i);
}

static void command(char *line)
{
	unsigned long n;

	if (target_word(line, "truth", &n)) {
		lying = false;
		target_say("honest");
	} else if (target_word(line, "lie", &n)) {
		char *space;

		lying = false;
		mode = strdup(line + 4);
		space = strchr(mode, ' ');
		if (space) {
			*space = '\0';
			seed = strtoul(space + 1, NULL, 10) * 2654435761u + 1;
		}
		if (!strcmp(mode, "list"))
			lie_about_list();
		if (!strcmp(mode, "images"))
			lie_about_images();
		lying = true;
		/* The one that begins with this lie may be the second from now. */
		for (const unsigned before = rounds; rounds - before < 2;)
			usleep(100);
		target_say("lying");
	} else {
		target_broken("unknown command '%s'", line);
	}
}

int main(void)
{
	pthread_t worker;
	char line[256];

	canary = mmap(NULL, CANARY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	for (size_t i = 0; i < CANARY_BYTES; i++)
		canary[i] = (unsigned char)(i * 7);
	if (pthread_create(&worker, NULL, work, NULL) || pthread_create(&liar, NULL, lie_on, NULL))
		target_broken("no threads");
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && strcmp(line, "quit") != 0)
		command(line);
	quitting = true;
	pthread_join(liar, NULL);
	pthread_join(worker, NULL);
	check_canary();
	return 0;
}
