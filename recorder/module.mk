RECORDER_SRC := \
	recorder/event_columns.c \
	recorder/event_planes.c \
	recorder/accounting.c \
	recorder/live_table.c \
	recorder/mapping_table.c \
	recorder/recorder.c \
	recorder/recorder_blocks.c \
	recorder/site_table.c \
	recorder/rollup.c \
	recorder/thread_numbers.c \
	recorder/trace_compressor.c \
	recorder/trace_ring.c \
	recorder/trace_sync.c \
	recorder/trace_writer.c
