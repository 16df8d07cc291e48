//! Answers by prompts on standard input, one line each, without any escape code.

use std::io::{self, BufRead};

use penstock_exit::{ExitCode, Failure};

use super::questions::{Answers, Question};

/// Wrong answers to one question before the wizard ends.
const TRIES: usize = 5;

/// Asks the questions that have no answer yet. An empty line takes the default. Blocks on `from`.
///
/// # Errors
/// The input ends or cannot be read, or no try has given an answer.
pub(crate) fn ask(
    questions: &[Question],
    answers: &mut Answers,
    from: &mut dyn BufRead,
    say: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    for question in questions {
        if !answers.contains_key(question.key) {
            let answer = one(question, from, say)?;
            answers.insert(question.key, answer);
        }
    }
    Ok(())
}

fn one(
    question: &Question,
    from: &mut dyn BufRead,
    say: &mut dyn FnMut(&str),
) -> Result<String, Failure> {
    let help =
        if question.help.is_empty() { String::new() } else { format!(" ({})", question.help) };
    for _ in 0..TRIES {
        say(&format!("{}{help} [{}]: ", question.text, question.default));
        let line = line(from)?;
        let answer = if line.is_empty() { question.default.clone() } else { line };
        match question.check(&answer) {
            Ok(()) => return Ok(answer),
            Err(why) => say(&format!("{why}\n")),
        }
    }
    let message = format!("no answer to `{}`", question.key);
    Err(Failure::new(ExitCode::Usage, message).hint(format!("--set {}=VALUE", question.key)))
}

/// Asks whether to write; an empty line means yes.
///
/// # Errors
/// The input ends or cannot be read.
pub(crate) fn agreed(from: &mut dyn BufRead, say: &mut dyn FnMut(&str)) -> Result<bool, Failure> {
    say("write it? [yes]: ");
    Ok(matches!(&*line(from)?.to_lowercase(), "" | "y" | "yes"))
}

fn line(from: &mut dyn BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    let read = from.read_line(&mut line);
    match read.map_err(|error: io::Error| Failure::io("read the answer", error))? {
        0 => Err(Failure::new(
            ExitCode::Usage,
            "standard input ended before all questions were answered",
        )
        .hint("`--yes` takes the defaults for the rest")),
        _ => Ok(line.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::host::Host;
    use super::super::questions::questions;
    use super::*;

    /// Promise: an empty line takes the default, a wrong answer is asked for again, an answer that
    /// is there already is not asked for, the end of the input is no consent, and nothing that is
    /// printed steers a terminal.
    #[test]
    fn lines_answer_the_questions() {
        let all = questions(&Host::default(), None);
        let said = std::cell::RefCell::new(String::new());
        let mut say = |text: &str| said.borrow_mut().push_str(text);
        let mut answers = Answers::from([("peer", "h7".to_owned())]);
        let input = format!("Lab\nlab\n{}", "\n".repeat(all.len()));
        ask(&all, &mut answers, &mut input.as_bytes(), &mut say).unwrap();
        assert_eq!((&*answers["site"], &*answers["peer"]), ("lab", "h7"));
        assert_eq!((&*answers["cpus"], answers.len()), ("auto", all.len()));
        let text = said.borrow().clone();
        assert!(text.contains("`Lab` is not a name") && !text.contains("within the site"));
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let ended = ask(&all, &mut Answers::new(), &mut &b"lab\n"[..], &mut say);
        assert_eq!(
            ended.unwrap_err().to_string(),
            "standard input ended before all questions were answered"
        );
        assert!(!agreed(&mut &b"no\n"[..], &mut say).unwrap());
        assert!(agreed(&mut &b"\n"[..], &mut say).unwrap());
    }
}
