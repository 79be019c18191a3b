COMMON_SRC := common/err.c common/family.c
COMMON_SRC += common/units.c
