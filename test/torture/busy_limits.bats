#!/usr/bin/env bats
# limpet on a busy machine: sixteen threads that allocate at full speed, come and go, and two busy loops beside them.
# Nothing is dropped, each capture is clean and complete, and it is over soon. How long a thread stood, and the whole
# command took, is judged by the median of BUSY_ROUNDS: what a thread has to wait for is mostly its program's own.
# time-limit: 3600
# needs-machine: how long a thread stands where there is no processor for it

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${BUSY_ROUNDS:=20}"

# percentile P FILE: of one number a line.
percentile() {
	sort -n "$2" | awk -v p="$1" '{ a[NR] = $1 } END { i = int(NR * p / 100 + 0.999); print a[i < 1 ? 1 : i] }'
}

# figures NAME FILE: in milliseconds, of microseconds.
figures() {
	local p words=
	for p in 50 90 99 100; do
		words+=" $p %: $(awk -v us="$(percentile "$p" "$2")" 'BEGIN { printf "%.1f", us / 1000 }')"
	done
	echo "# figures: $1, ms:$words" >&3
}

@test "captures on a busy machine are short, and lose nothing" {
	local i began
	for i in 1 2; do
		setsid sh -c 'while :; do :; done' >/dev/null 2>&1 3>&- &
		limpet_jobs+=($!)
	done
	start storm setsid "$TARGETS/storm" --threads 16 --churn 20000
	tell storm go going
	for ((i = 0; i < BUSY_ROUNDS; i++)); do
		trace=$work/storm.$i.limpet
		began=$EPOCHREALTIME
		within 60 "$LIMPET" attach -q --no-seal -d 100ms -o "$trace" "$pid" || fail "round $i: status $?" || return 1
		echo $((${EPOCHREALTIME/./} - ${began/./})) >>whole
		report || return 1
		expect '.capture | .complete and .dropped_events == 0 and .agent_unloaded'
		jq -r '.capture.attach_stop_microseconds' report.json >>attach
		jq -r '.capture.detach_stop_microseconds' report.json >>detach
		rm -f "$trace"
	done
	figures "stop at attach" attach
	figures "stop at detach" detach
	figures "the whole command" whole
	tell storm hold held
	nothing_of_ours "$pid" || return 1
	finish storm || return 1
	(($(percentile 50 attach) <= 10000 && $(percentile 50 detach) <= 10000)) || fail "a thread stood for long"
	(($(percentile 50 whole) <= 1500000)) || fail "a capture took long"
}
