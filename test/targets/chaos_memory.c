/* Operations of chaos on memory. */
#include <sys/mman.h>

#include "test/targets/chaos.h"
#include "test/targets/target.h"

enum { PAGE = 4096 };

void *chaos_malloc(size_t bytes)
{
	void *address = malloc(bytes);

	if (!address)
		chaos_broken("no memory");
	atomic_fetch_add(&chaos_counts.allocations, 1);
	atomic_fetch_add(&chaos_counts.bytes, bytes);
	return address;
}

static void count_block(void *address, size_t bytes)
{
	if (!address)
		chaos_broken("no memory");
	atomic_fetch_add(&chaos_counts.allocations, 1);
	atomic_fetch_add(&chaos_counts.bytes, bytes);
}

void chaos_free(void *address)
{
	errno = 0x5a5a;
	free(address);
	if (errno != 0x5a5a)
		chaos_broken("free has set errno to %d", errno);
	if (address)
		atomic_fetch_add(&chaos_counts.frees, 1);
}

void *chaos_map(size_t bytes, int flags)
{
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (address == MAP_FAILED)
		chaos_broken("cannot map %zu bytes: %s", bytes, strerror(errno));
	atomic_fetch_add(&chaos_counts.maps, 1);
	return address;
}

void chaos_unmap(void *address, size_t bytes)
{
	if (munmap(address, bytes))
		chaos_broken("cannot unmap: %s", strerror(errno));
	atomic_fetch_add(&chaos_counts.unmaps, 1);
}

void chaos_fill(struct chaos_block *block)
{
	block->pattern = (unsigned char)(target_random(&chaos_self->random) | 1);
	memset(block->address, block->pattern, block->bytes);
}

static void check_bytes(const struct chaos_block *block, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (block->address[i] != block->pattern)
			chaos_broken("a block of %zu bytes has %#x at %zu instead of %#x",
				     block->bytes, block->address[i], i, block->pattern);
	}
}

void chaos_check(const struct chaos_block *block)
{
	check_bytes(block, block->bytes);
}

void chaos_churn(unsigned count, size_t bytes)
{
	while (count--) {
		unsigned char *address = chaos_malloc(bytes);

		memset(address, (int)count, bytes);
		__asm__ volatile("" : "+r"(address) : : "memory");
		if (address[bytes - 1] != (unsigned char)count)
			chaos_broken("a fresh block has changed");
		chaos_free(address);
	}
}

static void release(struct chaos_block *block)
{
	if (block->address)
		chaos_check(block);
	chaos_free(block->address);
	block->address = NULL;
}

static void put(struct chaos_machine *machine, unsigned long slot, void *address, size_t bytes)
{
	struct chaos_block *block = &machine->blocks[slot % CHAOS_BLOCKS];

	count_block(address, bytes);
	release(block);
	block->address = address;
	block->bytes = bytes;
	chaos_fill(block);
}

void chaos_op_malloc(struct chaos_machine *machine, const unsigned long *numbers)
{
	put(machine, numbers[0], malloc(numbers[1]), numbers[1]);
}

void chaos_op_calloc(struct chaos_machine *machine, const unsigned long *numbers)
{
	unsigned char *address = calloc(1, numbers[1]);

	for (size_t i = 0; address && i < numbers[1]; i++) {
		if (address[i])
			chaos_broken("calloc's block is not zero");
	}
	put(machine, numbers[0], address, numbers[1]);
}

void chaos_op_realloc(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct chaos_block *block = &machine->blocks[numbers[0] % CHAOS_BLOCKS];
	const bool was = block->address;
	const size_t before = was ? block->bytes : 0;

	if (was)
		chaos_check(block);
	block->address = realloc(block->address, numbers[1]);
	count_block(block->address, numbers[1]);
	block->bytes = numbers[1];
	if (was) {
		atomic_fetch_add(&chaos_counts.frees, 1);
		check_bytes(block, before < block->bytes ? before : block->bytes);
	}
	chaos_fill(block);
}

void chaos_op_aligned(struct chaos_machine *machine, const unsigned long *numbers)
{
	void *address = NULL;

	if (posix_memalign(&address, (size_t)1 << numbers[2], numbers[1]))
		chaos_broken("no memory");
	if ((uintptr_t)address & (((size_t)1 << numbers[2]) - 1))
		chaos_broken("not aligned");
	put(machine, numbers[0], address, numbers[1]);
}

void chaos_op_free(struct chaos_machine *machine, const unsigned long *numbers)
{
	release(&machine->blocks[numbers[0] % CHAOS_BLOCKS]);
}

void chaos_op_look(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct chaos_block *block = &machine->blocks[numbers[0] % CHAOS_BLOCKS];

	if (block->address)
		chaos_check(block);
}

/* ------------------------------------------------------------------ mappings of its own */

static void release_area(struct chaos_block *area)
{
	if (!area->address)
		return;
	chaos_check(area);
	chaos_unmap(area->address, area->bytes);
	area->address = NULL;
}

