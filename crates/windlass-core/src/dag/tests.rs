use super::EdgeKind::{Done, Failed, Success};
use super::*;

mod properties;

fn graph(count: usize, edges: &[(usize, usize)]) -> Dag {
    let mut dag = Dag::new();
    (0..count).for_each(|node| assert_eq!(dag.add_node([]), node));
    edges.iter().for_each(|&(from, to)| dag.add_edge(from, to, Success).expect("no cycle"));
    dag
}

fn settled(node: usize, kind: EdgeKind) -> (Edge, Option<EdgeOutcome>) {
    (Edge { node, kind }, Some(EdgeOutcome::Met))
}

fn unmet(node: usize) -> (Edge, Option<EdgeOutcome>) {
    (Edge { node, kind: Success }, None)
}

fn sources(dag: &Dag, node: usize) -> Vec<usize> {
    dag.sources(node).map(|edge| edge.node).collect()
}

fn targets(dag: &Dag, node: usize) -> Vec<usize> {
    dag.targets(node).map(|edge| edge.node).collect()
}

/// Checks that the call is refused with this cycle and leaves the graph unchanged.
#[track_caller]
fn check_cycle(
    dag: &mut Dag,
    call: impl FnOnce(&mut Dag) -> Result<(), EdgeError>,
    path: &[usize],
) {
    let before = format!("{dag:?}");
    assert_eq!(call(dag), Err(EdgeError::Cycle { path: path.to_vec() }));
    assert_eq!(format!("{dag:?}"), before);
}

impl Dag {
    /// Returns the number of allocated links, in use or free.
    pub(crate) fn stored_links(&self) -> usize {
        self.links.pushed()
    }
}

#[test]
fn edges_are_listed_at_both_ends_in_the_order_in_which_they_were_added() {
    let mut dag = graph(4, &[]);
    dag.add_edge(1, 3, Done).unwrap();
    dag.add_edge(0, 3, Failed).unwrap();
    dag.add_edge(0, 2, Success).unwrap();
    let edges = |found: &mut dyn Iterator<Item = Edge>| {
        found.map(|edge| (edge.node, edge.kind)).collect::<Vec<_>>()
    };
    assert_eq!(edges(&mut dag.sources(3)), [(1, Done), (0, Failed)]);
    assert_eq!(edges(&mut dag.targets(0)), [(3, Failed), (2, Success)]);
}

#[test]
fn a_node_may_be_added_with_its_sources() {
    let mut dag = graph(3, &[]);
    let node = dag.add_node([unmet(2), settled(1, Done), unmet(0), unmet(2)]);
    assert_eq!((node, sources(&dag, node), dag.unmet(node)), (3, vec![2, 1, 0, 2], 3));
    assert_eq!([0, 1, 2].map(|source| targets(&dag, source)), [vec![3], vec![], vec![3, 3]]);
    dag.add_edge(1, 3, Failed).unwrap();
    assert_eq!((sources(&dag, 3), dag.unmet(3)), (vec![2, 1, 0, 2, 1], 4));
}

#[test]
fn a_new_node_comes_behind_a_source_that_was_moved_far_up() {
    let mut dag = graph(2, &[]);
    dag.nodes[0].place = spaced(7);
    let node = dag.add_node([unmet(0), unmet(1)]);
    assert!(dag.place(node) > dag.place(0));
    check_cycle(&mut dag, |dag| dag.add_edge(node, 0, Success), &[node, 0, node]);
}

#[test]
fn a_graph_without_nodes_has_an_empty_order() {
    assert_eq!(Dag::new().len(), 0);
    assert_eq!(Dag::new().topological_order(), []);
    assert_eq!(Dag::new().add_edges(&[]), Ok(()));
}

#[test]
fn two_nodes_may_have_several_edges_and_each_counts() {
    let mut dag = graph(2, &[(0, 1), (0, 1)]);
    assert_eq!((sources(&dag, 1), targets(&dag, 0)), (vec![0, 0], vec![1, 1]));
    assert_eq!((dag.unmet(1), dag.meet(1), dag.meet(1)), (2, 1, 0));
    assert_eq!(dag.sources(1).count(), 2, "a met edge is still there");
}

