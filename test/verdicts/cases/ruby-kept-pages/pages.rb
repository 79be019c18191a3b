# A cache of rendered pages whose key holds the time, so that no page is ever found or dropped.
ended = false
Signal.trap("TERM") { ended = true }

class PageCache
  attr_reader :pages

  def initialize
    @pages = {}
  end

  def fetch(path, now)
    @pages["#{path}@#{now}"] ||= yield
  end
end

def render(number)
  rows = (0...20).map { |row| "<tr><td>#{row}</td><td>#{number}</td></tr>" }
  "<table>#{rows.join}</table>" + "<!-- footer -->" * 100
end

cache = PageCache.new
start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
number = 0
until ended
  cache.fetch("/list/#{number % 20}", number) { render(number) }
  number += 1
  if number == 300
    puts "ready"
    $stdout.flush
  end
  wait = start + number * 0.004 - Process.clock_gettime(Process::CLOCK_MONOTONIC)
  sleep(wait) if wait > 0
end
warn "#{cache.pages.size} pages of #{cache.pages.sum { |_, page| page.bytesize }} bytes kept"
