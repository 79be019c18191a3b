#!/usr/bin/env bats
# What is written with --json, held against cli/limpet.schema.json by a validator, key by key.
# time-limit: 300

load helpers
setup() { begin; }
teardown() { end; }

schema=$root/cli/limpet.schema.json

# Into a file of its own below json/.
json() {
	local name=$1
	shift
	within 60 "$LIMPET" "$@" --json >"json/$name.json" 2>json.err || fail "limpet $*: $(<json.err)"
}

fits() {
	within 200 "$root/test/schema/validate" "$schema" "$@" 2>fits.err || fail "$(<fits.err)"
}

# reports TRACE...: whole and filtered.
reports() {
	local trace name
	for trace; do
		name=$(basename "$trace" .trace)
		json "$name" report -n 20 "$trace" || return 1
		json "$name.filtered" report -n 3 --include main "$trace" || return 1
	done
}

# bats test_tags=release
@test "reports of the traces that were kept" {
	mkdir json
	reports "$root"/test/traces/*.trace
	fits json/*.json
}

@test "reports, views and diffs of all kinds of traces" {
	local kind
	mkdir json
	within 120 "$LIMPET" run -q --on-overload wait -o kinds.trace -- "$TARGETS/kinds" >run.say 2>run.err || fail "limpet run"
	reports kinds.trace "$root/test/traces/scattered.trace"
	for kind in bottom-up top-down functions threads modules sizes lifetimes timeline pages; do
		json "kinds.$kind" report kinds.trace --view "$kind" || return 1
	done
	half=$("$LIMPET" report kinds.trace --json | jq '.capture.duration_seconds * 5e5 | floor')us
	json kinds.window report kinds.trace --to "$half"
	json kinds.born report kinds.trace --born-between ",$half"
	json kinds.lifetimes.born report kinds.trace --view lifetimes --born-between "$half,"
	json kinds.callers report kinds.trace --view callers=main
	json sampled.functions report "$root/test/traces/sampled.trace" --view functions
	json diff diff "$root/test/traces/lost.trace" "$root/test/traces/storm.trace"
	json sampled diff "$root/test/traces/storm.trace" "$root/test/traces/sampled.trace"
	json window diff "kinds.trace@-$half" "kinds.trace@$half-"
	fits json/*.json
}

# Keys of heaps that few programs have.
@test "examples of explain and stacks with every key" {
	fits "$root"/test/schema/{explain,stacks}.json
}

@test "status, doctor, explain and stacks" {
	mkdir json
	start storm "$TARGETS/storm" --threads 1
	json doctor doctor "$pid"
	json processes doctor
	json explain explain "$pid"
	json other explain "$$"
	json census explain "$pid" --objects
	json stacks stacks "$pid"
	attach "$pid" -d 1h
	json status status
	json one status "$pid"
	json mark mark "$pid" "nach dem Laden, ä"
	# Refused: it is being captured.
	run -3 --separate-stderr "$LIMPET" doctor "$pid" --json
	printf '%s\n' "$output" >json/refused.json
	stop "$pid"
	finish storm
	json none status
	fits json/*.json
}

@test "a key that is missing, of another type or not in the schema is found" {
	local change
	mkdir json
	json good report -n 2 "$root/test/traces/storm.trace"
	fits json/good.json
	for change in 'del(.totals.peak_bytes)' '.sites[0].stack[0].line = "7"' '.capture.end = "boredom"' \
		'.sites[0].colour = "red"' '.allocators = [{}]' '.version = 2'; do
		jq "$change" json/good.json >bad.json
		if "$root/test/schema/validate" "$schema" bad.json 2>bad.err; then
			fail "a report with $change fits" || return 1
		fi
		grep -q "^validate: bad.json: " bad.err
	done
}