#[test]
#[should_panic(expected = "an edge is met once")]
fn meeting_more_edges_than_there_are_is_a_bug() {
    let mut dag = graph(2, &[(0, 1)]);
    dag.meet(1);
    dag.meet(1);
}

#[test]
fn an_edge_to_itself_is_a_cycle_of_one() {
    check_cycle(&mut graph(1, &[]), |dag| dag.add_edge(0, 0, Success), &[0, 0]);
    check_cycle(&mut graph(1, &[]), |dag| dag.add_edges(&[(0, 0, Done)]), &[0, 0]);
}

#[test]
fn a_cycle_is_reported_as_its_path_along_the_refused_edge() {
    let [a, b, c] = [0, 1, 2];
    let mut dag = graph(3, &[(c, b), (b, a)]);
    check_cycle(&mut dag, |dag| dag.add_edge(a, c, Success), &[a, c, b, a]);
}

#[test]
fn the_path_is_the_same_whichever_side_finds_it() {
    // Many nodes before 0 or behind 3 keep the search on that side busy.
    let chain = [(0, 1), (1, 2), (2, 3)];
    let busy_below: Vec<_> = (4..50).map(|node| (node, 3)).collect();
    let busy_above: Vec<_> = (4..50).map(|node| (0, node)).collect();
    for busy in [busy_below, busy_above] {
        let mut dag = graph(50, &[busy, chain.to_vec()].concat());
        check_cycle(&mut dag, |dag| dag.add_edge(3, 0, Done), &[3, 0, 1, 2, 3]);
    }
}

#[test]
fn a_cycle_among_many_new_edges_begins_with_the_first_of_them_on_it() {
    let mut dag = graph(6, &[(0, 1), (2, 3)]);
    let edges = [(4, 0, Success), (1, 2, Success), (3, 0, Done), (3, 5, Success)];
    check_cycle(&mut dag, |dag| dag.add_edges(&edges), &[1, 2, 3, 0, 1]);
}

#[test]
fn unknown_nodes_are_refused_by_name() {
    let mut dag = graph(3, &[]);
    dag.forget(2);
    let before = format!("{dag:?}");
    let unknown = |node| Err(EdgeError::UnknownNode { node });
    assert_eq!(dag.add_edge(0, 7, Success), unknown(7));
    assert_eq!(dag.add_edge(2, 0, Success), unknown(2));
    assert_eq!(dag.add_edges(&[(0, 1, Success), (1, 3, Success)]), unknown(3));
    assert_eq!(format!("{dag:?}"), before);
}

#[test]
fn many_edges_may_be_given_in_any_order() {
    let mut dag = graph(5, &[(0, 1)]);
    dag.add_edges(&[(4, 3, Success), (3, 2, Done), (2, 0, Failed)]).unwrap();
    assert_eq!(dag.topological_order(), [4, 3, 2, 0, 1]);
    assert_eq!((dag.unmet(1), dag.unmet(3)), (1, 1));
    check_cycle(&mut dag, |dag| dag.add_edge(1, 4, Success), &[1, 4, 3, 2, 0, 1]);
}

#[test]
fn the_order_is_as_added_except_behind_sources() {
    assert_eq!(graph(4, &[]).topological_order(), [0, 1, 2, 3]);
    assert_eq!(graph(4, &[(3, 0)]).topological_order(), [1, 2, 3, 0]);
    assert_eq!(graph(5, &[(3, 0), (3, 2), (4, 2)]).topological_order(), [1, 3, 0, 4, 2]);
}

#[test]
fn an_edge_that_agrees_with_the_order_moves_nothing() {
    let mut dag = graph(3, &[(2, 1)]);
    let places = |dag: &Dag| [0, 1, 2].map(|node| dag.nodes[node].place);
    let before = places(&dag);
    dag.add_edge(0, 1, Success).unwrap();
    assert_eq!(places(&dag), before);
}

#[test]
fn an_edge_against_the_order_moves_only_nodes_between_its_ends() {
    let mut dag = graph(100, &[(10, 60), (60, 61), (40, 41), (41, 90)]);
    let places = |dag: &Dag| (0..100).map(|node| dag.nodes[node].place).collect::<Vec<_>>();
    let before = places(&dag);
    dag.add_edge(61, 40, Success).unwrap();
    let after = places(&dag);
    let moved: Vec<_> = (0..100).filter(|&node| before[node] != after[node]).collect();
    assert_eq!(moved, [40, 41]);
    assert!(after[61] < after[40] && after[41] < before[62]);
}

