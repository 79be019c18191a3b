COLLECTOR_SRC := \
	collector/capture.c \
	collector/collector.c \
	collector/merge.c \
	collector/module_table.c \
	collector/plausible.c
