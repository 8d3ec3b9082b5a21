//! The user's body as a Rust function that runs one grid point, generic in its arithmetic.
//!
//! Tokens stay the user's own, with their spans, except where the language needs other words:
//!
//! ```text
//! tile!(for k in K { … })   =>  for k in tiles::<k, _>(grid, K) { … }
//! x[(i, k)], c[(i, j)] = e  =>  x.load((i, k)), c.store((i, j), e)
//! acc (a `let`)             =>  acc.clone()
//! 2.0                       =>  lit(2.0), in a closure num::<f32>(2.0)
//! N as f32                  =>  int::<f32>(N)
//! ```

use super::names::{Kind, Names};
use super::{axis_declaration, private};
use crate::ast::{Header, Kernel, ParamKind, SelectorKind, Tile};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{BinOp, Block, Expr, ExprLit, Item, Lit, Local, Macro, Pat, Stmt, Type, UnOp};

pub struct Body {
    pub(super) names: Names,
    /// Closures around the current expression.
    pub(super) closures: usize,
    /// Axes so far: each gets an ordinal of its own.
    axes: usize,
    /// The kernel's own dtype generics.
    pub(super) dtypes: Vec<Ident>,
}

/// The variable that holds a dim's extent: a plain `M` could be read as a constant of that name.
pub fn extent_name(dim: &Ident) -> Ident {
    format_ident!("__extent_{}", dim, span = Span::call_site().located_at(dim.span()))
}

impl Body {
    pub fn new(kernel: &Kernel) -> Body {
        let mut names = Names::default();
        for dim in &kernel.dims {
            names.declare_as(dim, extent_name(dim), Kind::Plain);
        }
        for selector in &kernel.selectors {
            match selector.kind {
                SelectorKind::Constant => names.declare_as(&selector.name, extent_name(&selector.name), Kind::Plain),
                SelectorKind::Flag => names.declare(&selector.name, Kind::Plain, 0),
                SelectorKind::Dtype => {}
            }
        }
        for param in &kernel.params {
            let kind = match param.kind {
                ParamKind::Tensor(_) => Kind::Tensor,
                ParamKind::Scalar(crate::nest::Dtype::I32) | ParamKind::Flag => Kind::Plain,
                ParamKind::Scalar(_) => Kind::Tile,
            };
            names.declare(&param.name, kind, 0);
        }
        let dtypes = kernel.selectors.iter().filter(|selector| selector.kind == SelectorKind::Dtype);
        Body { names, closures: 0, axes: 0, dtypes: dtypes.map(|selector| selector.name.clone()).collect() }
    }

    /// For a function of scalars, which is as a closure's body.
    pub fn scalar(params: &[(Ident, bool)]) -> Body {
        let mut names = Names::default();
        for (name, float) in params {
            names.declare(name, if *float { Kind::Element } else { Kind::Plain }, 1);
        }
        Body { names, closures: 1, axes: 0, dtypes: Vec::new() }
    }

    pub fn scalar_block(&mut self, block: &Block) -> TokenStream {
        self.block(block).0
    }

    /// The function's statements, the grid's loop variables bound to one grid point.
    pub fn top_level(&mut self, block: &Block) -> TokenStream {
        let mut tokens = TokenStream::new();
        for stmt in &block.stmts {
            match stmt {
                Stmt::Macro(stmt) if Tile::is(&stmt.mac) => tokens.extend(self.grid(&stmt.mac)),
                Stmt::Expr(Expr::Macro(expr), _) if Tile::is(&expr.mac) => tokens.extend(self.grid(&expr.mac)),
                other => tokens.extend(self.stmt(other)),
            }
        }
        tokens
    }

