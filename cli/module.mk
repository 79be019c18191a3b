CLI_SRC := cli/main.c cli/cmd_attach.c cli/cmd_run.c cli/capture_command.c cli/background.c cli/followers.c cli/ui.c cli/capture_options.c cli/cmd_status.c cli/cmd_stop.c cli/progress.c
CLI_SRC += cli/cmd_doctor.c cli/doctor_list.c
CLI_SRC += cli/cmd_report.c cli/cmd_seal.c cli/cmd_html.c cli/page_file.c cli/view_options.c cli/cmd_diff.c cli/cmd_export.c
CLI_SRC += cli/cmd_top.c cli/top_source.c cli/top_rows.c cli/top_screen.c cli/top_draw.c cli/pager.c

# Rewritten only when it changes, so that a new commit relinks one object and nothing else.
$(B)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION) $(COMMIT)' | cmp -s - $@ || echo '$(VERSION) $(COMMIT)' >$@
.PHONY: FORCE
FORCE:
$(B)/obj/cli/main.o: $(B)/version
$(B)/obj/cli/main.o: CPPFLAGS += -DLIMPET_VERSION='"$(VERSION)"' -DLIMPET_COMMIT='"$(COMMIT)"'
