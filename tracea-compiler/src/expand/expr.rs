//! Expressions of a body, rewritten where the language needs other words.

use super::body::Body;
use super::names::Kind;
use super::private;
use crate::ast::{ConstArgument, SMALL_POWERS, const_argument, is_assignment};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    BinOp, Expr, ExprBinary, ExprCall, ExprCast, ExprClosure, ExprIf, ExprIndex, ExprLit, ExprMethodCall, ExprPath,
    ExprRange, GenericArgument, Lit, Path, PathArguments, RangeLimits, Token, Type,
};

impl Body {
    pub(super) fn expr(&mut self, expr: &Expr) -> (TokenStream, Kind) {
        match expr {
            Expr::Paren(inner) => {
                let (tokens, kind) = self.expr(&inner.expr);
                let mut whole = TokenStream::new();
                inner.paren_token.surround(&mut whole, |inside| inside.extend(tokens));
                (whole, kind)
            }
            Expr::Group(inner) => self.expr(&inner.expr),
            Expr::Reference(inner) => {
                let (tokens, kind) = self.expr(&inner.expr);
                // Tiles and numbers are taken by value, so that a reference to one is as good as the thing.
                (tokens, kind)
            }
            Expr::Block(block) => self.block(&block.block),
            Expr::Lit(lit) => self.literal(lit),
            Expr::Path(path) => self.path(path),
            Expr::Tuple(tuple) => {
                let mut kinds = Vec::new();
                let parts: Vec<TokenStream> = tuple
                    .elems
                    .iter()
                    .map(|part| {
                        let (tokens, kind) = self.expr(part);
                        kinds.push(kind);
                        tokens
                    })
                    .collect();
                let trailing = (parts.len() == 1).then(|| quote! { , });
                let mut whole = TokenStream::new();
                tuple.paren_token.surround(&mut whole, |inside| inside.extend(quote! { #(#parts),* #trailing }));
                (whole, if kinds.contains(&Kind::Tile) { Kind::Tile } else { Kind::Plain })
            }
            Expr::Unary(unary) => {
                let (tokens, kind) = self.expr(&unary.expr);
                let op = match unary.op {
                    syn::UnOp::Deref(_) => TokenStream::new(),
                    op => op.to_token_stream(),
                };
                (quote! { #op #tokens }, kind)
            }
            Expr::Binary(binary) => self.binary(binary),
            Expr::Assign(assign) => {
                let value = self.value(&assign.right);
                let equals = assign.eq_token;
                let tokens = match &*assign.left {
                    Expr::Index(index) => self.store(index, value),
                    target => quote! { #target #equals #value },
                };
                (tokens, Kind::Plain)
            }
            Expr::Cast(cast) => self.cast(cast),
            Expr::If(branch) => self.branch(branch),
            Expr::Index(index) if self.closures > 0 => {
                let tile = self.load(index);
                (quote_spanned! { index.bracket_token.span.close()=> #tile.value() }, Kind::Element)
            }
            Expr::Index(index) => (self.load(index), Kind::Tile),
            Expr::Range(range) => {
                let start = range.start.as_ref().map(|start| self.value(start));
                let end = range.end.as_ref().map(|end| self.value(end));
                let limits = &range.limits;
                (quote! { #start #limits #end }, Kind::Plain)
            }
            Expr::MethodCall(call) => self.method(call),
            Expr::Call(call) => self.call(call),
            Expr::Closure(closure) => (self.closure(closure, Kind::Element), Kind::Plain),
            Expr::Macro(call) => (self.macro_call(&call.mac), Kind::Plain),
            Expr::Field(field) => {
                let (base, kind) = self.expr(&field.base);
                let (dot, member) = (field.dot_token, &field.member);
                (quote! { #base #dot #member }, kind)
            }
            other => (other.to_token_stream(), Kind::Plain),
        }
    }

    /// Of tile arithmetic here, or of scalar arithmetic inside a closure.
    fn float_kind(&self) -> Kind {
        if self.closures > 0 { Kind::Element } else { Kind::Tile }
    }

    fn literal(&self, lit: &ExprLit) -> (TokenStream, Kind) {
        let private = private();
        let (digits, suffix, float) = match &lit.lit {
            Lit::Float(number) => (number.base10_digits().to_string(), number.suffix(), true),
            Lit::Int(number) => {
                (format!("{}.0", number.base10_digits()), number.suffix(), number.suffix().contains('f'))
            }
            _ => return (lit.to_token_stream(), Kind::Plain),
        };
        if !float {
            return (lit.to_token_stream(), Kind::Plain);
        }
        let mut number: proc_macro2::Literal = match digits.parse::<f64>() {
            Ok(value) => proc_macro2::Literal::f64_unsuffixed(value),
            Err(_) => return (lit.to_token_stream(), self.float_kind()),
        };
        number.set_span(lit.span());
        let tokens = if self.closures > 0 {
            quote_spanned! { lit.span()=> #private::num::<f32>(#number) }
        } else if suffix.is_empty() {
            quote_spanned! { lit.span()=> #private::lit(#number) }
        } else {
            let dtype = Ident::new(suffix, lit.span());
            quote_spanned! { lit.span()=> #private::lit::<#dtype>(#number) }
        };
        (tokens, self.float_kind())
    }

    fn path(&mut self, expr: &ExprPath) -> (TokenStream, Kind) {
        let private = private();
        let Some(name) = expr.path.get_ident() else { return self.constant(&expr.path) };
        let Some((kind, stands_for, declared)) = self.names.find(name) else {
            return (expr.to_token_stream(), Kind::Plain);
        };
        let written = stands_for.unwrap_or(name);
        match kind {
            Kind::Tile if self.closures > declared => {
                (quote_spanned! { name.span()=> #written.value() }, Kind::Element)
            }
            Kind::Tile => (quote_spanned! { name.span()=> ::core::clone::Clone::clone(&#written) }, Kind::Tile),
            Kind::Number if self.closures > 0 => {
                (quote_spanned! { name.span()=> #private::num::<f32>(#written) }, Kind::Element)
            }
            Kind::Number => (quote_spanned! { name.span()=> #private::lit(#written) }, Kind::Tile),
            kind => (written.to_token_stream(), kind),
        }
    }

    /// `f32::EPSILON`, `core::f32::consts::LN_2`.
    fn constant(&mut self, path: &Path) -> (TokenStream, Kind) {
        let private = private();
        match const_argument(path) {
            Some(ConstArgument::Size(size)) => {
                let size = proc_macro2::Literal::i64_unsuffixed(size);
                return (
                    quote_spanned! { path.span()=> #private::Extent::<#private::Const<#size>>::new(#size) },
                    Kind::Plain,
                );
            }
            Some(ConstArgument::Name(name)) => {
                return (
                    quote_spanned! { path.span()=> #private::Extent::<#private::Const<#name>>::new(#name as i32) },
                    Kind::Plain,
                );
            }
            None => {}
        }
        let segments: Vec<&Ident> = path.segments.iter().map(|segment| &segment.ident).collect();
        let is_upper =
            segments.last().is_some_and(|name| name.to_string().chars().all(|letter| !letter.is_ascii_lowercase()));
        if !is_upper {
            return (path.to_token_stream(), Kind::Plain);
        }
        if segments.len() >= 2 && segments[segments.len() - 2] == "consts" {
            let tokens = if self.closures > 0 {
                quote_spanned! { path.span()=> #private::num::<f32>(#path as f64) }
            } else {
                quote_spanned! { path.span()=> #private::lit(#path as f64) }
            };
            return (tokens, self.float_kind());
        }
        let dtype = Type::Path(syn::TypePath { qself: None, path: segments[0].clone().into() });
        if segments.len() != 2 || !self.is_dtype(&dtype) {
            return (path.to_token_stream(), Kind::Plain);
        }
        if self.closures > 0 {
            return (path.to_token_stream(), Kind::Element);
        }
        (quote_spanned! { path.span()=> #private::full::<#dtype, ()>((), #path) }, Kind::Tile)
    }

    /// A constant stands bare where one value fills a tile.
    fn fill(&mut self, expr: &Expr) -> TokenStream {
        match expr {
            Expr::Path(path) if path.path.segments.len() == 2 => path.to_token_stream(),
            other => self.value(other),
        }
    }

    fn binary(&mut self, binary: &ExprBinary) -> (TokenStream, Kind) {
        let ExprBinary { left, op, right, .. } = binary;
        let assigns = is_assignment(op);
        let (right, of_right) = self.expr(right);
        if assigns {
            if let Expr::Index(index) = &**left {
                let plain = plain_operator(op);
                let old = self.load(index);
                return (self.store(index, quote! { #old #plain #right }), Kind::Plain);
            }
            return (quote! { #left #op #right }, Kind::Plain);
        }
        let (left, of_left) = self.expr(left);
        let kind = match op {
            BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) | BinOp::Rem(_) => {
                match (of_left, of_right) {
                    (Kind::Plain, Kind::Plain) => Kind::Plain,
                    _ => self.float_kind(),
                }
            }
            _ if of_left == Kind::Tile || of_right == Kind::Tile => Kind::Tile,
            _ => Kind::Plain,
        };
        (quote! { #left #op #right }, kind)
    }

    /// The receiver of a load or store, by its own name.
    fn tensor(&mut self, expr: &Expr) -> TokenStream {
        match expr {
            Expr::Paren(inner) => self.tensor(&inner.expr),
            other => self.value(other),
        }
    }

    fn load(&mut self, index: &ExprIndex) -> TokenStream {
        let (tensor, at) = (self.tensor(&index.expr), self.value(&index.index));
        let method = quote_spanned! { index.bracket_token.span.open()=> .load };
        quote_spanned! { index.bracket_token.span.join()=> #tensor #method (#at) }
    }

    fn store(&mut self, index: &ExprIndex, value: TokenStream) -> TokenStream {
        let (tensor, at) = (self.tensor(&index.expr), self.value(&index.index));
        let method = quote_spanned! { index.bracket_token.span.open()=> .store };
        quote_spanned! { index.bracket_token.span.join()=> #tensor #method (#at, #value) }
    }

    fn cast(&mut self, cast: &ExprCast) -> (TokenStream, Kind) {
        let private = private();
        let ExprCast { expr, ty, as_token, .. } = cast;
        let span = as_token.span();
        let (value, kind) = self.expr(expr);
        if self.is_dtype(ty) {
            let tokens = match (kind, self.closures > 0) {
                (Kind::Plain, false) => quote_spanned! { span=> #private::int::<#ty>(#value) },
                (Kind::Plain, true) => {
                    quote_spanned! { span=> #private::from_int::<#ty>(#private::Integer::get(#value)) }
                }
                (_, false) => quote_spanned! { span=> (#value).to::<#ty>() },
                (_, true) => value,
            };
            return (tokens, self.float_kind());
        }
        let is =
            |names: &[&str]| matches!(&**ty, Type::Path(path) if names.iter().any(|name| path.path.is_ident(name)));
        if is(&["i32", "usize", "isize", "i64", "u32", "u64"]) {
            return match kind {
                Kind::Plain => (quote_spanned! { span=> #private::Integer::get(#value) }, Kind::Plain),
                _ => (quote_spanned! { span=> (#value).to::<i32>() }, Kind::Tile),
            };
        }
        if is(&["f64"]) {
            return (value, kind);
        }
        (quote! { #value #as_token #ty }, kind)
    }

    fn branch(&mut self, branch: &ExprIf) -> (TokenStream, Kind) {
        let condition = self.value(&branch.cond);
        let (then, kind) = self.block(&branch.then_branch);
        let otherwise = branch.else_branch.as_ref().map(|(word, otherwise)| {
            let otherwise = self.value(otherwise);
            quote! { #word #otherwise }
        });
        let word = branch.if_token;
        (quote! { #word #condition #then #otherwise }, kind)
    }

    fn closure(&mut self, closure: &ExprClosure, parameters: Kind) -> TokenStream {
        let mark = self.names.mark();
        self.closures += 1;
        for input in &closure.inputs {
            self.declare_pattern(input, parameters);
        }
        let body = self.value(&closure.body);
        self.closures -= 1;
        self.names.leave(mark);
        let ExprClosure { movability, or1_token, inputs, or2_token, output, .. } = closure;
        quote! { #movability #or1_token #inputs #or2_token #output #body }
    }

    fn method(&mut self, call: &ExprMethodCall) -> (TokenStream, Kind) {
        let (receiver, of) = self.expr(&call.receiver);
        let name = call.method.to_string();
        let mut kinds = Vec::new();
        let mut arguments = Vec::new();
        for (position, argument) in call.args.iter().enumerate() {
            let (tokens, kind) = match argument {
                Expr::Closure(closure) if name == "mask" => (self.closure(closure, Kind::Plain), Kind::Plain),
                Expr::Range(range) if name == "range" => (self.bounds(range), Kind::Plain),
                fill if name == "mask" && position == 1 => (self.fill(fill), Kind::Tile),
                other => self.expr(other),
            };
            arguments.push(tokens);
            kinds.push(kind);
        }
        let kind = match name.as_str() {
            "start" | "end" | "coords" | "size" | "until" | "from" | "range" => Kind::Plain,
            "min" | "max" | "abs" | "clamp" | "pow" | "clone" | "rem_euclid" | "div_ceil" if of == Kind::Plain => {
                Kind::Plain
            }
            _ => self.float_kind(),
        };
        if name == "powi"
            && let Some(power) = small_power(&call.args)
        {
            // As the device has it: a product.
            let copies = (1..power).map(|_| quote! { * ::core::clone::Clone::clone(&__base) });
            let tokens = quote! { { let __base = #receiver; ::core::clone::Clone::clone(&__base) #(#copies)* } };
            return (tokens, self.float_kind());
        }
        if of == Kind::Element
            && let Some(tokens) = spelled_out(&name, &receiver, &arguments)
        {
            return (tokens, Kind::Element);
        }
        let method = match (name.as_str(), of) {
            ("ln", Kind::Tile | Kind::Element) => Ident::new("log", call.method.span()),
            ("powf", Kind::Tile) => Ident::new("pow", call.method.span()),
            _ => call.method.clone(),
        };
        let (dot, generics) = (call.dot_token, &call.turbofish);
        let mut tokens = quote! { #receiver #dot #method #generics };
        call.paren_token.surround(&mut tokens, |inside| inside.extend(quote! { #(#arguments),* }));
        (tokens, kind)
    }

    /// Both ends of `T.range(a..b)` as integers: one may be a dim, and one may be left out.
    fn bounds(&mut self, range: &ExprRange) -> TokenStream {
        let private = private();
        let mut integer = |end: &Option<Box<Expr>>| {
            let end = self.value(end.as_deref()?);
            Some(quote! { #private::Integer::get(#end) })
        };
        let start = integer(&range.start).unwrap_or_else(|| quote! { 0 });
        let end = match (integer(&range.end), &range.limits) {
            (Some(end), RangeLimits::HalfOpen(_)) => end,
            (Some(end), RangeLimits::Closed(_)) => quote! { #end + 1 },
            (None, _) => quote! { ::core::primitive::i32::MAX },
        };
        quote_spanned! { range.limits.span()=> #start..#end }
    }

    fn call(&mut self, call: &ExprCall) -> (TokenStream, Kind) {
        let Expr::Path(function) = &*call.func else {
            return (call.to_token_stream(), self.float_kind());
        };
        let name = function.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let arguments: Vec<TokenStream> = call
            .args
            .iter()
            .enumerate()
            .map(
                |(position, argument)| {
                    if name == "full" && position == 1 { self.fill(argument) } else { self.value(argument) }
                },
            )
            .collect();
        let integers = function.path.segments.len() > 1
            && function
                .path
                .segments
                .iter()
                .rev()
                .nth(1)
                .is_some_and(|owner| owner.ident == "i32" || owner.ident == "cmp");
        let kind = if integers || name == "flat" { Kind::Plain } else { self.float_kind() };
        let function = with_open_axes(&function.path);
        let arguments = if name == "flat" {
            quote! { (#(#arguments),*) }
        } else {
            quote! { #(#arguments),* }
        };
        let mut tokens = quote! { #function };
        call.paren_token.surround(&mut tokens, |inside| inside.extend(arguments));
        (tokens, kind)
    }
}

/// `2` of `x.powi(2)`.
fn small_power(arguments: &Punctuated<Expr, Token![,]>) -> Option<u32> {
    match arguments.first() {
        Some(Expr::Lit(ExprLit { lit: Lit::Int(power), .. })) => {
            power.base10_parse().ok().filter(|power| SMALL_POWERS.contains(power))
        }
        _ => None,
    }
}

/// Methods of `f32` that the language's reals lack, by those that they have.
fn spelled_out(name: &str, receiver: &TokenStream, arguments: &[TokenStream]) -> Option<TokenStream> {
    match (name, arguments) {
        // A captured tile without axes is its one element already.
        ("value" | "clone", []) => Some(receiver.clone()),
        ("is_nan", []) => Some(quote! { { let __x = #receiver; __x != __x } }),
        ("clamp", [low, high]) => Some(quote! { #receiver.max(#low).min(#high) }),
        ("mul_add", [factor, addend]) => Some(quote! { (#receiver * (#factor) + (#addend)) }),
        _ => None,
    }
}

/// `zeros::<f32>` is generic over its axes too.
fn with_open_axes(path: &Path) -> Path {
    let mut path = path.clone();
    let Some(last) = path.segments.last_mut().filter(|last| last.ident == "zeros" || last.ident == "full") else {
        return path;
    };
    if let PathArguments::AngleBracketed(arguments) = &mut last.arguments
        && arguments.args.len() == 1
    {
        arguments
            .args
            .push(GenericArgument::Type(Type::Infer(syn::TypeInfer { underscore_token: Default::default() })));
    }
    path
}

fn plain_operator(op: &BinOp) -> TokenStream {
    match op {
        BinOp::AddAssign(token) => quote_spanned! { token.span()=> + },
        BinOp::SubAssign(token) => quote_spanned! { token.span()=> - },
        BinOp::MulAssign(token) => quote_spanned! { token.span()=> * },
        BinOp::DivAssign(token) => quote_spanned! { token.span()=> / },
        BinOp::BitAndAssign(token) => quote_spanned! { token.span()=> & },
        BinOp::BitOrAssign(token) => quote_spanned! { token.span()=> | },
        BinOp::BitXorAssign(token) => quote_spanned! { token.span()=> ^ },
        BinOp::ShlAssign(token) => quote_spanned! { token.span()=> << },
        BinOp::ShrAssign(token) => quote_spanned! { token.span()=> >> },
        _ => quote_spanned! { op.span()=> % },
    }
}
