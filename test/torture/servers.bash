# Servers of the world, started for one test and ended with it, also when it has failed.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154

begin_with_servers() {
	begin
	directory=$(mktemp -d /tmp/limpet-rounds.XXXXXX)
}

end_with_servers() {
	# The children of a server follow it at once.
	if [[ -n ${job_of[postgres]:-} ]]; then
		[[ -z ${job_of[client]:-} ]] || end_process "${job_of[client]}" 5
		kill -INT "$(head -n 1 "$directory/data/postmaster.pid")" 2>/dev/null || true
		wait_until 10 ended "${job_of[postgres]}" || true
	fi
	end
	rm -rf "$directory"
}

# ------------------------------------------------------------------ node.js

serving() {
	grep -q '^ready ' "$work/server.say"
}

# node_server: sets `pid` and `port`.
node_server() {
	LEAK_EVERY=0 node "$root/test/targets/server.js" >server.say 2>server.err </dev/null 3>&- &
	job_of[server]=$!
	wait_until 30 serving || return 1
	read -r _ pid port <server.say
}

# ------------------------------------------------------------------ redis

redis_answers() {
	[[ $(redis-cli -s "$work/redis.sock" ping 2>/dev/null) == PONG ]]
}

redis_server() {
	# jemalloc starts a thread of its own with each new arena, whenever that is.
	redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --dir "$work" --daemonize no \
		--jemalloc-bg-thread no >redis.say 2>redis.err </dev/null 3>&- &
	job_of[redis]=$!
	wait_until 20 redis_answers
}
redis_ends() {
	redis-cli -s "$work/redis.sock" shutdown nosave || true
	result redis 0
}

# ------------------------------------------------------------------ PostgreSQL

# Its programs are on no PATH, and it refuses to run as root.
postgres_bin() {
	local bin
	for bin in /usr/lib/postgresql/*/bin; do
		[[ -x $bin/postgres ]] && echo "$bin" && return 0
	done
	return 1
}
as_postgres() (
	cd "$directory" || exit 1
	if ((EUID == 0)); then
		setpriv --reuid=postgres --regid=postgres --clear-groups env HOME="$directory" "$@"
	else
		"$@"
	fi
)
postgres_answers() {
	as_postgres "$bin/pg_isready" -q -h "$directory"
}

# postgres_server [COMMAND...]: in $directory, known only there; started by the command, as its user.
postgres_server() {
	local owner
	bin=$(postgres_bin) || skip "no PostgreSQL server under /usr/lib/postgresql"
	owner=$(id -un)
	if ((EUID == 0)); then
		id postgres >/dev/null 2>&1 || skip "no user postgres, and PostgreSQL refuses to run as root"
		owner=postgres
	fi
	mkdir "$directory/data"
	chown "$owner" "$directory" "$directory/data"
	as_postgres "$bin/initdb" -D "$directory/data" -U tester -A trust -E UTF8 --locale=C >initdb.say 2>initdb.err
	# exec: the process of this shell becomes the server.
	(
		cd "$directory" || exit 1
		if ((EUID == 0)); then
			exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@" "$bin/postgres" -D data -k "$directory" \
				-c listen_addresses= -c fsync=off -c shared_buffers=16MB -c jit=off
		fi
		exec "$@" "$bin/postgres" -D data -k "$directory" -c listen_addresses= -c fsync=off -c shared_buffers=16MB -c jit=off
	) >postgres.say 2>postgres.err </dev/null 3>&- &
	job_of[postgres]=$!
	wait_until 30 postgres_answers
	as_postgres "$bin/psql" -q -h "$directory" -U tester -d postgres -c \
		'create table counters as select id, 0 as value from generate_series(0, 7) id;
		create unique index on counters (id)' </dev/null
}
postgres_ends() {
	kill -INT "$(head -n 1 "$directory/data/postmaster.pid")"
	result postgres 0
}

# sql_session: statements of one line, by `tell sql STATEMENT ANSWER`. Sets `pid` to its backend.
sql_session() {
	echo "select 'ready ' || pg_backend_pid();" >"$directory/hello.sql"
	start sql as_postgres "$bin/psql" -AtqX -h "$directory" -U tester -d postgres -f "$directory/hello.sql" -f -
}
sql_session_ends() {
	printf '%s\n' '\q' >&"${in_of[sql]}"
	result sql 0
}

# ------------------------------------------------------------------ nginx

nginx_answers() {
	[[ -S $directory/nginx.sock && -s $directory/nginx.pid ]] && worker=$(pgrep -P "$(<"$directory/nginx.pid")" | head -n 1) &&
		[[ -n $worker ]]
}

# nginx_server [COMMAND...]: started by the command, with one worker, whose pid is `worker`, and files to serve in $directory/files.
nginx_server() {
	local nginx size
	nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || skip "no nginx"
	chmod 755 "$directory"
	mkdir "$directory/files" "$directory/temp"
	for size in 0 1 700 20000 300000; do
		head -c "$size" /dev/urandom >"$directory/files/$size"
	done
	{
		((EUID != 0)) || echo 'user nobody nogroup;'
		cat <<-EOF
			daemon off;
			worker_processes 1;
			pid $directory/nginx.pid;
			error_log $directory/error.log;
			events { worker_connections 64; }
			http {
			    access_log off;
			    client_body_temp_path $directory/temp/body;
			    proxy_temp_path $directory/temp/proxy;
			    fastcgi_temp_path $directory/temp/fastcgi;
			    uwsgi_temp_path $directory/temp/uwsgi;
			    scgi_temp_path $directory/temp/scgi;
			    server { listen unix:$directory/nginx.sock; root $directory/files; }
			}
		EOF
	} >nginx.conf
	"$@" "$nginx" -p "$directory" -e "$directory/error.log" -c "$work/nginx.conf" >nginx.say 2>nginx.err </dev/null 3>&- &
	job_of[nginx]=$!
	wait_until 20 nginx_answers
}
nginx_ends() {
	kill -QUIT "$(<"$directory/nginx.pid")"
	result nginx 0
}

# ------------------------------------------------------------------ their clients

answered() {
	tell "$1" "window $2" '{' && json_says '.errors > 0 or .requests > 0' <<<"$answer"
}

# right_window CLIENT NAME: of load.js, until it has an answer, and all were right.
right_window() {
	wait_until 60 answered "$1" "$2" || return 1
	json_says '.errors == 0' <<<"$answer" || fail "the client says $answer"
}
