//! Conversion of 16-bit floats, the number format of the KV cache.

use llama_cpp_sys_2 as sys;

use super::log;

/// Decodes little-endian 16-bit floats.
pub(crate) fn f16_to_f32(bytes: &[u8]) -> Vec<f32> {
    let halves: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let mut floats = vec![0.0; halves.len()];
    log::start();
    // SAFETY: both buffers have that many numbers.
    unsafe {
        sys::ggml_cpu_fp16_to_fp32(
            halves.as_ptr(),
            floats.as_mut_ptr(),
            i64::try_from(halves.len()).unwrap_or(0),
        );
    }
    floats
}

/// Appends floats as little-endian 16-bit floats, rounded.
pub(crate) fn f32_to_f16(floats: &[f32], out: &mut Vec<u8>) {
    let mut halves: Vec<u16> = vec![0; floats.len()];
    log::start();
    // SAFETY: both buffers have that many numbers.
    unsafe {
        sys::ggml_cpu_fp32_to_fp16(
            floats.as_ptr(),
            halves.as_mut_ptr(),
            i64::try_from(floats.len()).unwrap_or(0),
        );
    }
    out.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_survive_the_round_trip_through_16_bits() {
        let floats = [0.0, 1.0, -2.5, 65504.0, 6.1e-5];
        let mut bytes = Vec::new();
        f32_to_f16(&floats, &mut bytes);
        assert_eq!(bytes[2..6], [0x00, 0x3c, 0x00, 0xc1]);
        let back = f16_to_f32(&bytes);
        assert!(back.iter().zip(floats).all(|(a, b)| (a - b).abs() <= b.abs() * 1e-3), "{back:?}");
    }
}
