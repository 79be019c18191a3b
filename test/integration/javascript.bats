#!/usr/bin/env bats
# Names of JavaScript functions in the stacks of a node that nobody prepared, compared with its own stacks.

load helpers
setup() { begin; }
teardown() { end; }

# names_are_right COUNT: of so many blocks each stack has the functions and lines that node says, but for a few without.
names_are_right() {
	within 120 "$LIMPET" export "$trace" --format csv -o names.csv 2>export.err || fail "$(<export.err)" || return 1
	within 120 node "$root/test/javascript/compare.js" "$work/truth.json" names >sums.json 2>wrong
	json_says --argjson count "$1" '.blocks >= $count and .frames > 4 * .blocks and .wrong == 0' <sums.json ||
		fail "$(<sums.json) $(head -40 wrong)"
}

# track: runtime | JavaScript in node.js 18, 20, 22, 24 | attach | functions have names, files and lines in stacks, without a flag; "(JavaScript)" if none can be proven
@test "JavaScript functions have names and lines, in interpreted and in compiled code" {
	command -v node >/dev/null || skip "node is not installed"
	start node node "$root/test/javascript/truth.js" "$work/truth.json"
	attach "$pid"
	# By the end the functions are optimized, and some are not any more.
	tell node "run 4000" ran
	stop "$pid"
	finish node
	names_are_right 4000
	json_says '(.lineless + .nameless) * 4 <= .frames' <sums.json || fail "$(<sums.json)"
	report
	expect '[.sites[].stack[] | select(.function == "remember" and .module == null and .line == 17 and
		(.file | endswith("truth.js")))] | length > 0'
}

@test "functions that moved, or whose code was dropped, have their own names or none" {
	command -v node >/dev/null || skip "node is not installed"
	start node node --expose-gc "$root/test/javascript/truth.js" "$work/truth.json"
	attach "$pid"
	tell node "run 2000" ran
	stop "$pid"
	finish node
	names_are_right 2000
}

@test "all of a leak stands in the stacks of the script's function" {
	command -v node >/dev/null || skip "node is not installed"
	cat >leak.js <<'END'
class Session {
	constructor() { this.kept = []; }
	remember(bytes) {
		this.kept.push(Buffer.allocUnsafeSlow(bytes));
	}
}
const session = new Session();
console.log(`ready ${process.pid}`);
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
	if (line === 'quit') process.exit(0);
	for (let i = 0; i < Number(line); i++) session.remember(20001);
	console.log('kept');
});
END
	start node node leak.js
	attach "$pid"
	# Its first functions may have moved before they are read.
	remembers() {
		tell node 40 kept && so_far 'any(.sites[].stack[]; .function == "remember")'
	}
	wait_until 60 remembers
	tell node 2000 kept
	stop "$pid"
	finish node
	report
	expect '[.sites[] | select(.stack[] | .function == "remember" and .line == 4) | .live_bytes] |
		add >= 32000000'
}

# Each line of the script comes from the one a hundred lines further down in a file of TypeScript.
@test "where a script has a source map, its functions have lines of TypeScript" {
	command -v node >/dev/null || skip "node is not installed"
	local line
	line=$(grep -n 'return arrow();' "$root/test/javascript/truth.js" | head -n 1 | cut -d: -f1)
	mkdir -p app/lib
	cp "$root/test/javascript/truth.js" app/lib/truth.js
	echo '//# sourceMappingURL=truth.js.map' >>app/lib/truth.js
	jq -n --arg mappings "AAoGA$(printf ';AACA%.0s' {1..400})" \
		'{version: 3, sources: ["../src/chain.ts"], names: [], mappings: $mappings}' >app/lib/truth.js.map
	start node node app/lib/truth.js "$work/truth.json"
	attach "$pid"
	tell node "run 1000" ran
	stop "$pid"
	finish node
	report
	expect '[.sites[].stack[] | select(.function == "remember" and .file == $file)] | length > 0 and all(.line == $line)' \
		--arg file "$work/app/src/chain.ts" --argjson line "$((100 + line))"
	expect '[.sites[].stack[] | select(.line and (.file // "" | endswith("truth.js")))] == []'
}
