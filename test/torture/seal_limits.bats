#!/usr/bin/env bats
# What sealing takes: the names of a node are found in under two seconds. That each symbol is read once,
# however many names are asked for, is tested in test/integration/seal.bats.
# needs-machine: what sealing takes

load ../integration/helpers
setup() { begin; }
teardown() { end; }

: "${SEALINGS:=9}"

@test "the names of a node are found in under two seconds" {
	local round TIMEFORMAT='%U %S' user system
	start node node -e '
		const kept = [];
		console.log(`ready ${process.pid}`);
		require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
			if (line === "quit") process.exit(0);
			for (let i = 0; i < Number(line); i++) kept.push(Buffer.allocUnsafeSlow(4096));
			console.log("kept");
		});'
	attach "$pid" --no-seal
	tell node 5000 kept
	stop "$pid"
	finish node
	cp "$trace" open.limpet
	for ((round = 0; round < SEALINGS; round++)); do
		cp open.limpet "$trace"
		# Processor time: others may use the machine.
		read -r user system < <({ time within 60 "$LIMPET" seal -q "$trace"; } 2>&1)
		echo "$user $system" | awk '{ print $1 + $2 }'
	done | sort -n >seconds
	echo "# figures: sealing a node: $(sed -n "$((SEALINGS / 2 + 1))p" seconds) s of processor time (median)" >&3
	awk -v middle=$((SEALINGS / 2 + 1)) 'NR == middle { exit !($1 > 0 && $1 < 2) }' seconds ||
		fail "sealing took $(tr '\n' ' ' <seconds)"
	report
	expect '[.sites[].stack[] | select(.function | tostring | test("^node::"))] | length > 0'
}
