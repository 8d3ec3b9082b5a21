//! Which units of work, tiles or parts of tiles, a block takes.

/// How blocks share them out.
#[derive(Clone, Debug, PartialEq)]
pub enum Units {
    /// Each block has one.
    Single,
    /// As many blocks as are resident take turns: a unit takes as long as any other.
    Turns,
    /// The same, but a block that is done takes the first that none has: they differ in length.
    Queue(Queue),
}

/// How a block comes by the next unit: its producer takes it, and passes it to the consumers as it passes them tiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The parameter that counts units which blocks have taken.
    pub taken: String,
    /// The variable by which roles know the queue.
    pub name: String,
    /// The counter of units that a role is done with.
    pub done: String,
    /// Where its barriers and places lie.
    pub offset: u32,
}

impl Queue {
    /// Of shared memory: two places, with a full and an empty barrier each.
    pub const BYTES: u32 = 2 * (8 + 8 + 4);
}

impl Units {
    /// Whether blocks take several, no more blocks than are resident.
    pub fn are_shared_out(&self) -> bool {
        *self != Units::Single
    }
}
