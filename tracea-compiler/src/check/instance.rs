//! One choice for every selector of a kernel.

use crate::ast::{DtypeRef, Kernel};
use crate::nest::{Dtype, InstanceValue};
use proc_macro2::Ident;

pub struct Instance {
    pub values: Vec<(String, InstanceValue)>,
}

impl Instance {
    /// The product of the listed values, the last selector fastest.
    pub fn all(kernel: &Kernel) -> Vec<Instance> {
        let mut all = vec![Instance { values: Vec::new() }];
        for selector in &kernel.selectors {
            all = all
                .iter()
                .flat_map(|chosen| {
                    selector.values.iter().map(|value| {
                        let mut values = chosen.values.clone();
                        values.push((selector.name.to_string(), value.clone()));
                        Instance { values }
                    })
                })
                .collect();
        }
        all
    }

    pub fn get(&self, name: &Ident) -> Option<&InstanceValue> {
        self.values.iter().find(|(known, _)| name == known).map(|(_, value)| value)
    }

    pub fn dtype(&self, reference: &DtypeRef) -> Option<Dtype> {
        match reference {
            DtypeRef::Known(dtype) => Some(*dtype),
            DtypeRef::Generic(name) => match self.get(name) {
                Some(InstanceValue::Dtype(dtype)) => Some(*dtype),
                _ => None,
            },
        }
    }
}
