//! How is a number of bytes written?

/// Reads `65536`, `64 KiB`, `8KiB`, `1 MiB` or `2GiB`; `None` for any other shape.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split)?;
    let unit: u64 = match unit.trim() {
        "" | "B" => 1,
        "KiB" | "K" | "k" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(parse_size("64 KiB"), Some(65_536));
        assert_eq!(parse_size("8KiB"), Some(8_192));
        assert_eq!(parse_size("100"), Some(100));
        for text in ["", "KiB", "-1", "1.5MiB", "99999999999GiB", "1TB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
