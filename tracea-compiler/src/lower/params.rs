//! Kernel parameters: pointers, strides, extents, scalars and precomputed divisors, as far as the code reads them.

use super::analysis::{Facts, longer_along};
use super::domains::Domains;
use super::names::Names;
use crate::identifier;
use crate::nest::{AxisId, AxisKind, Dtype, Extent, Int, Nest, Predicate, Tensor, TensorId};
use crate::plan;
use crate::program::{
    self, Access, BulkForm, Cluster, Divisor, Expr, GridAxis, IntText, Param, ParamType, Program, Raster, Stmt,
    Together, Units,
};
use crate::schedule::raster::Order;
use crate::schedule::{Schedule, cluster, known_extent};
use std::collections::BTreeSet;

/// A program with everything but its statements.
pub fn start(nest: &Nest, facts: &Facts, schedule: &Schedule, domains: &Domains, names: &mut Names) -> Program {
    let blocks = nest
        .axes
        .iter()
        .enumerate()
        .filter_map(|(index, _)| schedule.blocks[index].map(|block| (AxisId(index as u32), block)));
    let order = schedule.order_of_code(nest, facts);
    let descending = |axis: AxisId| order.is_none() && longer_along(&nest.body, axis).is_some();
    let mut params = all(nest, schedule, names);
    let by_cols = match nest.grid[..] {
        [_, .., last] => Some(divisor(nest, schedule, names, last)),
        _ => None,
    };
    let together = match (&by_cols, nest.grid.last()) {
        (Some(Divisor::Param(by_cols)), Some(last)) if descending(*last) => {
            let (by_cols, by_rows) = (by_cols.clone(), names.fresh("by_rows_together"));
            params.push(Param { name: by_rows.clone(), ty: ParamType::FastDiv, arg: plan::Arg::DivideByRowsTogether });
            Some(Together { by_cols, by_rows })
        }
        _ => None,
    };
    let raster = match (order, &by_cols, &nest.grid[..]) {
        (Some(Order { rows, strip }), Some(Divisor::Param(by_cols)), [.., outer, _]) => {
            let by_cols = by_cols.clone();
            let by_last_group = names.fresh("by_last_group");
            let arg = plan::Arg::DivideByLastGroup(counted(nest, schedule, *outer), rows);
            params.push(Param { name: by_last_group.clone(), ty: ParamType::FastDiv, arg });
            Some(Raster { rows, strip, by_cols, by_last_group })
        }
        _ => None,
    };
    Program {
        kernel: nest.name.clone(),
        entry: entry(nest),
        target: schedule.target.name.to_string(),
        schedule: schedule.text(nest, facts),
        file: nest.file.clone(),
        threads: schedule.threads(),
        apart: schedule.pingpong,
        units: Units::Single,
        roles_count_units: false,
        by_tma: false,
        resident: 1,
        producer: None,
        rings: Vec::new(),
        conditions: Vec::new(),
        pingpong: None,
        own: Vec::new(),
        counters: Vec::new(),
        names: program::Names {
            tensors: names.tensors().to_vec(),
            dims: names.dims().to_vec(),
            scalars: names.scalars().to_vec(),
            axes: names.axes().to_vec(),
        },
        limited: Vec::new(),
        blocks: blocks.collect(),
        params,
        relaid: Vec::new(),
        merged: Vec::new(),
        joined: joined(nest),
        skew: None,
        whole: None,
        windows: Vec::new(),
        narrow: Vec::new(),
        short: Vec::new(),
        grid: nest
            .grid
            .iter()
            .map(|axis| {
                let block = schedule.blocks[axis.index()].unwrap_or(1);
                let by = divisor(nest, schedule, names, *axis);
                GridAxis { axis: *axis, block, by, descending: descending(*axis), last_tile: None }
            })
            .collect(),
        raster,
        together,
        cluster: schedule.cluster.map(|axis| Cluster { axis, blocks: cluster::BLOCKS }),
        layouts: domains.layouts.clone(),
        shared: Vec::new(),
        scratch: (0, 0),
        barriers_offset: 0,
        split: None,
        kept: None,
        shared_bytes: 0,
        vars: Vec::new(),
        body: Vec::new(),
        aligned: Vec::new(),
        columns: Vec::new(),
        positive: Vec::new(),
        whole_vectors: false,
        narrowing: Vec::new(),
        promised_sass: Vec::new(),
    }
}

