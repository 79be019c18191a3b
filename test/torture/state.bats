#!/usr/bin/env bats
# What a thread has is as it was: registers.c keeps known values in all of it and looks, while limpet
# comes and goes. (kills.bats has the limpets that do not come home.)
# time-limit: 600

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=4}"

# looked MODE N: so often.
looked() {
	tell "$1" check fine || return 1
	looks=${answer#fine }
	((looks >= $2))
}

# state_rounds MODE N: so many rounds while it looks, and it looks N times at least.
state_rounds() {
	local mode=$1 i status looks=0
	start "$mode" nice "$TARGETS/registers" "$mode" || return 1
	echo "# figures: registers $mode: the processor has $ready" >&3
	for ((i = 1; i <= ROUNDS; i++)); do
		status=0
		within 60 "$LIMPET" attach -q --no-seal --attach-timeout 10m -d "$((i * 7 % 20 + 1))ms" -o round.limpet "$pid" \
			>/dev/null 2>round.err || status=$?
		((status == 0 || status == 4)) ||
			fail "round $i: status $status: $(<round.err) $(<"$mode.err")" || return 1
		rm -f round.limpet
	done
	wait_until 60 looked "$mode" "$2" || return 1
	nothing_of_ours "$pid" || return 1
	finish "$mode" || return 1
	echo "# figures: registers $mode: $ROUNDS rounds, $looks looks" >&3
}

@test "threads that never sleep" {
	state_rounds spin 1000
}

@test "threads that sleep in system calls" {
	state_rounds block 100
}

@test "a single thread that waits for its input" {
	state_rounds main 1
}

@test "restartable sequences count right" {
	# A look at each 1024th.
	state_rounds rseq 1000
	local counted
	counted=$(grep -oE '^counted [0-9]+' <(cat <&"${out_of[rseq]}"))
	((${counted#counted } >= 1000000)) || fail "only $counted"
	echo "# figures: registers rseq: $counted" >&3
}
