/* auditor: for LD_AUDIT; sees each call through a table from its beginning to its end, so that the
 * dynamic linker has a frame below each. */
#include <link.h>
#include <stdint.h>

unsigned la_version(unsigned version)
{
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
	(void)map;
	(void)space;
	(void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
				  La_x86_64_regs *registers, unsigned *flags, const char *name,
				  long *frame_bytes)
{
	(void)index;
	(void)from;
	(void)to;
	(void)registers;
	(void)flags;
	(void)name;
	*frame_bytes = 256;
	return symbol->st_value;
}

unsigned la_x86_64_gnu_pltexit(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
			       const La_x86_64_regs *in, La_x86_64_retval *out, const char *name)
{
	(void)symbol;
	(void)index;
	(void)from;
	(void)to;
	(void)in;
	(void)out;
	(void)name;
	return 0;
}
