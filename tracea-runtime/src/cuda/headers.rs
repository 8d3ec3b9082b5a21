//! The device headers of `tracea-runtime/device`, embedded once a binary and handed to NVRTC under the names that sources include.

macro_rules! headers {
    ($($file:literal)*) => {
        pub(crate) const HEADERS: &[(&str, &str)] =
            &[$((concat!("tracea/", $file), include_str!(concat!("../../device/", $file)))),*];
    };
}

headers! {
    "convert.cuh"
    "copy.cuh"
    "cp_async.cuh"
    "dot.cuh"
    "exchange.cuh"
    "fast_div.cuh"
    "grid.cuh"
    "kernel.cuh"
    "layout.cuh"
    "ldmatrix.cuh"
    "math.cuh"
    "mma.cuh"
    "operand.cuh"
    "reduce.cuh"
    "shared_tile.cuh"
    "store.cuh"
    "trig.cuh"
    "types.cuh"
    "words.cuh"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_header_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/device");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| format!("tracea/{}", file.unwrap().file_name().to_str().unwrap()))
            .filter(|name| name.ends_with(".cuh"))
            .collect();
        files.sort();
        let embedded: Vec<&str> = HEADERS.iter().map(|header| header.0).collect();
        assert_eq!(embedded, files);
    }
}
