//! Products of tiles, and where their operands are.

use super::Emitter;
use crate::program::shared::SharedId;
use crate::program::{Domain, Dot, IntText, Major, MathUnit, Operand};

impl Emitter<'_> {
    pub(super) fn dot(&mut self, dot: &Dot) {
        let Domain::Tile(layout) = self.program.var(dot.target).domain else { return self.unwritten("dot") };
        let layout = &self.program.layout(layout).name;
        let function = match (dot.unit, &dot.beside) {
            (MathUnit::Mma, _) => "dot",
            (MathUnit::Wgmma, None) => "wgdot_issue",
            (MathUnit::Wgmma, Some(_)) => "wgdot_issue_beside",
            (MathUnit::Fma, _) => "dot_fma",
        };
        let results: Vec<&str> = dot.targets().map(|target| self.program.var(target).name.as_str()).collect();
        let (a, b) = (self.operand(&dot.a), self.operand(&dot.b));
        let mode = if dot.overwrite { ", false" } else { "" };
        self.out.line(format!("{function}<{layout}, {}>({}, {a}, {b}{mode});", dot.k, results.join(", ")));
    }

    fn operand(&self, operand: &Operand) -> String {
        match operand {
            Operand::Shared { shared, slot, major } => self.shared_operand(*shared, slot.as_ref(), *major),
            Operand::Fragments { shared, slot } => self.shared_operand(*shared, slot.as_ref(), Major::Mn),
            Operand::Registers { value, ty } => {
                let value = self.program.var(*value);
                let Domain::Tile(layout) = value.domain else { return String::new() };
                format!("RegisterA<{}, {}>{{{}}}", ty.cuda(), self.program.layout(layout).name, value.name)
            }
            Operand::Packed { operand } => self.program.var(*operand).name.clone(),
        }
    }

    fn shared_operand(&self, shared: SharedId, slot: Option<&IntText>, major: Major) -> String {
        let shared = self.program.shared(shared);
        let (kind, other, k) = match major {
            Major::K => ("KMajor", shared.rows, shared.cols),
            Major::Mn => ("MnMajor", shared.cols, shared.rows),
        };
        let storage = if shared.panels { "Panel" } else { "Shared" };
        format!("{storage}{kind}<{}, {other}, {k}>{{{}}}", shared.dtype.cuda(), self.slot(&shared.name, slot, shared))
    }
}
