/* The allocation family: the symbols that are hooked, and the op of each.
 *
 * One list for the injector, which plans the slots of the modules that are loaded, and for the
 * agent, which patches those of modules that are loaded later. The index in the list is the
 * `symbol` of struct limpet_hook. Freestanding.
 *
 * X(name, op, flags) */
#ifndef LIMPET_COMMON_FAMILY_H
#define LIMPET_COMMON_FAMILY_H

#include "common/wire.h"

/* C++ operators are hooked only if the allocator has its own; libstdc++'s call malloc. */
#define LIMPET_FAMILY_CXX 1u
/* The mmap family has separate totals. */
#define LIMPET_FAMILY_MMAP 2u
#define LIMPET_FAMILY_LOADER 4u
/* A loader function that closes a module. */
#define LIMPET_FAMILY_CLOSES 8u
/* Used by unwinders to find tables: hooked if the agent is mapped, since the linker does not list
 * it then. */
#define LIMPET_FAMILY_FINDER 16u
/* A loader function that returns an address: (handle, name, ...). */
#define LIMPET_FAMILY_ANSWERS 32u
/* jemalloc's mallctl: hooked only where the same module has the function of LIMPET_NAME_TO_MIB. */
#define LIMPET_FAMILY_CONTROL 64u
#define LIMPET_NAME_TO_MIB "mallctlnametomib"

#define LIMPET_FAMILY(X)                                                   \
	X("malloc", MALLOC, 0)                                             \
	X("calloc", CALLOC, 0)                                             \
	X("realloc", REALLOC, 0)                                           \
	X("reallocarray", REALLOCARRAY, 0)                                 \
	X("free", FREE, 0)                                                 \
	X("cfree", FREE, 0)                                                \
	X("free_sized", FREE, 0)                                           \
	X("free_aligned_sized", FREE, 0)                                   \
	X("posix_memalign", POSIX_MEMALIGN, 0)                             \
	X("aligned_alloc", MEMALIGN, 0)                                    \
	X("memalign", MEMALIGN, 0)                                         \
	X("valloc", MALLOC, 0)                                             \
	X("pvalloc", MALLOC, 0)                                            \
	X("__libc_malloc", MALLOC, 0)                                      \
	X("__libc_calloc", CALLOC, 0)                                      \
	X("__libc_realloc", REALLOC, 0)                                    \
	X("__libc_reallocarray", REALLOCARRAY, 0)                          \
	X("__libc_free", FREE, 0)                                          \
	X("__libc_cfree", FREE, 0)                                         \
	X("__libc_memalign", MEMALIGN, 0)                                  \
	X("__libc_valloc", MALLOC, 0)                                      \
	X("__libc_pvalloc", MALLOC, 0)                                     \
	X("__posix_memalign", POSIX_MEMALIGN, 0)                           \
	X("mallctl", CONTROL, LIMPET_FAMILY_CONTROL)                       \
	X("mallctlbymib", CONTROL_BY_MIB, LIMPET_FAMILY_CONTROL)           \
	X("mmap", MMAP, LIMPET_FAMILY_MMAP)                                \
	X("mmap64", MMAP, LIMPET_FAMILY_MMAP)                              \
	X("munmap", MUNMAP, LIMPET_FAMILY_MMAP)                            \
	X("mremap", MREMAP, LIMPET_FAMILY_MMAP)                            \
	X("_Znwm", MALLOC, LIMPET_FAMILY_CXX)                              \
	X("_Znam", MALLOC, LIMPET_FAMILY_CXX)                              \
	X("_ZnwmRKSt9nothrow_t", MALLOC, LIMPET_FAMILY_CXX)                \
	X("_ZnamRKSt9nothrow_t", MALLOC, LIMPET_FAMILY_CXX)                \
	X("_ZnwmSt11align_val_t", MALLOC, LIMPET_FAMILY_CXX)               \
	X("_ZnamSt11align_val_t", MALLOC, LIMPET_FAMILY_CXX)               \
	X("_ZnwmSt11align_val_tRKSt9nothrow_t", MALLOC, LIMPET_FAMILY_CXX) \
	X("_ZnamSt11align_val_tRKSt9nothrow_t", MALLOC, LIMPET_FAMILY_CXX) \
	X("_ZdlPv", FREE, LIMPET_FAMILY_CXX)                               \
	X("_ZdaPv", FREE, LIMPET_FAMILY_CXX)                               \
	X("_ZdlPvm", FREE, LIMPET_FAMILY_CXX)                              \
	X("_ZdaPvm", FREE, LIMPET_FAMILY_CXX)                              \
	X("_ZdlPvRKSt9nothrow_t", FREE, LIMPET_FAMILY_CXX)                 \
	X("_ZdaPvRKSt9nothrow_t", FREE, LIMPET_FAMILY_CXX)                 \
	X("_ZdlPvSt11align_val_t", FREE, LIMPET_FAMILY_CXX)                \
	X("_ZdaPvSt11align_val_t", FREE, LIMPET_FAMILY_CXX)                \
	X("_ZdlPvmSt11align_val_t", FREE, LIMPET_FAMILY_CXX)               \
	X("_ZdaPvmSt11align_val_t", FREE, LIMPET_FAMILY_CXX)               \
	X("_ZdlPvSt11align_val_tRKSt9nothrow_t", FREE, LIMPET_FAMILY_CXX)  \
	X("_ZdaPvSt11align_val_tRKSt9nothrow_t", FREE, LIMPET_FAMILY_CXX)  \
	X("dlopen", LOADER, LIMPET_FAMILY_LOADER)                          \
	X("dlmopen", LOADER, LIMPET_FAMILY_LOADER)                         \
	X("dlsym", LOADER, LIMPET_FAMILY_LOADER | LIMPET_FAMILY_ANSWERS)   \
	X("dlvsym", LOADER, LIMPET_FAMILY_LOADER | LIMPET_FAMILY_ANSWERS)  \
	X("dlclose", LOADER, LIMPET_FAMILY_LOADER | LIMPET_FAMILY_CLOSES)  \
	X("_dl_find_object", FINDER, LIMPET_FAMILY_FINDER)

#define LIMPET_FAMILY_ONE(name, op, flags) +1
enum { LIMPET_FAMILY_COUNT = 0 LIMPET_FAMILY(LIMPET_FAMILY_ONE) };
#undef LIMPET_FAMILY_ONE

struct limpet_family_member {
	char name[44];
	uint16_t op;
	uint16_t flags;
};

/* In common/family.c; without relocations, so that the agent can contain it. */
extern const struct limpet_family_member limpet_family[LIMPET_FAMILY_COUNT];

/* Index of `name` (at most `limit` readable bytes, NUL-terminated within them), or -1. */
int limpet_family_find(const char *name, uint64_t limit);
/* Index of the first member with this op. LIMPET_OP_NONE and LIMPET_OP_INSIDE, which have none, get
 * that of malloc, a function without flags. */
uint32_t limpet_family_first(uint16_t op);

#endif
