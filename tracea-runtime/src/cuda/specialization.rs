//! What of a launch is baked into machine code.

/// Facts about tensors and scalars, by position, and tiles that a variant's source takes as constants: one source gives one cubin for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Specialization {
    /// Four bits a tensor: the logarithm of its alignment.
    alignments: u64,
    /// One bit a tensor.
    windows: u16,
    /// One bit a scalar.
    positive: u16,
    cut: bool,
}

impl Specialization {
    /// Sixteen tensors have a place, and as many scalars; facts about others are forgotten.
    const MOST_TENSORS: usize = 16;
    const MOST_SCALARS: usize = 16;

    /// The tensor's address and rows are aligned to so many bytes, a power of two; to 1 where nothing is said.
    pub fn aligned(self, tensor: usize, bytes: u32) -> Specialization {
        if tensor >= Specialization::MOST_TENSORS {
            return self;
        }
        let others = self.alignments & !(15 << (4 * tensor));
        let logarithm = u64::from(bytes.trailing_zeros().min(15));
        Specialization { alignments: others | logarithm << (4 * tensor), ..self }
    }

    /// Whether TMA fetches the tensor's windows; it does not where nothing is said.
    pub fn windowed(self, tensor: usize, fetched: bool) -> Specialization {
        if tensor >= Specialization::MOST_TENSORS {
            return self;
        }
        let others = self.windows & !(1 << tensor);
        Specialization { windows: others | u16::from(fetched) << tensor, ..self }
    }

    /// Whether the scalar is positive and of ordinary size; it is not where nothing is said.
    pub fn positive(self, scalar: usize, is: bool) -> Specialization {
        if scalar >= Specialization::MOST_SCALARS {
            return self;
        }
        let others = self.positive & !(1 << scalar);
        Specialization { positive: others | u16::from(is) << scalar, ..self }
    }

    /// Whether tiles are cut into parts; they are not where nothing is said.
    pub fn cut(self, any: bool) -> Specialization {
        Specialization { cut: any, ..self }
    }

    pub(crate) fn alignment(self, tensor: usize) -> u32 {
        if tensor < Specialization::MOST_TENSORS { 1 << (self.alignments >> (4 * tensor) & 15) } else { 1 }
    }

    pub(crate) fn cuts_tiles(self) -> bool {
        self.cut
    }

    pub(crate) fn is_positive(self, scalar: usize) -> bool {
        scalar < Specialization::MOST_SCALARS && self.positive >> scalar & 1 == 1
    }

    pub(crate) fn fetches_windows(self, tensor: usize) -> bool {
        tensor < Specialization::MOST_TENSORS && self.windows >> tensor & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tensor_has_facts_of_its_own() {
        let facts = Specialization::default().aligned(0, 16).aligned(15, 4).windowed(15, true);
        assert_eq!([0, 1, 15, 16].map(|tensor| facts.alignment(tensor)), [16, 1, 4, 1]);
        assert_eq!([0, 1, 15, 16].map(|tensor| facts.fetches_windows(tensor)), [false, false, true, false]);
        assert_eq!(facts.aligned(0, 1).aligned(15, 1).windowed(15, false), Specialization::default());
        assert_eq!(facts.aligned(16, 8).windowed(16, true), facts);
        let signs = facts.positive(0, true).positive(15, true).positive(0, false).positive(16, true);
        assert_eq!([0, 1, 15, 16].map(|scalar| signs.is_positive(scalar)), [false, false, true, false]);
        assert_eq!((facts.cuts_tiles(), facts.cut(true).cuts_tiles()), (false, true));
    }
}
