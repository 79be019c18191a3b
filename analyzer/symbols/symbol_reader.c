#include "analyzer/symbols/symbol_reader.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <string.h>
#include <uthash.h>

#include "analyzer/symbols/demangle.h"
#include "analyzer/symbols/dwarfindex.h"
#include "analyzer/symbols/symbolize.h"
#include "analyzer/symbols/symtab.h"
#include "analyzer/symbols/texts.h"

/* A mangled name and the demangled one. */
struct name {
	UT_hash_handle hh;
	const char *function;
	char mangled[];
};

struct limpet_symbol_reader {
	const struct limpet_symbol_files *files; /* borrowed while opening only */
	Dwfl *dwfl;
	Dwfl_Module *module;
	struct limpet_symtab *symtab;
	struct limpet_dwarfindex *index; /* NULL: no DWARF */
	uint64_t dwarf_bias;
	Dwarf *alt; /* what dwz(1) moved to another file */
	int alt_fd;
	struct limpet_texts texts;
	struct name *names;
	struct limpet_symbol found[LIMPET_SYMBOL_MAX_INLINED];
};

/* ------------------------------------------------------------------ strings */

static const char *demangled(struct limpet_symbol_reader *s, const char *mangled)
{
	size_t length = strlen(mangled);
	struct name *name;
	char *plain;

	HASH_FIND(hh, s->names, mangled, length, name);
	if (name)
		return name->function;
	name = malloc(sizeof(*name) + length + 1);
	plain = limpet_demangle(mangled);
	if (!name || !plain) {
		free(name);
		free(plain);
		return NULL;
	}
	memcpy(name->mangled, mangled, length + 1);
	name->function = limpet_texts_keep(&s->texts, plain);
	free(plain);
	HASH_ADD_KEYPTR(hh, s->names, name->mangled, length, name);
	return name->function;
}

/* A path from a line table, without the "./" that compilers leave inside. */
static const char *intern_path(struct limpet_symbol_reader *s, const char *path)
{
	char *copy = strdup(path);
	const char *kept;
	char *dot;

	if (!copy)
		return NULL;
	while ((dot = strstr(copy, "/./")))
		memmove(dot, dot + 2, strlen(dot + 2) + 1);
	kept = limpet_texts_keep(&s->texts, copy);
	free(copy);
	return kept;
}

/* ------------------------------------------------------------------ opening */

static int no_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
		  char **file_name, Elf **elf)
{
	(void)module, (void)userdata, (void)name, (void)base, (void)file_name, (void)elf;
	return -1; /* the module was reported with its descriptor */
}

/* In place of dwfl_standard_find_debuginfo, which would ask debuginfod servers. */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file_name, const char *link, GElf_Word checksum,
			  char **debug_name)
{
	struct limpet_symbol_reader *s = *userdata;
	int fd;

	(void)module, (void)name, (void)base, (void)file_name;
	/* A name without a checksum is that of .gnu_debugaltlink, with a build-id of its own:
	 * attach_alt() finds it. */
	if (!s->files || (link && !checksum))
		return -1;
	fd = s->files->open_debug(s->files->context, link, checksum);
	if (fd < 0)
		return -1;
	/* libdwfl only stores the name. */
	*debug_name = strdup("debug");
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = no_elf,
	.find_debuginfo = find_debuginfo,
};

