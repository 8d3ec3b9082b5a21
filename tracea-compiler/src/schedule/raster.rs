//! The order in which blocks visit a matrix of tiles.

use super::target::Pipeline;
use super::{Schedule, cluster};
use crate::lower::analysis::Facts;
use crate::nest::{AxisId, AxisKind, Nest, Op, Value};

/// About as many as the largest devices have.
const MULTIPROCESSORS: u32 = 128;
/// About as many as get what they read by one way from L2, a graphics processing cluster of Hopper: what several of them ask for at about the same
/// time comes once.
const NEIGHBOURS: u32 = 16;
/// Products that neighbours must make of each element which comes to them for its way not to hold them up. Measured on an H100, 16 neighbours in
/// one column or 8 x 2: 32768 x 1024 x 1024 takes 118 and 97 µs by tiles of 128 x 128, 1024 x 1024 x 8192 35 and 27 by 64 x 128; 128 x 192 and larger
/// tiles take as long by both.
const PRODUCTS_OF_AN_ELEMENT: u32 = 10;
/// Of a group's columns, so many may be visited together.
const STRIPS: [u32; 3] = [1, 2, 4];

/// In blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Blocks along the outer axis that are visited together.
    pub rows: u32,
    /// Blocks along the inner axis, row by row, before the next ones.
    pub strip: u32,
}

impl Order {
    /// Rows and columns of tiles that neighbours have among them. Which blocks are neighbours is the device's affair: those that follow each
    /// other, as on an H100, or each eighth.
    fn neighbours(self) -> [(u32, u32); 2] {
        let in_a_row = self.rows.min(NEIGHBOURS / self.strip);
        let apart = (self.rows * self.strip * NEIGHBOURS / MULTIPROCESSORS).clamp(1, NEIGHBOURS);
        [in_a_row, apart].map(|rows| (rows, NEIGHBOURS / rows))
    }
}

impl Schedule {
    /// The order of blocks along the grid's two innermost axes, where both are tiled: a wave of blocks is to read few rows and columns, so that L2
    /// holds what they share, and so are neighbours of the wave, where tiles are small. Two that follow each other share what is larger.
    pub fn order(&self, nest: &Nest, facts: &Facts) -> Option<Order> {
        let read = Lines::of(self, nest)?;
        let (wave, products) = (MULTIPROCESSORS * self.resident, read.products(facts));
        let (strips, enough) = match self.target.pipeline {
            Pipeline::WarpRoles if self.cluster.is_none() && products > 0 => {
                (&STRIPS[..], products / PRODUCTS_OF_AN_ELEMENT)
            }
            _ => (&STRIPS[..1], u32::MAX),
        };
        let rows = match self.raster {
            Some(rows) => vec![rows],
            None => (0..=wave.ilog2()).rev().map(|power| 1 << power).collect(),
        };
        let orders = strips.iter().flat_map(|strip| rows.iter().map(|rows| Order { rows: *rows, strip: *strip }));
        let by_neighbours = |order: &Order| read.most(order.neighbours()).max(enough);
        let by_wave = |order: &Order| read.all((order.rows, wave / order.rows));
        let by_two = |order: &Order| read.all(if order.strip == 1 { (2, 1) } else { (1, 2) });
        orders.min_by_key(|order| (by_neighbours(order), by_wave(order), by_two(order))).filter(|order| order.rows > 1)
    }

    /// The same for code, which counts clusters where there are some.
    pub fn order_of_code(&self, nest: &Nest, facts: &Facts) -> Option<Order> {
        let Order { rows, strip } = self.order(nest, facts)?;
        let [.., outer, _] = nest.grid[..] else { return None };
        let blocks = if self.cluster == Some(outer) { cluster::BLOCKS } else { 1 };
        Some(Order { rows: (rows / blocks).max(1), strip })
    }
}

/// What a block reads along the grid's two innermost axes, where both are tiled.
struct Lines {
    outer: AxisId,
    inner: AxisId,
    /// Elements of all operands along the outer axis, and along the inner one.
    read: (u32, u32),
    /// The block's own.
    tile: (u32, u32),
}

