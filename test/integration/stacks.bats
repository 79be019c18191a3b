#!/usr/bin/env bats
# limpet stacks: where threads stand, of programs whose threads stand where their names say (test/targets/standing).
# time-limit: 300

load helpers
: "${LIMPET_STATIC:=$root/build/static/limpet}"
setup() { begin; }
teardown() { end; }

# stacks ARGUMENT...: as JSON into stacks.json.
stacks() {
	within 60 "$LIMPET" stacks "$@" --json >stacks.json 2>stacks.err || fail "limpet stacks: $(<stacks.err)"
}

# says FILTER [OPTION...]: jq's answer about stacks.json is true.
says() { says_in stacks.json "$@"; }

# Functions that JSON is asked with: thread("poller") is that thread, names its functions, the innermost first.
of='def thread($name): .threads[] | select(.name == $name); def names: [.stack[].function | values];'

# stands NAME COMMAND...: a target each of whose threads has come to where it stands.
stands() {
	start "$@" || return 1
	wait_until 20 all_stand "$pid"
}
# All but the one that spins sleep in a system call, the writer in write(2) since the pipe is full.
all_stand() {
	local task call
	for task in "/proc/$1/task/"*; do
		read -r call _ <"$task/syscall" || return 1
		case $(<"$task/comm") in
		reader) [[ $call == 0 ]] ;;
		poller) [[ $call == 232 ]] ;;
		writer) [[ $call == 1 ]] ;;
		spinner) [[ $call == running ]] ;;
		handler | pointers) [[ $call == 34 ]] ;;
		*) false ;;
		esac || return 1
	done
}

# chains_are_known: of standing, whichever way it is linked.
chains_are_known() {
	says "$of"'.format == "limpet-stacks" and .version == 1 and (.threads | length) == 6'
	says "$of"'thread("reader") | .state == "sleeping" and .system_call == "read" and .missing == null and
		(names | index("read_commands") as $at | $at > 0 and .[$at + 1] == "main")'
	says "$of"'thread("poller") | .system_call == "epoll_wait" and
		(names | index("poll_here") as $at | $at > 0 and .[$at + 1:$at + 3] == ["poll_there", "stand"])'
	says "$of"'thread("spinner") | .state == "running" and .system_call == null and
		names[:3] == ["spin_inlined", "spin_here", "stand"] and
		([.stack[].inlined] | .[:3] == [true, false, false]) and
		(.stack[0] | .line > 0 and (.file | endswith("standing.c")))'
	says "$of"'thread("handler") | .stack | map(.function) | index("handle_here") as $at |
		$at > 0 and .[$at + 1] == "on_signal" and (index("interrupted_here") > $at)'
	says "$of"'thread("handler").stack | map(.function) as $names | .[$names | index("on_signal") + 1].signal'
	says "$of"'[thread("reader", "poller", "spinner", "handler") | .truncated | not] | all'
}

@test "every thread of a program, with its state, system call, functions and lines" {
	stands standing "$TARGETS/standing"
	stacks "$pid"
	chains_are_known
	says "$of"'[thread("reader").stack[] | select(.inlined | not) | .found_by] | .[0] == "registers" and all(.[1:][]; . == "libunwind")'
	# As text: a head for each thread, a line for each function.
	within 60 "$LIMPET" stacks "$pid" >stacks.text
	grep -qxF "thread $pid reader: sleeps in read(2)" stacks.text || fail "$(<stacks.text)"
	grep -qx "  spin_inlined (inlined)  .*standing\\.c:[0-9]*" stacks.text || fail "$(<stacks.text)"
	grep -qx "thread [0-9]* spinner: runs" stacks.text || fail "$(<stacks.text)"
	LIMPET_DEBUG=1 within 60 "$LIMPET" stacks "$pid" >stacks.text 2>stacks.err
	grep -q "poll_there \[libunwind\]" stacks.text || fail "$(<stacks.text)"
	grep -q "PTRACE_SEIZE" stacks.err || fail "$(<stacks.err)"
	# One file, with libunwind in it.
	limpet_dynamic=$LIMPET LIMPET=$LIMPET_STATIC
	stacks "$pid"
	LIMPET=$limpet_dynamic
	chains_are_known
	says "$of"'any(thread("poller").stack[]; .found_by == "libunwind")'
	finish standing
}

@test "a static program, whose unwind information has no search table" {
	stands standing "$TARGETS/standing-static"
	stacks "$pid"
	chains_are_known
	says "$of"'any(thread("poller").stack[]; .found_by == "table")'
	finish standing
}

@test "a thread whose system call would notice is not stopped" {
	stands standing "$TARGETS/standing"
	LIMPET_DEBUG=1 within 60 "$LIMPET" stacks "$pid" >stacks.text 2>stacks.err
	writer=$(sed -n 's/^thread \([0-9]*\) writer: sleeps in write(2)$/\1/p' stacks.text)
	grep -qxF "  (no stack: it was not stopped: its system call would notice that)" stacks.text || fail "$(<stacks.text)"
	run ! grep -E " $writer +PTRACE_" stacks.err
	stacks "$pid" --thread "$writer"
	says '.threads | length == 1 and (.[0] | .missing == "system-call" and .stop_microseconds == null and .stack == [])'
	finish standing
}

