//! The command `fake-model`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn fake_model(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-model"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Kills the command even if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

#[test]
fn the_command_serves_until_it_is_interrupted() {
    let child = fake_model(&["--bind", "127.0.0.1:0", "--model", "my-model"]).spawn().unwrap();
    let mut running = Running(child);
    let mut first_line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut first_line).unwrap();
    let (_, address) = first_line.split_once("http://").unwrap();
    let (address, _) = address.split_once(". ").unwrap();

    let mut socket = TcpStream::connect(address).unwrap();
    socket.write_all(b"GET /api/tags HTTP/1.1\r\nHost: fake\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    assert!(response.contains("my-model"), "{response}");

    let interrupted = Command::new("kill").args(["-INT", &running.0.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn an_address_in_use_is_in_the_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = fake_model(&["--bind", &address]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(message.contains(&address) && message.contains("--bind"), "{message}");
}

#[test]
fn the_help_explains_model_names() {
    let output = fake_model(&["--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("--model <NAME>") && help.contains("stall=K"), "{help}");
}
