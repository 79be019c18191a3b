#!/usr/bin/env bats
# limpet run: from the program's entry point; status, streams and signals are the program's own.

load helpers
setup() { begin; }
teardown() { end; }

@test "exit status, stdin, stdout and stderr are the command's" {
	run --separate-stderr bash -c 'printf "to be read" | "$0" run -q -o t.limpet -- \
		bash -c "cat; echo told >&2; exit 7"' "$LIMPET"
	[[ $status == 7 ]]
	[[ $output == "to be read" ]]
	[[ $stderr == *told* ]]
	[[ -s t.limpet ]]
}

@test "a command that dies by a signal: 128 + its number" {
	run within 30 "$LIMPET" run -q -o t.limpet -- bash -c 'kill -USR1 $$'
	[[ $status == $((128 + 10)) ]]
	trace=$work/t.limpet
	report
	expect '.capture.mode == "run" and .capture.end == "target-killed"'
}

@test "not found is 127, not executable is 126, its own failures are 125" {
	run within 30 "$LIMPET" run -o a.limpet -- no-such-command
	[[ $status == 127 ]]
	: >plain
	run within 30 "$LIMPET" run -o b.limpet -- ./plain
	[[ $status == 126 ]]
	run within 30 "$LIMPET" run -o none/c.limpet -- true
	[[ $status == 125 ]]
	run within 30 "$LIMPET" run --nonsense -- true
	[[ $status == 125 || $status == 2 ]]
}

# track: language | C, glibc | run
# bats test_tags=check
@test "counts from the entry point on: nothing is foreign" {
	counted_run storm "$TARGETS/storm" --threads 2 --cross
	# The table that each thread has from the start was allocated by main, before any command.
	same "allocations in main" "$(jq '[.sites[] | select(.stack[0].function == "main") | .allocations] |
		add' report.json)" 2
}

@test "signals reach the command" {
	start storm "$LIMPET" run -q --on-overload wait -o t.limpet -- "$TARGETS/storm" --threads 2
	[[ $(<"/proc/$pid/comm") == storm ]]
	kill -TERM "$pid"
	result storm $((128 + 15))
}

@test "Ctrl-C reaches the command, and limpet waits for it" {
	start storm env --default-signal=INT "$LIMPET" run -q --on-overload wait -o t.limpet -- "$TARGETS/storm" --threads 2
	kill -INT "${job_of[storm]}" "$pid"
	result storm $((128 + 2))
	"$LIMPET" report t.limpet --json >report.json
	expect '.capture.end == "target-killed" or .capture.end == "interrupt"'
}

@test "limpet stop ends the capture, not the command" {
	start storm "$LIMPET" run -q --on-overload wait -o t.limpet -- "$TARGETS/storm" --threads 2
	tell storm "leak 10" leaked
	within 60 "$LIMPET" stop "$pid"
	trace=$work/t.limpet
	good_capture
	expect '.capture.end == "stop"'
	same "leaks" "$(site_sum storm_leak allocations)" 10
	nothing_of_ours "$pid"
	tell storm "run 1000" ran
	finish storm
}

@test "a capture that does not come about: not one instruction of the command is done" {
	local i
	: >there.limpet
	for i in 1 2 3 4 5; do
		refused 125 "exists" "$LIMPET" run -o there.limpet -- touch "$work/marker"
		[[ ! -e $work/marker ]]
		refused 125 "8 MiB" "$LIMPET" run --agent-memory 1M -o "t$i.limpet" -- touch "$work/marker"
		[[ ! -e $work/marker ]]
		refused 125 "static" "$LIMPET" run -o "t$i.limpet" -- "$TARGETS/static-stripped"
	done
}
