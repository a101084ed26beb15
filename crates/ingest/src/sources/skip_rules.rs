//! Rules for files that no source ingests: hidden, secret, generated and binary files. The name decides where
//! it can, so that such a file is not read.

use super::SkipReason;

/// Bytes at the beginning of a text that are searched for a marker of generated code.
const HEAD_BYTES: usize = 1_000;

/// Average bytes of a line from which on code counts as minified.
const MINIFIED_LINE_BYTES: usize = 1_000;

/// Whether a folder of this name is skipped.
pub(crate) fn by_folder_name(name: &str) -> Option<SkipReason> {
    if name.starts_with('.') {
        return Some(SkipReason::Hidden);
    }
    ["__pycache__", "bower_components", "node_modules", "site-packages"]
        .contains(&name)
        .then_some(SkipReason::Generated)
}

/// Whether a file of this name is skipped.
pub(crate) fn by_file_name(name: &str) -> Option<SkipReason> {
    let name = name.to_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_secret = SECRET_NAMES.contains(&name.as_str())
        || SECRET_EXTENSIONS.contains(&extension)
        || name.starts_with(".env");
    let is_generated = GENERATED_NAMES.contains(&name.as_str())
        || GENERATED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
        || name.contains(".generated.");
    match () {
        () if is_secret => Some(SkipReason::Secret),
        () if name.starts_with('.') => Some(SkipReason::Hidden),
        () if is_generated => Some(SkipReason::Generated),
        () if BINARY_EXTENSIONS.contains(&extension) => Some(SkipReason::Binary),
        () => None,
    }
}

/// Whether the file at this path is skipped, for its own name or for a folder's.
pub(crate) fn by_path(path: &str) -> Option<SkipReason> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').find_map(by_folder_name).or_else(|| by_file_name(name))
}

/// Whether a file with this text is skipped.
pub(crate) fn by_text(path: &str, text: &str) -> Option<SkipReason> {
    let text = text.trim_start();
    if text.is_empty() {
        return Some(SkipReason::Empty);
    }
    let mut end = text.len().min(HEAD_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let head = &text[..end];
    let first_line = head.lines().next().unwrap_or_default();
    if first_line.starts_with("-----BEGIN ") && first_line.contains("PRIVATE KEY") {
        return Some(SkipReason::Secret);
    }
    let is_marked = head.contains(concat!("@", "generated"))
        || head.lines().any(|line| line.contains("Code generated") && line.contains("DO NOT EDIT"));
    let is_minified = [".js", ".mjs", ".cjs", ".css"].iter().any(|end| path.ends_with(end))
        && text.len() / (memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1) > MINIFIED_LINE_BYTES;
    (is_marked || is_minified).then_some(SkipReason::Generated)
}

const SECRET_NAMES: [&str; 11] = [
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    "credentials",
    "credentials.json",
    "htpasswd",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
];

const SECRET_EXTENSIONS: [&str; 13] =
    ["cer", "crt", "der", "env", "gpg", "jks", "kdbx", "key", "keystore", "p12", "pem", "pfx", "ppk"];

const GENERATED_NAMES: [&str; 11] = [
    "bun.lock",
    "cargo.lock",
    "composer.lock",
    "gemfile.lock",
    "go.sum",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pipfile.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "yarn.lock",
];

const GENERATED_SUFFIXES: [&str; 10] = [
    ".designer.cs",
    ".g.cs",
    ".g.dart",
    ".js.map",
    ".css.map",
    ".min.css",
    ".min.js",
    ".pb.go",
    "_pb2.py",
    "_pb2_grpc.py",
];

const BINARY_EXTENSIONS: [&str; 62] = [
    "7z", "a", "avi", "avif", "bin", "bmp", "bz2", "class", "db", "dll", "dmg", "doc", "docx", "dylib",
    "eot", "exe", "flac", "gif", "gz", "icns", "ico", "iso", "jar", "jpeg", "jpg", "lib", "mkv", "mov",
    "mp3", "mp4", "node", "o", "obj", "odt", "ogg", "otf", "parquet", "pdf", "png", "ppt", "pptx", "pyc",
    "rar", "rlib", "so", "sqlite", "tar", "tgz", "tif", "tiff", "ttf", "war", "wasm", "wav", "webm", "webp",
    "woff", "woff2", "xls", "xlsx", "xz", "zip",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_folders_are_skipped_without_reading() {
        for (path, expected) in [
            ("src/lib.rs", None),
            ("docs/environment.md", None),
            ("keys.md", None),
            (".github/workflows/a.yml", Some(SkipReason::Hidden)),
            (".env.production", Some(SkipReason::Secret)),
            ("deploy/prod.env", Some(SkipReason::Secret)),
            ("Server.PEM", Some(SkipReason::Secret)),
            ("web/node_modules/a/readme.md", Some(SkipReason::Generated)),
            ("yarn.lock", Some(SkipReason::Generated)),
            ("app.min.js", Some(SkipReason::Generated)),
            ("logo.PNG", Some(SkipReason::Binary)),
        ] {
            assert_eq!(by_path(path), expected, "{path}");
        }
    }

    #[test]
    fn generated_text_has_a_marker_at_its_beginning() {
        let generated = format!("// @{}\nfn a() {{}}\n", "generated");
        assert_eq!(by_text("a.rs", &generated), Some(SkipReason::Generated));
        let far_below = format!("{}{generated}", "// a handwritten line\n".repeat(100));
        assert_eq!(by_text("a.rs", &far_below), None);
        assert_eq!(by_text("a.rs", "é".repeat(HEAD_BYTES).as_str()), None);
        assert_eq!(by_text("a.md", " \n\t"), Some(SkipReason::Empty));
    }

    #[test]
    fn long_lines_are_minified_in_code_but_not_in_text() {
        let line = "word ".repeat(1_000);
        assert_eq!(by_text("a.js", &line), Some(SkipReason::Generated));
        assert_eq!(by_text("a.txt", &line), None);
    }
}
