#include "cli/stream_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli/capture_signals.h"
#include "cli/ui.h"
#include "common/stream_name.h"

static int refuse_terminal(const char *command)
{
	struct limpet_err err;

	limpet_err_set(&err, -EINVAL, "--output: a trace is not for a terminal");
	limpet_err_hint(&err, "limpet %s -o - ... > x.limpet, or | another command", command);
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

int limpet_stream_output_take(const char *command, const char *output, int *ret_fd)
{
	int flags, fd;

	if (!output || strcmp(output, LIMPET_STREAM_STDOUT) != 0)
		return LIMPET_EXIT_OK;
	if (isatty(STDOUT_FILENO))
		return refuse_terminal(command);
	/* Inherited descriptors have no such flag: this one was put in its place. */
	flags = fcntl(STDOUT_FILENO, F_GETFD);
	if (flags < 0 || flags & FD_CLOEXEC)
		return limpet_ui_usage(command, "--output: standard output is closed");
	fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return limpet_ui_usage(command, "--output: standard output cannot be used: %s",
				       strerror(errno));
	*ret_fd = fd;
	return LIMPET_EXIT_OK;
}

int limpet_stream_output_refuse(const char *output, const char *option, const char *why)
{
	struct limpet_err err;

	if (!option || !limpet_is_stream_name(output))
		return LIMPET_EXIT_OK;
	limpet_err_set(&err, -EINVAL, "%s cannot be used with --output %s: %s", option, output,
		       why);
	limpet_err_hint(&err, "leave it out, or write a file: -o FILE");
	return limpet_ui_fail(&err, LIMPET_EXIT_USAGE);
}

const char *limpet_stream_output_name(const char *output)
{
	return strcmp(output, LIMPET_STREAM_STDOUT) ? output : "standard output";
}

bool limpet_stream_output_finish(struct limpet_trace_stream *stream, void (*serve)(void *context),
				 void *context)
{
	const int before = limpet_trace_stream_error(stream);
	const int code = before ? before
				: limpet_trace_stream_finish(stream, limpet_capture_impatient(),
							     serve, context);

	if (code == -EINTR)
		limpet_ui_warn("the end of the stream was not sent: interrupted");
	else if (code < 0 && !before)
		limpet_ui_warn("%s: what was sent is readable", limpet_trace_stream_words(code));
	return code == 0;
}
