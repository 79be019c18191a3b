CLI_SRC := cli/ui.c
