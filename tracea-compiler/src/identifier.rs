//! Rust's identifiers as CUDA C++ takes them.

/// `type` of `r#type`, `u3bb` of `λ`: NVRTC reads no letters outside ASCII.
pub fn of(name: &str) -> String {
    let spelled = |letter: char| match letter.is_ascii() {
        true => letter.to_string(),
        false => format!("u{:x}", u32::from(letter)),
    };
    name.trim_start_matches("r#").chars().map(spelled).collect()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn names_are_kept_but_for_what_cuda_cannot_read() {
        assert_eq!(["acc", "r#type", "λ", "Δx_2"].map(of), ["acc", "type", "u3bb", "u394x_2"]);
    }
}
