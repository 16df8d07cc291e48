//! The text of the configuration for some answers. What operators have written stays, with its
//! comments, but for the keys whose answers differ from it.

use penstock_exit::{ExitCode, Failure};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value, value};

use super::questions::{AUTOMATIC, Answers, NONE, parts, store_of};

/// The head of a file that is made anew.
const HEAD: &str = "# Written by `penstock config wizard`. The reference lists all settings.\n";

/// Returns the text for some answers: that of `old` with what they change, or a new one.
///
/// # Errors
/// `old` is no TOML, or says something in a way that the wizard does not change.
pub(crate) fn text_of(old: Option<&str>, answers: &Answers) -> Result<String, Failure> {
    let mut document: DocumentMut = old.unwrap_or_default().parse().map_err(|error| {
        Failure::new(ExitCode::Usage, "the configuration is no TOML").caused_by(format!("{error}"))
    })?;
    let root = document.as_table_mut();
    let get = |key: &str| answers.get(key).map(String::as_str);
    for key in ["site", "peer", "listen"] {
        put(root, key, get(key).map(Value::from), None);
    }
    let number = |key: &str| get(key).and_then(|text| text.parse::<i64>().ok()).map(Value::from);
    put(root, "running_max", number("running_max"), Some(&4.into()));
    match get("cpus") {
        Some(AUTOMATIC) => drop(root.remove("cpus")),
        _ => put(root, "cpus", number("cpus"), None),
    }
    put(root, "log", get("log").map(Value::from), Some(&"info".into()));
    if let Some(addresses) = get("web") {
        put_web(root, addresses, get("names").unwrap_or(AUTOMATIC))?;
    }
    if let Some(interfaces) = get("interfaces") {
        put_networks(root, interfaces)?;
    }
    if let Some(stores) = get("stores") {
        put_stores(root, stores, get("write").unwrap_or(NONE))?;
    }
    let head = if old.is_none() { HEAD } else { "" };
    Ok(format!("{head}{document}"))
}

/// Sets a key, if it does not have the value already. The default is not written anew.
fn put(table: &mut Table, key: &str, new: Option<Value>, default: Option<&Value>) {
    let Some(new) = new else { return };
    let text = |value: &Value| value.clone().decorated("", "").to_string();
    let known = table.get(key).and_then(Item::as_value).map(text);
    if known.as_deref() == Some(&*text(&new)) {
        return;
    }
    if default.is_some_and(|default| text(default) == text(&new)) {
        table.remove(key);
        return;
    }
    match table.get_mut(key).and_then(Item::as_value_mut) {
        // With the comment behind it.
        Some(there) => {
            let decor = there.decor().clone();
            *there = new;
            *there.decor_mut() = decor;
        }
        None => drop(table.insert(key, value(new))),
    }
}

fn list_of(answer: &str) -> Value {
    Value::Array(parts(answer).collect::<Array>())
}

/// Refuses a table that is written in another way than the wizard changes.
fn by_hand(key: &str) -> Failure {
    let message = format!("the wizard cannot change `{key}` as it is written");
    Failure::new(ExitCode::Usage, message)
        .hint(format!("write it as a table, `[{key}]` or `[[{key}]]`, or change it by hand"))
}

fn put_web(root: &mut Table, addresses: &str, names: &str) -> Result<(), Failure> {
    if parts(addresses).next().is_none() {
        root.remove("web");
        return Ok(());
    }
    let web = root.entry("web").or_insert(Item::Table(Table::new()));
    let web = web.as_table_mut().ok_or_else(|| by_hand("web"))?;
    let usual = Value::Array(["127.0.0.1:7443"].into_iter().collect());
    let is_usual =
        !web.contains_key("listen") && list_of(addresses).to_string() == usual.to_string();
    if !is_usual {
        put(web, "listen", Some(list_of(addresses)), None);
    }
    match parts(names).next() {
        Some(_) => put(web, "names", Some(list_of(names)), None),
        None => drop(web.remove("names")),
    }
    Ok(())
}

/// Returns the tables of a list, which is made if it is not there.
fn tables<'a>(root: &'a mut Table, key: &str) -> Result<&'a mut ArrayOfTables, Failure> {
    if root.get(key).and_then(Item::as_array).is_some_and(Array::is_empty) {
        root.remove(key);
    }
    let item = root.entry(key).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
    item.as_array_of_tables_mut().ok_or_else(|| by_hand(key))
}

fn text_at<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Item::as_str).unwrap_or_default()
}

