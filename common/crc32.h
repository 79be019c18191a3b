/* CRC-32 as in IEEE 802.3, zlib and zip: reflected, polynomial 0x04C11DB7. */
#ifndef LIMPET_COMMON_CRC32_H
#define LIMPET_COMMON_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Start with crc 0; pass the previous result to continue. */
uint32_t limpet_crc32(uint32_t crc, const void *bytes, size_t count);

#endif
