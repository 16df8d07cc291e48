//! The one list of questions. Prompts, files of answers and options of the command line answer it
//! alike.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use penstock_daemon::config::{Config, PORT_DEFAULT, WebConfig};
use penstock_proto::id::Name;

use super::host::Host;

/// The answer for what is to be chosen by the program.
pub(crate) const AUTOMATIC: &str = "auto";
/// The answer for what is not to be there.
pub(crate) const NONE: &str = "none";

/// Answers by the keys of their questions.
pub(crate) type Answers = BTreeMap<&'static str, String>;

/// A subject that questions have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Names.
    Site,
    /// Addresses and interfaces for data.
    Network,
    /// Stores, and who may write to them.
    Stores,
    /// The HTTPS API.
    Api,
    /// Limits of the daemon, and its log.
    Daemon,
}

impl Group {
    /// Returns the subject in a word or two.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Site => "Site",
            Self::Network => "Network",
            Self::Stores => "Stores",
            Self::Api => "HTTPS API",
            Self::Daemon => "Daemon",
        }
    }
}

/// A question.
pub(crate) struct Question {
    /// Its key in files of answers.
    pub(crate) key: &'static str,
    /// Its subject. Questions of one subject follow each other.
    pub(crate) group: Group,
    /// The question in a few words.
    pub(crate) text: &'static str,
    /// What may be answered, and what this host has of it. May be empty.
    pub(crate) help: String,
    /// The answer that is taken without another.
    pub(crate) default: String,
    check: fn(&str) -> Result<(), String>,
}

impl Question {
    /// Checks an answer.
    ///
    /// # Errors
    /// It is none; the message says why.
    pub(crate) fn check(&self, answer: &str) -> Result<(), String> {
        (self.check)(answer)
    }
}

/// Returns the parts of an answer that commas part.
pub(crate) fn parts(answer: &str) -> impl Iterator<Item = &str> {
    let parts = answer.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty() && !matches!(*part, NONE | AUTOMATIC))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let text = parts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { NONE.to_owned() } else { text }
}

/// Returns the questions for a host, whose defaults are those of a configuration that is there,
/// else those that the host suggests. The names of a site that is there are not asked for: its
/// certificate has them.
pub(crate) fn questions(host: &Host, now: Option<&Config>) -> Vec<Question> {
    let mut questions = Vec::new();
    if now.is_none() {
        let name = host.name.as_ref().map_or("dtn1", Name::as_str);
        questions.push(Question {
            key: "site",
            group: Group::Site,
            text: "name of the site",
            help: "a name that other sites know it by: a-z, 0-9, `-`, `_`".to_owned(),
            default: name.to_owned(),
            check: is_name,
        });
        questions.push(Question {
            key: "peer",
            group: Group::Site,
            text: "name of this host within the site",
            help: String::new(),
            default: name.to_owned(),
            check: is_name,
        });
    }
    let listen = now.map_or(SocketAddr::from(([0, 0, 0, 0], PORT_DEFAULT)), |now| now.listen);
    questions.push(Question {
        key: "listen",
        group: Group::Network,
        text: "address for other sites and their data",
        help: interfaces_of(host),
        default: listen.to_string(),
        check: is_address,
    });
    questions.extend(network_question(host, now));
    questions.push(store_question(host, now));
    if now.is_none() {
        questions.push(Question {
            key: "write",
            group: Group::Stores,
            text: "sites that may add data to these stores",
            help: "names with commas between them, `*` for all that are paired, or `none`".into(),
            default: NONE.to_owned(),
            check: are_sites,
        });
    }
    questions.extend(service_questions(host, now));
    questions
}

/// Returns the question for the interfaces for data. A configuration with networks that say more
/// than an interface is left to its operators.
fn network_question(host: &Host, now: Option<&Config>) -> Option<Question> {
    let networks = now.map_or(&[][..], |now| &now.networks);
    let interfaces = networks.iter().map(|network| network.interface.clone());
    let interfaces: Option<Vec<String>> = interfaces.collect();
    let plain = |name: &Name| name.as_str() == "data";
    if !networks.iter().all(|network| plain(&network.name)) {
        return None;
    }
    let default = joined(interfaces?.into_iter());
    Some(Question {
        key: "interfaces",
        group: Group::Network,
        text: "interfaces for data only",
        help: format!("with commas between them, or `none` for all; {}", interfaces_of(host)),
        default,
        check: |_| Ok(()),
    })
}

