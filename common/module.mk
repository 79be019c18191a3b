COMMON_SRC := common/err.c common/family.c common/slots.c
COMMON_SRC += common/memory_accounts.c common/units.c common/open_file.c common/mounts.c common/apart.c common/confine.c
COMMON_SRC += common/clock.c common/plain_text.c common/bytes.c common/crc32.c common/estimate.c common/losses.c common/trace_block.c
