use super::*;

fn counted(count: usize) -> Column<usize> {
    let mut column = Column::default();
    (0..count).for_each(|n| assert_eq!(column.push(n * 10), n, "ids count up"));
    column
}

fn live(column: &Column<usize>) -> Vec<usize> {
    column.iter().map(|(id, _)| id).collect()
}

#[test]
fn entries_are_found_by_the_id_that_push_gave() {
    let mut column = counted(3 * CHUNK + 5);
    assert_eq!((column.pushed(), column.len()), (3 * CHUNK + 5, 3 * CHUNK + 5));
    column[CHUNK] += 1;
    assert_eq!(column[CHUNK], CHUNK * 10 + 1);
    assert_eq!(column.get(3 * CHUNK + 4), Some(&((3 * CHUNK + 4) * 10)));
    assert_eq!(column.get(3 * CHUNK + 5), None, "never pushed");
    assert_eq!(column.get_mut(usize::MAX), None);
}

#[test]
fn a_removed_entry_is_gone_and_its_id_is_not_given_again() {
    let mut column = counted(10);
    assert!(column.take(3).is_some());
    assert_eq!(column.get(3), None);
    assert_eq!(column.get_mut(3), None);
    assert_eq!(live(&column), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!(column.push(0), 10);
    assert_eq!((column.pushed(), column.len()), (11, 10));
}

#[test]
fn a_chunk_is_dropped_with_its_last_entry() {
    let mut column = counted(4 * CHUNK);
    (CHUNK..2 * CHUNK).rev().for_each(|id| assert!(column.take(id).is_some()));
    assert!(column.chunks[1].slots.capacity() == 0);
    assert_eq!(column.get(CHUNK), None);
    assert_eq!(column.iter().count(), 3 * CHUNK);
    assert_eq!(column[2 * CHUNK], 20 * CHUNK);
}

#[test]
fn a_chunk_that_is_not_full_stays_for_the_entries_to_come() {
    let mut column = counted(2);
    assert!(column.take(0).is_some());
    assert!(column.take(1).is_some());
    assert_eq!(column.push(7), 2);
    assert_eq!((column[2], live(&column)), (7, vec![2]));
}

#[test]
fn a_column_that_removes_as_it_grows_does_not_grow() {
    let mut column = counted(10);
    for id in 0..100 * CHUNK {
        assert_eq!(column.push(id), id + 10);
        assert!(column.take(id).is_some());
    }
    assert!(column.chunks.len() <= 3, "{} chunks", column.chunks.len());
    assert_eq!((column.pushed(), column.len()), (100 * CHUNK + 10, 10));
    assert_eq!(live(&column), (100 * CHUNK..100 * CHUNK + 10).collect::<Vec<_>>());
}

#[test]
fn an_emptied_column_can_grow_again() {
    let mut column = counted(2 * CHUNK);
    (0..2 * CHUNK).for_each(|id| assert!(column.take(id).is_some()));
    assert_eq!((column.iter().count(), column.chunks.len()), (0, 0));
    assert_eq!(column.push(1), 2 * CHUNK);
    assert_eq!(column[2 * CHUNK], 1);
}

#[test]
fn a_mapped_column_has_the_same_ids() {
    let mut column = counted(3 * CHUNK);
    (0..CHUNK + 1).for_each(|id| assert!(column.take(id).is_some()));
    let halves = column.map(|n| n / 2);
    assert_eq!(halves.get(CHUNK), None);
    assert_eq!(halves[CHUNK + 1], 5 * (CHUNK + 1));
    assert_eq!(halves.iter().count(), column.iter().count());
}

#[test]
fn an_entry_is_taken_once() {
    let mut column = counted(5);
    assert_eq!([column.take(4), column.take(4), column.take(5)], [Some(40), None, None]);
}

#[test]
#[should_panic(expected = "entry 5 does not exist: it was never added, or it was removed")]
fn indexing_what_is_not_there_is_a_bug() {
    let _ = counted(5)[5];
}
