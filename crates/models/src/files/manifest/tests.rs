use super::*;

const ONE: &str = "
    [[models]]
    name = 'm'
    purpose = 'chat'
    licence = 'MIT'
    upstream = 'a/m'
    [[models.files]]
    name = 'f'
    sha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    bytes = 1
    places = [{ wheels = [{ package = 'p', version = '1', path = 'f' }] }]
";

#[test]
fn the_committed_manifest_has_five_models_with_pinned_files() {
    let manifest = Manifest::committed();
    let names: Vec<_> = manifest.models.iter().map(|model| (model.name.as_str(), model.purpose)).collect();
    assert_eq!(
        names,
        [
            ("granite-embedding-30m-english", Purpose::Embedding),
            ("all-MiniLM-L6-v2", Purpose::Embedding),
            ("smollm2-135m-instruct", Purpose::Chat),
            ("qwen2.5-coder-0.5b-instruct", Purpose::Chat),
            ("qwen2.5-coder-1.5b-instruct", Purpose::Chat),
        ]
    );
    let files = manifest.models.iter().flat_map(|model| &model.files);
    for source in files.flat_map(|file| &file.sources) {
        match source {
            FileSource::Hub(file) => {
                let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
                assert!(
                    file.revision.len() == 40 && digits(&file.revision),
                    "the revision of {file:?} is not a commit"
                );
            }
            FileSource::Wheels(wheels) => {
                assert!(wheels.iter().all(|wheel| wheel.version.starts_with(|c: char| c.is_ascii_digit())));
            }
        }
    }
}

#[test]
fn a_model_is_found_by_its_name() {
    let manifest = Manifest::parse(ONE).unwrap();
    assert_eq!(manifest.find("m").map(Model::bytes), Some(1));
    assert_eq!(manifest.find("M"), None);
}

#[test]
fn an_invalid_manifest_is_rejected() {
    for (right, wrong, expected) in [
        ("name = 'm'", "name = '../m'", "\"../m\" is not the name of a folder"),
        ("name = 'm'", "name = 'm/n'", "\"m/n\" is not the name of a folder"),
        ("name = 'f'", "name = '/f'", "m: \"/f\" is not a path in the model's folder"),
        ("name = 'f'", "name = 'a/../../f'", "is not a path in the model's folder"),
        ("name = 'f'", "name = '.lock'", "is not a path in the model's folder"),
        ("bytes = 1", "bytes = 0", "has no bytes"),
        ("bytes = 1", "bytes = -1", "invalid value"),
        ("sha256 = 'e3", "sha256 = 'x3", "64 hexadecimal"),
        ("licence", "license", "unknown field"),
        ("wheels", "wheel", "unknown variant"),
    ] {
        assert!(ONE.contains(right));
        let error = Manifest::parse(&ONE.replace(right, wrong)).unwrap_err().to_string();
        assert!(error.contains(expected), "{wrong}: {error}");
    }
    let twice = Manifest::parse(&format!("{ONE}{ONE}")).unwrap_err().to_string();
    assert!(twice.contains("given twice"), "{twice}");
}

#[test]
fn fuzz_nearly_right_manifests() {
    let whole = include_str!("../../../manifest.toml");
    let words = ["[[", "]]", "[", "]", "=", "\"", "..", "/", "sha256", "-1", "https://", "{}"];
    testing::fuzz_text(&[whole], &words, |text| {
        if let Err(invalid) = Manifest::parse(text) {
            assert!(!invalid.to_string().is_empty());
        }
    });
}
