//! Local and remote git repositories, ingested into a real catalog.

use std::fs;

use domain::IngestStage;
use ingest::sources::{Folder, Repository, SkipReason, SourceLimits};

use crate::library::{Library, commit, git};

fn address(library: &Library) -> String {
    format!("file://{}", library.root().display())
}

#[tokio::test]
async fn a_later_run_stores_only_the_changes_between_commits() {
    let library = Library::new();
    for path in ["same.md", "changed.md", "gone.md", "renamed.md"] {
        library.write(path, format!("# {path}\n\nText of {path}.\n"));
    }
    let first = commit(&library.root());
    let report = library.read(library.repository(&address(&library))).await;
    assert_eq!((report.added, report.commit.as_deref()), (4, Some(first.as_str())));
    assert_eq!(library.documents().await["same.md"].document.metadata["commit"], format!("\"{first}\""));
    library.embedder.take_embedded();

    let again = library.read(library.repository(&address(&library))).await;
    assert_eq!((again.unchanged, again.added, again.replaced, again.removed), (4, 0, 0, 0));

    library.write("changed.md", "# Changed\n\nOther text.\n");
    library.delete("gone.md");
    git(&library.root(), &["mv", "renamed.md", "moved.md"]);
    let second = commit(&library.root());
    let report = library.read(library.repository(&address(&library))).await;
    assert_eq!((report.added, report.replaced, report.unchanged, report.removed), (1, 1, 1, 2));
    assert_eq!(report.commit, Some(second));
    assert_eq!(library.paths().await, ["changed.md", "moved.md", "same.md"]);
    assert_eq!(library.embedder.take_embedded().len(), 2);
}

#[tokio::test]
async fn uncommitted_changes_are_not_read() {
    let library = Library::new();
    library.write("a.md", "# A\n");
    commit(&library.root());
    library.write("a.md", "# Not yet\n");
    library.write("b.md", "# Not yet\n");
    let here = library.root().display().to_string();
    library.read(library.repository(&here)).await;
    assert_eq!(library.paths().await, ["a.md"]);
    assert_eq!(library.documents().await["a.md"].document.title, "A");
}

#[tokio::test]
async fn a_rewritten_history_is_read_like_any_other() {
    let library = Library::new();
    library.write("a.md", "# A\n");
    library.write("b.md", "# B\n");
    commit(&library.root());
    library.read(library.repository(&address(&library))).await;
    fs::remove_dir_all(library.root().join(".git")).unwrap();
    library.delete("b.md");
    commit(&library.root());
    let report = library.read(library.repository(&address(&library))).await;
    assert_eq!((report.unchanged, report.removed), (1, 1));
}

#[tokio::test]
async fn a_lost_clone_is_fetched_again_without_changes() {
    let library = Library::new();
    library.write("a.md", "# A\n");
    commit(&library.root());
    library.read(library.repository(&address(&library))).await;
    fs::remove_dir_all(library.beside("cache")).unwrap();
    let report = library.read(library.repository(&address(&library))).await;
    assert_eq!((report.unchanged, report.added), (1, 0));
}

#[tokio::test]
async fn a_shallow_clone_is_read_like_any_other() {
    let library = Library::new();
    library.write("a.md", "# Old\n");
    commit(&library.root());
    library.write("a.md", "# New\n");
    commit(&library.root());
    let shallow = library.beside("shallow");
    git(&library.root(), &["clone", "--quiet", "--depth=1", &address(&library), shallow.to_str().unwrap()]);
    let report = library.read(library.repository(shallow.to_str().unwrap())).await;
    assert_eq!(report.repo_url, address(&library), "the address is that of its origin");
    assert_eq!(library.documents().await["a.md"].document.title, "New");
}

#[tokio::test]
async fn an_empty_repository_has_no_documents() {
    let library = Library::new();
    git(&library.root(), &["init", "--quiet"]);
    for address in [address(&library), library.root().display().to_string()] {
        let report = library.read(library.repository(&address)).await;
        assert_eq!((report.added, report.commit), (0, None));
    }
}