/// Tensors of which the nest takes several axes as one.
fn joined(nest: &Nest) -> Vec<plan::Joined> {
    let axes = |tensor: &Tensor| tensor.dims.last().map_or(0, |last| nest.dim(*last).parts.len());
    let joined = |(tensor, one): (usize, &Tensor)| (axes(one) > 0).then(|| plan::Joined { tensor, axes: axes(one) });
    nest.tensors.iter().enumerate().filter_map(joined).collect()
}

/// `attention_D64_causal`: the kernel and its instance.
fn entry(nest: &Nest) -> String {
    use crate::nest::InstanceValue;
    let mut name = identifier::of(&nest.name);
    for (key, value) in &nest.instance {
        match value {
            InstanceValue::Int(n) => name += &format!("_{}{n}", identifier::of(key)),
            InstanceValue::Bool(true) => name += &format!("_{}", identifier::of(key)),
            InstanceValue::Bool(false) => {}
            InstanceValue::Dtype(dtype) => name += &format!("_{}", dtype.name()),
        }
    }
    name
}

fn all(nest: &Nest, schedule: &Schedule, names: &Names) -> Vec<Param> {
    let mut params = Vec::new();
    for (at, tensor) in nest.tensors.iter().enumerate() {
        let name = names.tensor(at);
        let ty = ParamType::Pointer { dtype: tensor.dtype, mutable: tensor.mutable };
        params.push(Param { name: name.to_string(), ty, arg: plan::Arg::Pointer(at) });
        for axis in 0..tensor.dims.len().saturating_sub(1) {
            params.push(Param {
                name: program::stride_name(name, axis),
                ty: ParamType::Stride,
                arg: plan::Arg::Stride(at, axis),
            });
        }
    }
    for (at, dim) in nest.dims.iter().enumerate() {
        if dim.known.is_none() && dim.parts.is_empty() {
            params.push(Param { name: names.dims()[at].clone(), ty: ParamType::Int, arg: plan::Arg::Extent(at) });
        }
    }
    for (at, scalar) in nest.scalars.iter().enumerate() {
        let ty = if scalar.dtype == Dtype::I32 { ParamType::Int } else { ParamType::Float };
        params.push(Param { name: names.scalars()[at].clone(), ty, arg: plan::Arg::Scalar(at) });
    }
    for (index, axis) in nest.axes.iter().enumerate() {
        let dims = extent_dims(&axis.extent);
        if let Extent::Flat(parts) = &axis.extent {
            for inner in 1..parts.len() {
                let dims = &dims[inner..];
                if dims.iter().any(|dim| nest.dims[*dim].known.is_none()) {
                    push_divisor(&mut params, divisor_name(names.dims(), dims), plan::Arg::DivideByDims(dims.to_vec()));
                }
            }
        }
        if axis.kind == AxisKind::Each && dims.iter().any(|dim| nest.dims[*dim].known.is_none()) {
            push_divisor(&mut params, divisor_name(names.dims(), &dims), plan::Arg::DivideByDims(dims.clone()));
        }
        if let (AxisKind::Tiled, Some(block)) = (axis.kind, schedule.blocks[index]) {
            let name = blocks_name(names.axis(AxisId(index as u32)));
            push_divisor(&mut params, name, plan::Arg::DivideByBlocks(plan::GridAxis { dims, block }));
        }
    }
    if let Some(axis) = schedule.cluster {
        let arg = plan::Arg::DivideByBlocks(counted(nest, schedule, axis));
        push_divisor(&mut params, clusters_name(names.axis(axis)), arg);
    }
    params
}

fn push_divisor(params: &mut Vec<Param>, name: String, arg: plan::Arg) {
    if params.iter().all(|param| param.name != name) {
        params.push(Param { name, ty: ParamType::FastDiv, arg });
    }
}

/// `by_P_Q`: division by a product of dims.
pub fn divisor_name(names: &[String], dims: &[usize]) -> String {
    let parts: Vec<&str> = dims.iter().map(|dim| names[*dim].as_str()).collect();
    format!("by_{}", parts.join("_"))
}

/// `by_k_blocks`: division by the number of blocks along an axis.
pub fn blocks_name(axis: &str) -> String {
    format!("by_{axis}_blocks")
}

/// `by_i_clusters`: the same where these come in clusters.
fn clusters_name(axis: &str) -> String {
    format!("by_{axis}_clusters")
}

/// What is counted along one of the grid's axes: blocks, or clusters of them.
fn counted(nest: &Nest, schedule: &Schedule, axis: AxisId) -> plan::GridAxis {
    let each = if schedule.cluster == Some(axis) { cluster::BLOCKS } else { 1 };
    let block = each * schedule.blocks[axis.index()].unwrap_or(1);
    plan::GridAxis { dims: extent_dims(&nest.axis(axis).extent), block }
}

