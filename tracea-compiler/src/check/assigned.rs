//! Which names a piece of the body assigns: candidates for values that a loop carries.

use crate::ast::Tile;
use std::collections::BTreeSet;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ExprAssign, ExprBinary, Macro};

pub fn in_block(block: &Block) -> BTreeSet<String> {
    let mut found = Assigned::default();
    found.visit_block(block);
    found.names
}

#[derive(Default)]
struct Assigned {
    names: BTreeSet<String>,
}

impl Assigned {
    fn target(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(path) => self.names.extend(path.path.get_ident().map(ToString::to_string)),
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|part| self.target(part)),
            Expr::Paren(inner) => self.target(&inner.expr),
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Assigned {
    fn visit_expr_assign(&mut self, assign: &'ast ExprAssign) {
        self.target(&assign.left);
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        if is_assignment(&binary.op) {
            self.target(&binary.left);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if let Some(tile) = Tile::is(mac).then(|| Tile::open(mac).ok()).flatten() {
            self.names.extend(in_block(&tile.body));
        }
    }
}

/// `+=` and its like.
pub fn is_assignment(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_) | BinOp::RemAssign(_)
    )
}
