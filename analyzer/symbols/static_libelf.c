/* In the static build: linked by --wrap. */
#include "analyzer/symbols/inflate.h"

int __real_elf_compress(Elf_Scn *section, int type, unsigned flags);
int __wrap_elf_compress(Elf_Scn *section, int type, unsigned flags);

int limpet_libelf_compress(Elf_Scn *section, int type, unsigned flags)
{
	return __real_elf_compress(section, type, flags);
}

int __wrap_elf_compress(Elf_Scn *section, int type, unsigned flags)
{
	return limpet_inflate_section(section, type, flags);
}
