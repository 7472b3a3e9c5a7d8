//! The five shapes: the dependencies of each work, which are earlier works.

pub(crate) type Sources = fn(usize, usize) -> Vec<usize>;

pub(crate) const SHAPES: [(&str, Sources); 5] = [
    ("independent", |_, _| Vec::new()),
    ("chain", |_, work| work.checked_sub(1).into_iter().collect()),
    ("tree", |_, work| work.checked_sub(1).map(|before| before / 2).into_iter().collect()),
    ("layered", |_, work| layered(work)),
    ("wavefront", wavefront),
];

/// Layers of 100 works, each after three of the layer before.
fn layered(work: usize) -> Vec<usize> {
    const WIDTH: usize = 100;
    let Some(layer) = (work / WIDTH).checked_sub(1) else { return Vec::new() };
    [0, 1, 7].map(|offset| layer * WIDTH + (work + offset) % WIDTH).to_vec()
}

fn wavefront(works: usize, work: usize) -> Vec<usize> {
    let side = (works as f64).sqrt() as usize;
    let left = (!work.is_multiple_of(side)).then(|| work - 1);
    work.checked_sub(side).into_iter().chain(left).collect()
}
