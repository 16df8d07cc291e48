//! Full-screen commands on a real terminal: keys are sent by tmux(1), and the screen is captured.
//! Skipped, loudly, where tmux is not installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use penstock_testkit::{
    ProxiedPair, Scratch, Signal, Wait, make_set, penstock, program, seed, signal, told,
};
use serde_json::Value;

/// A terminal with a shell of its own, whose programs have job control.
struct Terminal {
    base: Scratch,
}

impl Terminal {
    /// Opens a terminal of a size; `None` where there is no tmux.
    fn open(test: &str, width: u16, height: u16) -> Option<Self> {
        let has_tmux = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
        if !has_tmux.is_ok_and(|status| status.success()) {
            println!("SKIPPED: {test} needs tmux, which is not here");
            return None;
        }
        let terminal = Self { base: Scratch::in_memory() };
        let size = [width.to_string(), height.to_string()];
        let shell = "exec env PS1='% ' sh -im";
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &size[0],
            "-y",
            &size[1],
            shell,
        ]);
        terminal.tmux(&["set-option", "-g", "window-size", "manual"]);
        terminal.until("%");
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.arg("-u").arg("-S").arg(self.base.path().join("tmux")).args(args);
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").env_remove("PENSTOCK_DIR");
        command.env("NO_COLOR", "1").env("TERM", "xterm-256color");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Presses keys, by the names that tmux has for them.
    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a text.
    fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Types a command to the shell.
    fn run(&self, command: &str) {
        self.text(command);
        self.press(&["Enter"]);
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen has a text, and returns the screen.
    fn until(&self, text: &str) -> String {
        self.until_is(text, |screen| screen.contains(text))
    }

    fn until_is(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        Wait::new(format!("`{what}`")).until(|| {
            let screen = self.screen();
            if is(&screen) { Ok(screen) } else { Err(format!("\n{screen}")) }
        })
    }

    fn resize(&self, width: u16, height: u16) {
        let size = [width.to_string(), height.to_string()];
        self.tmux(&["resize-window", "-x", &size[0], "-y", &size[1]]);
    }

    /// Runs a command to the end and waits for its exit code, which the shell prints, and for the
    /// modes of the terminal, which the program has to restore.
    fn until_ended(&self, code: i32) {
        // A program that has not ended yet would take what is typed.
        self.until_is("the shell", |screen| screen.trim_end().ends_with('%'));
        self.run("echo \"code $?\"; stty -a | tr ' ;' '\\n\\n' | grep -x -e -icanon -e -echo");
        let screen = self.until(&format!("code {code}"));
        assert!(!screen.contains("\n-icanon") && !screen.contains("\n-echo"), "{screen}");
        assert!(!screen.contains("RUNNING"), "the screen before is back: {screen}");
        self.run("clear");
        self.until_is("a clear screen", |screen| !screen.contains("code"));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.screen());
        }
        self.tmux(&["kill-server"]);
    }
}

fn state(view: &Value) -> &str {
    view["state"].as_str().unwrap()
}

/// Promise: `penstock top` shows a transfer that moves, steers it by keys, takes any size, finds a
/// daemon again that was killed, is stopped and continued as any job, and restores the terminal
/// however it ends.
#[test]
fn top_shows_and_steers_a_real_site() {
    let Some(terminal) = Terminal::open("top_shows_and_steers_a_real_site", 80, 24) else { return };
    let mut world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 40, 300, seed());
    world.proxy_a.set_rate(Some(8e6));
    let id = world.b.submit(&["a:data/src/", "b:data/dst", "--label", "run 8"]);
    let command = format!("{} top --dir {}", program(), world.b.dir.display());
    terminal.run(&command);
    terminal.until_is("a transfer that moves", |screen| {
        let moves = |line: &str| line.contains("run 8") && line.contains("Mbit/s");
        screen.contains("● live") && screen.contains("RUNNING 1") && screen.lines().any(moves)
    });
    terminal.press(&["p"]);
    terminal.until("paused by");
    world.b.show_until(&id, |view| state(view) == "paused");
    terminal.press(&["p"]);
    terminal.until("RUNNING 1");
    terminal.press(&["Enter"]);
    terminal.until("a:data/src/ → b:data/dst");
    terminal.resize(200, 60);
    terminal.until_is("the transfer, wide", |screen| {
        screen.contains("RATE ─") || screen.contains(" RATE last")
    });
    terminal.resize(12, 3);
    terminal.resize(100, 40);
    terminal.press(&["Escape"]);
    terminal.until("RUNNING 1");
    terminal.until("Enter open");
    world.b.kill();
    let lost = terminal.until("NO CONTACT");
    assert!(lost.contains("What you see is from then"), "{lost}");
    world.b.start();
    terminal.until("● live");
    terminal.press(&["C-z"]);
    terminal.until_is("the shell", |screen| screen.contains("Stopped") && !screen.contains("live"));
    terminal.run("fg");
    terminal.until("● live");
    terminal.press(&["c"]);
    terminal.until("Cancel run 8");
    terminal.press(&["y"]);
    Wait::new("the end").is(|| state(&world.b.show(&id)) == "cancelled");
    terminal.until("cancelled");
    terminal.press(&["q"]);
    terminal.until_ended(0);
    let file = terminal.base.path().join("process");
    terminal.run(&format!("sh -c 'echo $$ > {}; exec {command}'", file.display()));
    terminal.until("● live");
    let process = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    signal(process, Signal::TERM);
    terminal.until_ended(130);
    terminal.run(&command);
    terminal.until("● live");
    terminal.press(&["C-c"]);
    terminal.until_ended(130);
    let refused = world.b.fails(2, &["top"]);
    assert!(refused.contains("penstock transfer list"), "{refused}");
    let once = world.b.ok(&["top", "--once"]);
    assert!(once.contains("RUNNING 0") && once.contains("cancelled"), "{once}");
    assert!(!once.contains('\u{1b}'), "{once:?}");
}

