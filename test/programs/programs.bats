#!/usr/bin/env bats
# Released programs that nobody here wrote, with an allocator inside and no names left: what doctor, attach and the
# report say of it, and that explain's account adds up to RSS. `make test-programs`.
# time-limit: 300

load ../integration/helpers
setup() {
	begin
	# What they would keep elsewhere.
	export HOME=$work/home XDG_CACHE_HOME=$work/cache XDG_CONFIG_HOME=$work/config
	export TURBO_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1
	mkdir -p "$HOME" "$XDG_CACHE_HOME" "$XDG_CONFIG_HOME"
}
teardown() { end; }

packages=${PROGRAMS:-$root/build/programs}/node_modules
mib=1048576

# program NAME COMMAND...: in the background, until the end of the test. Sets `pid`.
program() {
	local name=$1
	shift
	"$@" <input >"$name.say" 2>"$name.err" 3>&- &
	pid=$!
	# shellcheck disable=SC2004 # an associative array
	job_of[$name]=$pid
}

# needs FILE: what npm has fetched.
needs() {
	[[ -e $packages/$1 ]] || skip "npm could not fetch what test/programs/package-lock.json names"
}

# What stays open is read, and never ends.
open_input() {
	mkfifo input
	exec {input}<>input
}

holds() {
	"$LIMPET" explain "$pid" --json >explain.json || return 1
	jq -e "$1" explain.json >jq.say || fail "$1: $(jq -c '[.rss_bytes, .unknown_bytes, .accounts[:4]]' explain.json)"
}

# adds_up MOST: to RSS as the kernel says it, within 2 %; at most so many per cent have no known owner.
adds_up() {
	local rss
	holds 'true' || return 1
	rss=$(awk '/^Rss:/ { print $2 * 1024 }' "/proc/$pid/smaps_rollup")
	jq -e --argjson rss "$rss" --argjson most "$1" '
		([.accounts[].bytes] | add) as $sum | .rss_bytes == $sum and
		($sum - $rss | fabs) <= 0.02 * $rss and .unknown_bytes <= $most / 100 * $sum' explain.json >jq.say ||
		fail "of $rss: $(jq -c '[.rss_bytes, .unknown_bytes, .accounts[:4]]' explain.json)"
}

# doctor_names ALLOCATOR_IN_FILE STATUS
doctor_names() {
	local status=0
	"$LIMPET" doctor "$pid" --json >doctor.json || status=$?
	((status == $2)) || fail "doctor: $status" || return 1
	json_says '.unfollowed | startswith($names)' --arg names "$1" <doctor.json || fail "$(<doctor.json)" || return 1
	"$LIMPET" doctor "$pid" >doctor.txt || true
	grep -qF "not followed: $1" doctor.txt || fail "$(<doctor.txt)"
}

# captured ALLOCATOR_IN_FILE [OPTION...]: attach says it, and the report does in its first lines and in JSON.
captured() {
	local names=$1
	shift
	attach "$pid" "$@" || return 1
	wait_until 30 rounds_more || return 1
	stop "$pid" || return 1
	grep -qF "${names% in *}" <(head -n 2 attach.1.err) || fail "$(<attach.1.err)" || return 1
	"$LIMPET" report "$trace" >report.txt || return 1
	grep -qF "$names" <(head -n 3 report.txt | grep '^unseen ') || fail "$(head report.txt)" || return 1
	! grep -q 'every event is in the trace' report.txt || fail "$(head report.txt)" || return 1
	grep -qF "; nothing of $names" report.txt || fail "$(head report.txt)" || return 1
	report
	expect '.unfollowed.names | startswith($names)' --arg names "$names" || return 1
	nothing_of_ours "$pid"
}

