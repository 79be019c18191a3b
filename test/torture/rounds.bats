#!/usr/bin/env bats
# Rounds upon rounds, and limpet killed at any moment. ROUNDS says how many: a few for `make test`, ten
# thousand for a night.
# time-limit: 600

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${ROUNDS:=60}"

# A round as short as it can be: the least time in which a mistake could hide.
quick_rounds() {
	local i
	for ((i = 1; i <= ROUNDS; i++)); do
		timeout 60 "$LIMPET" attach -q --no-seal -d "$((i % 40 + 1))ms" -o "round.limpet" "$1" \
			2>round.err || fail "round $i: status $?: $(<round.err)" || return 1
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

@test "attach and detach: modules come and go all the while" {
	start loader "$TARGETS/loader" "$TARGETS/plugin.so"
	printf 'storm %d\n' $((ROUNDS * 200)) >&"${in_of[loader]}"
	quick_rounds "$pid"
	heard loader stormed
	finish loader
}

# SIGKILL at a moment between 0 and 60 ms after the start: in preflight, in the remote calls, while
# slots are exchanged, while it captures, while it leaves.
@test "limpet is killed at any moment; the target works on, and the next attach repairs" {
	start storm "$TARGETS/storm" --threads 4 --churn 5000 --cross --rate 200000
	tell storm go going
	local i job
	for ((i = 1; i <= ROUNDS; i++)); do
		"$LIMPET" attach -q --no-seal -d 20ms -o "killed.$i.limpet" "$pid" 2>/dev/null 3>&- &
		job=$!
		limpet_jobs+=("$job")
		python3 -c "import time; time.sleep($((i * 37 % 60)) / 1000)"
		kill -KILL "$job" 2>/dev/null || true
		wait "$job" 2>/dev/null || true
		rm -f killed.*
		if ((i % 10 == 0)); then
			! ended "$pid" || fail "the target died in round $i" || return 1
			timeout 60 "$LIMPET" attach -q --no-seal -d 20ms -o whole.limpet "$pid" 2>round.err ||
				fail "round $i: no attach after a kill: $(<round.err)" || return 1
			rm -f whole.limpet
			nothing_of_ours "$pid" || fail "after round $i" || return 1
		fi
	done
	tell storm hold held
	tell storm "run 2000" ran
	finish storm
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
