//! Git repositories, read into a real catalog from where they lie and from elsewhere.

use std::fs;

use domain::IngestStage;
use ingest::sources::{Folder, Limits, Repository, Skip};

use crate::library::{Library, commit, git};

fn address(library: &Library) -> String {
    format!("file://{}", library.root().display())
}

#[tokio::test]
async fn a_later_run_reads_only_what_changed_between_commits() {
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
async fn what_is_not_committed_is_not_read() {
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
async fn history_that_was_written_anew_is_no_problem() {
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
async fn a_clone_that_was_lost_or_damaged_costs_no_document() {
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
    assert_eq!(report.repo_url, address(&library), "it is the repository that it was cloned from");
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
async fn links_modules_and_what_nobody_wants_to_find_are_left_out() {
    let library = Library::new();
    library.write("a.md", "# A\n");
    library.write("node_modules/b.md", "# B\n");
    library.write("large.md", "large ".repeat(500_000));
    library.write("new\nline.md", "# Odd name\n");
    std::os::unix::fs::symlink("/etc/passwd", library.root().join("link.md")).unwrap();
    commit(&library.root());
    let report = library.read(library.repository(&address(&library))).await;
    assert_eq!(library.paths().await, ["a.md", "new\nline.md"]);
    for reason in [Skip::Link, Skip::Generated, Skip::Oversized] {
        assert_eq!(report.skipped.get(&reason), Some(&1), "{reason:?}");
    }
}

#[tokio::test]
async fn a_site_is_found_in_a_repository() {
    let library = Library::new();
    library.write("docusaurus.config.ts", "export default {};\n");
    library.write("docs/a.md", "# A\n");
    commit(&library.root());
    library.read(library.repository(&address(&library))).await;
    assert_eq!(library.documents().await["docs/a.md"].document.url.as_deref(), Some("/docs/a"));
}

#[tokio::test]
async fn hostile_addresses_are_refused_before_git_hears_of_them() {
    let library = Library::new();
    let witness = library.beside("witness");
    let touch = format!("ext::touch {}", witness.display());
    for address in [touch.as_str(), "--upload-pack=touch", "-c", "fd::3", "ssh://-oProxyCommand=touch/a"] {
        let stopped = library.try_to_read(library.repository(address)).await.unwrap_err();
        assert_eq!(stopped.stage, IngestStage::Reading, "{address}");
    }
    assert!(!witness.exists());
}

#[tokio::test]
async fn credentials_are_neither_kept_nor_told() {
    let library = Library::new();
    // Nobody listens on port 1 of this machine.
    for address in ["http://me:s3cr3t@127.0.0.1:1/it.git", "http://127.0.0.1:1/it.git?token=s3cr3t"] {
        let stopped = library.try_to_read(library.repository(address)).await.unwrap_err();
        let message = stopped.message;
        assert!(message.contains("http://127.0.0.1:1/it.git cannot be fetched"), "{message}");
        assert!(!message.contains("s3cr3t"), "{message}");
    }
    let mut folders = vec![library.beside("cache")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                let kept = String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned();
                assert!(!kept.contains("s3cr3t"), "{}", entry.path().display());
            }
        }
    }
}

#[tokio::test]
async fn credentials_in_an_address_that_is_none_are_not_told_either() {
    let library = Library::new();
    let address = "https://me:s3cr3t@example.org:x/it";
    let as_repository = library.try_to_read(library.repository(address)).await.unwrap_err();
    let folder = Folder { path: address.into(), ..library.folder() };
    let as_folder = library.try_to_read(folder).await.unwrap_err();
    for message in [as_repository.message, as_folder.message] {
        assert!(!message.contains("s3cr3t"), "{message}");
    }
    assert_eq!(Repository::shown(address), "https://example.org:x/it");
    for typed in ["docs", "/srv/a@b", "git@example.org:a/b.git"] {
        assert_eq!(Repository::shown(typed), typed);
    }
}

#[tokio::test]
async fn a_repository_that_is_too_large_is_refused() {
    let library = Library::new();
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    let noise: Vec<u8> = (0..3_000_000).map(|_| next()).collect();
    library.write("noise.bin", noise);
    commit(&library.root());
    let limits = Limits { fetch_bytes: 1 << 20, ..Limits::default() };
    let source = Repository { limits, ..library.repository(&address(&library)) };
    let stopped = library.try_to_read(source).await.unwrap_err();
    assert!(stopped.message.ends_with("it takes more than 1 MiB on disk"), "{}", stopped.message);
}
