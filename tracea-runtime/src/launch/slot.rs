//! Loaded code of one kernel, found again without a lock.

use crate::cuda::{LoadedKernel, Specialization};
use crate::error::Result;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// Stands beside each `KernelDef` as a static. A list that only grows: readers follow it, a writer holds the lock and puts a new node in
/// front. Nodes stay, as does the code that they name.
#[derive(Debug)]
pub struct KernelSlot {
    first: AtomicPtr<Node>,
    loading: Mutex<()>,
}

#[derive(Debug)]
struct Node {
    key: LoadKey,
    loaded: LoadedKernel,
    next: *const Node,
}

/// What tells one piece of loaded code from another within a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadKey {
    pub gpu: usize,
    pub instance: usize,
    pub variant: usize,
    pub specialization: Specialization,
}

impl KernelSlot {
    #[allow(clippy::new_without_default, reason = "made in statics only")]
    pub const fn new() -> KernelSlot {
        KernelSlot { first: AtomicPtr::new(std::ptr::null_mut()), loading: Mutex::new(()) }
    }

    pub(crate) fn get(&'static self, key: LoadKey) -> Option<&'static LoadedKernel> {
        let mut next: *const Node = self.first.load(Ordering::Acquire);
        // SAFETY: nodes are leaked boxes, complete before they are published, and never changed.
        while let Some(node) = unsafe { next.as_ref() } {
            if node.key == key {
                return Some(&node.loaded);
            }
            next = node.next;
        }
        None
    }

    /// Loads once a process, whatever the number of threads that ask.
    pub(crate) fn get_or_load(
        &'static self,
        key: LoadKey,
        load: impl FnOnce() -> Result<LoadedKernel>,
    ) -> Result<&'static LoadedKernel> {
        if let Some(loaded) = self.get(key) {
            return Ok(loaded);
        }
        let _one_at_a_time = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = self.get(key) {
            return Ok(loaded);
        }
        let node = Box::new(Node { key, loaded: load()?, next: self.first.load(Ordering::Acquire) });
        let node: &'static mut Node = Box::leak(node);
        self.first.store(node, Ordering::Release);
        Ok(&node.loaded)
    }
}