@test "a call with the socket's own time limit would end: its thread is not stopped; one without is" {
	start limited "$TARGETS/sleeper" --ms 600000 recv-timeout
	stacks "$pid" --thread "$pid"
	says '.threads[0] | .system_call == "recvfrom" and .missing == "system-call"'
	start unlimited "$TARGETS/sleeper" recv
	stacks "$pid" --thread "$pid"
	says '.threads[0] | .system_call == "recvfrom" and .missing == null'
	tell unlimited release "good 0 0"
	finish unlimited
}

@test "the target goes on as it was" {
	local i
	stands standing "$TARGETS/standing"
	look "$pid"
	for i in {1..10}; do
		stacks "$pid" || return 1
	done
	unchanged "$pid"
	tell standing count "interrupted 0"
	tell standing drain "drained 1048576 1048576"
	finish standing
}

# bats test_tags=release
@test "every kind of system call goes on, however often its thread is looked at" {
	local kind i
	for kind in $("$TARGETS/sleeper" --list); do
		start "$kind" "$TARGETS/sleeper" --company --ms 300 "$kind"
		[[ $pid != none ]] || continue
		for i in {1..5}; do
			stacks "$pid" || return 1
		done
		tell "$kind" release good || return 1
		finish "$kind"
	done
}

@test "stacks full of pointers" {
	stands standing "$TARGETS/standing"
	stacks "$pid"
	says "$of"'thread("pointers") | .missing == null and (.stack | length) > 0 and .truncated'
	says "$of"'thread("pointers").stack[0].function == "fill_with_pointers"'
	tell standing count "interrupted 0"
	finish standing
}

@test "one thread alone, and one that does not exist" {
	stands standing "$TARGETS/standing"
	poller=$(grep -lx poller "/proc/$pid/task/"*/comm | cut -d / -f 5)
	LIMPET_DEBUG=1 within 60 "$LIMPET" stacks "$pid" --thread "$poller" --json >stacks.json 2>stacks.err
	says '.threads | length == 1 and .[0].tid == $tid' --argjson tid "$poller"
	[[ $(grep -oE '[0-9]+ +PTRACE_SEIZE' stacks.err) =~ ^"$poller "[^$'\n']*$ ]] || fail "$(<stacks.err)"
	refused 1 "process $pid has no thread $$" "$LIMPET" stacks "$pid" --thread $$
	refused 2 "" "$LIMPET" stacks "$pid" --thread first
	refused 2 "missing PID" "$LIMPET" stacks --json
	finish standing
}

# python3 and node sleep in the end, each in its own loop.
@test "python3, and node: every frame up to the first" {
	python3 -c "
import signal
def inner():
    print('up', flush=True)
    signal.pause()
def outer():
    inner()
outer()" >python.say </dev/null 3>&- &
	job_of[python]=$!
	wait_until 20 grep -q up python.say
	stacks "${job_of[python]}"
	says "$of"'.threads[0] | .missing == null and (.truncated | not) and (.stack | length) > 6 and
		(.stack[-1].function == "_start" or .stack[-1].function == null)'
	node -e "console.log('up'); setTimeout(() => {}, 1e9)" >node.say </dev/null 3>&- &
	job_of[node]=$!
	wait_until 20 grep -q up node.say
	stacks "${job_of[node]}"
	says '.threads | length > 4 and all(.[]; .missing == null and (.truncated | not))'
	says "$of"'any(.threads[0] | names[]; . == "uv_run")'
}

# refused_by_stacks PID STATUS REGEX: in the words of attach, and the process stays as it was.
refused_by_stacks() {
	local said
	look "$1"
	refused 3 "$2" "${limpet_command[@]}" attach -o never.limpet "$1" || return 1
	said=${stderr_lines[0]}
	refused 3 "$2" "${limpet_command[@]}" stacks "$1" || return 1
	same "the refusal" "${stderr_lines[0]}" "$said" || return 1
	unchanged "$1"
}

@test "what attach refuses to touch is refused in the same words" {
	start storm "$TARGETS/storm" --threads 2
	trace_by_another "$pid"
	refused_by_stacks "$pid" "traced by '.*' \\($answer\\) already"
	end_process "$answer" 10
	local threads=("/proc/$pid/task/"*)
	refused_by_stacks "${threads[-1]##*/}" "the number of a thread of process $pid"
	refused 3 "itself|own" bash -c 'exec "$0" stacks $$' "$LIMPET"
	finish storm
	refused 1 "" "$LIMPET" stacks "$(cat /proc/sys/kernel/pid_max)"
	"$TARGETS/tiny32" 3>&- &
	job_of[tiny]=$!
	wait_until 60 executes_or_ended "${job_of[tiny]}" tiny32
	ended "${job_of[tiny]}" || refused_by_stacks "${job_of[tiny]}" "32-bit"
}
# A job is this shell until it executes its program.
executes_or_ended() {
	ended "$1" || [[ $(readlink "/proc/$1/exe") == */$2 ]]
}

@test "what attach refuses for its agent's sake is shown" {
	start static "$TARGETS/static-stripped"
	stacks "$pid"
	says '.threads | length >= 1 and all(.[]; .missing == null)'
	kill -STOP "$pid"
	wait_until 20 stands_still "$pid"
	stacks "$pid"
	says 'all(.threads[]; .state == "stopped" and (.stack | length) > 0)'
	stands_still "$pid"
	kill -CONT "$pid"
	finish static
}
