//! Loops over the elements of tiles: one result from one, two or three operands, broadcast to the result's axes.
//!
//! Rows are worked in chunks that stay in the first cache: widen the operands' chunks to the accumulator type, compute, narrow
//! the result. Operands that lie side by side or repeat one value give loops that vectorise.

use super::form::{Form, MAX_RANK};
use super::raw::{Data, Raw};
use super::wide::{Work, wide};
use crate::element::Value;

const CHUNK: usize = 256;

/// The loops over a result with the strides of `N` arrays in them, neighbouring axes merged where all arrays allow it.
struct Loops<const N: usize> {
    sizes: [usize; MAX_RANK],
    strides: [[usize; MAX_RANK]; N],
}

impl<const N: usize> Loops<N> {
    fn new(form: &Form, strides: [[usize; MAX_RANK]; N]) -> Self {
        let mut loops = Loops { sizes: [1; MAX_RANK], strides: [[0; MAX_RANK]; N] };
        let mut into = MAX_RANK;
        for axis in (0..form.rank).rev().filter(|&axis| form.sizes[axis] != 1) {
            let size = form.sizes[axis];
            let merges = into < MAX_RANK
                && strides.iter().zip(&loops.strides).all(|(from, to)| from[axis] == to[into] * loops.sizes[into]);
            if merges {
                loops.sizes[into] *= size;
            } else {
                into -= 1;
                loops.sizes[into] = size;
                for (to, from) in loops.strides.iter_mut().zip(&strides) {
                    to[into] = from[axis];
                }
            }
        }
        loops
    }

    /// Calls `f` for each chunk of a row: the arrays' offsets at its first element, and its length.
    #[inline(always)]
    fn each_chunk(&self, mut f: impl FnMut([usize; N], usize)) {
        for p0 in 0..self.sizes[0] {
            for p1 in 0..self.sizes[1] {
                let mut p2 = 0;
                while p2 < self.sizes[2] {
                    let len = CHUNK.min(self.sizes[2] - p2);
                    let mut offsets = [0; N];
                    for (offset, s) in offsets.iter_mut().zip(&self.strides) {
                        *offset = p0 * s[0] + p1 * s[1] + p2 * s[2];
                    }
                    f(offsets, len);
                    p2 += len;
                }
            }
        }
    }

    fn step(&self, array: usize) -> usize {
        self.strides[array][MAX_RANK - 1]
    }
}

/// An operand of a loop.
struct Operand<T> {
    address: *const T,
    /// Between neighbours in a row.
    step: usize,
    /// The result is written over it.
    gives_memory: bool,
}

impl<T: Value> Operand<T> {
    /// A chunk in the accumulator type: the operand's own memory where it can stand as it is.
    ///
    /// # Safety
    /// `len` elements, `step` apart, are readable `offset` elements behind the address.
    #[inline(always)]
    unsafe fn read<'a>(&self, offset: usize, len: usize, buffer: &'a mut [T::Acc; CHUNK]) -> &'a [T::Acc]
    where
        T: 'a,
    {
        let buffer = &mut buffer[..len];
        // SAFETY: the caller's promise.
        let address = unsafe { self.address.add(offset) };
        match self.step {
            // SAFETY: as above.
            0 => buffer.fill(unsafe { *address }.widen()),
            1 => {
                // SAFETY: as above.
                let row = unsafe { std::slice::from_raw_parts(address, len) };
                match T::as_acc(row) {
                    Some(row) if !self.gives_memory => return row,
                    Some(row) => buffer.copy_from_slice(row),
                    None => T::widen_row(row, buffer),
                }
            }
            step => {
                for (at, to) in buffer.iter_mut().enumerate() {
                    // SAFETY: as above.
                    *to = unsafe { *address.add(at * step) }.widen();
                }
            }
        }
        buffer
    }
}

/// Fills a chunk of a result.
///
/// # Safety
/// `out` has room for `len` elements, and no reference to that room is alive.
#[inline(always)]
unsafe fn write<V: Value>(out: *mut V, len: usize, buffer: &mut [V::Acc; CHUNK], fill: impl FnOnce(&mut [V::Acc])) {
    // SAFETY: the caller's promise.
    let out = unsafe { std::slice::from_raw_parts_mut(out, len) };
    // One call of `fill`, so that it is inlined.
    let is_direct = V::as_acc_mut(out).is_some();
    let row = match V::as_acc_mut(out) {
        Some(row) => row,
        None => &mut buffer[..len],
    };
    fill(row);
    if !is_direct {
        V::narrow_row(&buffer[..len], out);
    }
}

struct Unary<T, V, F> {
    loops: Loops<2>,
    x: Operand<T>,
    out: *mut V,
    f: F,
}

impl<T: Value, V: Value, F: Fn(T::Acc) -> V::Acc> Work<T> for Unary<T, V, F> {
    #[inline(always)]
    fn run(self) {
        let (mut x_buffer, mut buffer) = ([T::Acc::ZERO; CHUNK], [V::Acc::ZERO; CHUNK]);
        self.loops.each_chunk(|[x, o], len| {
            // SAFETY: the loops stay within the form, which describes both arrays; an operand in the result's memory has been
            // copied when the result is written.
            unsafe {
                let x = self.x.read(x, len, &mut x_buffer);
                write(self.out.add(o), len, &mut buffer, |out| {
                    out.iter_mut().zip(x).for_each(|(out, &x)| *out = (self.f)(x));
                });
            }
        });
    }
}