impl Lines {
    fn of(schedule: &Schedule, nest: &Nest) -> Option<Lines> {
        let [.., outer, inner] = nest.grid[..] else { return None };
        if [outer, inner].iter().any(|axis| nest.axis(*axis).kind != AxisKind::Tiled) {
            return None;
        }
        let block = |axis: AxisId| schedule.blocks[axis.index()].unwrap_or(1);
        // Of all operands that lie along one of them, and not along both.
        let lines = |axis: AxisId, other: AxisId| {
            let mut operands: Vec<&Op> = Vec::new();
            for Value { op, ty, .. } in &nest.values {
                let lies_along = ty.axes.len() > 1 && ty.axes.contains(&axis) && !ty.axes.contains(&other);
                if lies_along && matches!(op, Op::Load { .. }) && !operands.contains(&op) {
                    operands.push(op);
                }
            }
            operands.len().max(1) as u32 * block(axis)
        };
        let (read, tile) = ((lines(outer, inner), lines(inner, outer)), (block(outer), block(inner)));
        Some(Lines { outer, inner, read, tile })
    }

    /// Elements that so many rows and columns of tiles have.
    fn all(&self, (rows, columns): (u32, u32)) -> u32 {
        rows * self.read.0 + columns * self.read.1
    }

    fn most(&self, tiles: [(u32, u32); 2]) -> u32 {
        tiles.into_iter().map(|tiles| self.all(tiles)).fold(0, u32::max)
    }

    /// Products that a block makes of a step's terms, each.
    fn products(&self, facts: &Facts) -> u32 {
        let both = [self.outer, self.inner];
        let dots = facts.dots.iter().filter(|dot| both.contains(&dot.m) && both.contains(&dot.n)).count();
        dots as u32 * self.tile.0 * self.tile.1
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{gated, gemm, program};
    use proc_macro2::Literal;
    use quote::quote;

    /// 16 × 8 blocks of 64 × 128 are a wave that reads 1024 rows and as many columns. Of smaller tiles, neighbours are 8 × 2 and 4 × 4.
    #[test]
    fn blocks_that_run_together_read_few_rows_and_columns() {
        let order = |rows: u32, columns: u32, resident: u32| {
            let [i, j, resident] = [rows, columns, resident].map(Literal::u32_unsuffixed);
            let schedule = quote!(sm_90a, i = #i, j = #j, k = 64, stages = 2, consumers = 1, resident = #resident);
            program(gemm(schedule)).raster.map(|raster| (raster.rows, raster.strip))
        };
        let orders = [order(64, 256, 1), order(64, 128, 1), order(64, 64, 2)];
        assert_eq!(orders, [Some((32, 1)), Some((16, 2)), Some((8, 4))]);
    }

    /// Two of more rows than columns have the rows in common; clusters are given to the device's parts in turn, and have no strips.
    #[test]
    fn blocks_that_follow_each_other_share_what_is_larger() {
        let order = |schedule| program(gemm(schedule)).raster.map(|raster| (raster.rows, raster.strip));
        let tall = quote!(sm_90a, i = 208, j = 128, k = 64, stages = 4, consumers = 2, swapped = true);
        let wide = quote!(sm_90a, i = 128, j = 256, k = 64, stages = 4, consumers = 2);
        let paired = quote!(sm_90a, i = 64, j = 128, k = 64, stages = 4, consumers = 1, cluster = (2, 1));
        assert_eq!([order(tall), order(wide), order(paired)], [Some((8, 2)), Some((16, 1)), Some((8, 1))]);
    }

    /// Of the columns of two products side by side, twice as many.
    #[test]
    fn columns_of_two_operands_count_twice() {
        let raster = |columns: u32| {
            let columns = Literal::u32_unsuffixed(columns);
            program(gated(quote!(sm_90a, i = 128, j = #columns, k = 64, stages = 3, consumers = 2)))
                .raster
                .map(|raster| raster.rows)
        };
        assert_eq!([raster(64), raster(96), raster(128)], [Some(16), Some(16), Some(16)]);
    }
}