/// Division by how many of these there are.
fn divisor(nest: &Nest, schedule: &Schedule, names: &Names, axis: AxisId) -> Divisor {
    if schedule.cluster == Some(axis) {
        return Divisor::Param(clusters_name(names.axis(axis)));
    }
    match (nest.axis(axis).kind, known_extent(nest, axis)) {
        (AxisKind::Each, Some(size)) => Divisor::Const(size),
        (AxisKind::Each, None) => Divisor::Param(divisor_name(names.dims(), &extent_dims(&nest.axis(axis).extent))),
        _ => Divisor::Param(blocks_name(names.axis(axis))),
    }
}

pub fn extent_dims(extent: &Extent) -> Vec<usize> {
    match extent {
        Extent::Dim(dim) => vec![dim.index()],
        Extent::Flat(dims) => dims.iter().map(|dim| dim.index()).collect(),
    }
}

/// What statements read of the parameters.
struct Used<'a> {
    nest: &'a Nest,
    dim_names: &'a [String],
    dims: BTreeSet<usize>,
    tensors: BTreeSet<TensorId>,
    scalars: BTreeSet<usize>,
    names: BTreeSet<String>,
    numbers: Vec<Int>,
}

/// The numbers that statements look up, those first that others are looked up by.
pub fn numbers(nest: &Nest, dim_names: &[String], body: &[Stmt]) -> Vec<Int> {
    let mut used = Used::new(nest, dim_names);
    used.stmts(body);
    used.numbers
}

/// Drops the parameters that no statement reads.
pub fn prune(nest: &Nest, program: &mut Program) {
    let dim_names = program.names.dims.clone();
    let mut used = Used::new(nest, &dim_names);
    // Blocks are counted from the extents of the grid's axes.
    for axis in &nest.grid {
        used.extent(*axis);
    }
    // The first axis' position is what is left when the others' are known.
    used.names.extend(program.grid.iter().skip(1).filter_map(|grid| match &grid.by {
        Divisor::Param(name) => Some(name.clone()),
        Divisor::Const(_) => None,
    }));
    used.stmts(&program.body);
    program.producer.iter().for_each(|producer| used.stmts(&producer.body));
    program.own.iter().flat_map(|own| &own.at).for_each(|at| used.text(at));
    used.dims.extend(program.narrow.iter().map(|narrow| narrow.dim.index()));
    used.dims.extend(program.short.iter().map(|short| short.dim.index()));
    let flats: Vec<String> = used.names.iter().cloned().collect();
    program.params.retain(|param| match &param.arg {
        plan::Arg::Pointer(tensor) | plan::Arg::Stride(tensor, _) => used.tensors.contains(&TensorId(*tensor as u32)),
        plan::Arg::Extent(dim) => used.dims.contains(dim),
        plan::Arg::Scalar(scalar) => used.scalars.contains(scalar),
        plan::Arg::DivideByDims(_) | plan::Arg::DivideByBlocks(_) => flats.contains(&param.name),
        plan::Arg::TensorMap { .. }
        | plan::Arg::WindowMap(_)
        | plan::Arg::WindowCorner(..)
        | plan::Arg::KeptColumns
        | plan::Arg::DivideByLastGroup(..)
        | plan::Arg::DivideByRowsTogether
        | plan::Arg::Parts
        | plan::Arg::DivideByParts
        | plan::Arg::WholeTiles
        | plan::Arg::DivideByCutTiles
        | plan::Arg::Workspace
        | plan::Arg::Arrivals
        | plan::Arg::Taken => true,
    });
}

