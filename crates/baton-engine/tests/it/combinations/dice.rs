//! Repeatable random numbers: the same seed and purpose, the same throws.

/// A sequence of throws.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    /// The throws of a combination for one purpose, independent of those for other purposes.
    pub(super) fn new(seed: u64, purpose: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Whether an event with this chance in percent happens.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
