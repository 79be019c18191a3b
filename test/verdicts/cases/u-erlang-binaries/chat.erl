%% A chat room that keeps the whole history of binaries in its process.
-module(chat).
-export([start/0, room/1, feed/3]).

start() ->
    Room = spawn(?MODULE, room, [[]]),
    io:format("ready~n"),
    feed(Room, 1, erlang:monotonic_time(millisecond)).

room(History) ->
    receive
        {message, Binary} -> ?MODULE:room([Binary | History])
    end.

feed(Room, N, Next) ->
    [Room ! {message, binary:copy(<<(N + I):64>>, 1000)} || I <- lists:seq(0, 3)],
    case (N - 1) rem 400 of
        0 -> io:format(standard_error, "~b messages, ~b bytes of binaries~n", [N, erlang:memory(binary)]);
        _ -> ok
    end,
    timer:sleep(max(0, Next + 20 - erlang:monotonic_time(millisecond))),
    ?MODULE:feed(Room, N + 4, Next + 20).
