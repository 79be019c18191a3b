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
@test "examples of explain, holders, leaks and stacks with every key" {
	fits "$root"/test/schema/{explain,holders,leaks,stacks}.json
}

@test "status, doctor, explain, leaks and stacks" {
	mkdir json
	start storm "$TARGETS/storm" --threads 1
	json doctor doctor "$pid"
	json processes doctor
	json explain explain "$pid"
	json other explain "$$"
	json census explain "$pid" --objects
	json leaks leaks "$pid"
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

# Those about a trace print what stands there; what others print depends on the process.
@test "docs/automation.md: each command answers, by the schema" {
	local command want=() count=0 answer
	mkdir json bin
	# Puts aside what limpet says before jq takes a part of it.
	printf '#!/bin/sh\n"%s" "$@" | tee "%s/json/$COUNT.json"\n' "$LIMPET" "$work" >bin/limpet
	chmod +x bin/limpet
	cp "$root/test/verdicts/traces/xstrdup-attributes.limpet" server.26753.limpet
	start storm "$TARGETS/storm"
	while IFS= read -r command; do
		mapfile -t want < <(awk -v command="$command" 'on && (/^ *$/ || /^ *\$ /) { exit } on { sub(/^ +/, ""); print }
			index($0, "$ " command) { on = 1 }' "$root/docs/automation.md")
		[[ $command != "limpet status"* ]] || attach "$pid" -d 1h
		count=$((count + 1))
		answer=$(COUNT=$count PATH=$work/bin:$PATH within 60 bash -o pipefail -c "${command/ 26753 / $pid }") || fail "$command" || return 1
		[[ $command != "limpet status"* ]] || stop "$pid"
		[[ $command != *server.26753* ]] || same "$command" "$answer" "$(printf '%s\n' "${want[@]}")" || return 1
		[[ -n $answer && $answer != null ]] || fail "no answer: $command" || return 1
	done < <(sed -n 's/^ *\$ //p' "$root/docs/automation.md")
	same "questions" "$count" 10
	fits json/*.json
	same "identity" "$(jq -r '."$id"' "$schema")" "$(grep -o 'urn:limpet:json:[0-9]*' "$root/docs/automation.md")"
	[[ $(jq -r '.version' json/5.json) == "$(jq -r '."$id" | split(":")[-1]' "$schema")" ]]
	finish storm
}
