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

# dies_aloud LIMPET: its list of robust futexes, by which the kernel tells of a death, has a word (get_robust_list).
dies_aloud() {
	/usr/bin/python3 - "$1" <<-'end'
		import ctypes, os, struct, sys
		head, size = ctypes.c_uint64(), ctypes.c_size_t()
		libc, limpet = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
		if libc.syscall(274, limpet, ctypes.byref(head), ctypes.byref(size)):
		    sys.exit(f"get_robust_list: {os.strerror(ctypes.get_errno())}")
		memory = os.open(f"/proc/{limpet}/mem", os.O_RDONLY)
		following, offset, _ = struct.unpack("QqQ", os.pread(memory, 24, head.value))
		if following == head.value:
		    sys.exit("nobody would be told")
		(word,) = struct.unpack("I", os.pread(memory, 4, following + offset))
		if word & 0x3fffffff != limpet:
		    sys.exit(f"the word is {word:#x}")
	end
}

is_gone() {
	! grep -q '^State:[[:space:]]*[^Z[:space:]]' "/proc/$1/status" 2>/dev/null
}

# limpet run notes the collector's word while it attaches, and again when its call of the stub has ended.
@test "limpet is killed while a command runs: the kernel says so, and the next one repairs" {
	local how
	for how in run attach; do
		if [[ $how == run ]]; then
			start "$how" "$LIMPET" run -q --on-overload wait -o "$how.limpet" -- "$TARGETS/storm" --threads 2
			limpet_job=${job_of[$how]}
			tell "$how" "leak 10" leaked
		else
			start "$how" "$TARGETS/storm" --threads 2
			attach "$pid" --on-overload wait
		fi
		dies_aloud "$limpet_job" || fail "$how" || return 1
		kill -KILL "$limpet_job"
		wait "$limpet_job" || true
		# More than there is room for: a hook that waited for the dead would never return.
		printf 'run 1000000\n' >&"${in_of[$how]}"
		cleaned_up "$pid"
		printf 'quit\n' >&"${in_of[$how]}"
		wait_until 60 is_gone "$pid"
	done
	limpet_jobs=()
}

@test "a capture that does not come about: not one instruction of the command is done" {
	local i
	: >there.limpet
	for i in 1 2 3 4 5; do
		refused 125 "exists" "$LIMPET" run -o there.limpet -- touch "$work/marker"
		[[ ! -e $work/marker ]]
		refused 125 "8 MiB" "$LIMPET" run --memory 1M -o "t$i.limpet" -- touch "$work/marker"
		[[ ! -e $work/marker ]]
		refused 125 "static" "$LIMPET" run -o "t$i.limpet" -- "$TARGETS/static-stripped"
	done
}
