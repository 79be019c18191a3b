/* The modules of a target, read from its memory (their files may be deleted or replaced). */
#ifndef LIMPET_INJECTOR_ELF_MODULES_H
#define LIMPET_INJECTOR_ELF_MODULES_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/slots.h"
#include "injector/proc/proc.h"

struct limpet_target;

#define LIMPET_BUILD_ID_MAX 32u

struct limpet_module {
	char *path;                    /* as /proc/PID/maps has it; "[vdso]" */
	uint64_t bias;                 /* link_map.l_addr, dlpi_addr */
	uint64_t start, end;           /* lowest and highest mapped address */
	uint64_t map_start, map_end;   /* the first mapping of its file */
	uint64_t text_start, text_end; /* of the executable segments */
	uint64_t text_offset;          /* of text_start in the file */
	uint64_t last_head;            /* the last segment that maps the file's first page */
	uint64_t phdr;                 /* address of the program headers, dlpi_phdr */
	uint64_t dynamic;              /* address; 0: none */
	uint64_t dynamic_bytes;
	uint64_t eh_frame_hdr, eh_frame_hdr_bytes;
	uint64_t relro_start, relro_end;
	bool has_interpreter;
	uint32_t dev_major, dev_minor;
	uint64_t inode;
	uint8_t build_id[LIMPET_BUILD_ID_MAX];
	uint32_t build_id_bytes;
	bool executable; /* the program itself */
	bool loader;     /* ld.so: never patched */
	bool vdso;
	bool libc_loader; /* musl's: loader and C library in one, without unwind tables */
	bool agent;       /* one of ours */
	bool in_list;   /* in the loader's list of modules; also a static program, which has no list
			 */
	uint32_t space; /* number of its namespace (dlmopen); 0: the program's */

	uint64_t *budget; /* bytes that may still be read of all modules; NULL: no bound */
	/* For modules_memory.h, which reads without mapping pages; NULL: they may be mapped. */
	struct limpet_module_memory *memory;
	/* If an agent is present: symbols whose values lead to it are read as they were before. */
	const struct limpet_originals *originals;
	uint64_t search; /* number of the last look-up that reached it: the list may be circular */
	enum limpet_module_answer { LIMPET_NOT_ASKED, LIMPET_NO, LIMPET_YES } has_malloc;

	/* The dynamic symbol table, copied on demand, and its address; 0: not copied yet. */
	Elf64_Sym *symbols;
	uint64_t symbol_count;
	uint64_t symbols_address;
	char *strings;
	uint64_t string_bytes;
};

struct limpet_modules {
	const struct limpet_target *target;
	struct limpet_maps maps;
	struct limpet_module *list; /* sorted by address */
	size_t count;
	uint64_t r_debug;                    /* address of struct r_debug; 0: unknown */
	bool fully_static;                   /* the program has no dynamic linker */
	uint32_t unlisted;                   /* modules of the loader's list without an entry */
	uint64_t *budget;                    /* of the modules */
	struct limpet_module_memory *memory; /* the same */
	struct limpet_originals *originals;  /* the same; NULL: no agent is present */
	uint64_t searches;
	uint32_t in_vain; /* how many modules of the loader's list were not found */
};

/* Every ELF image that is mapped with code; those in the loader's list are marked. Of the program
 * and of those in the list the code, and the header, may lie in other memory than their file's. */
int limpet_modules_read(const struct limpet_target *target, struct limpet_modules *ret_modules,
			struct limpet_err *err) LIMPET_MUST_CHECK;
/* The same by the files alone: nothing is read of the process's memory. Without the vdso, files
 * that cannot be opened, build ids, and what the loader knows; it may be empty. Only
 * limpet_modules_find() and what opens files work with it. */
int limpet_modules_of_files(const struct limpet_target *target,
			    struct limpet_modules *ret_modules) LIMPET_MUST_CHECK;
void limpet_modules_done(struct limpet_modules *modules);
const struct limpet_module *limpet_modules_find(const struct limpet_modules *modules,
						uint64_t address);
/* Whether the mapping is of the module's file. */
bool limpet_module_is_of(const struct limpet_module *module, const struct limpet_map *map);

/* Accounts for `bytes` of the module that will be read. False: the budget is used up, since a
 * program of that size only serves to keep us busy; the rest of it must not be read. */
bool limpet_module_spend(const struct limpet_module *module, uint64_t bytes) LIMPET_MUST_CHECK;

/* Whether it is the C library, and a complete one: musl's is its loader, too. */
bool limpet_module_is_libc(const struct limpet_target *target, struct limpet_module *module);
/* The same, also for a module that is unloaded meanwhile: another copy of it, in another namespace,
 * has the same file. */
bool limpet_modules_is_libc(struct limpet_modules *modules, struct limpet_module *module);

/* Whether it defines malloc; the answer is cached. */
bool limpet_module_has_malloc(const struct limpet_target *target, struct limpet_module *module);

/* Address of a defined dynamic symbol, 0 if there is none. ret_symbol may be NULL. */
uint64_t limpet_module_symbol(const struct limpet_target *target, struct limpet_module *module,
			      const char *name, Elf64_Sym *ret_symbol);
/* Calls `found` with the address of each function that the module exports. */
void limpet_module_exports(const struct limpet_target *target, struct limpet_module *module,
			   void (*found)(uint64_t address, void *context), void *context);
/* Calls `found` with the address of the value of each dynamic symbol under which the module defines
 * that function, in any version, as a member of the family that does `op`. */
void limpet_module_names_of(const struct limpet_target *target, struct limpet_module *module,
			    uint64_t function, uint16_t op,
			    void (*found)(uint64_t address, void *context), void *context);
/* The same, in the first module in the loader's order (program first) that defines it. */
uint64_t limpet_modules_symbol(struct limpet_modules *modules, const char *name,
			       struct limpet_module **ret_module);

/* How many modules of that namespace define it, and its address in the last of these. */
uint32_t limpet_modules_symbol_in_space(struct limpet_modules *modules, uint32_t space,
					const char *name, uint64_t *ret_address);

/* Copies of the relocation tables, for limpet_slots_scan(). Free with limpet_module_tables_done.
 * -ENOENT: the module has none. Its slots are unknown: -EFBIG: larger than any module's;
 * -EOPNOTSUPP: tables of another kind (DT_REL), which musl's loader reads; -ENOMEM. Others: it
 * cannot be read. */
int limpet_module_tables_read(const struct limpet_target *target, struct limpet_module *module,
			      struct limpet_slot_tables *ret_tables) LIMPET_MUST_CHECK;
void limpet_module_tables_done(struct limpet_slot_tables *tables);

/* Opens the mapped file itself, whatever its name is now. Without the permission for that, opens
 * its name as the target sees it, if that is still the same file. -1: neither. */
int limpet_module_open(const struct limpet_target *target, const struct limpet_module *module);
/* The same, to be read later (limpet_open_named): a file that the program may serve is only named.
 */
int limpet_module_hold(const struct limpet_target *target, const struct limpet_module *module);

/* Whether the list of modules changed since `modules` was read: compares the loader's list. Cheap.
 * Without a list (r_debug 0) it never changes. */
int limpet_modules_fingerprint(const struct limpet_target *target, uint64_t r_debug,
			       uint64_t *ret_fingerprint);
/* Whether the modules are those that were read: the loader's list still has that fingerprint, and
 * the same code of files is mapped. Then the mappings are those of this moment afterwards. */
bool limpet_modules_are_current(struct limpet_modules *modules, uint64_t fingerprint);

#endif
