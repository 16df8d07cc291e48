//! The control channel: messages over a pair of pipes, each end of which may ask the other.
//!
//! One thread reads: answers go to whoever asked, all else to the end's main loop. Another says
//! `Ping` every two seconds, and a third watches: an end that is silent for [`SILENCE_MAX`] is
//! gone, as one whose pipe has closed. It is said once, to `on_lost`; from then on every call
//! fails.

use std::io::{Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::problem::{Problem, ProblemCode};

use super::message::{self, Message, Said};

/// How often an end says that it lives.
const PING: Duration = Duration::from_secs(2);
/// An end from which nothing comes for this long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How long an answer may take that needs no scan and no slow store.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// Messages that wait for this end to take them. A sound end asks one question at a time, and for
/// each of a thousand lanes.
const QUEUED_MAX: usize = 2048;
/// The same of answers: some may come late, for questions that were given up.
const ANSWERS_MAX: usize = 16;

/// What the main loop of an end gets.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The other end says or asks something.
    Said(Message),
    /// The other end is gone; nothing more comes.
    Lost,
}

/// One end of the control channel.
pub(super) struct Link {
    out: Mutex<Box<dyn Write + Send>>,
    /// Whoever asks holds it until the answer is here: one question at a time.
    answers: Mutex<Receiver<Said>>,
    heard: Mutex<Instant>,
    lost: Mutex<Option<String>>,
    on_lost: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// `None` once the other end is gone.
    incoming: Mutex<Option<SyncSender<Incoming>>>,
}

fn is_full<T>(sent: &Result<(), TrySendError<T>>) -> bool {
    matches!(sent, Err(TrySendError::Full(_)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// Starts the threads of an end whose channel is open. `on_lost` is called once, when the
    /// other end is gone.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        mut input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        on_lost: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<(Arc<Self>, Receiver<Incoming>)> {
        let (incoming, received) = mpsc::sync_channel(QUEUED_MAX);
        let (answered, answers) = mpsc::sync_channel(ANSWERS_MAX);
        let link = Arc::new(Self {
            out: Mutex::new(Box::new(output)),
            answers: Mutex::new(answers),
            heard: Mutex::new(Instant::now()),
            lost: Mutex::new(None),
            on_lost: Mutex::new(Some(on_lost)),
            incoming: Mutex::new(Some(incoming)),
        });
        let reading = Arc::clone(&link);
        std::thread::Builder::new()
            .name("ssh-in".to_owned())
            .spawn(move || reading.read(&mut input, &answered))?;
        let watching = Arc::clone(&link);
        std::thread::Builder::new().name("ssh-watch".to_owned()).spawn(move || watching.watch())?;
        let pinging = Arc::clone(&link);
        std::thread::Builder::new().name("ssh-ping".to_owned()).spawn(move || {
            while pinging.say(&Message::Ping).is_ok() {
                std::thread::sleep(PING);
            }
        })?;
        Ok((link, received))
    }

    fn read(&self, input: &mut impl Read, answered: &SyncSender<Said>) {
        let why = loop {
            match message::read(input) {
                Ok(Some(said)) => {
                    *lock(&self.heard) = Instant::now();
                    let is_full = match said {
                        Said { message: Message::Ping, .. } => false,
                        // The asker may have gone away: then nobody wants the answer.
                        said if said.answer => is_full(&answered.try_send(said)),
                        said => lock(&self.incoming).as_ref().is_some_and(|incoming| {
                            is_full(&incoming.try_send(Incoming::Said(said.message)))
                        }),
                    };
                    if is_full {
                        break "the other end sent more than this end asked for".to_owned();
                    }
                }
                Ok(None) => break "the other end has closed the ssh channel".to_owned(),
                Err(error) => break format!("the ssh channel broke: {error}"),
            }
        };
        self.lose(why);
    }

    /// Runs until the other end is gone. Its own thread: one that writes may be stuck.
    fn watch(&self) {
        while lock(&self.lost).is_none() {
            std::thread::sleep(Duration::from_millis(500));
            let silent = lock(&self.heard).elapsed();
            if silent >= SILENCE_MAX {
                self.lose(format!("nothing has come over ssh for {} s", silent.as_secs()));
            }
        }
    }

    fn lose(&self, why: String) {
        {
            let mut lost = lock(&self.lost);
            if lost.is_some() {
                return;
            }
            *lost = Some(why);
        }
        // The main loop may have ended already. Where the queue is full, its end tells.
        let incoming = lock(&self.incoming).take();
        incoming.and_then(|incoming| incoming.try_send(Incoming::Lost).ok());
        let on_lost = lock(&self.on_lost).take();
        if let Some(on_lost) = on_lost {
            on_lost();
        }
    }

    /// Closes this end's half: the other end sees that nothing more comes.
    pub(super) fn close(&self) {
        *lock(&self.out) = Box::new(std::io::sink());
    }

    /// Why the other end is gone, if it is.
    pub(super) fn lost(&self) -> Option<Problem> {
        let lost = lock(&self.lost);
        lost.as_ref().map(|why| {
            Problem::new(ProblemCode::SshLost, "the ssh connection was lost")
                .because(why)
                .hint("run the same command again to resume")
        })
    }

    fn send(&self, answer: bool, message: &Message, body: &[u8]) -> Result<(), Problem> {
        if let Some(problem) = self.lost() {
            return Err(problem);
        }
        let written = message::write(&mut *lock(&self.out), answer, message, body);
        written.or_else(|error| {
            // The reader may know better why; what it is waiting for comes at once.
            std::thread::sleep(Duration::from_millis(50));
            self.lose(format!("cannot write to ssh: {error}"));
            self.lost().map_or(Ok(()), Err)
        })
    }

    /// Says something that is not answered. Blocks while the channel is full.
    ///
    /// # Errors
    /// The other end is gone.
    pub(super) fn say(&self, message: &Message) -> Result<(), Problem> {
        self.send(false, message, &[])
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The other end is gone.
    pub(super) fn answer(&self, message: &Message, body: &[u8]) -> Result<(), Problem> {
        self.send(true, message, body)
    }

    /// Asks, and waits for the answer, for `deadline` at most.
    ///
    /// # Errors
    /// The other end says that it cannot, is gone, or does not answer in time.
    pub(super) fn ask(
        &self,
        message: &Message,
        deadline: Duration,
    ) -> Result<(Message, Vec<u8>), Problem> {
        let answers = lock(&self.answers);
        self.say(message)?;
        let until = Instant::now() + deadline;
        loop {
            match answers.recv_timeout(Duration::from_millis(100)) {
                Ok(Said { message: Message::Failed(problem), .. }) => return Err(problem),
                Ok(said) => return Ok((said.message, said.body)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            if let Some(problem) = self.lost() {
                return Err(problem);
            }
            if Instant::now() >= until {
                // An answer that came later would be taken for that to another question.
                self.lose(format!("no answer in {} s", deadline.as_secs()));
            }
        }
    }
}

/// An answer that does not fit its question.
pub(super) fn unexpected(message: &Message) -> Problem {
    let said = serde_json::to_value(message).ok();
    let said = said.as_ref().and_then(|value| value.get("say")?.as_str()).unwrap_or("something");
    let title = format!("the other end sent an unexpected message `{said}`");
    Problem::new(ProblemCode::SshProtocol, title)
}

/// Something that has to be said and was not.
pub(super) fn missing(what: &str) -> Problem {
    let title = format!("the other end does not say {what}");
    Problem::new(ProblemCode::SshProtocol, title)
}
