//! Compiles the guard around llama.cpp, with the headers of the version that is linked.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src/chat/llama/guard.cpp");
    let cmake =
        env::var_os("DEP_LLAMA_GGML_CMAKE_DIR").expect("llama-cpp-sys-2 tells where it was installed");
    let installed = Path::new(&cmake).ancestors().nth(2).expect("that is <folder>/lib/cmake");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        // The same library that llama.cpp is linked with, which its crate sees to.
        .cpp_link_stdlib(None)
        .include(installed.join("include"))
        .file("src/chat/llama/guard.cpp")
        .compile("guard");
}
