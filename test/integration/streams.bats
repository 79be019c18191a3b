#!/usr/bin/env bats
# Traces as streams: -o - and -o unix:SOCKET, and who receives them.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

# streaming PID [OPTION...]: a capture to the standard output of a limpet beside the test, which is this shell's
# descriptor `to` then.
streaming() {
	local target=$1
	shift
	captures=$((captures + 1))
	env --default-signal=INT,HUP,QUIT,PIPE "$LIMPET" attach "$target" -o - "${patiently[@]}" "$@" \
		>&"$to" 2>"$work/attach.$captures.err" </dev/null 3>&- &
	limpet_job=$!
	limpet_jobs+=("$limpet_job")
	exec {to}>&-
	wait_until 60 says_that_it_captures "$target"
}

# warned REGEX: the last capture did.
warned() {
	grep -qE "^limpet: (warning: )?.*($1)" "$work/attach.$captures.err" ||
		fail "not told: $1: $(<"$work/attach.$captures.err")"
}

@test "through tee and a pipe: the same bytes, and a report as of a file" {
	start storm "$TARGETS/storm" --threads 2
	tell storm "run 5000" ran
	mkfifo pipe
	tee direct.limpet <pipe 3>&- | cat >piped.limpet &
	job_of[tee]=$!
	exec {to}>pipe
	streaming "$pid"
	tell storm mark marked
	tell storm zero zeroed
	tell storm "run 20000" ran
	tell storm "leak 100" leaked
	"$LIMPET" status "$pid" >status.say
	grep -qx ' *-' status.say || fail "$(<status.say)"
	"$LIMPET" mark "$pid" here
	tell storm count '{'
	stop "$pid"
	[[ ! -s stop.say ]] || fail "$(<stop.say)"
	exit_status_of "${job_of[tee]}" 30
	cmp direct.limpet piped.limpet
	trace=$work/piped.limpet
	counts_equal
	expect '[.capture.end, .capture.mode] == ["stop", "attach"] and .marks[0].name == "here"'
	expect '[.sites[].stack[] | select(.file // "" | endswith("storm.c"))] | length > 0'
	finish storm
}

@test "run: the command's output goes to standard error; pages: as a stream" {
	"$LIMPET" run -q -o - -- /bin/echo hello >run.limpet 2>said
	[[ $(<said) == hello ]] || fail "$(<said)"
	"$LIMPET" report run.limpet --json | json_says '.capture.end == "target-exit" and .totals.allocations > 0'
	start storm "$TARGETS/storm"
	"$LIMPET" pages "$pid" -d 300ms -o - >pages.limpet 2>pages.err || fail "$(<pages.err)"
	"$LIMPET" report pages.limpet --json | json_says '.capture.end == "duration"'
	finish storm
}

@test "compact: nothing is replaced, and the sums are those of the program" {
	start storm "$TARGETS/storm" --threads 2
	tell storm "run 5000" ran
	exec {to}>compact.limpet
	streaming "$pid" --compact
	tell storm mark marked
	tell storm zero zeroed
	tell storm "run 20000" ran
	tell storm count '{'
	stop "$pid"
	trace=$work/compact.limpet
	counts_equal
	finish storm
}

@test "cut anywhere: readable to the last whole block, and told so" {
	local bytes at code
	"$LIMPET" run -q -o - -- /bin/echo hello >whole.limpet 2>/dev/null
	bytes=$(stat -c %s whole.limpet)
	for ((at = 0; at < bytes; at += 1 + bytes / 25)); do
		head -c "$at" whole.limpet >cut.limpet
		code=0
		"$LIMPET" report cut.limpet --json >cut.json 2>cut.err || code=$?
		if ((code)); then
			# Without its first block.
			((at < 2000)) && grep -q '^limpet: ' cut.err || fail "at $at of $bytes: $(<cut.err)" || return 1
		else
			says_in cut.json '.capture | (.complete | not) == (.end == "collector-lost")' ||
				fail "at $at of $bytes" || return 1
		fi
	done
	((code == 0))
}

@test "a reader that never reads: the program goes on, and the capture ends when it is told to" {
	start storm "$TARGETS/storm" --threads 2
	mkfifo pipe
	exec {held}<>pipe
	exec {to}>pipe
	streaming "$pid"
	tell storm "run 200000" ran
	stop "$pid" 4
	warned 'the reader of the stream did not take the end of it'
	exec {held}>&-
	nothing_of_ours "$pid"
	finish storm
}

@test "a reader that goes away: the capture ends, and the program is as it was" {
	start storm "$TARGETS/storm" --threads 2
	tell storm "run 5000" ran
	look "$pid"
	mkfifo pipe
	head -c 1000 <pipe >part 3>&- &
	job_of[head]=$!
	exec {to}>pipe
	streaming "$pid"
	attached 4
	warned 'the reader of the stream has gone'
	[[ $(stat -c %s part) == 1000 ]]
	unchanged "$pid"
	finish storm
}

@test "what cannot be streamed is refused before the program is touched" {
	local terminal
	start storm "$TARGETS/storm"
	look "$pid"
	: >a-file
	refused 2 "--max-size cannot be used with --output -" "$LIMPET" attach "$pid" -o - --max-size 10M
	refused 2 "--background cannot be used with --output -" "$LIMPET" attach "$pid" -o - --background
	refused 2 "--follow-fork cannot be used with --output unix:x" "$LIMPET" attach "$pid" -o unix:x --follow-fork
	refused 2 "the socket's path is missing" "$LIMPET" pages "$pid" -o unix:
	refused 1 "'a-file' is not a socket" "$LIMPET" attach "$pid" -o unix:a-file
	refused 1 "cannot connect to 'none': No such file" "$LIMPET" pages "$pid" -o unix:none
	refused 2 "standard output is closed" bash -c '"$0" attach "$1" -o - >&-' "$LIMPET" "$pid"
	terminal=$(script -qec "'$LIMPET' attach $pid -o -" /dev/null </dev/null) || true
	[[ $terminal == *"a trace is not for a terminal"* ]] || fail "$terminal"
	unchanged "$pid"
	finish storm
}
