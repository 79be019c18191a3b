COMMON_SRC := common/err.c common/family.c
