#!/usr/bin/env bats
# Rounds upon rounds. ROUNDS says how many: a few for `make test`, ten
# thousand for a night.
# time-limit: 600

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=20}"
: "${TORTURE:=$root/build/torture}"

# A round as short as it can be: the least time in which a mistake could hide.
quick_rounds() {
	local i status
	for ((i = 1; i <= ROUNDS; i++)); do
		status=0
		timeout 60 "$LIMPET" attach -q --no-seal -d "$((i % 40 + 1))ms" -o "round.limpet" "$1" \
			>/dev/null 2>round.err || status=$?
		# 4: the machine was too busy to take every event, which is said and not what this is about.
		((status == 0 || status == 4)) ||
			fail "round $i: status $status: $(<round.err)" || return 1
		rm -f round.limpet
	done
	nothing_of_ours "$1"
}

@test "attach and detach: sixty-four threads that allocate, come and go" {
	start storm nice "$TARGETS/storm" --threads 64 --churn 3000 --cross --signals --slots 32
	tell storm go going
	quick_rounds "$pid"
	tell storm hold held
	finish storm
}

@test "enter and leave without recording: eight threads, then one that never rests" {
	local threads
	for threads in 8 1; do
		start "storm$threads" "$TARGETS/storm" --threads "$threads"
		tell "storm$threads" go going
		timeout 300 "$TORTURE/rounds" "$pid" $((ROUNDS * 2))
		nothing_of_ours "$pid"
		tell "storm$threads" hold held
		finish "storm$threads"
	done
}

@test "the target is killed at any moment; limpet ends with a readable trace" {
	local i rounds=$((ROUNDS / 6))
	for ((i = 1; i <= rounds; i++)); do
		start "storm$i" "$TARGETS/storm" --threads 4 --cross
		tell "storm$i" go going
		trace=$work/target.$i.limpet
		"$LIMPET" attach -q --no-seal -o "$trace" "$pid" 2>round.err 3>&- &
		limpet_job=$!
		limpet_jobs+=("$limpet_job")
		python3 -c "import time; time.sleep($((i * 41 % 120)) / 1000)"
		kill -KILL "$pid"
		exit_status_of "${job_of[storm$i]}" 10
		exit_status_of "$limpet_job" 60 || fail "round $i: limpet does not end" || return 1
		((status == 0 || status == 1 || status == 3 || status == 4)) ||
			fail "round $i: limpet ended with $status: $(<round.err)" || return 1
		if ((status == 0 || status == 4)); then
			report
			expect '.capture.end == "target-killed"'
		fi
		rm -f "$trace"
	done
}
