//! What a piece of the body mentions: the names that it assigns, candidates for what a loop carries, those whose elements it assigns, and the
//! sizes that it loops over by `Const::<N>`.

use crate::ast::{ConstArgument, Tile, const_argument, is_assignment};
use std::collections::BTreeSet;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprAssign, ExprBinary, ExprPath, Macro};

pub fn in_block(block: &Block) -> Mentioned {
    let mut found = Mentioned::default();
    found.visit_block(block);
    found
}

#[derive(Default)]
pub struct Mentioned {
    pub assigned: BTreeSet<String>,
    /// Tensors that are written, whatever flags say.
    pub stored: BTreeSet<String>,
    pub sizes: Vec<i64>,
}

impl Mentioned {
    fn target(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(path) => self.assigned.extend(path.path.get_ident().map(ToString::to_string)),
            Expr::Tuple(tuple) => tuple.elems.iter().for_each(|part| self.target(part)),
            Expr::Paren(inner) => self.target(&inner.expr),
            Expr::Index(place) => {
                if let Expr::Path(path) = &*place.expr {
                    self.stored.extend(path.path.get_ident().map(ToString::to_string));
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Mentioned {
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

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if let Some(ConstArgument::Size(size)) = const_argument(&path.path) {
            self.sizes.push(size);
        }
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        if let Some(tile) = Tile::is(mac).then(|| Tile::open(mac).ok()).flatten() {
            tile.headers.iter().for_each(|header| self.visit_expr(&header.range));
            self.visit_block(&tile.body);
        }
    }
}
