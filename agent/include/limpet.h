/* clang-format off */
/* Lets a pool report its own blocks to limpet. Nothing to link: the functions below do nothing
 * until a capture hooks them at their entry. Each costs a call.
 *
 *	#include <limpet.h>
 *	LIMPET_POOL(arena)
 *
 *	void *arena_take(size_t size)
 *	{
 *		...	chunk = limpet_pool_arena_chunk(malloc, CHUNK_BYTES);
 *		return limpet_pool_arena_allocated(block, size);
 *	}
 *	void arena_give(void *block)
 *	{
 *		limpet_pool_arena_freed(block);
 *		...	limpet_pool_arena_chunk_back(free, chunk);
 *	}
 *
 * Call _allocated before a block is handed out, and _freed before its memory is used again. Memory
 * that a pool gets by _chunk and returns by _chunk_back is not counted; the pool's blocks are.
 * Reports show the name as the allocator's. Programs must keep their symbol table (not be
 * stripped). */
/* clang-format on */
#ifndef LIMPET_H
#define LIMPET_H

#include <stddef.h>

#if defined(__clang__)
#define LIMPET_POOL_FUNCTION __attribute__((noinline, weak, visibility("hidden")))
#else
#define LIMPET_POOL_FUNCTION __attribute__((noinline, noclone, noipa, weak, visibility("hidden")))
#endif

/* Space for a jump, in one instruction. */
#if defined(__x86_64__)
#define LIMPET_POOL_ROOM ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00"
#else
#define LIMPET_POOL_ROOM "nop"
#endif

#define LIMPET_POOL(name)                                                                          \
	LIMPET_POOL_FUNCTION void *limpet_pool_##name##_allocated(void *block, size_t size);       \
	LIMPET_POOL_FUNCTION void limpet_pool_##name##_freed(void *block);                         \
	LIMPET_POOL_FUNCTION void *limpet_pool_##name##_chunk(void *(*make)(size_t), size_t size); \
	LIMPET_POOL_FUNCTION void limpet_pool_##name##_chunk_back(void (*release)(void *),         \
								  void *chunk);                    \
	LIMPET_POOL_FUNCTION void *limpet_pool_##name##_allocated(void *block, size_t size)        \
	{                                                                                          \
		__asm__ volatile(LIMPET_POOL_ROOM : "+r"(block) : "r"(size) : "memory");           \
		return block;                                                                      \
	}                                                                                          \
	LIMPET_POOL_FUNCTION void limpet_pool_##name##_freed(void *block)                          \
	{                                                                                          \
		__asm__ volatile(LIMPET_POOL_ROOM : : "r"(block) : "memory");                      \
	}                                                                                          \
	LIMPET_POOL_FUNCTION void *limpet_pool_##name##_chunk(void *(*make)(size_t), size_t size)  \
	{                                                                                          \
		void *chunk;                                                                       \
		__asm__ volatile(LIMPET_POOL_ROOM : : "r"(make), "r"(size) : "memory");            \
		chunk = make(size);                                                                \
		__asm__ volatile("" : : "r"(chunk) : "memory");                                    \
		return chunk;                                                                      \
	}                                                                                          \
	LIMPET_POOL_FUNCTION void limpet_pool_##name##_chunk_back(void (*release)(void *),         \
								  void *chunk)                     \
	{                                                                                          \
		__asm__ volatile(LIMPET_POOL_ROOM : : "r"(release), "r"(chunk) : "memory");        \
		release(chunk);                                                                    \
		__asm__ volatile("" : : : "memory");                                               \
	}

#endif
