//! Circles of modules: groups of files in one crate that import each other.
//!
//! A name that a module re-exports counts for the module that re-exports it. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, UseTree};

/// The path of a module in its crate, without the word `crate`.
pub(crate) type ModulePath = Vec<String>;

/// The modules of one crate that import each other, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) crate_name: String,
    pub(crate) modules: Vec<String>,
}

/// Finds the circles of all crates below `crates`, the largest first.
///
/// # Errors
/// A source file cannot be read or parsed.
pub(crate) fn circles(root: &Path) -> anyhow::Result<Vec<Circle>> {
    let crates = root.join("crates");
    let mut found = Vec::new();
    for entry in fs::read_dir(&crates).with_context(|| format!("list {}", crates.display()))? {
        let directory = entry.with_context(|| format!("list {}", crates.display()))?.path();
        let crate_name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let modules = modules(&directory.join("src"))?;
        let imports = imports(&modules)?;
        found.extend(groups(&imports).into_iter().map(|group| Circle {
            crate_name: crate_name.clone(),
            modules: group.iter().map(|module| module.join("::")).collect(),
        }));
    }
    found
        .sort_by_key(|circle| (std::cmp::Reverse(circle.modules.len()), circle.crate_name.clone()));
    Ok(found)
}

/// Returns the files of a crate by the paths of their modules.
pub(crate) fn modules(source: &Path) -> anyhow::Result<BTreeMap<ModulePath, PathBuf>> {
    let mut files = Vec::new();
    super::tidy::collect(source, &mut files)?;
    let mut found = BTreeMap::new();
    for file in files {
        let relative = file.strip_prefix(source).unwrap_or(&file).with_extension("");
        let mut module: ModulePath =
            relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
            module.pop();
        }
        if !module.iter().any(|part| part == "tests") {
            found.insert(module, file);
        }
    }
    Ok(found)
}

/// Returns the first words of all paths that a file names, tests left out: crates among them.
///
/// # Errors
/// The text is no Rust.
pub(crate) fn crates_named(text: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut roots = Roots(BTreeSet::new());
    roots.visit_file(&syn::parse_file(text)?);
    Ok(roots.0)
}

/// The first words of paths.
struct Roots(BTreeSet<String>);

impl Roots {
    fn add_use(&mut self, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => drop(self.0.insert(path.ident.to_string())),
            UseTree::Name(name) => drop(self.0.insert(name.ident.to_string())),
            UseTree::Rename(rename) => drop(self.0.insert(rename.ident.to_string())),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_use(tree)),
            UseTree::Glob(_) => {}
        }
    }
}

impl<'ast> Visit<'ast> for Roots {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            self.add_use(&item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.extend(path.segments.first().map(|segment| segment.ident.to_string()));
        visit::visit_path(self, path);
    }
}

/// The modules that each module names, the root of the crate left out.
type Imports = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

fn imports(modules: &BTreeMap<ModulePath, PathBuf>) -> anyhow::Result<Imports> {
    let mut found = Imports::new();
    for (module, file) in modules {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parse {}", file.display()))?;
        let children =
            modules.keys().filter(|other| other.split_last().is_some_and(|(_, up)| up == module));
        let children = children.filter_map(|child| child.last().cloned()).collect();
        let mut paths = Paths { children, found: Vec::new() };
        paths.visit_file(&parsed);
        let targets = paths.found.iter().filter_map(|path| resolve(module, path, modules));
        let targets = targets.filter(|target| !target.is_empty() && target != module).collect();
        if !module.is_empty() {
            found.insert(module.clone(), targets);
        }
    }
    Ok(found)
}

/// Returns the longest prefix of `path`, seen from `module`, that is a module.
fn resolve(
    module: &ModulePath,
    path: &[String],
    modules: &BTreeMap<ModulePath, PathBuf>,
) -> Option<ModulePath> {
    let mut absolute = match path.first()?.as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [module, &path[1..]].concat(),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            [module.get(..module.len().checked_sub(ups)?)?, &path[ups..]].concat()
        }
        _ => [module, path].concat(),
    };
    while !modules.contains_key(&absolute) {
        absolute.pop()?;
    }
    Some(absolute)
}

/// The paths that a file names within its crate.
struct Paths {
    /// Modules below the file's own, which it names without `self`.
    children: BTreeSet<String>,
    found: Vec<Vec<String>>,
}

impl Paths {
    fn add(&mut self, path: Vec<String>) {
        let first = path.first().map(String::as_str).unwrap_or_default();
        let is_ours = matches!(first, "crate" | "self" | "super") || self.children.contains(first);
        if is_ours && path.len() > 1 {
            self.found.push(path);
        }
    }

