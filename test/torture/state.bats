#!/usr/bin/env bats
# What a thread has is as it was: registers.c keeps known values in all of it and looks, while limpet
# comes and goes. Rounds that end well, and limpets that are killed on the way, whose thread gets home
# by its prepared signal frame.
# time-limit: 600

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=20}"
: "${TORTURE:=$root/build/torture}"

# state_rounds MODE [COMMAND...]: so many rounds while it looks, and it must have looked.
state_rounds() {
	local mode=$1 i status looks=0
	start "$mode" nice "$TARGETS/registers" "$mode" || return 1
	echo "# figures: registers $mode: the processor has $ready" >&3
	for ((i = 1; i <= ROUNDS; i++)); do
		status=0
		timeout 60 "$LIMPET" attach -q --no-seal -d "$((i % 20 + 1))ms" -o round.limpet "$pid" \
			>/dev/null 2>round.err || status=$?
		((status == 0 || status == 4)) ||
			fail "round $i: status $status: $(<round.err) $(<"$mode.err")" || return 1
		rm -f round.limpet
	done
	tell "$mode" check fine || return 1
	looks=${answer#fine }
	((looks > 0)) || fail "it did not look" || return 1
	nothing_of_ours "$pid" || return 1
	finish "$mode" || return 1
	echo "# figures: registers $mode: $ROUNDS rounds, $looks looks" >&3
}

@test "threads that never sleep" {
	state_rounds spin
}

@test "threads that sleep in system calls" {
	state_rounds block
}

@test "a single thread that waits for its input" {
	state_rounds main
}

@test "restartable sequences count right" {
	state_rounds rseq
	local counted
	counted=$(grep -oE '^counted [0-9]+' <(cat <&"${out_of[rseq]}"))
	((${counted#counted } >= 1000000)) || fail "only $counted"
	echo "# figures: registers rseq: $counted" >&3
}

# A limpet that is killed at one of its steps, from the first to the last of entering and leaving. What
# it left is the matter of kills.bats; here it is what became of the threads.
killed_rounds() {
	local mode=$1 steps i step
	start "$mode" nice "$TARGETS/registers" "$mode" || return 1
	tell "$mode" interrupted noted || return 1
	steps=$(timeout 60 "$TORTURE/killstep" "$pid" 1000000) || return 1
	for ((i = 1; i <= ROUNDS; i++)); do
		step=$((i * 7919 % steps + 1))
		# In a shell of its own, whose words about the kill nobody needs.
		(timeout 60 "$TORTURE/killstep" "$pid" "$step" || true) >step.say 2>&1
		! ended "$pid" || fail "killed at step $step of $steps: $(<"$mode.err")" || return 1
		timeout 60 "$LIMPET" stop "$pid" >/dev/null 2>&1 || true
	done
	timeout 60 "$LIMPET" attach -q --no-seal -d 5ms -o round.limpet "$pid" >/dev/null 2>round.err ||
		fail "no attach afterwards: $(<round.err)" || return 1
	rm -f round.limpet
	tell "$mode" check fine || return 1
	finish "$mode" || return 1
	echo "# figures: registers $mode: $ROUNDS kills at $steps steps, ${answer#fine } looks" >&3
}

@test "limpet is killed at any step: threads that never sleep" {
	killed_rounds spin
}

@test "limpet is killed at any step: threads that sleep in system calls" {
	killed_rounds block
}

@test "limpet is killed at any step: a single thread that waits for its input" {
	killed_rounds main
}
