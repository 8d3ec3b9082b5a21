//! Plain arrays, and numbers with the error that arithmetic in f32 may leave in them: what plain loops compute with that say what a kernel
//! should give.

/// Row-major numbers.
#[derive(Clone)]
pub struct Array {
    pub sizes: Vec<usize>,
    pub values: Vec<f64>,
}

impl Array {
    pub fn at(&self, index: &[usize]) -> f64 {
        assert_eq!(index.len(), self.sizes.len());
        let position = index.iter().zip(&self.sizes).fold(0, |position, (at, size)| {
            assert!(at < size);
            position * size + at
        });
        self.values[position]
    }

    pub fn shape<const RANK: usize>(&self) -> [usize; RANK] {
        self.sizes[..].try_into().unwrap_or_else(|_| panic!("an array of sizes {:?}, not of rank {RANK}", self.sizes))
    }

    /// The rows of a matrix; none where they are empty.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks(self.shape::<2>()[1].max(1))
    }
}

/// A value, and how far off a sum in f32 may be before it is rounded to the output's type.
#[derive(Clone, Copy)]
pub struct Expected {
    pub value: f64,
    pub slack: f64,
}

/// Unit roundoff of f32, and of the types that products round their operands to.
pub const F32: f64 = 1.0 / (1 << 24) as f64;
pub const F16: f64 = 1.0 / (1 << 11) as f64;
pub const BF16: f64 = 1.0 / (1 << 8) as f64;
/// Relative error of a product in tf32: either operand may lose what lies behind its last place, 2⁻¹⁰ of it or less.
pub const TF32_PRODUCT: f64 = (2.0 + LAST_PLACE) * LAST_PLACE;
const LAST_PLACE: f64 = 1.0 / (1 << 10) as f64;

/// Σ terms, with the slack of a sum of that many in f32, in any order. `rounding` is the relative error of each term.
pub fn sum(terms: impl Iterator<Item = f64>, rounding: f64) -> Expected {
    total(terms.map(|value| Expected { value, slack: value.abs() * rounding }))
}

/// Σ terms that are themselves computed.
pub fn total(terms: impl Iterator<Item = Expected>) -> Expected {
    let (mut value, mut magnitude, mut slack, mut count) = (0.0, 0.0, 0.0, 0.0);
    for term in terms {
        value += term.value;
        magnitude += term.value.abs();
        slack += term.slack;
        count += 1.0;
    }
    Expected { value, slack: slack + F32 * (count + 4.0) * (magnitude + slack) }
}

impl From<f64> for Expected {
    fn from(value: f64) -> Expected {
        Expected { value, slack: 0.0 }
    }
}

impl Expected {
    /// After a function whose slope is at most 1.2 in size, as the activations' are.
    pub fn then(self, act: fn(f64) -> f64) -> Expected {
        self.map(act, 1.2)
    }

    /// After a function whose slope is at most `slope` in size.
    pub fn map(self, function: impl Fn(f64) -> f64, slope: f64) -> Expected {
        let value = function(self.value);
        Expected { value, slack: slope * (self.slack + 16.0 * F32 * self.value.abs()) + 16.0 * F32 * value.abs() }
    }

    pub fn plus(self, term: impl Into<Expected>) -> Expected {
        let term = term.into();
        let value = self.value + term.value;
        Expected { value, slack: self.slack + term.slack + F32 * (value.abs() + self.slack + term.slack) }
    }

    pub fn times(self, factor: impl Into<Expected>) -> Expected {
        let factor = factor.into();
        let value = self.value * factor.value;
        let slack = self.slack * (factor.value.abs() + factor.slack) + self.value.abs() * factor.slack;
        Expected { value, slack: slack + F32 * (value.abs() + slack) }
    }
}