# followed ALLOCATOR_IN_FILE FUNCTIONS: at least so many are found by their calls, and the capture has millions of its.
followed() {
	local found
	attach "$pid" || return 1
	found=$(sed -n 's/.*: found \([0-9]*\) functions.*/\1/p' attach.*.err)
	[[ $found ]] && ((found >= $2)) || fail "$(cat attach.*.err)" || return 1
	began=$(ticks)
	wait_until 60 rounds_more || return 1
	# Of a function that was not called meanwhile, blocks are missing.
	within 60 "$LIMPET" stop "$pid" >/dev/null || (($? == 4)) || return 1
	exit_status_of "$limpet_job" 60 && [[ $status == [04] ]] || fail "attach ended with $status" || return 1
	report
	expect '.allocators | any((.name | startswith($names)) and .allocations > 1000 and .frees > 1000)' --arg names "$1" || return 1
	nothing_of_ours "$pid"
}

many_files() {
	for i in {1..40}; do
		for k in {1..100}; do
			echo "export async function f$k(a, b) { const {x, ...y} = a; if (a == b) { var z = $i } return await g(x ?? b, ...Object.values(y)); }"
		done >"f$i.js"
	done
}

# The capture is open for a moment in which the program works: it has used the processor.
ticks() {
	local stat
	read -r stat <"/proc/$pid/stat"
	read -ra stat <<<"${stat##*) }"
	echo $((stat[11] + stat[12]))
}
rounds_more() {
	[[ ${idle:-} ]] || (($(ticks) > ${began:-0} + 5))
}

@test "bun: mimalloc inside" {
	needs @oven/bun-linux-x64/bin/bun
	open_input
	cat >server.js <<-'end'
		const kept = [];
		let n = 0;
		setInterval(() => {
			for (let i = 0; i < 200; i++)
				kept[n++ % 20000] = {text: "x".repeat(i) + n, bytes: new Uint8Array(256)};
		}, 20);
	end
	program bun "$packages/@oven/bun-linux-x64/bin/bun" server.js
	wait_until 60 holds "any(.accounts[]; .kind == \"mimalloc-heap\" and .bytes > 16 * $mib)"
	wait_until 20 adds_up 10
	doctor_names "mimalloc in bun" 0
	began=$(ticks)
	captured "mimalloc in bun"
}

