//! Compiles the wrapper of llama.cpp's throwing functions, with the headers of the linked version.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=src/chat/llama/exceptions.cpp");
    let cmake = env::var_os("DEP_LLAMA_GGML_CMAKE_DIR").expect("llama-cpp-sys-2 sets its CMake folder");
    let installed = Path::new(&cmake).ancestors().nth(2).expect("the folder is <prefix>/lib/cmake");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        // llama-cpp-sys-2 links the C++ standard library already.
        .cpp_link_stdlib(None)
        .include(installed.join("include"))
        .file("src/chat/llama/exceptions.cpp")
        .compile("wellspring_llama_exceptions");
}
