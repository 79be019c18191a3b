/* What a slot of the linkage table leads to before it is bound: code of the same module. */
#ifndef LIMPET_COMMON_ARCH_PLT_H
#define LIMPET_COMMON_ARCH_PLT_H

#include <stdbool.h>
#include <stdint.h>

#define LIMPET_ARCH_PLT_BYTES 8u

/* Whether the linker made this code: `push $index` of an entry (ld, gold, lld, Go), or the pushes
 * with which the table itself begins, to which mold's slots lead. A compiler begins no function so.
 */
static inline bool limpet_arch_is_plt(const uint8_t code[LIMPET_ARCH_PLT_BYTES])
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	const uint8_t *at = code;
	unsigned i = 0;

	while (i < sizeof(endbr64) && code[i] == endbr64[i])
		i++;
	if (i == sizeof(endbr64))
		at += sizeof(endbr64);
	/* push imm32 */
	if (at[0] == 0x68)
		return true;
	/* push %r11 */
	if (at[0] == 0x41 && at[1] == 0x53)
		at += 2;
	/* push disp32(%rip) */
	return at[0] == 0xff && at[1] == 0x35;
}

#endif
