FAULTS_SRC := \
	faults/counted_maps.c \
	faults/fault_capture.c \
	faults/fault_events.c \
	faults/fault_losses.c \
	faults/fault_record.c \
	faults/fault_stacks.c \
	faults/page_set.c
