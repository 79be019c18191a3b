#!/usr/bin/env bats
# How `make bench` judges: given figures of a run and stored ratios, which exit status and which words. Nothing is
# measured here.

# bats file_tags=release
load helpers
setup() { begin; }
teardown() { end; }

# figures BARE LIMPET HEAPTRACK RATE: of a run with three rounds, the last of them far out.
figures() {
	jq -n --argjson bare "$1" --argjson own "$2" --argjson other "$3" --argjson rate "$4" '
		def rounds($key): [{($key): .}, {($key): (. * 1.01)}, {($key): (. * 9)}];
		{pairs: [{arguments: [1, 20, 1], bare: ([$bare, $bare, $bare] | map({cpu_ns: .})), limpet: ($own | rounds("cpu_ns")),
			heaptrack: ([$other, $other, $other] | map({cpu_ns: .}))}],
		programs: [{name: "redis", bare: ([100, 100, 100] | map({rate: .})), limpet: ($rate | rounds("rate"))}]}' >run.json
}

# stored BARE HEAPTRACK RATE: ratios.
stored() {
	jq -n --argjson bare "$1" --argjson other "$2" --argjson rate "$3" '
		{"pair: limpet / bare, depth 20, 1 stacks": $bare, "pair: limpet / heaptrack, depth 20, 1 stacks": $other,
		"+rate: limpet / bare, redis": $rate} | map_values({ratio: ., date: "2026-01-01", machine: "some"})' >ratios.json
}

# judged STATUS [OPTION...]
judged() {
	run -"$1" "$root/scripts/bench" --judge run.json --ratios ratios.json --results results.json "${@:2}"
}

@test "bench: ratios as good as the stored ones, or a little worse, pass" {
	figures 30 120 300 90
	stored 4.0 0.4 0.9
	judged 0
	stored 3.5 0.35 1.05
	judged 0
	[[ $output == *"0 worse of 3" ]]
	# Better by far.
	stored 8.0 4 0.1
	judged 0
}

@test "bench: one that is a fifth worse fails, and is named beside what is stored" {
	figures 30 120 300 90
	stored 3.3 0.4 0.9
	judged 1
	[[ $output =~ "limpet / bare, depth 20, 1 stacks"\ +stored\ +3\.3\ +now\ +4\.04\ +WORSE ]]
	[[ $output == *"1 worse of 3" ]]
	stored 4 0.33 0.9
	judged 1
	[[ $output =~ "limpet / heaptrack, depth 20, 1 stacks"\ +stored\ +0\.33\ +now\ +0\.404\ +WORSE ]]
}

@test "bench: of a rate, less is worse" {
	figures 30 120 300 70
	stored 4 0.4 0.9
	judged 1
	[[ $output =~ "rate: limpet / bare, redis"\ +stored\ +0\.9\ +now\ +0\.707\ +WORSE ]]
}

@test "bench: what was not measured, or is not stored, is said and does not fail" {
	figures 30 120 300 90
	stored 4 0.4 0.9
	jq 'del(.programs) | .pairs[0].heaptrack_ended = true' run.json >less.json
	mv less.json run.json
	judged 0
	[[ $output =~ redis\ +stored\ +0\.9\ +now\ +-\ +"not measured" && $output == *"0 worse of 1" ]]
	echo '{}' >ratios.json
	judged 0
	[[ $output == *"not stored"*"0 worse of 0" ]]
}

@test "bench: a round in which events were dropped, or samples taken, has no ratio" {
	figures 30 120 300 90
	stored 4 0.4 0.9
	# They are far too good, and two of three.
	jq '.pairs[0] |= (.limpet[1:] = [{cpu_ns: 1}, {cpu_ns: 1}] |
			.captures = [{dropped: 0, overloads: 0}, {dropped: 7, overloads: 0}, {dropped: 1, overloads: 0}]) |
		.programs[0] |= (.limpet[1:] = [{rate: 900}, {rate: 900}] |
			.captures = [{dropped: 0, overloads: 0}, {dropped: 0, overloads: 1}, {dropped: 0, overloads: 2}])' run.json >some.json
	mv some.json run.json
	judged 0
	[[ $output =~ "limpet / bare, depth 20, 1 stacks"\ +stored\ +4\ +now\ +4$'\n' ]]
	[[ $output =~ "rate: limpet / bare, redis"\ +stored\ +0\.9\ +now\ +0\.9$'\n' ]]
	jq '.pairs[0].limpet[0].cpu_ns = 200' run.json >worse.json
	mv worse.json run.json
	judged 1
	[[ $output =~ "limpet / bare, depth 20, 1 stacks"\ +stored\ +4\ +now\ +6\.667\ +WORSE ]]
}

