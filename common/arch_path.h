/* How an include point chooses the file of an arch/ directory:
 * LIMPET_ARCH_STRING(some/arch/LIMPET_ARCH/file.h). */
#ifndef LIMPET_COMMON_ARCH_PATH_H
#define LIMPET_COMMON_ARCH_PATH_H

#define LIMPET_ARCH_STRING_(x) #x
#define LIMPET_ARCH_STRING(x) LIMPET_ARCH_STRING_(x)

#endif
