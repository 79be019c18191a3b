/* An allocator that takes its memory from one array, in order, and never uses it twice. Each
 * function has a second name. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 16 };

static _Alignas(16) uint8_t memory[64u << 20];
static atomic_size_t used;

void *malloc(size_t bytes)
{
	size_t whole = (bytes + HEAD + 15) / 16 * 16, at = atomic_fetch_add(&used, whole);

	if (whole < bytes || at > sizeof(memory) || whole > sizeof(memory) - at) {
		errno = ENOMEM;
		return NULL;
	}
	memcpy(memory + at, &bytes, sizeof(bytes));
	return memory + at + HEAD;
}

void *calloc(size_t count, size_t bytes)
{
	size_t product;

	return __builtin_mul_overflow(count, bytes, &product) ? NULL : malloc(product);
}

void *realloc(void *block, size_t bytes)
{
	void *other = malloc(bytes);
	size_t old = 0;

	if (block && other) {
		memcpy(&old, (uint8_t *)block - HEAD, sizeof(old));
		memcpy(other, block, old < bytes ? old : bytes);
	}
	return other;
}

/* Whoever uses it again sees that. */
void free(void *block)
{
	size_t bytes = 0;

	if (!block)
		return;
	memcpy(&bytes, (uint8_t *)block - HEAD, sizeof(bytes));
	memset(block, 0xdd, bytes);
}

/* Not jemalloc's. */
int mallctl(int number);
int mallctl(int number)
{
	return number + 1;
}

/* clang-format off */
#define ALIAS(name, of) extern __typeof__(of) name __attribute__((alias(#of), copy(of)))
/* clang-format on */
ALIAS(alias_malloc, malloc);
ALIAS(alias_calloc, calloc);
ALIAS(alias_realloc, realloc);
ALIAS(alias_free, free);
