//! A scene graph whose nodes hold their parent by Rc: a dropped scene never goes away.
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

struct Node {
    parent: RefCell<Option<Rc<Node>>>,
    children: RefCell<Vec<Rc<Node>>>,
    mesh: Vec<f32>,
}

fn pace(next: &mut Instant, ms: u64) {
    *next += Duration::from_millis(ms);
    let now = Instant::now();
    if *next > now {
        std::thread::sleep(*next - now);
    }
}

#[inline(never)]
fn load_mesh(points: usize) -> Vec<f32> {
    (0..points).map(|i| i as f32 * 0.25).collect()
}

#[inline(never)]
fn add_child(parent: &Rc<Node>, points: usize) {
    let node = Rc::new(Node { parent: RefCell::new(Some(parent.clone())), children: RefCell::new(Vec::new()), mesh: load_mesh(points) });
    parent.children.borrow_mut().push(node);
}

#[inline(never)]
fn build_scene(id: usize) -> Rc<Node> {
    let root = Rc::new(Node { parent: RefCell::new(None), children: RefCell::new(Vec::new()), mesh: Vec::new() });

    for i in 0..6 {
        add_child(&root, 100 + (id + i) % 40);
    }
    root
}

#[inline(never)]
fn draw(scene: &Rc<Node>) -> f32 {
    let lights: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let sum: f32 = scene.children.borrow().iter().map(|node| node.mesh.iter().sum::<f32>()).sum();

    sum + lights.iter().sum::<f32>() + if scene.parent.borrow().is_some() { 1.0 } else { 0.0 }
}

fn main() {
    let mut next = Instant::now();
    let mut total = 0.0;

    println!("ready");
    for id in 0usize.. {
        for i in 0..2 {
            let scene = build_scene(id * 2 + i);
            total += draw(&scene);
        }
        if id % 100 == 0 {
            eprintln!("{} scenes built, none dropped ({})", id * 2 + 2, total);
        }
        pace(&mut next, 20);
    }
}