    fn grid(&mut self, mac: &Macro) -> TokenStream {
        // Parsing and checking have told what is wrong with it.
        let Ok(tile) = Tile::open(mac) else { return TokenStream::new() };
        let private = private();
        let mut tokens = TokenStream::new();
        for (position, Header { axis, range }) in tile.headers.iter().enumerate() {
            let position = proc_macro2::Literal::usize_unsuffixed(position);
            if let Some(extent) = each(range) {
                let extent = self.value(extent);
                tokens.extend(quote! { let #axis = __grid.each(#position, #extent); });
            } else {
                let extent = self.value(range);
                let declaration = self.declare_axis(axis);
                tokens.extend(quote! {
                    #declaration
                    let #axis: #private::Ix<#axis, _> = __grid.tile::<#axis, _>(#position, #extent);
                });
            }
            self.names.declare(axis, Kind::Plain, self.closures);
        }
        tokens.extend(self.stmts(&tile.body));
        tokens
    }

    fn declare_axis(&mut self, axis: &Ident) -> TokenStream {
        let declaration = axis_declaration(axis, self.axes);
        self.axes += 1;
        declaration
    }

    fn tile_loop(&mut self, mac: &Macro) -> TokenStream {
        let Ok(tile) = Tile::open(mac) else { return TokenStream::new() };
        let mark = self.names.mark();
        let tokens = self.nested(&tile.headers, &tile.body);
        self.names.leave(mark);
        tokens
    }

    fn nested(&mut self, headers: &[Header], body: &Block) -> TokenStream {
        let Some((Header { axis, range }, inner)) = headers.split_first() else { return self.stmts(body) };
        let private = private();
        if let Some(extent) = each(range) {
            let extent = self.value(extent);
            self.names.declare(axis, Kind::Plain, self.closures);
            let inner = self.nested(inner, body);
            return quote! { for #axis in #private::each(#extent) { #inner } };
        }
        let extent = self.value(range);
        let declaration = self.declare_axis(axis);
        self.names.declare(axis, Kind::Plain, self.closures);
        let inner = self.nested(inner, body);
        quote! { { #declaration for #axis in #private::tiles::<#axis, _>(__grid, #extent) { #inner } } }
    }

    fn stmts(&mut self, block: &Block) -> TokenStream {
        block.stmts.iter().map(|stmt| self.stmt(stmt)).collect()
    }

    /// With its braces; the kind is that of its last expression.
    pub(super) fn block(&mut self, block: &Block) -> (TokenStream, Kind) {
        let mark = self.names.mark();
        let mut tokens = TokenStream::new();
        let mut kind = Kind::Plain;
        for stmt in &block.stmts {
            match stmt {
                Stmt::Expr(expr, None) => {
                    let (last, of) = self.expr(expr);
                    tokens.extend(last);
                    kind = of;
                }
                other => tokens.extend(self.stmt(other)),
            }
        }
        self.names.leave(mark);
        let mut braced = TokenStream::new();
        block.brace_token.surround(&mut braced, |inner| inner.extend(tokens));
        (braced, kind)
    }

    fn stmt(&mut self, stmt: &Stmt) -> TokenStream {
        match stmt {
            Stmt::Local(local) => self.local(local),
            Stmt::Item(Item::Const(item)) => {
                // An item cannot name the function's dtypes, which stand for the primitive ones here.
                let (value, kind) = self.expr(&item.expr);
                let name =
                    format_ident!("__const_{}", item.ident, span = Span::call_site().located_at(item.ident.span()));
                let annotation = self.annotation(&item.ty, kind);
                self.names.declare_as(&item.ident, name.clone(), kind);
                quote! { let #name #annotation = #value; }
            }
            Stmt::Item(item) => item.to_token_stream(),
            Stmt::Macro(stmt) if Tile::is(&stmt.mac) => self.tile_loop(&stmt.mac),
            Stmt::Macro(stmt) => stmt.to_token_stream(),
            Stmt::Expr(expr, semicolon) => {
                let (tokens, _) = self.expr(expr);
                quote! { #tokens #semicolon }
            }
        }
    }

    fn local(&mut self, local: &Local) -> TokenStream {
        let Local { attrs, let_token, pat, init, semi_token } = local;
        let (pattern, annotated) = match pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            other => (other, None),
        };
        let Some(init) = init else {
            self.declare_pattern(pattern, Kind::Tile);
            let annotation = annotated.map(|ty| self.annotation(ty, Kind::Tile));
            return quote! { #(#attrs)* #let_token #pattern #annotation #semi_token };
        };
        if let (Pat::Ident(name), None) = (pattern, annotated)
            && name.mutability.is_none()
            && self.is_number(&init.expr)
        {
            self.names.declare(&name.ident, Kind::Number, self.closures);
            return local.to_token_stream();
        }
        let (value, kind) = self.expr(&init.expr);
        let annotation = annotated.map(|ty| self.annotation(ty, kind));
        let equals = init.eq_token;
        self.declare_pattern(pattern, kind);
        quote! { #(#attrs)* #let_token #pattern #annotation #equals #value #semi_token }
    }

    /// Made of float literals alone.
    fn is_number(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Lit(ExprLit { lit: Lit::Float(number), .. }) => number.suffix().is_empty(),
            Expr::Paren(inner) => self.is_number(&inner.expr),
            Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)) && self.is_number(&unary.expr),
            Expr::Binary(binary) => {
                let arithmetic = matches!(binary.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_));
                arithmetic && self.is_number(&binary.left) && self.is_number(&binary.right)
            }
            Expr::Path(path) => {
                let name = path.path.get_ident().and_then(|name| self.names.find(name));
                matches!(name, Some((Kind::Number, None, _)))
            }
            _ => false,
        }
    }

    /// `: f32` on a constant of tile arithmetic means a tile without axes.
    fn annotation(&self, ty: &Type, kind: Kind) -> TokenStream {
        let private = private();
        if self.closures == 0 && kind != Kind::Plain && self.is_dtype(ty) {
            return quote_spanned! { ty.span()=> : #private::Tile<#ty, ()> };
        }
        quote! { : #ty }
    }

    pub(super) fn is_dtype(&self, ty: &Type) -> bool {
        let Type::Path(path) = ty else { return false };
        let float = |name: &Ident| {
            ["f16", "bf16", "tf32", "f32"].iter().any(|known| name == known) || self.dtypes.contains(name)
        };
        match path.path.segments.len() {
            1 => path.path.segments.first().is_some_and(|name| float(&name.ident)),
            2 => path.path.segments[1].ident == "Acc" && float(&path.path.segments[0].ident),
            _ => false,
        }
    }

    pub(super) fn declare_pattern(&mut self, pattern: &Pat, kind: Kind) {
        match pattern {
            Pat::Ident(name) => self.names.declare(&name.ident, kind, self.closures),
            Pat::Tuple(parts) => parts.elems.iter().for_each(|part| self.declare_pattern(part, kind)),
            Pat::Type(typed) => self.declare_pattern(&typed.pat, kind),
            Pat::Paren(inner) => self.declare_pattern(&inner.pat, kind),
            _ => {}
        }
    }

    pub(super) fn value(&mut self, expr: &Expr) -> TokenStream {
        self.expr(expr).0
    }

    pub(super) fn macro_call(&mut self, mac: &Macro) -> TokenStream {
        if Tile::is(mac) { self.tile_loop(mac) } else { mac.to_token_stream() }
    }
}

/// The dim of `each(R)`.
fn each(range: &Expr) -> Option<&Expr> {
    match range {
        Expr::Paren(inner) => each(&inner.expr),
        Expr::Group(inner) => each(&inner.expr),
        Expr::Call(call) => {
            let Expr::Path(path) = &*call.func else { return None };
            let named = path.path.segments.last().is_some_and(|last| last.ident == "each");
            if named { call.args.first() } else { None }
        }
        _ => None,
    }
}
