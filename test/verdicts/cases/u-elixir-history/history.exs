# A device server whose GenServer keeps all it was ever told in its state.
defmodule Device do
  use GenServer

  def init(state), do: {:ok, state}

  def handle_cast({:reading, reading}, state), do: {:noreply, [reading | state]}
  def handle_call(:count, _from, state), do: {:reply, length(state), state}
end

defmodule Load do
  def run(device, number, next) do
    for i <- 0..3 do
      GenServer.cast(device, {:reading, %{number: number + i, values: Enum.to_list(1..120)}})
    end

    if rem(number, 400) == 0 do
      count = GenServer.call(device, :count)
      IO.puts(:stderr, "#{count} readings, #{:erlang.memory(:processes)} bytes of processes")
    end

    Process.sleep(max(0, next + 20 - System.monotonic_time(:millisecond)))
    run(device, number + 4, next + 20)
  end
end

{:ok, device} = GenServer.start_link(Device, [])
IO.puts("ready")
Load.run(device, 0, System.monotonic_time(:millisecond))
