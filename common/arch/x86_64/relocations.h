/* Relocation types of the x86-64 psABI. */
#ifndef LIMPET_COMMON_ARCH_RELOCATIONS_H
#define LIMPET_COMMON_ARCH_RELOCATIONS_H

#include <elf.h>

#define LIMPET_ARCH_RELOCATION_IS_SLOT(type) \
	((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
/* In code that its module did not compile for being shared (DT_TEXTREL): a distance, or a part of
 * the address, which no address of a hook fits. */
#define LIMPET_ARCH_RELOCATION_IS_IN_CODE(type)                                            \
	((type) == R_X86_64_PC32 || (type) == R_X86_64_PLT32 || (type) == R_X86_64_PC64 || \
	 (type) == R_X86_64_32 || (type) == R_X86_64_32S)
/* Of the slots, the ones of variables, which the program may set to something else. */
#define LIMPET_ARCH_RELOCATION_IS_VARIABLE(type) ((type) == R_X86_64_64)
/* And the ones from which code loads a function's address. */
#define LIMPET_ARCH_RELOCATION_IS_ADDRESS(type) ((type) == R_X86_64_GLOB_DAT)
/* The word is the distance of a variable of static thread-local storage from the thread pointer. */
#define LIMPET_ARCH_RELOCATION_IS_TLS_OFFSET(type) ((type) == R_X86_64_TPOFF64)
/* The program contains a library's variable, copied by the linker. */
#define LIMPET_ARCH_RELOCATION_IS_COPY(type) ((type) == R_X86_64_COPY)
#define LIMPET_ARCH_RELOCATION_IS_LAZY(type) ((type) == R_X86_64_JUMP_SLOT)
/* Base plus addend, and nothing else. */
#define LIMPET_ARCH_RELOCATION_IS_RELATIVE(type) ((type) == R_X86_64_RELATIVE)
#define LIMPET_ARCH_ELF_MACHINE EM_X86_64

#endif
