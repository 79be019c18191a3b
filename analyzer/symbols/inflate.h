/* Compressed sections, for libdw: libelf before 0.189 knows only those of zlib. libdw is made to
 * call limpet_inflate_section() in place of libelf's elf_compress(), for every file that it opens
 * by itself, too (shared_libelf.c, static_libelf.c).
 *
 * Only for the confined process; sections are hostile input. Not thread-safe. */
#ifndef LIMPET_ANALYZER_SYMBOLS_INFLATE_H
#define LIMPET_ANALYZER_SYMBOLS_INFLATE_H

#include <libelf.h>
#include <stdbool.h>

/* Contract of elf_compress(). Sections that zstd compressed are inflated here, all others, and what
 * else it is called for, by libelf. */
int limpet_inflate_section(Elf_Scn *section, int type, unsigned flags);
/* libelf's own elf_compress(). */
int limpet_libelf_compress(Elf_Scn *section, int type, unsigned flags);

/* Whether a section could not be inflated since the start. */
bool limpet_inflate_has_failed(void);
/* Frees what was inflated. All files with such sections must be closed. */
void limpet_inflate_done(void);

#endif
