//! What each statement does to shared memory, and by which way: threads' own accesses go by the generic proxy, those of the tensor
//! cores (`wgmma`) and of TMA by the asynchronous one.

use super::shared::SharedId;
use super::{Kept, MathUnit, Operand, Stmt, StoreWay};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Threads write asynchronously, and wait for that themselves.
    Copy(SharedId),
    Write(SharedId),
    Read(SharedId),
    /// By the asynchronous proxy.
    AsyncRead(SharedId),
    /// TMA writes what it was asked for, of which threads are told.
    Fill(SharedId),
    /// Each thread writes and reads its own elements, in no order with others, or each warpgroup does.
    Private(SharedId),
}

impl Effect {
    pub fn shared(self) -> SharedId {
        match self {
            Effect::Copy(id)
            | Effect::Write(id)
            | Effect::Read(id)
            | Effect::AsyncRead(id)
            | Effect::Fill(id)
            | Effect::Private(id) => id,
        }
    }
}

/// In this order; what the statements inside of it do is not counted.
pub fn effects(stmt: &Stmt) -> Vec<Effect> {
    match stmt {
        Stmt::Copy(copy) => vec![Effect::Copy(copy.shared)],
        Stmt::Stage { shared, .. } | Stmt::WritePanel { staging: shared, .. } => vec![Effect::Write(*shared)],
        Stmt::Store { way: StoreWay::Staged(shared), .. } => vec![Effect::Write(*shared), Effect::Read(*shared)],
        // Of the threads that write next, one knows that TMA has read.
        Stmt::AwaitPanel { staging } | Stmt::StorePanel { staging, .. } => vec![Effect::Read(*staging)],
        Stmt::ReadPanel { shared, .. } | Stmt::ReadTile { shared, .. } => vec![Effect::Read(*shared)],
        Stmt::FetchOwn { shared, .. } => vec![Effect::Fill(*shared)],
        Stmt::SendPanel { staging, .. } => vec![Effect::AsyncRead(*staging)],
        Stmt::Keep { kept: Kept::Slot { stream, .. }, .. }
        | Stmt::Load { kept: Some(Kept::Slot { stream, .. }), .. } => {
            vec![Effect::Private(*stream)]
        }
        Stmt::Keep { kept: Kept::Row { shared, .. }, .. } | Stmt::Load { kept: Some(Kept::Row { shared, .. }), .. } => {
            vec![Effect::Private(*shared)]
        }
        // Its warpgroup's threads wait for each other by themselves.
        Stmt::Keep { kept: Kept::Early { shared, .. }, .. }
        | Stmt::Load { kept: Some(Kept::Early { shared, .. }), .. } => {
            vec![Effect::Private(*shared)]
        }
        Stmt::HoldSlice { slice: Kept::Slice { shared, .. }, .. } => vec![Effect::Read(*shared)],
        Stmt::Keep { kept: Kept::Slice { shared, .. }, .. } => vec![Effect::Copy(*shared)],
        Stmt::Load { kept: Some(Kept::Slice { shared, .. }), .. } => vec![Effect::Read(*shared)],
        Stmt::Dot(dot) => dot
            .operands()
            .filter_map(|operand| match operand {
                Operand::Shared { shared, .. } if dot.unit == MathUnit::Wgmma => Some(Effect::AsyncRead(*shared)),
                Operand::Shared { shared, .. } | Operand::Fragments { shared, .. } => Some(Effect::Read(*shared)),
                Operand::Registers { .. } | Operand::Packed { .. } => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
