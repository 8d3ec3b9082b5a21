//! `#[schedule(sm_80, i = 128, warps = (2, 2))]`: a target, then options by name.

use crate::errors::Errors;
use crate::schedule::spec::{ScheduleOption, ScheduleSpec};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Ident, Lit, Token};

/// Removes the helper attributes from the item and reads them.
pub fn take_schedules(attrs: &mut Vec<Attribute>, errors: &mut Errors) -> Vec<ScheduleSpec> {
    let (schedules, others): (Vec<_>, Vec<_>) =
        std::mem::take(attrs).into_iter().partition(|attr| attr.path().is_ident("schedule"));
    *attrs = others;
    schedules.iter().filter_map(|attr| errors.keep(attr.parse_args::<Written>())).map(|written| written.0).collect()
}

struct Written(ScheduleSpec);

impl Parse for Written {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let target: Ident = input.parse().map_err(|error| {
            syn::Error::new(error.span(), "a schedule begins with its target -- `#[schedule(sm_80, …)]`")
        })?;
        let mut options: Vec<ScheduleOption> = Vec::new();
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
            for Setting(option) in Punctuated::<Setting, Token![,]>::parse_terminated(input)? {
                if options.iter().any(|earlier| earlier.name == option.name) {
                    return Err(syn::Error::new(
                        option.name_span,
                        format!("`{}` is set twice -- keep one", option.name),
                    ));
                }
                options.push(option);
            }
        }
        Ok(Written(ScheduleSpec { target: target.to_string(), target_span: target.span(), options }))
    }
}

struct Setting(ScheduleOption);

impl Parse for Setting {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name: Ident = input.parse()?;
        input.parse::<Token![=]>()?;
        let value: Expr = input.parse()?;
        let flag = match &value {
            Expr::Lit(ExprLit { lit: Lit::Bool(flag), .. }) => Some(flag.value),
            _ => None,
        };
        let values = match &value {
            _ if flag.is_some() => Vec::new(),
            Expr::Tuple(tuple) => tuple.elems.iter().map(number).collect::<syn::Result<Vec<u32>>>()?,
            single => vec![number(single)?],
        };
        let (name, name_span, value_span) = (name.to_string(), name.span(), value.span());
        Ok(Setting(ScheduleOption { name, name_span, values, flag, value_span }))
    }
}

fn number(expr: &Expr) -> syn::Result<u32> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse(),
        Expr::Paren(inner) => number(&inner.expr),
        other => Err(syn::Error::new_spanned(
            other,
            "a schedule's values are whole numbers -- `i = 128`, \
                `warps = (2, 2)`",
        )),
    }
}
