#!/usr/bin/env bats
# The priorities of limpet and of the target.
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

# scheduled PID: "nice policy" of each of its threads, each once
scheduled() {
	priorities /proc/"$1"/task/*/stat
}

# By then it is not in the middle of entering any more.
captures_at() {
	[[ $(scheduled "$limpet_job" | awk '{ print $1 }' | sort -u) == "$1" ]]
}

@test "it is above the target while much is to be read, and the target stays as it was" {
	local before
	may_raise_a_priority || skip "this user may not raise a priority"
	start storm nice -n 3 "$TARGETS/storm" --threads 2
	before=$(scheduled "$pid")
	same "the target" "$before" "3 0"
	attach "$pid"
	wait_until 60 piled_up "$limpet_job" "$pid" storm "run 300000" ran captures_at -20
	# 0: SCHED_OTHER, 3: SCHED_BATCH; never a real-time one.
	[[ $(scheduled "$limpet_job") != *" "[12]* ]] || fail "limpet: $(scheduled "$limpet_job")"
	same "the target" "$(scheduled "$pid")" "$before"
	wait_until 60 captures_at 0
	stop "$pid"
	good_capture
	same "the target" "$(scheduled "$pid")" "$before"
	nothing_of_ours "$pid"
	finish storm
}

@test "who has started it with a lower priority keeps that while it captures" {
	start storm "$TARGETS/storm" --threads 1
	printf '#!/bin/sh\nexec nice -n 5 "%s" "$@"\n' "$LIMPET" >niced
	chmod +x niced
	LIMPET=./niced attach "$pid"
	wait_until 30 captures_at 5
	stop "$pid"
	good_capture
	finish storm
}