void chaos_op_map(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct chaos_block *area = &machine->areas[numbers[0] % CHAOS_AREAS];

	release_area(area);
	area->bytes = numbers[1] * PAGE;
	area->address = chaos_map(area->bytes, 0);
	chaos_fill(area);
}

void chaos_op_remap(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct chaos_block *area = &machine->areas[numbers[0] % CHAOS_AREAS];
	const size_t before = area->bytes, bytes = numbers[1] * PAGE;
	void *address;

	if (!area->address)
		return;
	address = mremap(area->address, before, bytes, MREMAP_MAYMOVE);
	if (address == MAP_FAILED)
		chaos_broken("cannot remap: %s", strerror(errno));
	area->address = address;
	area->bytes = bytes;
	check_bytes(area, before < bytes ? before : bytes);
	chaos_fill(area);
}

void chaos_op_protect(struct chaos_machine *machine, const unsigned long *numbers)
{
	struct chaos_block *area = &machine->areas[numbers[0] % CHAOS_AREAS];

	if (!area->address)
		return;
	if (mprotect(area->address, area->bytes, PROT_READ))
		chaos_broken("cannot protect: %s", strerror(errno));
	chaos_check(area);
	if (mprotect(area->address, area->bytes, PROT_READ | PROT_WRITE))
		chaos_broken("cannot open again: %s", strerror(errno));
}

/* ------------------------------------------------------------------ addresses that it keeps */

void chaos_op_take(struct chaos_machine *machine, const unsigned long *numbers)
{
	machine->allocators[numbers[0] % CHAOS_POINTERS] = malloc;
	machine->releases[numbers[0] % CHAOS_POINTERS] = free;
}

void chaos_op_call(struct chaos_machine *machine, const unsigned long *numbers)
{
	const unsigned i = numbers[0] % CHAOS_POINTERS;
	void *address;

	if (!machine->allocators[i])
		return;
	address = machine->allocators[i](numbers[1]);
	count_block(address, numbers[1]);
	memset(address, 1, numbers[1]);
	machine->releases[i](address);
	atomic_fetch_add(&chaos_counts.frees, 1);
}

static struct __attribute__((packed)) {
	char before;
	void *(*volatile allocate)(size_t);
	void (*volatile release)(void *);
} packed[CHAOS_MACHINES];

/* Called as it was stored, then taken again. */
void chaos_op_take_packed(struct chaos_machine *machine, const unsigned long *numbers)
{
	(void)numbers;
	if (packed[machine->index].allocate) {
		void *address = packed[machine->index].allocate(100);

		count_block(address, 100);
		packed[machine->index].release(address);
		atomic_fetch_add(&chaos_counts.frees, 1);
	}
	if (chaos_random(machine, 63) == 0 || !packed[machine->index].allocate) {
		packed[machine->index].allocate = malloc;
		packed[machine->index].release = free;
	}
}

static void *(**sealed[CHAOS_MACHINES])(size_t);

void chaos_op_take_sealed(struct chaos_machine *machine, const unsigned long *numbers)
{
	void *(***page)(size_t) = &sealed[machine->index];

	(void)numbers;
	if (!*page)
		*page = chaos_map(PAGE, 0);
	else
		chaos_free((*page)[1](100)), count_block(*page, 100);
	if ((*page)[1] && chaos_random(machine, 63))
		return;
	mprotect(*page, PAGE, PROT_READ | PROT_WRITE);
	(*page)[1] = malloc;
	mprotect(*page, PAGE, PROT_READ);
}

/* ------------------------------------------------------------------ many, and odd ones */

/* No two of them become one. */
void chaos_op_maps(struct chaos_machine *machine, const unsigned long *numbers)
{
	unsigned char *address = chaos_map(numbers[0] * PAGE, 0);

	(void)machine;
	for (unsigned long i = 0; i < numbers[0]; i += 2) {
		if (mprotect(address + i * PAGE, PAGE, PROT_READ))
			chaos_broken("cannot protect: %s", strerror(errno));
	}
	/* They stay. */
	atomic_fetch_add(&chaos_counts.unmaps, 1);
}

void chaos_op_growsdown(struct chaos_machine *machine, const unsigned long *numbers)
{
	enum { ROOM = 512 << 10 };
	unsigned char *room = chaos_map(ROOM, 0), *top = room + ROOM;

	(void)machine;
	chaos_unmap(room, ROOM);
	if (mmap(top - PAGE, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1,
		 0) == MAP_FAILED)
		return;
	for (unsigned long i = 1; i <= numbers[0]; i++)
		top[-(long)(i * PAGE)] = 1;
	munmap(top - numbers[0] * PAGE, numbers[0] * PAGE);
}

void chaos_memory_end(struct chaos_machine *machine)
{
	chaos_self = machine;
	for (unsigned i = 0; i < CHAOS_BLOCKS; i++)
		release(&machine->blocks[i]);
	for (unsigned i = 0; i < CHAOS_AREAS; i++)
		release_area(&machine->areas[i]);
	if (sealed[machine->index])
		chaos_unmap(sealed[machine->index], PAGE);
	chaos_self = &chaos_machines[0];
}
