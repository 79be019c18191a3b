// Pairs of Rc that hold each other.
mod planted;
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Default)]
struct Peer {
    other: RefCell<Option<Rc<Peer>>>,
    name: [u64; 6],
}

#[inline(never)]
fn make_pair() {
    let first = Rc::new(Peer::default());
    let second = Rc::new(Peer { other: RefCell::new(Some(first.clone())), name: [7; 6] });
    *first.other.borrow_mut() = Some(second.clone());
    planted::black_box(first.name[0] + second.name[1]);
}

fn main() {
    planted::wiped(|| (0..20).for_each(|_| make_pair()));
    planted::rest();
}
