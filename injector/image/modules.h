/* The modules of a target, read out of its memory (their files may be deleted or replaced). */
#ifndef LIMPET_INJECTOR_IMAGE_MODULES_H
#define LIMPET_INJECTOR_IMAGE_MODULES_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "common/slots.h"
#include "injector/proc/proc.h"

#define LIMPET_BUILD_ID_MAX 32u

struct limpet_module {
	char *path;                    /* as /proc/PID/maps has it; "[vdso]" */
	uint64_t bias;                 /* link_map.l_addr, dlpi_addr */
	uint64_t start, end;           /* lowest and highest mapped address */
	uint64_t map_end;              /* of the first mapping */
	uint64_t text_start, text_end; /* of the executable segments */
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
	bool in_list;   /* in the loader's own list of modules; a static program, which has none */
	uint32_t space; /* number of its namespace (dlmopen); 0: the program's */

	uint64_t *budget; /* bytes that may still be read of all modules; NULL: no bound */
	/* Of an agent that is there: symbols whose values lead to it are read as they were. */
	const struct limpet_originals *originals;
	uint64_t search; /* of the last look-up that came by: a list may go round */
	enum limpet_module_answer { LIMPET_NOT_ASKED, LIMPET_NO, LIMPET_YES } has_malloc;

	/* The dynamic symbol table, copied on demand, and where it is; 0: not copied yet. */
	Elf64_Sym *symbols;
	uint64_t symbol_count;
	uint64_t symbols_address;
	char *strings;
	uint64_t string_bytes;
};

struct limpet_modules {
	pid_t pid;
	struct limpet_maps maps;
	struct limpet_module *list; /* by address */
	size_t count;
	uint64_t r_debug;                   /* address of struct r_debug; 0: unknown */
	bool fully_static;                  /* the program has no dynamic linker */
	uint64_t *budget;                   /* of the modules */
	struct limpet_originals *originals; /* likewise; NULL: no agent is there */
	uint64_t searches;
};

/* Every ELF image that is mapped with code, those in the loader's list marked. */
int limpet_modules_read(pid_t pid, struct limpet_modules *ret_modules,
			struct limpet_err *err) LIMPET_MUST_CHECK;
void limpet_modules_done(struct limpet_modules *modules);
const struct limpet_module *limpet_modules_find(const struct limpet_modules *modules,
						uint64_t address);

/* Notes that `bytes` of it are to be read. False: a program of that size is made to keep us busy,
 * and the rest of it is not looked at. */
bool limpet_module_spend(const struct limpet_module *module, uint64_t bytes) LIMPET_MUST_CHECK;

/* Whether it is the C library, and a whole one: musl's is its loader, too. */
bool limpet_module_is_libc(pid_t pid, struct limpet_module *module);
/* The same, also of one that goes while it is asked: another copy of it, in another namespace, has
 * its file. */
bool limpet_modules_is_libc(struct limpet_modules *modules, struct limpet_module *module);

/* Whether it defines malloc; remembered. */
bool limpet_module_has_malloc(pid_t pid, struct limpet_module *module);

/* Address of a defined dynamic symbol, 0 if there is none. ret_symbol may be NULL. */
uint64_t limpet_module_symbol(pid_t pid, struct limpet_module *module, const char *name,
			      Elf64_Sym *ret_symbol);
/* Calls `found` with the place of the value of each dynamic symbol under which the module defines
 * that function, in any version, as a member of the family that does `op`. */
void limpet_module_names_of(pid_t pid, struct limpet_module *module, uint64_t function, uint16_t op,
			    void (*found)(uint64_t address, void *context), void *context);
/* The same, in the first module in the loader's order (program first) that defines it. */
uint64_t limpet_modules_symbol(struct limpet_modules *modules, const char *name,
			       struct limpet_module **ret_module);

/* In how many modules of that namespace it is defined, and its address in the last of these. */
uint32_t limpet_modules_symbol_in_space(struct limpet_modules *modules, uint32_t space,
					const char *name, uint64_t *ret_address);

/* Copies of the relocation tables, for limpet_slots_scan(). Free with limpet_module_tables_done. */
int limpet_module_tables_read(pid_t pid, struct limpet_module *module,
			      struct limpet_slot_tables *ret_tables) LIMPET_MUST_CHECK;
void limpet_module_tables_done(struct limpet_slot_tables *tables);

/* A descriptor of the mapped file itself, whatever has become of its name; for lack of the right to
 * that, of the name as the target sees it, if it still is the same file. -1: neither. */
int limpet_module_open(pid_t pid, const struct limpet_module *module);
/* The same, to be read later (limpet_open_named): what a program may serve is only named. */
int limpet_module_hold(pid_t pid, const struct limpet_module *module);

/* Whether the list of modules changed since `modules` was read: compares the loader's list. Cheap.
 * Without one (r_debug 0) it never does. */
int limpet_modules_fingerprint(pid_t pid, uint64_t r_debug, uint64_t *ret_fingerprint);

#endif
