COLLECTOR_SRC := \
	collector/agent_counts.c \
	collector/capture.c \
	collector/collector.c \
	collector/description.c \
	collector/identity.c \
	collector/look_ahead.c \
	collector/memory_watch.c \
	collector/module_table.c \
	collector/pace.c \
	collector/plausible.c \
	collector/reorder.c \
	collector/resident_pages.c \
	collector/stack_tree.c \
	collector/step_back.c \
	collector/thread_names.c \
	collector/trace_session.c