struct Binary<T, U, V, F> {
    loops: Loops<3>,
    a: Operand<T>,
    b: Operand<U>,
    out: *mut V,
    f: F,
}

impl<T: Value, U: Value, V: Value, F: Fn(T::Acc, U::Acc) -> V::Acc> Work<T> for Binary<T, U, V, F> {
    #[inline(always)]
    fn run(self) {
        let (mut a_buffer, mut b_buffer) = ([T::Acc::ZERO; CHUNK], [U::Acc::ZERO; CHUNK]);
        let mut buffer = [V::Acc::ZERO; CHUNK];
        self.loops.each_chunk(|[a, b, o], len| {
            // SAFETY: as for `Unary`, with both operands.
            unsafe {
                let a = self.a.read(a, len, &mut a_buffer);
                let b = self.b.read(b, len, &mut b_buffer);
                write(self.out.add(o), len, &mut buffer, |out| {
                    out.iter_mut().zip(a).zip(b).for_each(|((out, &a), &b)| *out = (self.f)(a, b));
                });
            }
        });
    }
}

/// Memory for a result: an operand's own where it can be had.
struct Output<V> {
    values: Vec<V>,
    /// The operand that gave its memory.
    from: Option<usize>,
}

impl<V: Value> Output<V> {
    /// An operand of the loop, wherever its elements are now.
    fn operand<T: Value, const N: usize>(&mut self, number: usize, tile: &Raw<T>, loops: &Loops<N>) -> Operand<T> {
        let gives_memory = self.from == Some(number);
        let address = if gives_memory { self.values.as_mut_ptr().cast_const().cast() } else { tile.address() };
        Operand { address, step: loops.step(number), gives_memory }
    }
}

pub(crate) fn unary<T: Value, V: Value>(x: Raw<T>, f: impl Fn(T::Acc) -> V::Acc) -> Raw<V> {
    let mut x = x.settled();
    if let Data::Uniform(value) = x.data {
        return Raw::uniform(x.form, V::narrow(f(value.widen())));
    }
    let form = x.form.row_major();
    let loops = Loops::new(&form, [x.strides_in(&form), form.strides]);
    let mut output = match x.take_buffer(&form) {
        Some(values) => Output { values, from: Some(0) },
        None => Output { values: vec![V::ZERO; form.len()], from: None },
    };
    let x = output.operand(0, &x, &loops);
    let out = output.values.as_mut_ptr();
    wide::<T>(Unary { loops, x, out, f });
    Raw::owned(form, output.values)
}

pub(crate) fn binary<T: Value, U: Value, V: Value>(
    a: Raw<T>,
    b: Raw<U>,
    f: impl Fn(T::Acc, U::Acc) -> V::Acc,
) -> Raw<V> {
    let (mut a, mut b) = (a.settled(), b.settled());
    let form = a.form.union(&b.form);
    if let (Data::Uniform(a), Data::Uniform(b)) = (&a.data, &b.data) {
        return Raw::uniform(form, V::narrow(f(a.widen(), b.widen())));
    }
    let loops = Loops::new(&form, [a.strides_in(&form), b.strides_in(&form), form.strides]);
    let mut output = match a.take_buffer(&form) {
        Some(values) => Output { values, from: Some(0) },
        None => match b.take_buffer(&form) {
            Some(values) => Output { values, from: Some(1) },
            None => Output { values: vec![V::ZERO; form.len()], from: None },
        },
    };
    let (operand_a, operand_b) = (output.operand(0, &a, &loops), output.operand(1, &b, &loops));
    let out = output.values.as_mut_ptr();
    wide::<T>(Binary { loops, a: operand_a, b: operand_b, out, f });
    Raw::owned(form, output.values)
}

/// `a` where the condition holds, `b` elsewhere.
pub(crate) fn select<T: Value>(condition: Raw<bool>, a: Raw<T>, b: Raw<T>) -> Raw<T> {
    let condition = condition.settled();
    let (a, b) = (a.settled(), b.settled());
    let form = condition.form.union(&a.form).union(&b.form);
    if let Data::Uniform(condition) = condition.data {
        let chosen = if condition { a } else { b };
        return broadcast(chosen, form);
    }
    let loops =
        Loops::new(&form, [condition.strides_in(&form), a.strides_in(&form), b.strides_in(&form), form.strides]);
    let (condition_at, a_at, b_at) = (condition.address(), a.address(), b.address());
    let mut values = vec![T::ZERO; form.len()];
    loops.each_chunk(|[c, x, y, o], len| {
        for at in 0..len {
            // SAFETY: the loops stay within the form, which describes all four arrays; the result is memory of its own.
            values[o + at] = unsafe {
                if *condition_at.add(c + at * loops.step(0)) {
                    *a_at.add(x + at * loops.step(1))
                } else {
                    *b_at.add(y + at * loops.step(2))
                }
            };
        }
    });
    Raw::owned(form, values)
}

/// The tile repeated along the axes of `form` that it lacks.
pub(crate) fn broadcast<T: Value>(x: Raw<T>, form: Form) -> Raw<T> {
    let x = x.settled();
    if let Data::Uniform(value) = x.data {
        return Raw::uniform(form, value);
    }
    let strides = x.strides_in(&form);
    Raw { data: x.data, form: Form { strides, ..form } }
}
