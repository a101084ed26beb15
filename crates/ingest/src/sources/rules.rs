//! What is left out of every source: what is hidden, secret, generated or no text. A name decides where it can,
//! so that such a file is not even read.

use super::Skip;

/// Bytes at the beginning of a file in which a program says that it wrote it.
const BEGINNING: usize = 1_000;

/// A line of code that nobody wrote by hand is longer than this on average.
const MINIFIED_LINE: usize = 1_000;

/// Why a folder of this name is left out.
pub(crate) fn of_folder(name: &str) -> Option<Skip> {
    if name.starts_with('.') {
        return Some(Skip::Hidden);
    }
    ["__pycache__", "bower_components", "node_modules", "site-packages"]
        .contains(&name)
        .then_some(Skip::Generated)
}

/// Why a file of this name is left out.
pub(crate) fn of_file(name: &str) -> Option<Skip> {
    let name = name.to_lowercase();
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_secret = SECRET_NAMES.contains(&name.as_str())
        || SECRET_EXTENSIONS.contains(&extension)
        || name.starts_with(".env");
    let is_generated = GENERATED_NAMES.contains(&name.as_str())
        || GENERATED_ENDS.iter().any(|end| name.ends_with(end))
        || name.contains(".generated.");
    match () {
        () if is_secret => Some(Skip::Secret),
        () if name.starts_with('.') => Some(Skip::Hidden),
        () if is_generated => Some(Skip::Generated),
        () if BINARY_EXTENSIONS.contains(&extension) => Some(Skip::Binary),
        () => None,
    }
}

/// Why the file at this path is left out, for its own name or for a folder's.
pub(crate) fn of_path(path: &str) -> Option<Skip> {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').find_map(of_folder).or_else(|| of_file(name))
}

/// Why a file with this text is left out.
pub(crate) fn of_text(path: &str, text: &str) -> Option<Skip> {
    let text = text.trim_start();
    if text.is_empty() {
        return Some(Skip::Empty);
    }
    let mut end = text.len().min(BEGINNING);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let beginning = &text[..end];
    let first_line = beginning.lines().next().unwrap_or_default();
    if first_line.starts_with("-----BEGIN ") && first_line.contains("PRIVATE KEY") {
        return Some(Skip::Secret);
    }
    let says_so = beginning.contains(concat!("@", "generated"))
        || beginning.lines().any(|line| line.contains("Code generated") && line.contains("DO NOT EDIT"));
    let is_minified = [".js", ".mjs", ".cjs", ".css"].iter().any(|end| path.ends_with(end))
        && text.len() / (memchr::memchr_iter(b'\n', text.as_bytes()).count() + 1) > MINIFIED_LINE;
    (says_so || is_minified).then_some(Skip::Generated)
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

const GENERATED_ENDS: [&str; 10] = [
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
    fn a_name_decides_where_it_can() {
        for (path, expected) in [
            ("src/lib.rs", None),
            ("docs/environment.md", None),
            ("keys.md", None),
            (".github/workflows/a.yml", Some(Skip::Hidden)),
            (".env.production", Some(Skip::Secret)),
            ("deploy/prod.env", Some(Skip::Secret)),
            ("Server.PEM", Some(Skip::Secret)),
            ("web/node_modules/a/readme.md", Some(Skip::Generated)),
            ("yarn.lock", Some(Skip::Generated)),
            ("app.min.js", Some(Skip::Generated)),
            ("logo.PNG", Some(Skip::Binary)),
        ] {
            assert_eq!(of_path(path), expected, "{path}");
        }
    }

    #[test]
    fn a_text_that_a_program_wrote_says_so_at_its_beginning() {
        let generated = format!("// @{}\nfn a() {{}}\n", "generated");
        assert_eq!(of_text("a.rs", &generated), Some(Skip::Generated));
        let far_below = format!("{}{generated}", "// a line of a person\n".repeat(100));
        assert_eq!(of_text("a.rs", &far_below), None);
        assert_eq!(of_text("a.rs", "é".repeat(BEGINNING).as_str()), None);
        assert_eq!(of_text("a.md", " \n\t"), Some(Skip::Empty));
    }

    #[test]
    fn a_long_line_is_minified_code_but_plain_text() {
        let line = "word ".repeat(1_000);
        assert_eq!(of_text("a.js", &line), Some(Skip::Generated));
        assert_eq!(of_text("a.txt", &line), None);
    }
}