@test "bench: a stored ratio that cannot be told fails, if its program was there" {
	figures 30 120 300 90
	stored 4 0.4 0.9
	jq '.programs[0].captures = ([1, 2, 3] | map({dropped: .}))' run.json >lossy.json
	cp lossy.json run.json
	judged 1
	[[ $output =~ redis\ +stored\ +0\.9\ +now\ +-\ +MISSING && $output == *"1 missing, 0 worse of 2" ]]
	# Programs that are not here are.
	jq '.left_out = ["redis", "heaptrack"] | .programs = [] | .pairs[0].heaptrack = []' lossy.json >run.json
	judged 0
	[[ $output =~ redis\ +stored\ +0\.9\ +now\ +-\ +"not measured" && $output == *"0 missing, 0 worse of 1" ]]
	jq '.programs = []' lossy.json >run.json
	judged 1
	# What is stored next is what the next run can be held against.
	cp lossy.json run.json
	judged 0 --store
	[[ $output == *"redis: in no round without a loss, no longer stored"* ]]
	judged 0
	rm ratios.json
	judged 1
	[[ $output == *"no such file, nothing to judge by"* ]]
}

@test "bench: the stops of a target are ratios to an idle tracer's" {
	echo '{}' >run.json
	printf 'gaps\t{"attach":{"net":[700,800,900]},"detach":{"net":[500,1,1]},"idle":{"net":[50,60,70]}}\n' >stops
	jq -n '{"stop: attach / idle tracer, gaps": {ratio: 14}, "stop: detach / idle tracer, gaps": {ratio: 8}}' >ratios.json
	judged 1 --stops stops
	[[ $output =~ "detach / idle tracer, gaps"\ +stored\ +8\ +now\ +10\ +WORSE && $output == *"1 worse of 2" ]]
}

@test "bench: ratios are stored with their machine and date, and then pass" {
	figures 30 120 300 90
	stored 1 0.1 9
	echo '{"other": {"ratio": 5, "date": "2026-01-01", "machine": "some"}}' >ratios.json
	judged 0 --store
	json_says '.pairs[0].bare[0].cpu_ns == 30' <results.json
	json_says '.other.ratio == 5 and (."+rate: limpet / bare, redis" | .ratio == 0.909 and (.machine | test("processors")) and
		(.date | test("^[0-9]{4}-[0-9]{2}-[0-9]{2}$")))' <ratios.json
	judged 0
}

@test "bench: goals are told beside what is reached, and fail nothing" {
	figures 30 70 300 90
	stored 4 0.4 0.9
	judged 0
	[[ $output =~ "a pair at depth 20, 1 stack: ns added"\ +"<="\ +45\ +40.7\ +270$'\n' ]]
	[[ $output =~ "as often cheaper than heaptrack, depth 20"\ +">="\ +9\ +6.634\ +short ]]
	jq '.captures = [{name: "one", captures: ([1, 2, 3] | map({attach_ms: ., detach_ms: ., command_ms: 200, status: 0,
		dropped: 0}))}]' run.json >more.json
	mv more.json run.json
	judged 0
	[[ $output =~ "one: stop at attach, 99 %, ms"\ +"<="\ +1\ +3\ +short ]]
}

@test "bench: each ratio that the repository has is one that can be judged" {
	json_says 'length > 10 and all(.[]; (.ratio | type == "number" and . > 0) and (.date | length == 10) and
		(.machine | length > 0)) and all(keys[]; test("^(pair|\\+rate|report|stop): [^/]+ / [^,]+"))' \
		<"$root/test/bench/ratios.json"
}
