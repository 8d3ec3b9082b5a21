//! Which tensors are written panel by panel, and by which maps.

use super::{Program, Stmt, StoreWay};
use crate::nest::TensorId;

impl Program {
    /// Tensors that are written panel by panel, and whether TMA may write them.
    pub fn stored_by_panels(&self) -> Vec<(TensorId, bool)> {
        fn walk(stmts: &[Stmt], found: &mut Vec<(TensorId, bool)>) {
            for stmt in stmts {
                match stmt {
                    Stmt::Store { target, way: StoreWay::Panels { bulk, .. }, .. } => {
                        match found.iter_mut().find(|(tensor, _)| *tensor == target.tensor) {
                            Some((_, by_tma)) => *by_tma &= bulk.is_some(),
                            None => found.push((target.tensor, bulk.is_some())),
                        }
                    }
                    Stmt::For { body, .. } | Stmt::If { body, .. } => walk(body, found),
                    _ => {}
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.body, &mut found);
        found
    }

    /// Whether a store reads the map.
    pub fn is_stored_by(&self, map: &str) -> bool {
        fn walk(stmts: &[Stmt], map: &str) -> bool {
            stmts.iter().any(|stmt| match stmt {
                Stmt::Store { way: StoreWay::Panels { bulk: Some(bulk), .. }, .. } => bulk.map == map,
                Stmt::For { body, .. } | Stmt::If { body, .. } => walk(body, map),
                _ => false,
            })
        }
        walk(&self.body, map)
    }
}
