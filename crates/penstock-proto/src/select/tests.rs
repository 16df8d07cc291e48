//! Matches of patterns, compared with examples and with a matcher that is slow and plain.

use proptest::prelude::*;

use super::*;

fn glob(pattern: &str) -> Glob {
    Glob::parse(pattern.as_bytes()).unwrap()
}

/// Promise: a pattern has the meaning that the table of the module and gitignore(5) state.
#[test]
fn patterns_mean_what_gitignore_says() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("*.tmp", &["a.tmp", "x/y/a.tmp", ".tmp"], &["a.tmpx", "a.tmp/b"]),
        ("/raw", &["raw"], &["x/raw", "raw/a"]),
        ("raw/*.h5", &["raw/a.h5"], &["x/raw/a.h5", "raw/x/a.h5", "a.h5"]),
        ("?", &["a", "x/b"], &["ab", "ü"]),
        ("??", &["ab", "ü"], &["a", "abc"]),
        ("[a-c]x[!0-9]", &["bxz", "d/cx-"], &["dxz", "ax1", "bx"]),
        ("[]-]", &["]", "-"], &["a"]),
        ("[^]]", &["a"], &["]"]),
        ("[[:digit:]x]", &["1", "x"], &["a", ":"]),
        ("a[\\]]b", &["a]b"], &["a\\b"]),
        ("\\*", &["*"], &["a", "\\*"]),
        ("**/x", &["x", "a/x", "a/b/x"], &["xx", "a/x/b"]),
        ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a", "b", "x/a/b", "a/x"]),
        ("a/**", &["a/b", "a/b/c"], &["a", "b/a/c"]),
        ("a/**/b/**/c", &["a/b/c", "a/b/b/c", "a/1/b/2/3/c"], &["a/c", "a/b"]),
        ("**", &["a", "a/b"], &[]),
        ("/**", &["a", "a/b", "a/b/c"], &[]),
        ("a**b", &["ab", "axb"], &["a/b"]),
        ("/*", &["a"], &["a/b"]),
        ("*a*b*", &["ab", "xaxbx", "aab"], &["ba", "a/b"]),
    ];
    for (pattern, yes, no) in cases {
        let glob = glob(pattern);
        for path in *yes {
            assert!(glob.matches(path.as_bytes(), false), "{pattern} must match {path}");
        }
        for path in *no {
            assert!(!glob.matches(path.as_bytes(), false), "{pattern} must not match {path}");
        }
    }
    assert!(glob("cache/").matches(b"x/cache", true) && !glob("cache/").matches(b"cache", false));
    assert!(glob("/a/b/").matches(b"a/b", true) && !glob("/a/b/").matches(b"x/a/b", true));
    let bytes = Glob::parse(b"\xff[\x80-\xfe]").unwrap();
    assert!(bytes.matches(b"d/\xff\x90", false) && !bytes.matches(b"\xffa", false));
}

/// Promise: an unreadable pattern is refused, and the message has the pattern and the reason.
#[test]
fn unreadable_patterns_are_refused() {
    let bad = ["", "/", "//", "a//b", "[a", "a\\", "[b-a]", "[[:nix:]]", "../x", "a/./b", "a\0"];
    for pattern in bad {
        let error = Glob::parse(pattern.as_bytes()).expect_err(pattern).to_string();
        assert!(error.contains(&name::escape(pattern.as_bytes())), "{error}");
    }
}

/// Promise: the first rule that matches decides, and nothing comes out of an excluded directory.
#[test]
fn the_first_rule_decides_and_excluded_directories_are_whole() {
    let rules = |rules: &[(bool, &str)]| Selector {
        rules: rules.iter().map(|&(include, text)| Rule { include, glob: glob(text) }).collect(),
        ..Selector::default()
    };
    let selector = rules(&[(true, "keep.tmp"), (false, "*.tmp"), (false, "cache/"), (true, "*")]);
    assert_eq!(selector.verdict(b"a/keep.tmp", false), Verdict::Included);
    assert_eq!(selector.verdict(b"a/other.tmp", false), Verdict::Excluded);
    assert_eq!(selector.verdict(b"cache", false), Verdict::Included);
    assert_eq!(selector.verdict(b"a/cache/keep.tmp", false), Verdict::Excluded);
    assert_eq!(selector.verdict_here(b"a/cache/keep.tmp", false), Verdict::Included);
    assert_eq!(selector.verdict(b"", true), Verdict::Included);
    assert!(selector.asks_for_kind());
    let limits = Selector { size_min: Some(2), size_max: Some(4), ..Selector::default() };
    let sizes = (1..=5).filter(|&size| limits.takes_file(size, FileTime::default()));
    assert_eq!(sizes.collect::<Vec<_>>(), [2, 3, 4]);
}

/// Judges slowly: tries both lists at every place, by recursion. Understands `*`, `?` and plain
/// bytes.
fn slow_name(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| slow_name(rest, &text[at..])),
        Some((wanted, rest)) => text.split_first().is_some_and(|(byte, behind)| {
            (wanted == byte || *wanted == b'?') && slow_name(rest, behind)
        }),
    }
}

fn slow_path(pattern: &[&[u8]], path: &[&[u8]]) -> bool {
    match pattern.split_first() {
        None => path.is_empty(),
        Some((&b"**", [])) => !path.is_empty(),
        Some((&b"**", rest)) => (0..=path.len()).any(|at| slow_path(rest, &path[at..])),
        Some((wanted, rest)) => path
            .split_first()
            .is_some_and(|(part, behind)| slow_name(wanted, part) && slow_path(rest, behind)),
    }
}

proptest! {
    /// Promise: retrying after the last star alone finds everything that trying all positions
    /// finds.
    #[test]
    fn matching_agrees_with_the_slow_judge(
        pattern in "/(\\*\\*/|[ab*?]{1,4}/){0,4}(\\*\\*|[ab*?]{1,4})",
        path in "([ab]{1,5}/){0,5}[ab]{1,5}",
    ) {
        let parts: Vec<&[u8]> = path.as_bytes().split(|&byte| byte == b'/').collect();
        let wanted: Vec<&[u8]> = pattern.as_bytes()[1..].split(|&byte| byte == b'/').collect();
        let found = glob(&pattern).matches(path.as_bytes(), false);
        prop_assert_eq!(found, slow_path(&wanted, &parts), "{} on {}", pattern, path);
    }

    /// Promise: no pattern and no path, from any sender, makes the matcher fail or take long.
    #[test]
    fn any_bytes_are_matched(
        pattern in proptest::collection::vec(prop_oneof![
            Just(b'*'), Just(b'/'), Just(b'['), Just(b']'), Just(b'\\'), any::<u8>()
        ], 0..40),
        path in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        if let Ok(glob) = Glob::parse(&pattern) {
            glob.matches(&path, true);
        }
    }
}
