COMMON_SRC := \
	common/bytes.c \
	common/clock.c \
	common/confine.c \
	common/counts.c \
	common/err.c \
	common/estimate.c \
	common/family.c \
	common/file_identity.c \
	common/file_io.c \
	common/labels.c \
	common/losses.c \
	common/mark_name.c \
	common/subprocess.c \
	common/unfollowed.c \
	common/mounts.c \
	common/number_table.c \
	common/open_file.c \
	common/own_stack.c \
	common/plain_text.c \
	common/site_counts.c \
	common/trace_block.c \
	common/units.c \
	common/unix_path.c