    fn add_use(&mut self, prefix: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_use(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.add(with(&name.ident)),
            UseTree::Rename(rename) => self.add(with(&rename.ident)),
            UseTree::Glob(_) => self.add(prefix.to_vec()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_use(prefix, tree));
            }
        }
    }
}

/// Returns whether the attributes have `#[cfg(test)]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|argument| argument == "test")
    })
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_test(&item.attrs) {
            self.add_use(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// Groups of modules each of which reaches each other, by Tarjan's algorithm.
fn groups(imports: &Imports) -> Vec<Vec<ModulePath>> {
    let mut search =
        Search { imports, marks: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for module in imports.keys() {
        search.visit(module);
    }
    search.found
}

struct Search<'a> {
    imports: &'a Imports,
    /// For each module that was visited: its number, and the lowest number that it reaches.
    marks: BTreeMap<&'a ModulePath, (usize, usize)>,
    stack: Vec<&'a ModulePath>,
    found: Vec<Vec<ModulePath>>,
}

impl<'a> Search<'a> {
    /// Visits a module and those it reaches; returns the lowest number of the stack among them.
    fn visit(&mut self, module: &'a ModulePath) -> usize {
        if let Some(&(_, low)) = self.marks.get(module) {
            return if self.stack.contains(&module) { low } else { usize::MAX };
        }
        let number = self.marks.len();
        self.marks.insert(module, (number, number));
        self.stack.push(module);
        let mut low = number;
        for target in self.imports.get(module).into_iter().flatten() {
            if let Some((target, _)) = self.imports.get_key_value(target) {
                low = low.min(self.visit(target));
            }
        }
        self.marks.insert(module, (number, low));
        if low == number {
            let from = self.stack.iter().position(|other| *other == module).unwrap_or_default();
            let mut group: Vec<_> = self.stack.drain(from..).cloned().collect();
            group.sort();
            if group.len() > 1 {
                self.found.push(group);
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str, children: &[&str]) -> Vec<String> {
        let children = children.iter().map(|child| (*child).to_owned()).collect();
        let mut paths = Paths { children, found: Vec::new() };
        paths.visit_file(&syn::parse_file(text).expect("Rust"));
        paths.found.iter().map(|path| path.join("::")).collect()
    }

    /// Promise: imports, qualified paths and names of submodules count; tests, other crates and
    /// declarations do not.
    #[test]
    fn paths_within_the_crate_are_found() {
        let text = "
            mod child;
            use std::fs;
            use crate::{a::{B, c::D as E}, f::*};
            fn g() -> super::h::I { child::j(crate::k::L) }
            #[cfg(test)] mod tests { use crate::never::This; }
        ";
        let expected =
            ["crate::a::B", "crate::a::c::D", "crate::f", "super::h::I", "child::j", "crate::k::L"];
        let (mut found, mut expected) = (paths(text, &["child"]), expected.to_vec());
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    /// Promise: crates are found in imports and in qualified paths; those of tests are not.
    #[test]
    fn crates_that_are_named_are_found() {
        let text = "
            use a::{B, c::D};
            use {e::F, g as h};
            fn i() -> j::K { l::m(N::<o::P>::new()) }
            #[cfg(test)] mod tests { use never::This; }
        ";
        let named = crates_named(text).expect("Rust");
        for name in ["a", "e", "g", "j", "l", "o"] {
            assert!(named.contains(name), "{name}");
        }
        assert!(!named.contains("never") && !named.contains("c"));
    }

    /// Promise: only modules that reach each other are a circle.
    #[test]
    fn circles_are_found() {
        let module = |name: &str| vec![name.to_owned()];
        let arrows = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "e"), ("e", "c")];
        let mut imports = Imports::new();
        for (from, to) in arrows {
            imports.entry(module(from)).or_default().insert(module(to));
        }
        assert_eq!(groups(&imports), [["b", "c", "d", "e"].map(module).to_vec()]);
    }

    /// Promise: a path is of the longest module that it begins with.
    #[test]
    fn paths_are_resolved() {
        let modules = [&["a"][..], &["a", "b"], &["c"]];
        let modules: BTreeMap<ModulePath, PathBuf> = modules
            .iter()
            .map(|path| (path.iter().map(|part| (*part).to_owned()).collect(), PathBuf::new()))
            .collect();
        let resolved = |path: &str| {
            let path: Vec<_> = path.split("::").map(str::to_owned).collect();
            resolve(&vec!["a".to_owned(), "b".to_owned()], &path, &modules).map(|m| m.join("::"))
        };
        assert_eq!(resolved("crate::c::X::new").as_deref(), Some("c"));
        assert_eq!(resolved("super::X").as_deref(), Some("a"));
        assert_eq!(resolved("super::super::c::X").as_deref(), Some("c"));
        assert_eq!(resolved("crate::X"), None);
    }
}
