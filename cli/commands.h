/* The subcommands. Each gets its own name as argv[0], parses the rest by getopt_long, prints
 * messages through cli/ui.h, and returns the exit status of `limpet`. */
#ifndef LIMPET_CLI_COMMANDS_H
#define LIMPET_CLI_COMMANDS_H

int limpet_cmd_attach(int argc, char **argv);
int limpet_cmd_run(int argc, char **argv);
int limpet_cmd_stop(int argc, char **argv);
int limpet_cmd_mark(int argc, char **argv);
int limpet_cmd_status(int argc, char **argv);
int limpet_cmd_demo(int argc, char **argv);
int limpet_cmd_doctor(int argc, char **argv);
int limpet_cmd_explain(int argc, char **argv);
int limpet_cmd_leaks(int argc, char **argv);
int limpet_cmd_holders(int argc, char **argv);
int limpet_cmd_stacks(int argc, char **argv);
int limpet_cmd_report(int argc, char **argv);
int limpet_cmd_seal(int argc, char **argv);
int limpet_cmd_top(int argc, char **argv);
int limpet_cmd_pages(int argc, char **argv);
int limpet_cmd_collect(int argc, char **argv);
int limpet_cmd_html(int argc, char **argv);
int limpet_cmd_diff(int argc, char **argv);
int limpet_cmd_export(int argc, char **argv);

#endif
