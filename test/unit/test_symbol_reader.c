/* How much of a file is read, however much is asked: of this very program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <unistd.h>

#include "analyzer/symbols/symbol_reader.h"
#include "analyzer/symbols/symbolize.h"

static unsigned tables, symbols_there, symbols_read;

int __real_dwfl_module_getsymtab(Dwfl_Module *module);
int __wrap_dwfl_module_getsymtab(Dwfl_Module *module);
const char *__real_dwfl_module_getsym_info(Dwfl_Module *module, int index, GElf_Sym *symbol,
					   GElf_Addr *address, GElf_Word *section, Elf **elf,
					   Dwarf_Addr *bias);
const char *__wrap_dwfl_module_getsym_info(Dwfl_Module *module, int index, GElf_Sym *symbol,
					   GElf_Addr *address, GElf_Word *section, Elf **elf,
					   Dwarf_Addr *bias);

int __wrap_dwfl_module_getsymtab(Dwfl_Module *module)
{
	int count = __real_dwfl_module_getsymtab(module);

	tables++;
	symbols_there += count > 0 ? (unsigned)count : 0;
	return count;
}

const char *__wrap_dwfl_module_getsym_info(Dwfl_Module *module, int index, GElf_Sym *symbol,
					   GElf_Addr *address, GElf_Word *section, Elf **elf,
					   Dwarf_Addr *bias)
{
	symbols_read++;
	return __real_dwfl_module_getsym_info(module, index, symbol, address, section, elf, bias);
}

static void test_symbols_are_read_once(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct limpet_symbol_reader *reader;
	const struct limpet_symbol *list;
	unsigned named = 0;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(limpet_symbol_reader_open(fd, NULL, &reader, NULL), 0);
	for (uint64_t at = 0; at < 1u << 20; at += 16)
		named += limpet_symbol_reader_resolve(reader, at, &list) > 0;
	assert_true(named > 100);
	assert_int_equal(tables, 1);
	assert_true(symbols_there > 200);
	assert_int_equal(symbols_read, symbols_there);
	limpet_symbol_reader_close(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_symbols_are_read_once)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