#[tokio::test]
async fn links_generated_and_oversized_files_are_skipped() {
    let library = Library::new();
    library.write("a.md", "# A\n");
    library.write("node_modules/b.md", "# B\n");
    library.write("large.md", "large ".repeat(500_000));
    library.write("new\nline.md", "# Odd name\n");
    std::os::unix::fs::symlink("/etc/passwd", library.root().join("link.md")).unwrap();
    commit(&library.root());
    let report = library.read(library.repository(&address(&library))).await;
    assert_eq!(library.paths().await, ["a.md", "new\nline.md"]);
    for reason in [SkipReason::Link, SkipReason::Generated, SkipReason::Oversized] {
        assert_eq!(report.skipped.get(&reason), Some(&1), "{reason:?}");
    }
}

#[tokio::test]
async fn a_docusaurus_configuration_is_found_in_a_repository() {
    let library = Library::new();
    library.write("docusaurus.config.ts", "export default {};\n");
    library.write("docs/a.md", "# A\n");
    commit(&library.root());
    library.read(library.repository(&address(&library))).await;
    assert_eq!(library.documents().await["docs/a.md"].document.url.as_deref(), Some("/docs/a"));
}

#[tokio::test]
async fn hostile_addresses_are_rejected_before_git_runs() {
    let library = Library::new();
    let witness = library.beside("witness");
    let touch = format!("ext::touch {}", witness.display());
    for address in [touch.as_str(), "--upload-pack=touch", "-c", "fd::3", "ssh://-oProxyCommand=touch/a"] {
        let error = library.try_to_read(library.repository(address)).await.unwrap_err();
        assert_eq!(error.stage(), IngestStage::Reading, "{address}");
    }
    assert!(!witness.exists());
}

#[tokio::test]
async fn credentials_are_neither_stored_nor_shown() {
    let library = Library::new();
    // Port 1 of this machine has no listener.
    for address in ["http://me:s3cr3t@127.0.0.1:1/it.git", "http://127.0.0.1:1/it.git?token=s3cr3t"] {
        let error = library.try_to_read(library.repository(address)).await.unwrap_err();
        let message = error.to_string();
        assert!(message.contains("http://127.0.0.1:1/it.git cannot be fetched"), "{message}");
        assert!(!message.contains("s3cr3t"), "{message}");
    }
    let mut folders = vec![library.beside("cache")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let content = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
                assert!(!content.contains("s3cr3t"), "{}", entry.path().display());
            }
        }
    }
}

#[tokio::test]
async fn credentials_in_an_invalid_address_are_not_shown() {
    let library = Library::new();
    let address = "https://me:s3cr3t@example.org:x/it";
    let as_repository = library.try_to_read(library.repository(address)).await.unwrap_err();
    let folder = Folder { path: address.into(), ..library.folder() };
    let as_folder = library.try_to_read(folder).await.unwrap_err();
    for message in [as_repository.to_string(), as_folder.to_string()] {
        assert!(!message.contains("s3cr3t"), "{message}");
    }
    assert_eq!(Repository::redacted(address), "https://example.org:x/it");
    for typed in ["docs", "/srv/a@b", "git@example.org:a/b.git"] {
        assert_eq!(Repository::redacted(typed), typed);
    }
}

#[tokio::test]
async fn a_repository_beyond_the_size_limit_is_rejected() {
    let library = Library::new();
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    let noise: Vec<u8> = (0..3_000_000).map(|_| next()).collect();
    library.write("noise.bin", noise);
    commit(&library.root());
    let limits = SourceLimits { fetch_bytes: 1 << 20, ..SourceLimits::default() };
    let source = Repository { limits, ..library.repository(&address(&library)) };
    let error = library.try_to_read(source).await.unwrap_err();
    assert!(error.to_string().ends_with("it takes more than 1 MiB on disk"), "{}", error.to_string());
}
