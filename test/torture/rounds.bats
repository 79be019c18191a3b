#!/usr/bin/env bats
# Rounds upon rounds. How many: STORM_ROUNDS captures of sixty-four threads that allocate, come and go, and
# ROUNDS of everything else: a few for `make test`, ten thousand of the first for `make torture`.
# time-limit: 600

load ../integration/helpers
load captures
load moments
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=6}"
: "${STORM_ROUNDS:=10}"

storm_busy() {
	tell storm go going
}
storm_quiet() {
	tell storm hold held
}

# At a rate that leaves the machine some room: what a thread waits for a processor is no figure of limpet's,
# and a round takes the less time. Threads live for a third of a second.
# bats test_tags=release
@test "captures: sixty-four threads that allocate, come and go" {
	start storm "$TARGETS/storm" --threads 64 --churn 300 --cross --signals --slots 32 --rate 60000
	busy=storm_busy quiet=storm_quiet own=()
	capture_rounds storm "$pid" "$STORM_ROUNDS" --threads 2 --events 1-2000
	nothing_of_ours "$pid"
	finish storm
	quick_attach storm
}

# bats test_tags=release
@test "captures: sixty-four threads that allocate as fast as they can" {
	start storm nice -n 19 "$TARGETS/storm" --threads 64 --churn 3000 --cross --signals --slots 32
	busy=storm_busy quiet=storm_quiet own=()
	capture_rounds full-storm "$pid" $((ROUNDS / 2)) --threads 2 --events 1-20000
	nothing_of_ours "$pid"
	finish storm
}

# code_rounds JOB BUILD THREADS [ARGUMENT...]: of a program whose code is changed, and is afterwards as it was.
code_rounds() {
	local job=$1 build=$2 threads=$3
	start "$job" nice -n 19 "$TARGETS/$build" "${@:4}" || return 1
	text_of "$pid" "$build" >text.before || return 1
	busy=${job}_busy quiet=${job}_quiet own=()
	capture_rounds "$build" "$pid" $((ROUNDS / 2)) --threads "$threads" --events 1-20000 || return 1
	nothing_of_ours "$pid" || return 1
	unchanged_text "$pid" "$build" || return 1
	finish "$job" || return 1
	rm "$job.in" "$job.out"
}

# bats test_tags=release
@test "captures: an allocator inside the program, sixteen threads as fast as they can" {
	code_rounds storm own-allocator 2 --threads 16 --cross --signals --slots 32
}

# bats test_tags=release
@test "captures: no dynamic linker, or one of another kind: sixteen threads that come and go" {
	local kind
	for kind in static storm-musl; do
		code_rounds storm "$kind" 2 --threads 16 --churn 3000 --cross --signals --slots 32 --rate 60000 || return 1
	done
}

nim_busy() {
	tell nim go going
}
nim_quiet() {
	tell nim hold held
}

# bats test_tags=release
@test "captures: Nim's own allocator" {
	local build
	for build in nim-orc-danger-on nim-refc-release-on; do
		code_rounds nim "$build" 1 || return 1
	done
}

# All threads are parked, nothing is recorded: everything, to the last page of the heap, is as it was before
# the first capture.
@test "captures: a program at rest is the same to the last mapping" {
	local link
	for link in storm storm-full-plt-pie; do
		start "$link" "$TARGETS/$link" --threads 64 --slots 32
		tell "$link" "run 500" ran
		: >ranges
		"$root/test/torture/residue" "$pid" --ranges ranges >residue.before
		"$TORTURE/captures" --threads 0 --hold 1-5 --ranges ranges "$LIMPET" "$pid" "$ROUNDS"
		"$root/test/torture/residue" "$pid" --ranges ranges >residue.after
		diff -u residue.before residue.after || fail "$link is not as it was" || return 1
		finish "$link"
	done
}

# The look itself: an agent that is there shows in every part of it.
# bats test_tags=release
@test "captures: an agent that stays would be seen" {
	local part
	start storm "$TARGETS/storm" --threads 4
	"$root/test/torture/residue" "$pid" --live >residue.before
	load=dlopen attach "$pid" --no-seal -q
	"$root/test/torture/residue" "$pid" --live >residue.during
	stop "$pid"
	for part in mappings descriptors modules slots; do
		# From the word alone on its line to the next such word.
		if diff <(sed -n "/^$part\$/,/^[a-z]/p" residue.before) <(sed -n "/^$part\$/,/^[a-z]/p" residue.during) >part.diff; then
			fail "an agent does not show in the $part" || return 1
		fi
		grep -q '^>.*' part.diff
	done
	"$root/test/torture/residue" "$pid" --live | diff residue.before -
	# A word of this value stands for the address of a hook.
	echo "1111111111111111-1111111111111112 1" >ranges
	"$root/test/torture/residue" "$pid" --ranges ranges >residue.before
	[[ $(tail -n 1 residue.before) == "hook addresses" ]]
	tell storm "leak 1" leaked
	"$root/test/torture/residue" "$pid" --ranges ranges >residue.after
	(($(sed -n '/^hook addresses/,$p' residue.after | grep -c ': 1111111111111111$') == 125))
	finish storm
}

# bats test_tags=release
@test "attach and detach without recording: eight threads, then one that never rests" {
	local threads
	for threads in 8 1; do
		start "storm$threads" nice -n 19 "$TARGETS/storm" --threads "$threads"
		tell "storm$threads" go going
		within 300 "$TORTURE/rounds" "$pid" $((ROUNDS * 3))
		nothing_of_ours "$pid"
		tell "storm$threads" hold held
		finish "storm$threads"
	done
}

@test "the target is killed at any moment; limpet ends with a readable trace" {
	local i rounds=$(((ROUNDS + 1) / 2)) ptraces calls at killed=0
	start measure "$TARGETS/storm" --threads 4 --cross
	measure_span "$pid"
	finish measure
	for ((i = 1; i <= rounds; i++)); do
		start "storm$i" "$TARGETS/storm" --threads 4 --cross
		tell "storm$i" go going
		trace=$work/target.$i.limpet
		moment_of "$i" "$rounds"
		status=0
		MEDDLE_KILL=$at:$pid meddled attach -q --no-seal --attach-timeout 1h -d 20ms -o "$trace" "$pid" \
			>/dev/null 2>round.err || status=$?
		((status == 0 || status == 1 || status == 3 || status == 4)) ||
			fail "round $i, $at: limpet ended with $status: $(<round.err)" || return 1
		# Beyond its last call nobody is killed.
		if ended "$pid"; then
			killed=$((killed + 1))
		else
			kill -KILL "$pid"
		fi
		wait "$pid" || true
		if ((status == 0 || status == 4)); then
			report
			expect '.capture.end == "target-killed" or .capture.end == "duration"'
		fi
		rm -f "$trace"
	done
	((killed >= rounds / 2)) || fail "only $killed of $rounds were killed meanwhile"
}
