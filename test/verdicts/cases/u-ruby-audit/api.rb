# An API whose logger keeps each answer for an audit that nobody reads.
class AuditLog
  def initialize
    @entries = {}
  end

  def store(id, body)
    @entries[id] = body
  end

  def size
    @entries.size
  end
end

AUDIT = AuditLog.new

def render(id)
  rows = (0...20).map { |row| "#{id}:#{row}:" + "v" * 80 }
  rows.join("\n")
end

def handle(id)
  body = render(id)
  AUDIT.store(id, body)
  body.bytesize
end

$stdout.puts "ready"
$stdout.flush
id = 0
sent = 0
following = Process.clock_gettime(Process::CLOCK_MONOTONIC)
loop do
  5.times do
    sent += handle(id)
    id += 1
  end
  $stderr.puts "#{AUDIT.size} entries, #{sent} bytes" if id % 500 == 0
  following += 0.02
  rest = following - Process.clock_gettime(Process::CLOCK_MONOTONIC)
  sleep(rest) if rest > 0
end