impl<'a> Used<'a> {
    fn new(nest: &'a Nest, dim_names: &'a [String]) -> Used<'a> {
        Used {
            nest,
            dim_names,
            dims: BTreeSet::new(),
            tensors: BTreeSet::new(),
            scalars: BTreeSet::new(),
            names: BTreeSet::new(),
            numbers: Vec::new(),
        }
    }

    fn stmts(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Let { value, .. } => self.text(value),
                Stmt::LookUp { number, .. } => self.int(number),
                Stmt::Map { value, unless_all, .. } => {
                    self.expr(value);
                    unless_all.iter().for_each(|predicate| self.predicate(predicate));
                }
                Stmt::MaskEdge { axis, .. } => self.extent(*axis),
                Stmt::Copy(copy) => {
                    copy.slot.iter().for_each(|slot| self.text(slot));
                    self.access(&copy.source);
                }
                Stmt::HoldRows { access: source, .. }
                | Stmt::Load { source, .. }
                | Stmt::Keep { source, .. }
                | Stmt::FindSkew { row: source, .. }
                | Stmt::FindParts { row: source, .. } => self.access(source),
                Stmt::Store { target, .. } | Stmt::StorePanel { target, .. } => self.access(target),
                Stmt::CopyTurned { source, target, .. } => {
                    self.access(source);
                    self.access(target);
                }
                Stmt::SendPanel { store, .. } => store.at.iter().for_each(|at| self.text(at)),
                Stmt::For { from, until, .. } => {
                    self.text(from);
                    self.text(until);
                }
                Stmt::If { condition, .. } => self.text(condition),
                Stmt::Vote { condition, .. } => self.expr(condition),
                Stmt::WaitKept { left: value, .. }
                | Stmt::ClearRows { rows: value, .. }
                | Stmt::LeaveToOther { by: value, .. } => self.text(value),
                Stmt::Bulk { copies, .. } => {
                    for copy in copies {
                        copy.at.iter().for_each(|at| self.text(at));
                        if let BulkForm::Window { offsets } = &copy.form {
                            offsets.iter().for_each(|offset| self.text(offset));
                        }
                    }
                }
                Stmt::JoinParts { relative, .. } | Stmt::DealParts { relative, .. } => {
                    relative.iter().for_each(|relative| self.expr(&relative.weigh))
                }
                Stmt::Line(_)
                | Stmt::Declare(_)
                | Stmt::DeclareOperand(_)
                | Stmt::Pack { .. }
                | Stmt::Commit
                | Stmt::Wait(_)
                | Stmt::Barrier(_)
                | Stmt::Fence
                | Stmt::Where { .. }
                | Stmt::ByColumns { .. }
                | Stmt::ByParts { .. }
                | Stmt::Panels { .. }
                | Stmt::AwaitPanel { .. }
                | Stmt::WritePanel { .. }
                | Stmt::ReadPanel { .. }
                | Stmt::AwaitOwn(_)
                | Stmt::FetchOwn { .. }
                | Stmt::ReadTile { .. }
                | Stmt::WaitFull(_)
                | Stmt::Release(_)
                | Stmt::Acquire(_)
                | Stmt::Publish { .. }
                | Stmt::Advance(_)
                | Stmt::DotWait { .. }
                | Stmt::Locate
                | Stmt::LocateAnew
                | Stmt::ForUnits(_)
                | Stmt::Ahead { .. }
                | Stmt::DeclareEnds { .. }
                | Stmt::HoldSlice { .. }
                | Stmt::TakeUnit
                | Stmt::AwaitEarly
                | Stmt::FinishStores
                | Stmt::PingPong(..)
                | Stmt::Stagger(_)
                | Stmt::Dot(_)
                | Stmt::Reduce { .. }
                | Stmt::Fold { .. }
                | Stmt::Spread { .. }
                | Stmt::Exchange { .. }
                | Stmt::Stage { .. } => {}
            }
            stmt.bodies().into_iter().for_each(|body| self.stmts(body));
        }
    }

    fn access(&mut self, access: &Access) {
        self.tensors.insert(access.tensor);
        access.index.iter().for_each(|int| self.int(int));
        access.limits.iter().for_each(|axis| self.extent(*axis));
        if let program::AccessForm::Contiguous { cols, .. } = access.form {
            self.extent(cols);
        }
        let tensor = self.nest.tensor(access.tensor);
        access.inside.iter().for_each(|axis| {
            self.dims.insert(tensor.dims[*axis].index());
        });
    }

    fn extent(&mut self, axis: AxisId) {
        self.dims.extend(extent_dims(&self.nest.axis(axis).extent));
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Int(int) => self.int(int),
            Expr::Predicate(predicate) => self.predicate(predicate),
            Expr::Param(at) | Expr::Factor(at, _) => {
                self.scalars.insert(*at);
            }
            _ => {}
        }
        expr.parts().into_iter().for_each(|part| self.expr(part));
    }

    fn predicate(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::Const(_) => {}
            Predicate::Compare(_, a, b) => {
                self.int(a);
                self.int(b);
            }
            Predicate::And(a, b) | Predicate::Or(a, b) => {
                self.predicate(a);
                self.predicate(b);
            }
            Predicate::Not(a) => self.predicate(a),
        }
    }

    fn int(&mut self, int: &Int) {
        match int {
            Int::Const(_) | Int::Axis(_) | Int::BlockStart(_) => {}
            Int::Dim(dim) => {
                self.dims.insert(dim.index());
            }
            Int::Scalar(scalar) => {
                self.scalars.insert(scalar.index());
            }
            Int::FlatCoord(axis, _) => {
                let dims = extent_dims(&self.nest.axis(*axis).extent);
                for inner in 1..dims.len() {
                    self.names.insert(divisor_name(self.dim_names, &dims[inner..]));
                }
                self.dims.extend(dims);
            }
            Int::BlockEnd(axis) => self.extent(*axis),
            Int::Binary(..) => {}
            Int::Element(tensor, _) => {
                self.tensors.insert(*tensor);
                self.dims.extend(self.nest.tensor(*tensor).dims.iter().map(|dim| dim.index()));
            }
        }
        int.parts().into_iter().for_each(|part| self.int(part));
        if matches!(int, Int::Element(..)) && !self.numbers.contains(int) {
            self.numbers.push(int.clone());
        }
    }

    fn text(&mut self, text: &IntText) {
        match text {
            IntText::Const(_) | IntText::Name(_) | IntText::OfTurn(..) | IntText::Start(_) => {}
            IntText::Int(int) => self.int(int),
            IntText::Extent(axis) | IntText::Limit(axis) => self.extent(*axis),
            IntText::Add(a, b)
            | IntText::Sub(a, b)
            | IntText::Mul(a, b)
            | IntText::Min(a, b)
            | IntText::Max(a, b)
            | IntText::Less(a, b) => {
                self.text(a);
                self.text(b);
            }
            IntText::Share { steps, part, parts, .. } => {
                self.text(steps);
                self.text(part);
                self.text(parts);
            }
            IntText::CeilDiv(a, _) | IntText::Rem(a, _) => self.text(a),
            IntText::Quotient(a, divisor) | IntText::Remainder(a, divisor) => {
                self.text(a);
                if let Divisor::Param(name) = divisor {
                    self.names.insert(name.clone());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{cuda, gemm, program};
    use quote::quote;

    #[test]
    fn blocks_of_two_tiled_axes_are_visited_in_groups() {
        let raster = |schedule| program(gemm(schedule)).raster.map(|raster| raster.rows);
        assert_eq!(raster(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2), raster = 4)), Some(4));
        assert_eq!(raster(quote!(sm_80, i = 64, j = 64, k = 32, stages = 2, warps = (2, 2), raster = 1)), None);
        let heads = program(quote! {
            #[schedule(sm_80, i = 64, j = 64, stages = 2, warps = (2, 2), raster = 4)]
            fn f<H: Dim, N: Dim>(a: &Tensor<f16, (H, N, Const<64>)>, b: &Tensor<f16, (H, N, Const<64>)>, c: &mut Tensor<f32, (H, N)>) {
                tile!(for (h, i) in (each(H), N) {
                    let mut total = zeros::<f32>(i);
                    tile!(for j in N { total += dot(a[(h, i, ..)], b[(h, j, ..)].t()).row_sum(); });
                    c[(h, i)] = total;
                });
            }
        });
        assert_eq!(heads.raster, None);
    }

    /// None is divided by a number that its code would have to work out.
    #[test]
    fn a_blocks_place_comes_by_divisors() {
        let text = cuda(quote! {
            #[schedule(sm_90a, i = 128, j = 128, k = 64, stages = 4, consumers = 2, raster = 4)]
            fn f<B: Dim, H: Dim, M: Dim, N: Dim, K: Dim>(
                a: &Tensor<f16, (B, H, M, K)>, b: &Tensor<f16, (B, H, N, K)>, c: &mut Tensor<f16, (B, H, M, N)>,
            ) {
                tile!(for (n, h, i, j) in (each(B), each(H), M, N) {
                    let mut acc = zeros::<f32>((i, j));
                    tile!(for k in K { acc += dot(a[(n, h, i, k)], b[(n, h, j, k)].t()); });
                    c[(n, h, i, j)] = acc.to();
                });
            }
        });
        for line in [
            "const int matrix = by_i_blocks.div(by_j_blocks.div(block));",
            "block -= matrix * (i_blocks * j_blocks);",
            ">(block, i_blocks, j_blocks, by_j_blocks, by_last_group);",
            "block = matrix;",
            "const int h = by_H.rem(block);",
            "block = by_H.div(block);",
            "const int n = block;",
        ] {
            assert_eq!(text.matches(line).count(), 2, "{line} for each role in\n{text}");
        }
    }
}
