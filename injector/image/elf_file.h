/* Reads of an ELF file what preflight asks of an executable: its class, interpreter, symbol names
 * and texts. Everything in the file is hostile input: each offset and count is checked, memory is
 * bounded, and the file is read, not mapped (one that is cut short while we look at it would end us
 * by SIGBUS). Layouts: System V ABI, chapters 4 and 5. */
#ifndef LIMPET_INJECTOR_IMAGE_ELF_FILE_H
#define LIMPET_INJECTOR_IMAGE_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

struct limpet_elf_file;

/* Reads the headers through `fd`, which stays the caller's and must stay open as long as the file.
 * -ENOEXEC: no ELF file; -EBADMSG: a broken one. A file of another class than this program's
 * (32-bit) opens, but has no interpreter, sections or symbols. */
int limpet_elf_file_open(int fd, struct limpet_elf_file **ret_file) LIMPET_MUST_CHECK;
void limpet_elf_file_free(struct limpet_elf_file *file);

/* Whether class, byte order and machine are those of this very program. */
bool limpet_elf_file_is_native(const struct limpet_elf_file *file);
unsigned limpet_elf_file_bits(const struct limpet_elf_file *file); /* 32 or 64 */
/* PT_INTERP, or NULL. */
const char *limpet_elf_file_interpreter(const struct limpet_elf_file *file);
bool limpet_elf_file_has_section(const struct limpet_elf_file *file, const char *name);
/* Where it is loaded, as the file counts addresses. False: there is none, or it is not loaded. */
bool limpet_elf_file_loaded_section(const struct limpet_elf_file *file, const char *name,
				    uint64_t *ret_address, uint64_t *ret_bytes);
/* Whether the file has a .symtab: without one a name that is not found proves nothing. */
bool limpet_elf_file_has_symtab(const struct limpet_elf_file *file);

/* Calls `visit` with the name of each defined function or object in .symtab and .dynsym, until it
 * answers false. The name is valid during the call. 0 or -errno; -EFBIG: larger than we read. */
int limpet_elf_file_symbols(struct limpet_elf_file *file,
			    bool (*visit)(void *context, const char *name), void *context);

/* A defined function of .symtab or .dynsym; the name is valid during the call. */
struct limpet_elf_function {
	const char *name;
	uint64_t value, bytes; /* as the file counts addresses; bytes 0: not said */
	bool local, weak;
};

/* Calls `visit` with each of them, until it answers false; one that both tables have comes twice.
 * As limpet_elf_file_symbols(). */
int limpet_elf_file_functions(struct limpet_elf_file *file,
			      bool (*visit)(void *context,
					    const struct limpet_elf_function *function),
			      void *context);

/* Calls `visit` with each place in .rodata where `needle` (at least 2 bytes) stands, until it
 * answers false: `at` points to it, with `before` readable bytes before and `after` bytes from it
 * on (at least 64 of each, unless .rodata ends there). At most the first 64 MiB are searched. */
int limpet_elf_file_search(const struct limpet_elf_file *file, const char *needle,
			   bool (*visit)(void *context, const char *at, size_t before,
					 size_t after),
			   void *context);

#endif
