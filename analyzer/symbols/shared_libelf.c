/* In the dynamic build: libdw finds the program's elf_compress() before that of libelf. */
#include <dlfcn.h>

#include "analyzer/symbols/inflate.h"

int limpet_libelf_compress(Elf_Scn *section, int type, unsigned flags)
{
	static int (*next)(Elf_Scn * section, int type, unsigned flags);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "elf_compress");
	return next ? next(section, type, flags) : -1;
}

int elf_compress(Elf_Scn *section, int type, unsigned flags)
{
	return limpet_inflate_section(section, type, flags);
}