@test "node with @swc/core: mimalloc inside a module" {
	needs @swc/core
	open_input
	cat >compile.js <<-end
		const swc = require("$packages/@swc/core");
		const text = Array.from({length: 300}, (_, i) =>
			\`export async function f\${i}(a, b) { const {x, ...y} = a; return await g(x ?? b, ...Object.values(y)); }\`).join("\n");
		(async () => {
			for (;;) {
				await swc.transform(text, {jsc: {target: "es5"}});
				await new Promise(done => setTimeout(done, 5));
			}
		})();
	end
	program swc node compile.js
	wait_until 60 holds "any(.accounts[]; .kind == \"mimalloc-heap\" and .bytes > 16 * $mib)"
	wait_until 20 adds_up 10
	doctor_names "mimalloc in " 0
	began=$(ticks)
	captured "mimalloc in " --no-uprobes
	followed "mimalloc in " 3
}

@test "node with oxlint: mimalloc inside a module" {
	needs oxlint/bin/oxlint
	open_input
	program oxlint node "$packages/oxlint/bin/oxlint" --lsp
	wait_until 60 holds "any(.accounts[]; .kind == \"mimalloc-heap\" and .bytes > 4 * $mib)"
	wait_until 20 adds_up 10
	doctor_names "mimalloc in oxlint.linux-x64-gnu.node" 0
	idle=yes
	captured "mimalloc in oxlint.linux-x64-gnu.node" --no-uprobes
}

@test "node with oxlint, while it works: mimalloc is followed" {
	needs oxlint/bin/oxlint
	many_files
	cat >edit.js <<-end
		const {spawn} = require("child_process");
		const server = spawn(process.execPath, ["$packages/oxlint/bin/oxlint", "--lsp"], {stdio: ["pipe", "pipe", "ignore"]});
		console.log(server.pid);
		process.on("exit", () => server.kill());
		process.stdin.on("end", () => process.exit());
		process.stdin.resume();
		server.stdout.resume();
		const send = (method, params, id) => {
			const text = JSON.stringify({jsonrpc: "2.0", id, method, params});
			server.stdin.write(\`Content-Length: \${Buffer.byteLength(text)}\r\n\r\n\${text}\`);
		};
		const uri = "file://$work/f1.js", text = require("fs").readFileSync("f1.js", "utf8");
		let version = 1;
		send("initialize", {processId: null, rootUri: "file://$work", capabilities: {}}, 1);
		send("initialized", {});
		send("textDocument/didOpen", {textDocument: {uri, languageId: "javascript", version, text}});
		setInterval(() => send("textDocument/didChange", {textDocument: {uri, version: ++version},
			contentChanges: [{text: text + "// " + version}]}), 50);
	end
	open_input
	program editor node edit.js
	wait_until 60 grep -q '[0-9]' editor.say
	pid=$(<editor.say)
	wait_until 60 holds "any(.accounts[]; .kind == \"mimalloc-heap\" and .bytes > 4 * $mib)"
	followed "mimalloc in oxlint.linux-x64-gnu.node" 3
}

# Its heap is so small that nothing of jemalloc's tree is found: it is named, and has no known owner.
@test "biome: jemalloc inside, refused" {
	needs @biomejs/cli-linux-x64/biome
	open_input
	program biome "$packages/@biomejs/cli-linux-x64/biome" __run_server --log-path="$work/log" \
		--log-prefix-name=server.log
	wait_until 60 holds ".unknown_bytes > $mib"
	wait_until 20 adds_up 20
	holds '.verdicts[] | select(.id == "unknown").text | contains("jemalloc in biome")'
	doctor_names "jemalloc in biome" 3
	grep -q 'jemalloc is linked .* up to [0-9]*% of its resident memory, [0-9.]* MiB' <(tr -s '\n ' ' ' <doctor.txt) ||
		fail "$(<doctor.txt)"
	refused 3 jemalloc "$LIMPET" attach --no-uprobes -o never.limpet "$pid"
	idle=yes
	captured "jemalloc in biome" --partial --no-uprobes
}

@test "biome, while it works: jemalloc is followed" {
	needs @biomejs/cli-linux-x64/biome
	many_files
	open_input
	program biome "$packages/@biomejs/cli-linux-x64/biome" __run_server --log-path="$work/log" \
		--log-prefix-name=server.log
	local server=$pid
	cat >ask <<-end
		while kill -0 $server 2>/dev/null; do
			"$packages/@biomejs/cli-linux-x64/biome" lint --use-server . >/dev/null 2>&1
		done
	end
	program client bash ask
	pid=$server
	wait_until 60 holds ".rss_bytes > 40 * $mib"
	followed "jemalloc in biome" 3
}

@test "turbo: static, mimalloc inside, refused" {
	needs @turbo/linux-64/bin/turbo
	open_input
	mkdir -p repository/one
	cd repository
	git init -q .
	echo '{"name": "all", "packageManager": "npm@10.0.0", "workspaces": ["one"]}' >package.json
	echo '{"name": "one", "version": "1.0.0", "scripts": {"build": "while kill -0 $PPID; do sleep 0.1; done"}}' >one/package.json
	echo '{"tasks": {"build": {}}}' >turbo.json
	cat >package-lock.json <<-'end'
		{"name": "all", "lockfileVersion": 3, "requires": true, "packages": {
			"": {"name": "all", "workspaces": ["one"]},
			"node_modules/one": {"resolved": "one", "link": true}, "one": {"version": "1.0.0"}}}
	end
	mv ../input .
	program turbo "$packages/@turbo/linux-64/bin/turbo" run build --force
	wait_until 60 holds "any(.accounts[]; .kind == \"mimalloc-heap\" and .bytes > 4 * $mib)"
	wait_until 20 adds_up 10
	doctor_names "mimalloc in turbo" 3
	refused 3 "fully static .mimalloc.*up to [0-9]*% of its resident memory" "$LIMPET" attach -o never.limpet "$pid"
}
