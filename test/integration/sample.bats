#!/usr/bin/env bats
# --sample: estimates against a full recording of the same calls.

load helpers
setup() { begin; }
teardown() { end; }

# Random numbers come from the seeds 1 to 12 (test/targets/instead.c), and, as a thread's place in a table counts too,
# addresses are not random: what is drawn is the same in every run on a system. On another one it is another draw,
# for which the bounds below are six deviations wide: one in a thousand million is outside of them. So are more rounds
# (make torture).
: "${SAMPLE_ROUNDS:=12}"

# capture FILE OPTION...: a run of the program that makes the same calls each time.
capture() {
	within 120 "$LIMPET" run -q -o "$1" --on-overload wait "${@:2}" -- "$TARGETS/kinds"
}

# sampled SEED FILE
fixed=(setarch -R)
"${fixed[@]}" true 2>/dev/null || fixed=()
sampled() {
	INSTEAD_RANDOM=$1 LD_PRELOAD=$TARGETS/instead.so within 120 "${fixed[@]}" "$LIMPET" run -q -o "$2" \
		--on-overload wait --sample 32KiB -- "$TARGETS/kinds"
}

# A line of JSON for a trace: the totals as a site of their own, and the sites by their innermost name.
sites() {
	"$LIMPET" report "$1" --json --sort allocated | jq -c '
		.sites as $sites | {whole: .totals} +
		([$sites[] | {(([.stack[] | select(.function // "" | startswith("kinds_")) | .function] + ["other"])[0]): .}] | add)'
}

# What does not hang on the time of a run.
of_samples='map_values({allocations, allocated_bytes, live_allocations, live_bytes})'

@test "the truth lies in the stated intervals, and the estimates are right on the average" {
	local round
	capture full.limpet
	sites full.limpet >truth
	json_says '.whole.allocations > 100000 and .kinds_churn.allocations == 60000 and
		.kinds_small.live_allocations == 10000 and .whole.allocations_low == null' <truth
	for ((round = 1; round <= SAMPLE_ROUNDS; round++)); do
		sampled "$round" "$round.limpet"
		sites "$round.limpet"
		rm "$round.limpet"
	done >estimates
	[[ $(wc -l <estimates) == "$SAMPLE_ROUNDS" ]]
	# The same seed, the same samples, if the addresses are the same, too.
	if ((${#fixed[@]})); then
		sampled 1 again.limpet
		sites again.limpet >again
		diff <(jq "$of_samples" again) <(head -n 1 estimates | jq "$of_samples")
	fi
	# A site that was never sampled is in no report, and may have allocated 3.7 periods.
	jq -n --slurpfile truth truth --slurpfile rounds estimates '
		["allocations", "allocated_bytes", "live_allocations", "live_bytes"] as $figures |
		["whole", "kinds_churn", "kinds_small", "kinds_large", "kinds_vector", "kinds_spread",
		 "kinds_zeroed", "kinds_aligned"] as $sites |
		[$sites[] as $site | $figures[] as $figure | $truth[0][$site][$figure] as $is |
		 [$rounds[][$site] | select(. != null) | {
			held: (.[$figure + "_low"] <= $is and $is <= .[$figure + "_high"]),
			ordered: (.[$figure + "_low"] <= .[$figure] and .[$figure] <= .[$figure + "_high"]),
			width: (.[$figure + "_high"] - .[$figure + "_low"]), value: .[$figure]}] as $all |
		 {site: $site, figure: $figure, truth: $is, rounds: ($all | length),
		  held: ([$all[] | select(.held)] | length), ordered: all($all[]; .ordered),
		  mean: (([$all[].value] | add) / ($all | length)),
		  width: (([$all[].width] | add) / ($all | length))}]' >table
	jq -r '.[] | [.site, .figure, .truth, .mean, .width, .held, .rounds] | @tsv' table
	json_says 'all(.[]; .ordered and .rounds == '"$SAMPLE_ROUNDS"')' <table
	# 95 % of the intervals; count and bytes of a site are not independent of each other, so the
	# share is allowed six deviations of a quarter of the cases.
	json_says '(map(.held) | add) as $held | (map(.rounds) | add) as $n |
		$held >= 0.95 * $n - 6 * ($n * 0.95 * 0.05 * 4 | sqrt)' <table
	# No single figure is missed all the time.
	json_says "all(.[]; .held >= $SAMPLE_ROUNDS * 0.95 - 6 * ($SAMPLE_ROUNDS * 0.95 * 0.05 | sqrt) - 1)" <table
	# A deviation is about a quarter of the width: six of these, of the mean.
	json_says "all(.[]; (.mean - .truth | fabs) <= 6 * .width / 4 / ($SAMPLE_ROUNDS | sqrt) + 1)" <table
}

@test "what a sample does not say is unknown, and the report says that it estimates" {
	capture s.limpet --sample 32KiB
	trace=$work/s.limpet
	report
	expect '.capture.sample_bytes == 32768 and .capture.estimated and .capture.complete'
	expect '.capture.dropped_events == 0 and .capture.events < 20000'
	expect '.totals.temporary_allocations == null and .totals.foreign_frees == null and
		.totals.foreign_freed_bytes == null'
	expect 'all(.sites[]; .temporary_allocations == null and .live_bytes_low <= .live_bytes and
		.live_bytes <= .live_bytes_high)'
	# Frees are matched: nothing of the churn is live, and no free was missed.
	expect '[.sites[] | select(any(.stack[]; .function == "kinds_churn")) | .live_bytes_high] == [0]'
	expect '.totals.inferred_frees == 0'
	# Timeline and sizes are of the same estimates.
	expect '.timeline[-1].live_bytes == .totals.live_bytes'
	expect '(([.sizes[].allocated_bytes] | add) - .totals.allocated_bytes | fabs) < 100'
	run -0 "$LIMPET" report s.limpet
	[[ $output == *"a sample every 32.0 KiB"* ]]
	[[ $output == *"estimated live"*"95 % confidence"* ]]
	[[ $output != *"every event is in the trace"* ]]
	run -0 "$LIMPET" report s.limpet --sort temporary
	[[ $output == *"do not say which"* ]]
	# A window of all of it is the same.
	whole=$(jq -c '[.totals.live_bytes, .totals.peak_bytes, .totals.allocations]' "$work/report.json")
	[[ $("$LIMPET" report s.limpet --json --from 0 --to 1h |
		jq -c '[.totals.live_bytes, .totals.peak_bytes, .totals.allocations]') == "$whole" ]]
}

@test "an interval without width is no certainty: nothing that is live may have been sampled" {
	trace=$root/test/traces/overload.trace
	"$LIMPET" report "$trace" >text
	grep -qx 'estimated live at least 152.1 KiB in 76 blocks: what was not sampled is unknown' text || fail "$(<text)" || return 1
	grep -q '^overload  1 time, at least ' text
	"$LIMPET" report "$root/test/traces/sampled.trace" >text
	grep -qE '^estimated live .* to .* in .* to .* blocks, with 95 % confidence$' text || fail "$(<text)"
}

@test "temporary allocations of samples are not known, and nothing shows them as 0" {
	local kind
	trace=$root/test/traces/sampled.trace
	for kind in threads timeline; do
		"$LIMPET" report "$trace" --view $kind >text
		grep -qE ' - ' text || fail "$(cat text)" || return 1
		run ! grep -E '\b0 %' text
	done
	for kind in bottom-up top-down functions modules; do
		run -0 "$LIMPET" report "$trace" --view $kind --sort temporary
		[[ $output == *"do not say which"* ]] || fail "$kind: $output" || return 1
	done
	"$LIMPET" report "$trace" --json --include main | jq -e '.hidden.temporary_allocations == null' >/dev/null
	refused 1 "do not say which" "$LIMPET" diff --sort temporary "$trace" "$trace"
	refused 1 "do not say which" "$LIMPET" diff --sort temporary "${trace/sampled/storm}" "$trace"
	"$LIMPET" diff --json "${trace/sampled/storm}" "$trace" >diff.json
	json_says '.old.totals.temporary_allocations != null and .new.totals.temporary_allocations == null and
		all(.sites[]; .old.temporary_allocations != null and .new.temporary_allocations == null)' <diff.json
	refused 1 "do not say which" "$LIMPET" export "$trace" --format folded --sort temporary
	"$LIMPET" export "$trace" --format callgrind -o out.callgrind
	grep -qx 'events: Live LiveBlocks Peak Allocated Allocations' out.callgrind
	awk '/^summary:/ && NF != 6 { exit 1 } /^[0-9]/ && NF != 6 { exit 1 }' out.callgrind
	"$LIMPET" export "$trace" --format pprof -o out.pb
	run ! grep -qa temporary_objects out.pb
	grep -qa peak_space out.pb
}

# bats test_tags=check
@test "a program under load is sampled from outside, and left clean" {
	start storm "$TARGETS/storm" --threads 4 --cross --churn 500
	attach "$pid" --sample 256KiB
	tell storm "run 20000" ran
	stop "$pid"
	nothing_of_ours "$pid"
	report
	expect '.capture.complete and .capture.estimated and .totals.allocations > 0'
	tell storm "run 1000" ran
	finish storm
}