/// Answers a form: the keys of the questions with their answers, in the order of the screens.
fn fill(terminal: &Terminal, answers: &[(&str, String)]) {
    for (_, answer) in answers {
        terminal.press(&["C-e", "C-u"]);
        terminal.text(answer);
        terminal.press(&["Enter"]);
    }
}

/// Promise (F1, F4): the form, the prompts and a file of answers give the same file, byte for byte;
/// a wrong answer is refused beside its field; nothing is written before the user has seen the
/// difference and agreed, and a kill then leaves the old file.
#[test]
fn the_form_gives_the_same_file() {
    let Some(terminal) = Terminal::open("the_form_gives_the_same_file", 80, 24) else { return };
    let base = Scratch::on_disk();
    let store = base.path().join("raw");
    fs::create_dir(&store).unwrap();
    let answers = [
        ("site", "lab".to_owned()),
        ("peer", "h1".to_owned()),
        ("listen", "127.0.0.1:0".to_owned()),
        ("interfaces", "none".to_owned()),
        ("stores", format!("raw={}, bin=null:", store.display())),
        ("write", "hpc".to_owned()),
        ("web", "127.0.0.1:0".to_owned()),
        ("names", "auto".to_owned()),
        ("running_max", "6".to_owned()),
        ("cpus", "auto".to_owned()),
        ("log", "info".to_owned()),
    ];
    let dir = |name: &str| base.path().join(name);
    let text = |name: &str| fs::read_to_string(dir(name).join("penstock.toml")).unwrap();
    let wizard = |name: &str, more: &str| {
        terminal.run(&format!("{} config wizard {more} --dir {}", program(), dir(name).display()));
    };
    wizard("formed", "");
    terminal.until("name of the site");
    fill(&terminal, &[("site", "Lab".to_owned())]);
    terminal.until("✖ `Lab` is not a name");
    fill(&terminal, &answers);
    let review = terminal.until("Enter write it");
    assert!(review.contains("+site = \"lab\""), "{review}");
    assert!(!dir("formed").join("penstock.toml").exists());
    terminal.press(&["Escape"]);
    terminal.until("level of the log");
    terminal.press(&["PPage"]);
    terminal.press(&["NPage"]);
    terminal.until("Enter write it");
    terminal.press(&["Enter"]);
    terminal.until("start it with: penstock daemon");
    terminal.until_ended(0);
    wizard("prompted", "--plain");
    for (_, answer) in &answers {
        terminal.run(answer);
    }
    terminal.until("write it? [yes]:");
    terminal.run("yes");
    terminal.until("start it with: penstock daemon");
    terminal.until_ended(0);
    let file = dir("answers.toml");
    let lines = answers.iter().map(|(key, answer)| format!("{key} = \"{answer}\"\n"));
    fs::write(&file, lines.collect::<String>()).unwrap();
    answered(&dir("answered"), &file);
    assert_eq!(text("formed"), text("answered"));
    assert_eq!(text("prompted"), text("answered"));
    killed_at_the_review(&terminal, &dir("formed"));
    assert_eq!(text("formed"), text("answered"), "the old file");
}

fn answered(dir: &Path, file: &Path) {
    let mut command = penstock();
    command.args(["config", "wizard", "--dir"]).arg(dir).arg("--answers").arg(file);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

/// Changes an answer, and kills the wizard where it asks for consent.
fn killed_at_the_review(terminal: &Terminal, dir: &Path) {
    let file = terminal.base.path().join("process");
    terminal.run(&format!(
        "sh -c 'echo $$ > {}; exec {} config wizard --set running_max=7 --dir {}'",
        file.display(),
        program(),
        dir.display()
    ));
    terminal.until("address for other sites");
    for _ in 0..5 {
        terminal.press(&["NPage"]);
    }
    terminal.until("+running_max = 7");
    let process: u32 = fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    signal(process, Signal::KILL);
    Wait::new("the end").is(|| !Path::new(&format!("/proc/{process}")).exists());
    let parts = fs::read_dir(dir).unwrap().flatten().filter(|entry| is_part(&entry.path()));
    assert_eq!(parts.count(), 0);
}

/// Returns whether a file is a part of a configuration that was not finished.
fn is_part(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "new")
}