fn store_question(host: &Host, now: Option<&Config>) -> Question {
    let stores = match now {
        Some(now) => joined(now.stores.iter().map(|it| format!("{}={}", it.name, it.path))),
        None => joined(host.stores.iter().map(|it| format!("{}={}", it.0, it.1.display()))),
    };
    Question {
        key: "stores",
        group: Group::Stores,
        text: "stores, each as NAME=DIRECTORY",
        help: "with commas between them, or `none`: only these can be read or written".to_owned(),
        default: stores,
        check: |answer| parts(answer).try_for_each(|part| store_of(part).map(drop)),
    }
}

fn service_questions(host: &Host, now: Option<&Config>) -> Vec<Question> {
    let web = now.and_then(|now| now.web.as_ref());
    let listen = joined(web.iter().flat_map(|web| &web.listen).map(ToString::to_string));
    let names = joined(web.iter().flat_map(|web| web.names.clone()));
    let usual: Vec<_> = WebConfig::default().listen.iter().map(ToString::to_string).collect();
    let automatic = |value: Option<String>| value.unwrap_or_else(|| AUTOMATIC.to_owned());
    vec![
        Question {
            key: "web",
            group: Group::Api,
            text: "addresses of the HTTPS API",
            help: format!("as {}, with commas between them, or `none`", usual.join(", ")),
            default: listen,
            check: |answer| parts(answer).try_for_each(is_address),
        },
        Question {
            key: "names",
            group: Group::Api,
            text: "names of this host in the certificate of the HTTPS API",
            help: "DNS names and addresses with commas between them, or `auto`".to_owned(),
            default: if names == NONE { AUTOMATIC.to_owned() } else { names },
            check: |_| Ok(()),
        },
        Question {
            key: "running_max",
            group: Group::Daemon,
            text: "transfers that run at a time",
            help: String::new(),
            default: now.map_or("4".to_owned(), |now| now.running_max.to_string()),
            check: is_count,
        },
        Question {
            key: "cpus",
            group: Group::Daemon,
            text: "CPUs that the daemon uses at most",
            help: format!("a number, or `auto`: {} here", host.cpus),
            default: automatic(now.and_then(|now| now.cpus).map(|cpus| cpus.to_string())),
            check: |answer| if answer == AUTOMATIC { Ok(()) } else { is_count(answer) },
        },
        Question {
            key: "log",
            group: Group::Daemon,
            text: "level of the log",
            help: "`error`, `warn`, `info`, `debug` or `trace`".to_owned(),
            default: now.and_then(|now| now.log.clone()).unwrap_or_else(|| "info".to_owned()),
            check: penstock_exit::check_log,
        },
    ]
}

/// Returns the interfaces of a host with their addresses, in words.
fn interfaces_of(host: &Host) -> String {
    let interface = |(device, addresses): &(String, Vec<std::net::IpAddr>)| {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        format!("{device} ({})", addresses.join(", "))
    };
    let all: Vec<_> = host.interfaces.iter().map(interface).collect();
    format!("this host has {}", if all.is_empty() { "none".to_owned() } else { all.join(", ") })
}

/// Returns the name and the path of a store.
///
/// # Errors
/// The text is not NAME=DIRECTORY.
pub(crate) fn store_of(text: &str) -> Result<(Name, &str), String> {
    let why = || format!("`{text}` is not NAME=DIRECTORY");
    let (name, path) = text.split_once('=').ok_or_else(why)?;
    let name = name.trim().parse().map_err(|error| format!("{error}"))?;
    let path = path.trim();
    let is_path = path.starts_with('/') || path.starts_with("null:") || path.starts_with("mem:");
    if is_path { Ok((name, path)) } else { Err(format!("`{path}` is no absolute path")) }
}

fn is_name(text: &str) -> Result<(), String> {
    text.parse::<Name>().map(drop).map_err(|error| error.to_string())
}

fn is_address(text: &str) -> Result<(), String> {
    let parsed = text.parse::<SocketAddr>();
    parsed.map(drop).map_err(|_| format!("`{text}` is not ADDRESS:PORT"))
}

fn are_sites(answer: &str) -> Result<(), String> {
    parts(answer).filter(|part| *part != "*").try_for_each(is_name)
}

fn is_count(text: &str) -> Result<(), String> {
    match text.parse::<u32>() {
        Ok(1..) => Ok(()),
        _ => Err(format!("`{text}` is not a number from 1 on")),
    }
}