#[test]
fn the_shorter_side_moves() {
    // If each of these edges moved the long side, this would take seconds.
    let count = 10_000;
    let chain: Vec<_> = (1..count).map(|node| (node - 1, node)).collect();
    let mut dag = graph(2 * count, &chain);
    let place = dag.nodes[0].place;
    (count..2 * count).for_each(|node| dag.add_edge(node, 0, Success).unwrap());
    assert_eq!(dag.nodes[0].place, place);
}

#[test]
fn a_cursor_sees_the_edges_added_behind_it() {
    let mut dag = graph(4, &[(0, 1), (0, 2)]);
    let (edge, cursor) = dag.follow(dag.first_target(0)).expect("two edges");
    assert_eq!(edge.node, 1);
    dag.add_edge(0, 3, Done).unwrap();
    let (edge, cursor) = dag.follow(cursor).expect("two more edges");
    assert_eq!(edge.node, 2);
    let (edge, cursor) = dag.follow(cursor).expect("the new edge");
    assert_eq!(edge, Edge { node: 3, kind: Done });
    assert!(dag.follow(cursor).is_none());
}

#[test]
fn a_settled_edge_is_a_source_and_nothing_else() {
    let mut dag = graph(1, &[]);
    dag.add_node([settled(0, Done)]);
    assert_eq!(dag.sources(1).next(), Some(Edge { node: 0, kind: Done }));
    assert_eq!((dag.sources(1).count(), dag.unmet(1), targets(&dag, 0)), (1, 0, vec![]));
    dag.add_edge(1, 0, Success).expect("a settled edge orders nothing");
    assert_eq!(dag.topological_order(), [1, 0]);
}

#[test]
fn a_settled_edge_closes_no_cycle_from_either_side() {
    // The targets of 0 keep the search above it busy, so that the one below 4 is finished first.
    let mut dag = graph(4, &[(0, 1), (0, 2), (0, 3)]);
    dag.add_node([settled(0, Success)]);
    dag.add_edge(4, 0, Success).expect("a settled edge orders nothing");
    dag = graph(4, &[(0, 1), (0, 2), (0, 3)]);
    dag.add_node([settled(0, Success)]);
    dag.add_edges(&[(4, 0, Success)]).expect("a settled edge orders nothing");
    assert_eq!(dag.topological_order(), [4, 0, 1, 2, 3]);
}

#[test]
fn a_forgotten_source_is_still_named_and_a_forgotten_target_is_not() {
    let mut dag = graph(4, &[(0, 2), (1, 2), (1, 3)]);
    dag.forget(0);
    assert_eq!(sources(&dag, 2), [0, 1]);
    dag.forget(2);
    assert_eq!(targets(&dag, 1), [3]);
    assert_eq!(dag.topological_order(), [1, 3]);
}

#[test]
fn a_path_through_a_forgotten_node_closes_no_cycle() {
    let mut dag = graph(3, &[(0, 1), (1, 2)]);
    dag.forget(1);
    dag.add_edge(2, 0, Success).expect("nothing connects them any more");
    assert_eq!(dag.topological_order(), [2, 0]);
}

#[test]
fn an_edge_is_used_again_once_both_its_ends_are_forgotten() {
    let mut dag = graph(5, &[(0, 1), (0, 2)]);
    dag.forget(0);
    dag.forget(1);
    dag.add_edge(3, 4, Failed).unwrap();
    assert_eq!(dag.links.pushed(), 2, "the edge from 0 to 1 was free");
    assert_eq!(sources(&dag, 2), [0], "the edge from 0 to 2 was not");
    assert_eq!((targets(&dag, 3), sources(&dag, 4)), (vec![4], vec![3]));
}

#[test]
fn a_hub_that_has_ended_does_not_make_the_pool_grow() {
    let mut dag = graph(1, &[]);
    for _ in 0..100_000 {
        let node = dag.add_node([settled(0, Success)]);
        dag.forget(node);
    }
    assert_eq!((dag.links.pushed(), dag.len()), (1, 100_001));
}

