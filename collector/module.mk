COLLECTOR_SRC := \
	collector/stream/agent_clock.c \
	collector/stream/agent_counts.c \
	collector/stream/chunk_decoder.c \
	collector/stream/chunk_reader.c \
	collector/stream/collector.c \
	collector/stream/description.c \
	collector/stream/event_describer.c \
	collector/stream/look_ahead.c \
	collector/stream/module_table.c \
	collector/stream/module_watch.c \
	collector/stream/other_stacks.c \
	collector/stream/plausible.c \
	collector/stream/reorder.c \
	collector/stream/script_names.c \
	collector/stream/stack_tree.c \
	collector/stream/target_memory.c \
	collector/stream/thread_names.c \
	collector/stream/thread_states.c

COLLECTOR_SRC += \
	collector/record/accounting.c \
	collector/record/event_columns.c \
	collector/record/event_planes.c \
	collector/record/live_table.c \
	collector/record/mapping_table.c \
	collector/record/peak_bounds.c \
	collector/record/recorder.c \
	collector/record/recorder_blocks.c \
	collector/record/rollup.c \
	collector/record/site_table.c \
	collector/record/thread_numbers.c \
	collector/record/trace_compressor.c \
	collector/record/trace_file.c \
	collector/record/trace_name.c \
	collector/record/trace_ring.c \
	collector/record/trace_sync.c \
	collector/record/trace_writer.c

CONTROL_SRC := \
	collector/control/control.c \
	collector/control/control_client.c \
	collector/control/control_socket.c \
	collector/control/runtime_dir.c
COLLECTOR_SRC += $(CONTROL_SRC)

COLLECTOR_SRC += \
	collector/receive/block_check.c \
	collector/receive/receive_socket.c \
	collector/receive/receiver.c \
	collector/receive/trace_store.c

COLLECTOR_SRC += \
	collector/pages/counted_maps.c \
	collector/pages/fault_capture.c \
	collector/pages/fault_events.c \
	collector/pages/fault_losses.c \
	collector/pages/fault_record.c \
	collector/pages/fault_stacks.c \
	collector/pages/page_set.c

COLLECTOR_SRC += \
	collector/capture/capture.c \
	collector/capture/identity.c \
	collector/capture/memory_watch.c \
	collector/capture/object_snapshot.c \
	collector/capture/own_priority.c \
	collector/capture/pace.c \
	collector/capture/leak_search.c \
	collector/capture/resident_pages.c \
	collector/capture/trace_session.c \
	collector/capture/trace_stream.c
