//! The device headers of `tracea-runtime/device`, embedded once a binary and handed to NVRTC under the names that sources include.

/// Name (`tracea/kernel.cuh`) and text, sorted by name.
pub(crate) const HEADERS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/headers.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_embedded_in_order_and_complete() {
        let names: Vec<&str> = HEADERS.iter().map(|header| header.0).collect();
        assert!(names.is_sorted() && names.contains(&"tracea/kernel.cuh"), "{names:?}");
        for (name, text) in HEADERS {
            for line in text.lines().filter(|line| line.starts_with("#include")) {
                let included = line.split('"').nth(1).unwrap();
                assert!(names.contains(&included), "{name} includes {included}");
            }
        }
    }
}
