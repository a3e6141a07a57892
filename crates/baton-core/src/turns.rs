//! Fair order: the waiting items of one owner do not delay those of another for long.

use std::collections::BTreeMap;

/// The same items in round-robin order of their owners, beginning with the owner of the first. The items of one
/// owner keep their order.
pub fn by_turns<T, K: Ord>(things: Vec<T>, whose: impl Fn(&T) -> K) -> Vec<T> {
    let mut had: BTreeMap<K, usize> = BTreeMap::new();
    let mut placed: Vec<(usize, T)> = Vec::with_capacity(things.len());
    for thing in things {
        let turn = had.entry(whose(&thing)).or_default();
        placed.push((*turn, thing));
        *turn += 1;
    }
    placed.sort_by_key(|(turn, _)| *turn);
    placed.into_iter().map(|(_, thing)| thing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_take_turns_and_each_keeps_its_order() {
        let turns = |things: &[&'static str]| by_turns(things.to_vec(), |thing| thing.as_bytes()[0]);
        assert_eq!(
            turns(&["a1", "a2", "a3", "b1", "a4", "c1", "b2"]),
            ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
        );
        assert_eq!(turns(&["a1", "a2", "a3"]), ["a1", "a2", "a3"]);
        assert_eq!(turns(&[]), [""; 0]);
    }

    #[test]
    fn the_flood_of_one_owner_delays_another_by_one_turn() {
        let flood = (0..10_000).map(|n| ("a", n)).chain([("b", 0)]).collect();
        let turns = by_turns(flood, |(whose, _)| *whose);
        assert_eq!(turns[..3], [("a", 0), ("b", 0), ("a", 1)]);
    }
}
