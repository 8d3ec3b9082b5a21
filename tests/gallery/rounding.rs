//! Numbers that are rounded on their way.

use crate::expected::Expected;

impl Expected {
    /// To 16 bits, of that unit roundoff.
    pub fn rounded(self, roundoff: f64) -> Expected {
        // The smallest subnormal number of f16.
        let underflow = 6e-8;
        Expected { slack: self.slack + roundoff * (self.value.abs() + self.slack) + underflow, ..self }
    }
}
