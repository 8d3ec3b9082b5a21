//! Loops over the elements of tiles: one result from one, two or three operands, broadcast to the result's axes.
//!
//! Rows are worked in chunks that stay in the first cache: widen the operands' chunks to the accumulator type, compute, narrow
//! the result. Operands that lie side by side or repeat one value give loops that vectorise.

use super::form::{Form, MAX_RANK};
use super::raw::{Data, Raw};
use super::wide::wide;
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

/// A chunk of an operand in the accumulator type.
#[derive(Clone, Copy)]
enum Row<'a, A> {
    Splat(A),
    Each(&'a [A]),
}

/// # Safety
/// `len` elements, `step` apart, are readable from `address`.
#[inline(always)]
unsafe fn read<T: Value>(address: *const T, step: usize, len: usize, buffer: &mut [T::Acc; CHUNK]) -> Row<'_, T::Acc> {
    match step {
        // SAFETY: the caller's promise.
        0 => Row::Splat(unsafe { *address }.widen()),
        1 => {
            // SAFETY: the caller's promise.
            let row = unsafe { std::slice::from_raw_parts(address, len) };
            match T::as_acc(row) {
                Some(row) => Row::Each(row),
                None => {
                    T::widen_row(row, &mut buffer[..len]);
                    Row::Each(&buffer[..len])
                }
            }
        }
        _ => {
            for (at, to) in buffer[..len].iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *to = unsafe { *address.add(at * step) }.widen();
            }
            Row::Each(&buffer[..len])
        }
    }
}

/// # Safety
/// `out` has room for the row, and no reference to that room is alive.
#[inline(always)]
unsafe fn write<V: Value>(row: &[V::Acc], out: *mut V) {
    // SAFETY: the caller's promise.
    V::narrow_row(row, unsafe { std::slice::from_raw_parts_mut(out, row.len()) });
}

/// Memory for a result: an operand's own where it can be had.
struct Output<V> {
    values: Vec<V>,
    /// The operand that gave its memory.
    from: Option<usize>,
}

impl<V: Value> Output<V> {
    fn address<T>(&mut self, operand: usize, otherwise: *const T) -> *const T {
        if self.from == Some(operand) { self.values.as_mut_ptr().cast_const().cast() } else { otherwise }
    }
}

pub(crate) fn unary<T: Value, V: Value>(x: Raw<T>, f: impl Fn(T::Acc) -> V::Acc) -> Raw<V> {
    let mut x = x.settled();
    if let Data::Uniform(value) = x.data {
        return Raw::uniform(x.form, V::narrow(f(value.widen())));
    }
    let form = x.form.row_major();
    let loops = Loops::new(&form, [x.strides_in(&form), form.strides]);
    let mut out = match x.take_buffer(&form) {
        Some(values) => Output { values, from: Some(0) },
        None => Output { values: vec![V::ZERO; form.len()], from: None },
    };
    let x_at = if out.from.is_some() { out.address(0, std::ptr::null()) } else { x.address() };
    let out_at = out.values.as_mut_ptr();
    wide::<T, _>(|| {
        let (mut buffer, mut result) = ([T::Acc::ZERO; CHUNK], [V::Acc::ZERO; CHUNK]);
        loops.each_chunk(|[x, o], len| {
            // SAFETY: the loops stay within the form, which describes both arrays; the row read has been used when the
            // result, perhaps in the same memory, is written.
            unsafe {
                match read(x_at.add(x), loops.step(0), len, &mut buffer) {
                    Row::Splat(x) => result[..len].fill(f(x)),
                    Row::Each(x) => result[..len].iter_mut().zip(x).for_each(|(r, &x)| *r = f(x)),
                }
                write(&result[..len], out_at.add(o));
            }
        });
    });
    Raw::owned(form, out.values)
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
    let mut out = match a.take_buffer(&form) {
        Some(values) => Output { values, from: Some(0) },
        None => match b.take_buffer(&form) {
            Some(values) => Output { values, from: Some(1) },
            None => Output { values: vec![V::ZERO; form.len()], from: None },
        },
    };
    let a_at = out.address(0, a.address());
    let b_at = out.address(1, b.address());
    let out_at = out.values.as_mut_ptr();
    wide::<T, _>(|| {
        let (mut a_buffer, mut b_buffer) = ([T::Acc::ZERO; CHUNK], [U::Acc::ZERO; CHUNK]);
        let mut result = [V::Acc::ZERO; CHUNK];
        loops.each_chunk(|[a, b, o], len| {
            // SAFETY: as in `unary`, for both operands.
            unsafe {
                let a = read(a_at.add(a), loops.step(0), len, &mut a_buffer);
                let b = read(b_at.add(b), loops.step(1), len, &mut b_buffer);
                let result = &mut result[..len];
                match (a, b) {
                    (Row::Splat(a), Row::Splat(b)) => result.fill(f(a, b)),
                    (Row::Splat(a), Row::Each(b)) => result.iter_mut().zip(b).for_each(|(r, &b)| *r = f(a, b)),
                    (Row::Each(a), Row::Splat(b)) => result.iter_mut().zip(a).for_each(|(r, &a)| *r = f(a, b)),
                    (Row::Each(a), Row::Each(b)) => {
                        result.iter_mut().zip(a).zip(b).for_each(|((r, &a), &b)| *r = f(a, b));
                    }
                }
                write(result, out_at.add(o));
            }
        });
    });
    Raw::owned(form, out.values)
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
