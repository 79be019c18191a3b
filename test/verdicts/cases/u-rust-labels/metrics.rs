//! A metrics server. Each request's path becomes a label, so the map of counters grows without end.
use std::collections::HashMap;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Histogram {
    buckets: Vec<u64>,
    count: u64,
}

#[derive(Default)]
struct Registry {
    histograms: HashMap<String, Histogram>,
}

fn pace(next: &mut Instant, ms: u64) {
    *next += Duration::from_millis(ms);
    let now = Instant::now();
    if *next > now {
        std::thread::sleep(*next - now);
    }
}

impl Registry {
    #[inline(never)]
    fn observe(&mut self, path: &str, millis: usize) {
        let histogram = self.histograms.entry(path.to_string()).or_default();

        if histogram.buckets.is_empty() {
            histogram.buckets.resize(60, 0);
        }
        histogram.buckets[millis % 60] += 1;
        histogram.count += 1;
    }
}

#[inline(never)]
fn handle_request(registry: &mut Registry, id: usize) -> usize {
    let path = format!("/api/v1/users/{}/orders", id);
    let body: String = (0..50).map(|i| format!("{},", i)).collect();

    registry.observe(&path, id);
    registry.observe("/health", body.len());
    body.len()
}

fn main() {
    let mut registry = Registry::default();
    let mut next = Instant::now();
    let mut sent = 0;

    println!("ready");
    for tick in 0usize.. {
        for i in 0..8 {
            sent += handle_request(&mut registry, tick * 8 + i);
        }
        if tick % 100 == 0 {
            eprintln!("{} labels, {} bytes sent", registry.histograms.len(), sent);
        }
        pace(&mut next, 20);
    }
}
