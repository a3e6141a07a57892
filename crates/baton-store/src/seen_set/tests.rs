use super::*;

fn definition(n: usize) -> String {
    format!("hash {n}")
}

#[test]
fn what_was_learned_is_known() {
    let known = SeenSet::default();
    known.insert(definition(1));
    assert_eq!([1, 2].map(|n| known.contains(&definition(n))), [true, false]);
}

#[test]
fn no_more_than_a_few_thousand_are_known() {
    let known = SeenSet::default();
    (0..MOST).for_each(|n| known.insert(definition(n)));
    known.insert(definition(7));
    assert_eq!(
        [0, 7, MOST - 1].map(|n| known.contains(&definition(n))),
        [true; 3],
        "one that is known takes no room"
    );
    known.insert(definition(MOST));
    assert_eq!([0, 7, MOST].map(|n| known.contains(&definition(n))), [false, false, true]);
}
