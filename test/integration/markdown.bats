#!/usr/bin/env bats
# Reports and diffs as Markdown, read by the program that defines how trackers of issues show it (cmark-gfm).
# time-limit: 120

load helpers
setup() { begin; }
teardown() { end; }

# shown FILE [OPTION...]: test/markdown/check finds nothing in it that the report does not have.
shown() {
	cmark-gfm --unsafe -e table -e strikethrough "$1" >shown.html
	within 60 "$root/test/markdown/check" shown.html "${@:2}" 2>check.err || fail "$(<check.err)"
}

@test "a report of each kind of trace: findings, table, and the text report's figures and stacks" {
	local trace name
	for trace in "$root"/test/traces/*.trace; do
		name=$(basename "$trace" .trace)
		"$LIMPET" report --format markdown "$trace" >"$name.md" 2>md.err || fail "$name: $(<md.err)"
		"$LIMPET" report --json -n 10 "$trace" >"$name.json"
		"$LIMPET" report "$trace" >"$name.txt"
		shown "$name.md" --report "$name.json" --text "$name.txt" || return 1
	done
	"$LIMPET" report --format text "$trace" | cmp - "$name.txt"
}

@test "names that look like markup are names" {
	local name='a|b`c``d<img src=x onerror=1> #12\*e*_f_ [g](h) &lt;$i$~~j~~'
	hostile_program "$name" '`|<b>@all*'
	"$LIMPET" run -q --on-overload wait -o hostile.limpet -- './`|<b>@all*'
	"$LIMPET" report --format markdown hostile.limpet >hostile.md
	"$LIMPET" report --json -n 10 hostile.limpet >hostile.json
	"$LIMPET" report hostile.limpet >hostile.txt
	json_says --arg name "$name" '[.sites[].stack[].function] | index($name) != null' <hostile.json
	shown hostile.md --report hostile.json --text hostile.txt \
		--name 'a|b`c``d<...> #12\*e*_f_ [g] &lt;$i$~~j~~'
	"$LIMPET" report --format markdown --full hostile.limpet >full.md
	"$LIMPET" report --full hostile.limpet >full.txt
	grep -qF "$name" full.txt
	shown full.md --text full.txt
	# A tracker would link it.
	grep -q '^- .*#<!-- -->12' hostile.md
	"$LIMPET" report --format markdown --view functions hostile.limpet >view.md
	"$LIMPET" report --view functions hostile.limpet >view.txt
	shown view.md --text view.txt
	"$LIMPET" diff --format markdown --sort live hostile.limpet hostile.limpet >diff.md
	"$LIMPET" diff --sort live hostile.limpet hostile.limpet >diff.txt
	shown diff.md --text diff.txt
}

@test "what Markdown is not for is refused" {
	local trace=$root/test/traces/storm.trace
	refused 2 "no format 'json'" "$LIMPET" report "$trace" --format json
	refused 2 "did you mean 'markdown'" "$LIMPET" report "$trace" --format markdwon
	refused 2 "-o and --format markdown cannot be used together" "$LIMPET" diff "$trace" "$trace" -o x --format markdown
}
