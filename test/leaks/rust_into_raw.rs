// Held by what Arc::into_raw returned, as a C library keeps it: behind the two counts, which is inside the block.
mod planted;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

type State = [u64; 13];
const NONE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());
static USER_DATA: [AtomicPtr<State>; 20] = [NONE; 20];

#[inline(never)]
fn make_state() -> *const State {
    Arc::into_raw(Arc::new(planted::black_box([0; 13])))
}

fn main() {
    planted::wiped(|| {
        for place in &USER_DATA {
            place.store(make_state() as *mut State, Ordering::Relaxed);
        }
        planted::black_box(&USER_DATA);
    });
    planted::rest();
}
