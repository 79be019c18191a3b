%% Counts visits in an ets table whose key holds the time, so that each visit is an entry of its own.
-module(visits).
-export([start/1]).

start([Work]) ->
    spawn(fun() ->
        ets:new(visits, [named_table, public, set]),
        loop(atom_to_list(Work) ++ "/end", erlang:monotonic_time(millisecond), 0)
    end).

record_visit(Number) ->
    Page = "/page/" ++ integer_to_list(Number rem 50),
    ets:insert(visits, {{Page, Number}, 1, [{agent, "a browser"}, {referrer, Page}]}).

loop(End, Start, Number) ->
    [record_visit(Number * 10 + I) || I <- lists:seq(1, 10)],
    case Number of
        200 -> io:format("ready~n");
        _ -> ok
    end,
    case Number rem 20 =:= 0 andalso filelib:is_file(End) of
        true ->
            io:format(standard_error, "~b visits in the table, ~b bytes of ets~n",
                      [ets:info(visits, size), erlang:memory(ets)]),
            halt(0);
        false ->
            timer:sleep(max(0, Start + Number * 5 - erlang:monotonic_time(millisecond))),
            loop(End, Start, Number + 1)
    end.