fn put_networks(root: &mut Table, interfaces: &str) -> Result<(), Failure> {
    let wanted: Vec<&str> = parts(interfaces).collect();
    let networks = tables(root, "network")?;
    networks.retain(|table| wanted.contains(&text_at(table, "interface")));
    for interface in wanted {
        if networks.iter().any(|table| text_at(table, "interface") == interface) {
            continue;
        }
        let mut table = Table::new();
        table.insert("name", value("data"));
        table.insert("interface", value(interface));
        networks.push(table);
    }
    if networks.is_empty() {
        root.remove("network");
    }
    Ok(())
}

fn put_stores(root: &mut Table, stores: &str, write: &str) -> Result<(), Failure> {
    let wanted: Result<Vec<_>, _> = parts(stores).map(store_of).collect();
    let wanted = wanted.map_err(|why| Failure::new(ExitCode::Usage, why))?;
    let tables = tables(root, "store")?;
    tables.retain(|table| wanted.iter().any(|(name, _)| name.as_str() == text_at(table, "name")));
    for (name, path) in wanted {
        let known = tables.iter_mut().find(|table| text_at(table, "name") == name.as_str());
        if let Some(table) = known {
            put(table, "path", Some(path.into()), None);
            continue;
        }
        let mut table = Table::new();
        table.insert("name", value(name.as_str()));
        table.insert("path", value(path));
        if parts(write).next().is_some() {
            table.insert("write", value(list_of(write)));
        }
        tables.push(table);
    }
    if tables.is_empty() {
        root.remove("store");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(pairs: &[(&'static str, &str)]) -> Answers {
        pairs.iter().map(|(key, answer)| (*key, (*answer).to_owned())).collect()
    }

    /// Promise: a new file has what was answered, and not what is chosen automatically.
    #[test]
    fn a_new_file_has_the_answers() {
        let text = text_of(
            None,
            &answers(&[
                ("site", "lab"),
                ("peer", "dtn1"),
                ("listen", "0.0.0.0:7444"),
                ("running_max", "4"),
                ("cpus", "auto"),
                ("log", "info"),
                ("web", "127.0.0.1:7443"),
                ("names", "auto"),
                ("interfaces", "eth1, eth2"),
                ("stores", "raw=/data/raw, bin=null:"),
                ("write", "hpc"),
            ]),
        );
        let wanted = "site = \"lab\"\npeer = \"dtn1\"\nlisten = \"0.0.0.0:7444\"\n\n[web]\n\n\
                      [[network]]\nname = \"data\"\ninterface = \"eth1\"\n\n[[network]]\n\
                      name = \"data\"\ninterface = \"eth2\"\n\n[[store]]\nname = \"raw\"\n\
                      path = \"/data/raw\"\nwrite = [\"hpc\"]\n\n[[store]]\nname = \"bin\"\n\
                      path = \"null:\"\nwrite = [\"hpc\"]\n";
        let text = text.unwrap();
        assert_eq!(text, format!("{HEAD}{wanted}"));
        let config: penstock_daemon::config::Config = toml::from_str(&text).unwrap();
        config.check().unwrap();
        assert_eq!(config.web.unwrap().listen[0].port(), 7443);
    }

    /// Promise: what operators have written stays, with its comments, but for what is answered
    /// otherwise; the same answers change nothing.
    #[test]
    fn a_file_keeps_what_is_not_answered_otherwise() {
        let old = "# ours\nsite = \"lab\"\npeer = \"dtn1\"\nrunning_max = 6 # measured\n\n\
                   [[store]]\nname = \"raw\" # the array\npath = \"/raw\"\nread = [\"hpc\"]\n\n\
                   [[store]]\nname = \"gone\"\npath = \"/gone\"\n";
        let same = answers(&[
            ("running_max", "6"),
            ("stores", "raw=/raw, gone=/gone"),
            ("interfaces", "none"),
            ("web", "none"),
        ]);
        assert_eq!(text_of(Some(old), &same).unwrap(), old);
        let other = answers(&[("running_max", "8"), ("stores", "raw=/new, more=/more")]);
        let text = text_of(Some(old), &other).unwrap();
        let wanted = old.replace("= 6", "= 8").replace("\"/raw\"", "\"/new\"");
        let wanted = wanted.replace("\"gone\"", "\"more\"").replace("/gone", "/more");
        assert_eq!(text, wanted);
        let usual = answers(&[("running_max", "4")]);
        assert!(!text_of(Some(old), &usual).unwrap().contains("running_max"));
    }
}
