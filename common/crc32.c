#include "common/crc32.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

/* Slicing by eight (Kounavis and Berry, 2005): a reader checks every byte of a trace, and one byte
 * at a time would dominate the time to open a large one. */
static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void fill_table(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
		table[0][i] = crc;
	}
	for (int slice = 1; slice < 8; slice++)
		for (uint32_t i = 0; i < 256; i++)
			table[slice][i] =
				table[slice - 1][i] >> 8 ^ table[0][table[slice - 1][i] & 0xff];
}

uint32_t limpet_crc32(uint32_t crc, const void *bytes, size_t count)
{
	const uint8_t *p = bytes;

	pthread_once(&table_once, fill_table);
	crc = ~crc;
	for (; count >= 8; count -= 8, p += 8) {
		uint32_t low, high;

		memcpy(&low, p, 4);
		memcpy(&high, p + 4, 4);
		low = le32toh(low) ^ crc;
		high = le32toh(high);
		crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
		      table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^ table[3][high & 0xff] ^
		      table[2][high >> 8 & 0xff] ^ table[1][high >> 16 & 0xff] ^
		      table[0][high >> 24];
	}
	while (count--)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return ~crc;
}