#[test]
fn a_moving_window_of_a_long_chain_needs_no_more_room_than_the_window() {
    let mut dag = graph(1, &[]);
    for newest in 1..100_000 {
        dag.add_node([unmet(newest - 1)]);
        if newest >= 10 {
            dag.forget(newest - 10);
        }
    }
    assert!(dag.links.pushed() <= 12, "{} links", dag.links.pushed());
}

const LONG: usize = 1_000_000;

#[track_caller]
fn check_chain(dag: &Dag, first: usize, last: usize) {
    let order = dag.topological_order();
    assert_eq!((order.len(), order[0], order[dag.len() - 1]), (dag.len(), first, last));
}

#[test]
fn a_chain_of_a_million_nodes_may_be_built_forwards() {
    let mut dag = graph(LONG, &[]);
    (1..LONG).for_each(|node| dag.add_edge(node - 1, node, Success).unwrap());
    check_chain(&dag, 0, LONG - 1);
}

#[test]
fn a_chain_of_a_million_nodes_may_be_built_backwards_from_its_end() {
    let mut dag = graph(LONG, &[]);
    (1..LONG).for_each(|node| dag.add_edge(node, node - 1, Success).unwrap());
    check_chain(&dag, LONG - 1, 0);
}

#[test]
fn a_long_chain_may_be_built_backwards_from_its_beginning() {
    let count = LONG / 10;
    let mut dag = graph(count, &[]);
    (1..count).rev().for_each(|node| dag.add_edge(node, node - 1, Success).unwrap());
    check_chain(&dag, count - 1, 0);
}

#[test]
fn a_long_chain_may_be_built_backwards_at_once() {
    let count = LONG / 10;
    let mut dag = graph(count, &[]);
    let edges: Vec<_> = (1..count).map(|node| (node, node - 1, Success)).collect();
    dag.add_edges(&edges).unwrap();
    check_chain(&dag, count - 1, 0);
}

#[test]
fn a_backward_chain_may_be_put_together_from_pieces() {
    // A stride without a common divisor visits every edge once, in a scattered order.
    let count = 20_000;
    let mut dag = graph(count, &[]);
    for step in 0..count - 1 {
        let node = step * 7_919 % (count - 1);
        dag.add_edge(node + 1, node, Success).unwrap();
    }
    assert_eq!(dag.topological_order(), (0..count).rev().collect::<Vec<_>>());
}

#[test]
fn a_fan_in_of_a_hundred_thousand_works_in_either_order() {
    let count = 100_000;
    let mut behind = graph(count + 1, &[]);
    (0..count).for_each(|node| behind.add_edge(node, count, Success).unwrap());
    assert_eq!((behind.sources(count).count(), behind.unmet(count)), (count, 100_000));
    let mut before = graph(count + 1, &[]);
    (1..=count).for_each(|node| before.add_edge(node, 0, Success).unwrap());
    assert_eq!(before.topological_order()[count], 0);
    check_cycle(&mut before, |dag| dag.add_edge(0, 9, Success), &[0, 9, 0]);
}

#[test]
fn a_cycle_of_ten_thousand_nodes_is_reported_whole() {
    let last = 9_999;
    let chain: Vec<_> = (0..last).map(|node| (node, node + 1)).collect();
    let mut dag = graph(last + 1, &chain);
    let path: Vec<_> = std::iter::once(last).chain(0..=last).collect();
    check_cycle(&mut dag, |dag| dag.add_edge(last, 0, Success), &path);
    check_cycle(&mut dag, |dag| dag.add_edges(&[(last, 0, Success)]), &path);
}

#[test]
fn edges_behind_an_ended_node_are_let_go_of_with_their_targets() {
    let mut dag = Dag::new();
    let source = dag.add_node([]);
    for _ in 0..1_000 {
        let target = dag.add_node([settled(source, Success)]);
        assert_eq!(dag.followers(source), [source, target]);
        dag.forget(target);
    }
    assert!(dag.settled[&source].len() < 20, "{} targets are kept", dag.settled[&source].len());
    dag.forget(source);
    assert!(dag.settled.is_empty());
}
