//! A run of named steps: heading, duration, and at the end which ones failed.

use std::time::Instant;

use anyhow::bail;

/// Steps of a run. All of them run, also after a failure, so that one run shows all faults.
pub(crate) struct Steps {
    wanted: Option<Vec<String>>,
    failed: Vec<&'static str>,
}

impl Steps {
    /// Runs every step it is given.
    pub(crate) fn all() -> Self {
        Self { wanted: None, failed: Vec::new() }
    }

    /// Runs the steps named in `wanted`, or every one if none is named.
    ///
    /// # Errors
    /// A name is not among `known`.
    pub(crate) fn named(wanted: &[&str], known: &[&str]) -> anyhow::Result<Self> {
        if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
            bail!("no step `{unknown}`; there are: {}", known.join(" "));
        }
        let wanted = wanted.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        Ok(Self { wanted: (!wanted.is_empty()).then_some(wanted), failed: Vec::new() })
    }

    /// Runs one step and prints its result.
    pub(crate) fn run(
        mut self,
        name: &'static str,
        step: impl FnOnce() -> anyhow::Result<()>,
    ) -> Self {
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.iter().any(|one| one == name)) {
            return self;
        }
        println!("\n== {name}");
        let begun = Instant::now();
        let result = step();
        let seconds = begun.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("== {name}: passed in {seconds:.1} s"),
            Err(error) => {
                println!("== {name}: FAILED in {seconds:.1} s: {error:#}");
                self.failed.push(name);
            }
        }
        self
    }

    /// Ends the run, and fails it if a step has failed.
    ///
    /// # Errors
    /// A step failed.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        if !self.failed.is_empty() {
            bail!("failed: {}", self.failed.join(" "));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a failed step does not keep later ones from running, and fails the whole.
    #[test]
    fn all_steps_run_and_failures_are_named() {
        let mut ran = 0;
        let result = Steps::all()
            .run("first", || bail!("broken"))
            .run("second", || {
                ran += 1;
                Ok(())
            })
            .finish();
        assert_eq!(ran, 1);
        assert_eq!(result.map_err(|error| error.to_string()), Err("failed: first".to_owned()));
    }

    /// Promise: only the steps asked for run, and a misspelt one is refused.
    #[test]
    fn steps_can_be_chosen() {
        let steps = Steps::named(&["b"], &["a", "b"]).expect("a known step");
        assert!(steps.run("a", || bail!("not asked for")).run("b", || Ok(())).finish().is_ok());
        assert!(Steps::named(&["c"], &["a", "b"]).is_err());
    }
}
