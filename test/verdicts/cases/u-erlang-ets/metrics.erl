%% A collector of metrics: each series gets a row of a table, and none is removed.
-module(metrics).
-export([start/0, loop/3]).

start() ->
    Table = ets:new(series, [set, public]),
    [observe(Table, N) || N <- lists:seq(1, 1000)],
    io:format("ready~n"),
    loop(Table, 1001, erlang:monotonic_time(millisecond)).

observe(Table, N) ->
    ets:insert(Table, {{series, N}, lists:seq(1, 100), N * 1.5}).

loop(Table, N, Next) ->
    [observe(Table, N + I) || I <- lists:seq(0, 19)],
    case (N - 1) rem 2000 of
        0 -> io:format(standard_error, "~b rows, ~b words, ~b bytes of ets~n", [ets:info(Table, size), ets:info(Table, memory), erlang:memory(ets)]);
        _ -> ok
    end,
    timer:sleep(max(0, Next + 20 - erlang:monotonic_time(millisecond))),
    ?MODULE:loop(Table, N + 20, Next + 20).
