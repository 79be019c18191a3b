/* lame: a program with an allocator under jemalloc's private names, one function of which cannot be
 * hooked: it comes back to its own beginning.
 *
 * Commands: "run N": N blocks by je_malloc, a tenth of them kept, and N by je_valloc; "count": what
 * was done by the first since the start, as JSON; "quit". */
#include "test/targets/target.h"

enum { BLOCK_BYTES = 4096, BLOCKS = 8192 };

static char memory[BLOCKS][BLOCK_BYTES] __attribute__((aligned(BLOCK_BYTES)));
static void *free_blocks[BLOCKS];
static unsigned long free_count;
static unsigned long allocations, frees, allocated_bytes, kept;

void *je_malloc(size_t bytes);
void *je_valloc(size_t bytes);
void je_free(void *block);
void *je_arena_take(size_t bytes);

TARGET_FRAME void *je_arena_take(size_t bytes)
{
	if (bytes > BLOCK_BYTES || !free_count)
		return NULL;
	return free_blocks[--free_count];
}

TARGET_FRAME void *je_malloc(size_t bytes)
{
	void *block = je_arena_take(bytes);

	TARGET_KEEP_FRAME();
	return block;
}

TARGET_FRAME void je_free(void *block)
{
	free_blocks[free_count++] = block;
	TARGET_KEEP_FRAME();
}

/* Counts down to what it can do, over and over. */
__asm__(".text\n"
	".globl je_valloc\n"
	".type je_valloc, @function\n"
	"je_valloc:\n"
	"	xorl %eax, %eax\n"
	"1:	incl %eax\n"
	"	cmpl $3, %eax\n"
	"	jb 1b\n"
	"	jmp je_arena_take\n"
	".size je_valloc, .-je_valloc\n");

TARGET_FRAME static void *keep(size_t bytes)
{
	void *block = je_malloc(bytes);

	TARGET_KEEP_FRAME();
	return block;
}

static void round_of(unsigned long i)
{
	size_t bytes = 20 + i % 700;
	char *block = keep(bytes), *other = je_valloc(bytes);

	if (!block || !other)
		target_broken("no memory");
	memset(block, 1, bytes);
	memset(other, 2, bytes);
	if (block[0] != 1 || block[bytes - 1] != 1)
		target_broken("a block changed");
	allocations++;
	allocated_bytes += bytes;
	je_free(other);
	if (i % 10 == 0) {
		kept++;
		return;
	}
	je_free(block);
	frees++;
}

int main(void)
{
	char line[64];
	unsigned long number;

	while (free_count < BLOCKS) {
		free_blocks[free_count] = memory[free_count];
		free_count++;
	}
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line))) {
		if (target_word(line, "run", &number)) {
			for (unsigned long i = 0; i < number; i++)
				round_of(i);
			target_say("ran");
		} else if (target_word(line, "count", &number)) {
			target_say("{\"allocations\":%lu,\"frees\":%lu,\"allocated_bytes\":%lu,"
				   "\"kept\":%lu}",
				   allocations, frees, allocated_bytes, kept);
		} else {
			break;
		}
	}
	return 0;
}
