// Boxes that are leaked, and whose references are dropped; others are kept.
mod planted;
use std::sync::Mutex;

static KEPT: Mutex<Vec<&'static [u8; 104]>> = Mutex::new(Vec::new());

#[inline(never)]
fn make_config() -> &'static [u8; 104] {
    Box::leak(Box::new(planted::black_box([0u8; 104])))
}

fn main() {
    planted::wiped(|| {
        for i in 0..40 {
            let config = make_config();
            if i % 2 == 0 {
                KEPT.lock().unwrap().push(config);
            }
        }
    });
    planted::rest();
}
