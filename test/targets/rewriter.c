/* Changes the code of a function of its own, as tools do that hook functions where they begin:
 * "over" saves its first bytes and writes a jump over them, "back" writes the saved ones again.
 * "call" calls it. Static: limpet hooks the same bytes. */
#include "test/targets/target.h"

#include <malloc.h>
#include <sys/mman.h>

#define BYTES 12u
#define PAGE 4096u

static uint8_t saved[BYTES];
static unsigned long calls;

static void *instead(size_t size)
{
	calls++;
	return malloc(size);
}

static void write_code(const uint8_t *bytes)
{
	uint8_t *code = (uint8_t *)(uintptr_t)valloc;
	void *page = (void *)((uintptr_t)code / PAGE * PAGE);

	if (mprotect(page, 2 * (size_t)PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		target_broken("mprotect: %s", strerror(errno));
	memcpy(code, bytes, BYTES);
	if (mprotect(page, 2 * (size_t)PAGE, PROT_READ | PROT_EXEC))
		target_broken("mprotect: %s", strerror(errno));
}

int main(void)
{
	/* movabs $instead, %rax; jmp *%rax */
	uint8_t jump[BYTES] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
	const uint64_t address = (uint64_t)(uintptr_t)instead;
	void *(*volatile called)(size_t) = valloc;
	unsigned long number;
	char line[64];

	memcpy(jump + 2, &address, sizeof(address));
	target_say("ready %d", getpid());
	while (target_listen(line, sizeof(line)) && !target_word(line, "quit", &number)) {
		if (target_word(line, "over", &number)) {
			memcpy(saved, (const void *)(uintptr_t)valloc, BYTES);
			write_code(jump);
		} else if (target_word(line, "back", &number)) {
			write_code(saved);
		} else {
			void *block = called(1000);

			if (!block)
				target_broken("no memory");
			free(block);
		}
		target_say("done %lu", calls);
	}
	return 0;
}
