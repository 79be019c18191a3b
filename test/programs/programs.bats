#!/usr/bin/env bats
# Released programs that nobody here wrote, most of them with an allocator inside and no names left: what doctor, attach
# and the report say of it, and that explain's account adds up to RSS. `make test-programs`; those from Debian are
# installed by `scripts/bootstrap --programs`.
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

# installed PROGRAM...: what comes from Debian.
installed() {
	local name
	for name; do
		command -v "$name" >/dev/null || skip "$name is not installed: scripts/bootstrap --programs"
	done
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

# adds_up MOST: to RSS as the kernel says it, within 2 %, before and after: a program's own work goes on meanwhile. At
# most so many per cent have no known owner.
adds_up() {
	local before after
	before=$(rss_of "$pid")
	holds 'true' || return 1
	after=$(rss_of "$pid")
	jq -e --argjson rss "[$before, $after]" --argjson most "$1" '
		([.accounts[].bytes] | add) as $sum | .rss_bytes == $sum and
		$sum >= 0.98 * ($rss | min) and $sum <= 1.02 * ($rss | max) and .unknown_bytes <= $most / 100 * $sum' \
		explain.json >jq.say ||
		fail "of $before, then $after: $(jq -c '[.rss_bytes, .unknown_bytes, .accounts[:4]]' explain.json)"
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
	attach "$pid" --alloc-functions search || return 1
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

# worked FILTER [UNSEEN]: a capture while the program works, of which the report says FILTER; what is unseen is said in
# its first three lines: "UNSEEN"; without it that there is nothing.
worked() {
	attach "$pid" || return 1
	began=$(ticks)
	wait_until 60 rounds_more || return 1
	stop "$pid" || return 1
	report
	expect "$1" || return 1
	"$LIMPET" report "$trace" >report.txt || return 1
	if [[ ${2:-} ]]; then
		grep -q "^unseen  *.*$2" <(head -n 3 report.txt) || fail "$(head report.txt)" || return 1
	else
		! grep -q '^unseen ' report.txt || fail "$(head report.txt)" || return 1
		grep -q '^losses  *none: every event ' report.txt || fail "$(head report.txt)" || return 1
	fi
	nothing_of_ours "$pid"
}

# busy NAME COMMAND...: again and again, until the program of this test ends. `pid` stays that program's.
busy() {
	local name=$1 server=$pid
	shift
	printf 'while kill -0 %s 2>/dev/null; do %s >/dev/null 2>&1 || sleep 0.1; done\n' "$server" "${*@Q}" >"$name.sh"
	program "$name" bash "$name.sh"
	pid=$server
}

# bytes_of KIND: of the last account.
bytes_of() {
	jq --arg kind "$1" '[.accounts[] | select(.kind == $kind).bytes] | add // 0' explain.json
}

# near NAME PER_CENT BYTES EXPECTED: it is, by so many per cent of what the program itself says.
near() {
	local off=$(($3 > $4 ? $3 - $4 : $4 - $3))
	((off * 100 <= $2 * $4)) || fail "$1: $3 instead of $4"
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

# Keeps 20,000 objects, and replaces 10,000 of them a second.
keeping_server() {
	cat >server.js <<-'end'
		const kept = [];
		let n = 0;
		setInterval(() => {
			for (let i = 0; i < 200; i++)
				kept[n++ % 20000] = {text: "x".repeat(i) + n, bytes: new Uint8Array(256)};
		}, 20);
	end
}

@test "bun: mimalloc inside" {
	needs @oven/bun-linux-x64/bin/bun
	open_input
	keeping_server
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
	captured "mimalloc in "
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
	captured "mimalloc in oxlint.linux-x64-gnu.node"
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
	refused 3 jemalloc "$LIMPET" attach -o never.limpet "$pid"
	idle=yes
	captured "jemalloc in biome" --partial
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

# Its heap is one that is not followed; nothing is left of V8's names.
@test "deno: V8 inside, stripped" {
	needs @deno/linux-x64-glibc/deno
	open_input
	export DENO_DIR=$work/deno DENO_NO_UPDATE_CHECK=1
	keeping_server
	program deno "$packages/@deno/linux-x64-glibc/deno" run --no-config --no-lock server.js
	wait_until 60 holds "([.accounts[] | select(.kind == \"v8-heap\").bytes] | add) > 16 * $mib"
	wait_until 20 adds_up 5
	doctor_names "the heap of V8" 0
	# Of code that it generates, stacks may be cut short.
	worked '.unfollowed.names == "the heap of V8"' 'belong to no allocator that limpet follows.*(the heap of V8)'
}

@test "workerd: Google's tcmalloc and V8 inside" {
	needs @cloudflare/workerd-linux-64/bin/workerd
	open_input
	cat >config.capnp <<-end
		using Workerd = import "/workerd/workerd.capnp";
		const config :Workerd.Config = (
			services = [(name = "main", worker = .mainWorker)],
			sockets = [(name = "http", address = "unix:$work/socket", http = (), service = "main")]
		);
		const mainWorker :Workerd.Worker = (
			modules = [(name = "worker.js", esModule = embed "worker.js")], compatibilityDate = "2024-01-01"
		);
	end
	cat >worker.js <<-'end'
		const kept = [];
		let n = 0;
		export default {async fetch(request) {
			for (let i = 0; i < 200; i++)
				kept[n++ % 20000] = {text: "x".repeat(i) + n, bytes: new Uint8Array(2560)};
			return new Response(String(n));
		}};
	end
	program workerd "$packages/@cloudflare/workerd-linux-64/bin/workerd" serve config.capnp
	wait_until 60 test -S socket
	busy client curl -sf --unix-socket socket http://worker/
	wait_until 60 holds "any(.accounts[]; .kind == \"tcmalloc-heap\" and .bytes > 32 * $mib)"
	wait_until 20 adds_up 10
	holds 'any(.accounts[]; .kind == "v8-heap")'
	worked '.totals.allocations > 1000' 'the heap of V8 cannot be followed'
}

@test "anvil: jemalloc inside, with names" {
	needs @foundry-rs/anvil-linux-amd64/bin/anvil
	open_input
	program anvil "$packages/@foundry-rs/anvil-linux-amd64/bin/anvil" --host 127.0.0.1 --port 0
	wait_until 60 grep -q '^Listening on ' anvil.say
	busy client curl -sf -H 'content-type: application/json' \
		-d '{"jsonrpc": "2.0", "id": 1, "method": "anvil_mine", "params": ["0x20"]}' \
		"http://$(sed -n 's/^Listening on //p' anvil.say)"
	wait_until 60 holds "any(.accounts[]; .kind == \"jemalloc-heap\" and .bytes > 16 * $mib)"
	wait_until 20 adds_up 10
	worked '.totals.allocations > 1000 and .totals.frees > 1000'
	grep -q '^losses .*jemalloc' report.txt
}

# Its heap begins at a random address.
@test "esbuild: Go 1.26, stripped, refused" {
	needs @esbuild/linux-x64/bin/esbuild
	many_files
	for i in {1..40}; do
		echo "export * as m$i from './f$i.js'"
	done >all.js
	open_input
	program esbuild "$packages/@esbuild/linux-x64/bin/esbuild" all.js --bundle --outdir=out --serve=127.0.0.1:0
	wait_until 60 grep -q 'Local: ' esbuild.err
	curl -sf "$(sed -n 's/.*Local: *\(http[^ ]*\).*/\1/p' esbuild.err | head -n 1)all.js" >served
	grep -q 'async function' served
	wait_until 60 holds "any(.accounts[]; .kind == \"go-heap\" and .bytes > 8 * $mib)"
	wait_until 20 adds_up 10
	holds 'any(.accounts[]; .kind == "go-tables")'
	refused 3 "Go program without C code" "$LIMPET" attach -o never.limpet "$pid"
}

@test "prometheus-node-exporter: Go with a C library" {
	installed prometheus-node-exporter
	open_input
	program exporter prometheus-node-exporter --web.listen-address=127.0.0.1:0
	wait_until 60 grep -q 'Listening on' exporter.err
	busy client curl -sf "http://$(sed -n 's/.*[aA]ddress=\(127[0-9.:]*\).*/\1/p' exporter.err | head -n 1)/metrics"
	wait_until 60 holds "any(.accounts[]; .kind == \"go-heap\" and .bytes > 2 * $mib)"
	wait_until 20 adds_up 10
	holds 'any(.accounts[]; .kind == "go-tables")'
	worked '.unfollowed.names | startswith("the Go runtime")' 'the Go runtime in prometheus-node'
}

@test "memcached" {
	installed memcached
	open_input
	cat >fill.py <<-'end'
		import socket, sys
		link = socket.socket(socket.AF_UNIX)
		link.connect("socket")
		for i in range(30000):
		    value = b"x" * (10 + i * 37 % 3000)
		    link.sendall(b"set k%d 0 0 %d noreply\r\n%s\r\n" % (i, len(value), value))
		link.sendall(b"stats slabs\r\nquit\r\n")
		print(link.makefile().read())
	end
	program memcached memcached -s "$work/socket" -m 128 -u "$(id -un)"
	wait_until 60 test -S socket
	python3 fill.py >stats
	adds_up 5
	# And its table of keys, and what the caches of its threads hold.
	near "memcached's slabs" 5 "$(($(bytes_of glibc-mmapped) + $(bytes_of glibc-arenas) + $(bytes_of glibc-main-heap)))" \
		"$(tr -d '\r' <stats | awk '$2 == "total_malloced" { print $3 + 524288 }')"
	busy client python3 fill.py
	worked '.capture.complete'
}

@test "redis: jemalloc as a library" {
	installed redis-server redis-cli
	open_input
	program redis redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --enable-debug-command yes
	wait_until 60 test -S socket
	redis-cli -s socket debug populate 100000 k 100 >populated
	redis-cli -s socket eval 'for i = 0, 99999, 2 do redis.call("del", "k:" .. i) end return 1' 0 >deleted
	adds_up 10
	near "jemalloc's active pages" 5 "$(bytes_of jemalloc-heap)" \
		"$(redis-cli -s socket info memory | tr -d '\r' | sed -n 's/^allocator_active://p')"
	holds '.accounts[] | select(.kind == "jemalloc-heap") | .retained_bytes > 4000000'
	busy client redis-cli -s socket debug populate 100000 z 100
	worked '.totals.allocations > 1000'
	grep -q '^losses .*jemalloc' report.txt
}

@test "postgres: a backend" {
	local folder master sql as_postgres=()
	PATH=$PATH:$(printf '%s\n' /usr/lib/postgresql/*/bin | tail -n 1)
	installed postgres initdb psql
	open_input
	folder=$(mktemp -d /tmp/limpet-postgres.XXXXXX)
	theirs=$folder
	if ((EUID == 0)); then
		as_postgres=(setpriv --reuid postgres --regid postgres --clear-groups)
		chown postgres "$folder"
	fi
	cd "$folder"
	"${as_postgres[@]}" initdb -D "$folder/data" -A trust --no-sync -U limpet >"$work/initdb.say"
	cd "$work"
	program postgres "${as_postgres[@]}" postgres -D "$folder/data" -k "$folder" -c listen_addresses= -c autovacuum=off
	master=$pid
	sql=(psql -h "$folder" -U limpet -d postgres -qAt)
	wait_until 60 "${sql[@]}" -c 'select 1'
	"${sql[@]}" -c "create table t (i int, s text);
		insert into t select g, repeat(chr(65 + g % 26), 100) from generate_series(1, 100000) g"
	mkfifo session
	exec {session}<>session
	"${sql[@]}" -f session >session.say 2>session.err 3>&- &
	job_of[session]=$!
	echo "select pg_backend_pid(); set work_mem = '64MB'; begin;
		declare c cursor for select * from t order by s, i; fetch 1 from c;" >&"$session"
	wait_until 60 grep -q '|' session.say
	pid=$(head -n 1 session.say)
	adds_up 5
	# The sort's tuples.
	(($(bytes_of glibc-mmapped) + $(bytes_of glibc-main-heap) > 10 * mib)) || fail "$(<explain.json)"
	for _ in {1..200}; do
		echo "select count(*) from (select md5(s) from t order by 1) x;"
	done >&"$session"
	worked '.totals.allocations > 1000'
	kill "${job_of[session]}"
	kill -INT "$master"
	wait_until 60 ended "$master"
}

# The buffer pool and the two log buffers are mappings of InnoDB's own, which no structure that explain knows tells from
# others: docs/support.md.
@test "mariadb" {
	local pool sql
	installed mariadbd mariadb-install-db mariadb
	open_input
	mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$work/data" --auth-root-authentication-method=normal \
		--skip-test-db >install.say 2>&1
	program mariadb mariadbd --no-defaults --user="$(id -un)" --datadir="$work/data" --socket="$work/socket" --skip-networking \
		--pid-file="$work/pid" --innodb-buffer-pool-size=64M --innodb-log-buffer-size=16M
	sql=(mariadb --no-defaults -u root -S socket -N)
	wait_until 60 "${sql[@]}" -e 'select 1'
	"${sql[@]}" -e 'create database x; use x; create table x.t (i int primary key auto_increment, s varchar(200)) engine=innodb;
		insert into x.t (s) select repeat("a", 100) from seq_1_to_100000;
		create table x.m (i int, s varchar(200)) engine=memory;
		set max_heap_table_size = 33554432; insert into x.m select seq, repeat("b", 100) from seq_1_to_50000'
	pool=$("${sql[@]}" -e 'select @@innodb_buffer_pool_size + 2 * @@innodb_log_buffer_size')
	adds_up 100
	holds ".unknown_bytes <= $pool + .rss_bytes / 20 and .glibc.unread_arenas == 0 and .glibc.mmapped_bytes > 16 * $mib"
	busy client "${sql[@]}" -e 'insert into x.t (s) select repeat("c", 100) from seq_1_to_1000'
	worked '.totals.allocations > 100' 'belong to no allocator that limpet follows'
}

@test "a JVM: G1, with garbage" {
	installed java javac
	open_input
	cat >Load.java <<-'end'
		import java.util.ArrayList;
		import java.util.List;
		public class Load {
			static final List<Object> kept = new ArrayList<>();
			public static void main(String[] arguments) throws Exception {
				for (long n = 0;; n++) {
					byte[] block = new byte[500];
					if (n % 10 == 0 && kept.size() < 60000)
						kept.add(block);
					if (n % 2000 == 0)
						Thread.sleep(5);
				}
			}
		}
	end
	javac Load.java
	program java java -XX:-UsePerfData -XX:+UseG1GC -Xmx128m Load
	wait_until 60 holds "any(.accounts[]; .kind == \"java-heap\" and .bytes > 40 * $mib)"
	wait_until 20 adds_up 5
	doctor_names "the heap of the JVM" 0
	# Of code that it generates, stacks may be cut short.
	worked '.unfollowed.names == "the heap of the JVM"' 'belong to no allocator that limpet follows.*(the heap of the JVM)'
}
