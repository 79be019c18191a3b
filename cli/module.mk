# What reads traces, on any processor.
READER_CLI_SRC := \
	cli/capture_signals.c \
	cli/cmd_diff.c \
	cli/cmd_explain.c \
	cli/cmd_export.c \
	cli/cmd_html.c \
	cli/cmd_report.c \
	cli/cmd_seal.c \
	cli/cmd_top.c \
	cli/command_line.c \
	cli/complete.c \
	cli/debug.c \
	cli/settings.c \
	cli/explain_print.c \
	cli/explain_trace.c \
	cli/fail_on.c \
	cli/find_program.c \
	cli/heap_findings.c \
	cli/html_file.c \
	cli/json_output.c \
	cli/libraries.c \
	cli/live_names.c \
	cli/live_target.c \
	cli/main.c \
	cli/mark_times.c \
	cli/pager.c \
	cli/pid_hint.c \
	cli/progress.c \
	cli/sealing.c \
	cli/shell_word.c \
	cli/top_calls.c \
	cli/top_draw.c \
	cli/top_editor.c \
	cli/top_finding.c \
	cli/top_memory.c \
	cli/top_pace.c \
	cli/top_page.c \
	cli/top_rows.c \
	cli/top_screen.c \
	cli/top_source.c \
	cli/ui.c \
	cli/view_options.c

# And what needs a process.
CLI_SRC := $(READER_CLI_SRC) \
	cli/background.c \
	cli/capture_command.c \
	cli/capture_options.c \
	cli/capture_words.c \
	cli/census_print.c \
	cli/cmd_attach.c \
	cli/cmd_collect.c \
	cli/cmd_demo.c \
	cli/cmd_doctor.c \
	cli/cmd_holders.c \
	cli/cmd_leaks.c \
	cli/cmd_mark.c \
	cli/cmd_pages.c \
	cli/cmd_run.c \
	cli/cmd_stacks.c \
	cli/cmd_status.c \
	cli/cmd_stop.c \
	cli/demo_server.c \
	cli/doctor_list.c \
	cli/explain_process.c \
	cli/find_hidden.c \
	cli/follower.c \
	cli/followers.c \
	cli/holders_print.c \
	cli/leaks_print.c \
	cli/libraries_process.c \
	cli/objects_print.c \
	cli/received.c \
	cli/stack_names.c \
	cli/stream_output.c \
	cli/variable_names.c

# Rewritten only when it changes, so that a new commit relinks one object and nothing else.
$(B)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION) $(COMMIT)' | cmp -s - $@ || echo '$(VERSION) $(COMMIT)' >$@
.PHONY: FORCE
FORCE:
$(B)/obj/cli/main.o: $(B)/version
$(B)/obj/cli/main.o: CPPFLAGS += -DLIMPET_VERSION='"$(VERSION)"' -DLIMPET_COMMIT='"$(COMMIT)"'
