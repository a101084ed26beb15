//! A second ingest of many files embeds nothing. The duration is printed and not asserted, because it depends
//! on the machine's load.

use std::time::Instant;

use crate::library::Library;

#[tokio::test]
async fn a_second_run_over_many_files_embeds_nothing() {
    let library = Library::new();
    let files = 2_000;
    for number in 0..files {
        let folder = number % 40;
        library.write(
            &format!("part{folder}/file{number}.rs"),
            format!("/// Number {number}.\nfn number_{number}() -> u32 {{\n    {number}\n}}\n").repeat(20),
        );
    }
    let started = Instant::now();
    let first = library.read(library.folder()).await;
    println!("{files} files, {} chunks, {} bytes: {:?}", first.chunks, first.bytes, started.elapsed());
    assert_eq!(first.added, files);
    library.embedder.take_embedded();
    let started = Instant::now();
    let second = library.read(library.folder()).await;
    println!("once more: {:?}", started.elapsed());
    assert_eq!((second.unchanged, second.added, second.replaced), (files, 0, 0));
    assert!(library.embedder.take_embedded().is_empty());
}