static int report_module(struct limpet_symbol_reader *s, int fd)
{
	LIMPET_CLOSE int owned = fd;
	void **userdata;
	Elf *elf;
	GElf_Addr bias;

	s->dwfl = dwfl_begin(&callbacks);
	if (!s->dwfl)
		return -ENOMEM;
	dwfl_report_begin(s->dwfl);
	/* Base 0 with add_p_vaddr: addresses are the file's own. */
	s->module = dwfl_report_elf(s->dwfl, "module", "module", owned, 0, true);
	if (!s->module)
		return -ENOEXEC;
	limpet_take_fd(&owned);
	dwfl_report_end(s->dwfl, NULL, NULL);
	dwfl_module_info(s->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = s;
	elf = dwfl_module_getelf(s->module, &bias);
	return elf && !bias ? 0 : -ENOEXEC;
}

/* dwz(1) moves names to a file shared by several programs: without it functions have no names.
 * libdw looks for it only in the system's directories. */
static void attach_alt(struct limpet_symbol_reader *s, Dwarf *dwarf)
{
	const char *name;
	const void *build_id;
	ssize_t bytes = dwelf_dwarf_gnu_debugaltlink(dwarf, &name, &build_id);
	LIMPET_CLOSE int fd = -1;

	if (!s->files || bytes <= 0 || dwarf_getalt(dwarf))
		return;
	fd = s->files->open_alt(s->files->context, build_id, (size_t)bytes, name);
	if (fd < 0)
		return;
	s->alt = dwarf_begin(fd, DWARF_C_READ);
	if (s->alt) {
		s->alt_fd = limpet_take_fd(&fd);
		dwarf_setalt(dwarf, s->alt);
	}
}

int limpet_symbol_reader_open(int fd, const struct limpet_symbol_files *files,
			      struct limpet_symbol_reader **ret, struct limpet_err *err)
{
	struct limpet_symbol_reader *s = calloc(1, sizeof(*s));
	Dwarf_Addr bias = 0;
	Dwarf *dwarf;
	int result;

	if (!s) {
		close(fd);
		return limpet_err_set(err, -ENOMEM, "no memory");
	}
	s->files = files;
	result = report_module(s, fd);
	if (result < 0) {
		limpet_err_set(err, result, "%s", dwfl_errmsg(-1));
		limpet_symbol_reader_close(s);
		return result;
	}
	dwarf = dwfl_module_getdwarf(s->module, &bias);
	if (dwarf) {
		attach_alt(s, dwarf);
		s->dwarf_bias = bias;
		s->index = limpet_dwarfindex_new(dwarf);
	}
	result = limpet_symtab_new(s->module, &s->symtab);
	if (result < 0) {
		limpet_err_set(err, result, "no memory for its symbols");
		limpet_symbol_reader_close(s);
		return result;
	}
	s->files = NULL;
	*ret = s;
	return 0;
}

void limpet_symbol_reader_close(struct limpet_symbol_reader *s)
{
	struct name *name;

	if (!s)
		return;
	limpet_texts_done(&s->texts);
	/* HASH_CLEAR frees the table and leaves its members linked. */
	name = s->names;
	HASH_CLEAR(hh, s->names);
	while (name) {
		struct name *next = name->hh.next;

		free(name);
		name = next;
	}
	limpet_dwarfindex_free(s->index);
	limpet_symtab_free(s->symtab);
	if (s->dwfl)
		dwfl_end(s->dwfl);
	if (s->alt) {
		dwarf_end(s->alt);
		close(s->alt_fd);
	}
	free(s);
}

bool limpet_symbol_reader_has_lines(const struct limpet_symbol_reader *s)
{
	return s->index != NULL;
}

/* ------------------------------------------------------------------ resolving */

static const char *symbol_function(struct limpet_symbol_reader *s, uint64_t address)
{
	const char *name = limpet_symtab_find(s->symtab, address);

	return name ? demangled(s, name) : NULL;
}

static const char *die_string(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

static bool is_mangled(const char *name)
{
	return !strncmp(name, "_Z", 2) || !strncmp(name, "_R", 2) || !strncmp(name, "_D", 2);
}

/* A mangled linkage name includes scope and parameters. Others are for the assembler: that of
 * malloc is __GI___libc_malloc, while the symbol table has the well-known name, if the function
 * owns the code at `address` and is not inlined there. */
static const char *scope_function(struct limpet_symbol_reader *s,
				  struct limpet_dwarfindex_scope *scope, uint64_t address)
{
	const char *name = die_string(&scope->die, DW_AT_linkage_name);
	const char *symbol;
	char *qualified;

	if (!name)
		name = die_string(&scope->die, DW_AT_MIPS_linkage_name);
	if (name && is_mangled(name))
		return demangled(s, name);
	symbol = scope->inlined ? NULL : symbol_function(s, address);
	if (symbol)
		return symbol;
	name = die_string(&scope->die, DW_AT_name);
	qualified = name ? limpet_dwarfindex_qualify(s->index, scope, name) : NULL;
	if (!qualified)
		return NULL;
	/* A C name, and so perhaps one of Nim's, if there is no scope around it. */
	name = demangled(s, qualified);
	free(qualified);
	return name;
}

static void set_line(struct limpet_symbol_reader *s, Dwarf_Die *unit, uint64_t address,
		     struct limpet_symbol *symbol)
{
	Dwarf_Line *line = dwarf_getsrc_die(unit, address);
	const char *file;
	int number = 0;

	if (!line)
		return;
	file = dwarf_linesrc(line, NULL, NULL);
	/* Line 0: the compiler gives no line for this instruction. */
	if (!file || dwarf_lineno(line, &number) || number <= 0)
		return;
	symbol->file = intern_path(s, file);
	symbol->line = (uint32_t)number;
}

/* Where the function of `scope` was inlined: file and line in the function around it. */
static void set_call_site(struct limpet_symbol_reader *s, Dwarf_Die *unit, Dwarf_Die *scope,
			  struct limpet_symbol *symbol)
{
	Dwarf_Attribute attribute;
	Dwarf_Word file = 0, line = 0;
	Dwarf_Files *files;
	const char *path;
	size_t count;

	if (dwarf_formudata(dwarf_attr(scope, DW_AT_call_file, &attribute), &file) ||
	    dwarf_formudata(dwarf_attr(scope, DW_AT_call_line, &attribute), &line) || !line ||
	    line > UINT32_MAX)
		return;
	if (dwarf_getsrcfiles(unit, &files, &count) || file >= count)
		return;
	path = dwarf_filesrc(files, file, NULL, NULL);
	if (!path)
		return;
	symbol->file = intern_path(s, path);
	symbol->line = (uint32_t)line;
}

int limpet_symbol_reader_resolve(struct limpet_symbol_reader *s, uint64_t address,
				 const struct limpet_symbol **ret_list)
{
	struct limpet_dwarfindex_scope scopes[LIMPET_SYMBOL_MAX_INLINED];
	uint64_t in_dwarf = address - s->dwarf_bias;
	Dwarf_Die unit;
	int count = -1;

	memset(s->found, 0, sizeof(s->found));
	if (s->index)
		count = limpet_dwarfindex_find(s->index, in_dwarf, scopes,
					       LIMPET_SYMBOL_MAX_INLINED, &unit);
	if (count >= 0)
		set_line(s, &unit, in_dwarf, &s->found[0]);
	for (int i = 0; i < count; i++) {
		s->found[i].function = scope_function(s, &scopes[i], address);
		s->found[i].inlined = scopes[i].inlined;
		if (scopes[i].inlined && i + 1 < count)
			set_call_site(s, &unit, &scopes[i].die, &s->found[i + 1]);
	}
	/* Code without a scope of its own in DWARF: assembly, or a module with symbols only. */
	if (count <= 0) {
		s->found[0].function = symbol_function(s, address);
		count = s->found[0].function || s->found[0].file;
	}
	*ret_list = s->found;
	return count;
}
