//! Changes of classes at run time (`tidegate class`). They last until policies are applied.
//!
//! Methods of `Daemon` and `Installed`, whose fields are in `daemon.rs`.

use std::sync::Arc;

use tidegate_core::Rate;
use tidegate_core::gateway::ClassChangeError;
use tidegate_core::policy::{self, Class, ClassChange, ClassFaultKind, Profile};
use tidegate_core::report::ClassReport;
use tidegate_core::scheduler::{Term, TermForm, TermValue};

use super::{Daemon, Installed, Refusal};
use crate::api::{self, Classes, NewClass};
use crate::code::Code;
use crate::config::{self, Config};
use crate::describe::Change;
use crate::output::Failure;

impl Daemon {
    /// The classes that share the link, with their state.
    pub(crate) async fn classes(&self) -> Result<Classes, Failure> {
        Ok(answer(self.plane.classes().await?))
    }

    /// Changes the rights of the class called `name`. Returns the class after the change.
    pub(crate) async fn change_class(
        &self,
        name: String,
        change: &api::ClassChange,
    ) -> Result<Classes, Refusal> {
        let change = rights(change)?;
        // Waits until no other change is in progress.
        let _changing = self.changing.lock().await;
        let (of, asked) = (name.clone(), change.clone());
        let ask = self.plane.ask(move |live| live.machine.change_class(live.now, &of, &asked));
        ask.await?.map_err(|error| refused(&name, &error))?;
        let class = change.apply(&self.installed().await.class(&name));
        self.remember(&name, Some(class)).await;
        tracing::info!(name, "class changed");
        self.class(&name).await
    }

    /// Adds a class. Returns its state.
    pub(crate) async fn add_class(&self, new: NewClass) -> Result<Classes, Refusal> {
        if !config::is_usable_name(&new.name) {
            let message = format!("`{}` cannot name a class", new.name.escape_debug());
            return Err(Failure::input(Code::BadName, message).into());
        }
        let rights = rights(&new.rights)?;
        let _changing = self.changing.lock().await;
        let name = new.name;
        let installed = self.installed().await;
        let terms = installed.config.gateway.scheduler.terms();
        if new.queue.is_some() && !terms.contains(&Term::QUEUE) {
            let refused = ClassChangeError::NotOfScheduler(Term::QUEUE);
            return Err(self::refused(&name, &refused).into());
        }
        let queue = new.queue.unwrap_or_else(|| installed.config.gateway.queue.clone());
        let class = rights.apply(&Class { parent: new.parent, ..Class::new(&name, queue) });
        let added = class.clone();
        let ask = self.plane.change(move |live| {
            // Frames must come to the gateway before there is a class for them.
            live.set_passing(false);
            live.machine.add_class(live.now, &added)
        });
        ask.await?.map_err(|error| refused(&name, &error))?;
        drop(installed);
        self.remember(&name, Some(class)).await;
        tracing::info!(name, "class added");
        self.class(&name).await
    }

    /// Removes the class called `name`. Returns its last state.
    pub(crate) async fn remove_class(&self, name: String) -> Result<Classes, Refusal> {
        let _changing = self.changing.lock().await;
        let of = name.clone();
        let ask = self.plane.change(move |live| {
            let last = live.machine.class(&of);
            live.machine.remove_class(&of).map(|()| last)
        });
        let last = ask.await?.map_err(|error| refused(&name, &error))?;
        self.remember(&name, None).await;
        tracing::info!(name, "class removed");
        Ok(answer(last))
    }

    /// Records the changed class `name`, which overrides the policy file. `None` if it was removed.
    async fn remember(&self, name: &str, class: Option<Class>) {
        let mut state = self.state.lock().await;
        Arc::make_mut(&mut state.installed).live.insert(name.to_owned(), class);
    }

    async fn class(&self, name: &str) -> Result<Classes, Refusal> {
        let name = name.to_owned();
        Ok(answer(self.plane.ask(move |live| live.machine.class(&name)).await?))
    }
}

fn answer(classes: Vec<ClassReport>) -> Classes {
    Classes { classes }
}

impl Installed {
    /// The running configuration: the policy file with the class changes made at run time.
    pub(super) fn running(&self) -> Config {
        let config = &self.config;
        // The gateway has accepted each change, so the changes are also valid together.
        let classes = config.classes.with(&self.live, config.gateway.rate);
        Config { classes: classes.unwrap_or_else(|_| config.classes.clone()), ..config.clone() }
    }

    /// The classes of the file whose run-time changes `changes` would undo.
    pub(super) fn undone_by(&self, changes: &[Change]) -> Vec<String> {
        let changes = |name: &&String| {
            let what = format!("class {name}");
            changes.iter().any(|change| change.what == what)
        };
        self.live.keys().filter(changes).cloned().collect()
    }

    /// The class called `name` as it is now. A class that no file declares has default rights.
    fn class(&self, name: &str) -> Class {
        let written = || self.config.classes.classes().iter().find(|class| class.name == name);
        let class = self.live.get(name).map_or_else(|| written().cloned(), Clone::clone);
        class.unwrap_or_else(|| Class::new(name, self.config.gateway.queue.clone()))
    }
}

/// Describes to the operator why the gateway refused a change of the class called `name`.
fn refused(name: &str, error: &ClassChangeError) -> Failure {
    let of = |fault: &ClassFaultKind| match fault {
        ClassFaultKind::CeilingBelowGuarantee(_) => Code::CeilingBelowGuarantee,
        ClassFaultKind::DelayBound { .. }
        | ClassFaultKind::BoundBelowPacket { .. }
        | ClassFaultKind::BoundWithParts => Code::DelayBound,
        ClassFaultKind::Duplicate => Code::DuplicateName,
        ClassFaultKind::Orphan | ClassFaultKind::Loop => Code::NotATree,
        ClassFaultKind::PromisedTooMuch { .. } | ClassFaultKind::NothingLeft { .. } => {
            Code::PromisedTooMuch
        }
        ClassFaultKind::RatioToNone(_)
        | ClassFaultKind::RatioLoop(_)
        | ClassFaultKind::ZeroFactor(_) => Code::BadPromise,
    };
    let code = match error {
        ClassChangeError::NoClass => Code::UnknownName,
        ClassChangeError::NoParent(_) => Code::NotATree,
        ClassChangeError::Exists => Code::DuplicateName,
        ClassChangeError::NotOfScheduler(_) => Code::NotOfScheduler,
        ClassChangeError::Fault(fault) | ClassChangeError::Bound { fault, .. } => of(fault),
        ClassChangeError::ParentHolds { .. }
        | ClassChangeError::HasParts(_)
        | ClassChangeError::Holds(_) => Code::ClassHolds,
    };
    Failure::input(code, format!("class `{name}`: {error}"))
}

/// Converts `change`, if a class can have such rights.
fn rights(change: &api::ClassChange) -> Result<ClassChange, Failure> {
    let api::ClassChange(change) = change;
    let values = || {
        let of_term = |(term, changes): (Term, &[policy::TermChange; 2])| {
            changes.clone().into_iter().flatten().flatten().map(move |value| (term, value))
        };
        change.iter().flat_map(of_term)
    };
    let zero = (Term::CEILING, TermValue::Rate(Rate::from_bps(0)));
    if values().any(|value| value == zero) {
        return Err(Failure::input(Code::ZeroRate, "a ceiling of zero would hold packets forever"));
    }
    if !values().all(|(term, value)| in_range(term, &value)) {
        return Err(Failure::input(Code::OutOfRange, ranges()));
    }
    Ok(change.clone())
}

/// Returns `true` if `value` is in the range of `term`.
fn in_range(term: Term, value: &TermValue) -> bool {
    match (value, term.form()) {
        (TermValue::Whole(number), TermForm::Whole(least, most)) => (least..=most).contains(number),
        (TermValue::Bytes(bytes), _) if term == Term::BURST => *bytes <= Profile::MAX_BURST,
        _ => true,
    }
}

/// Describes the permitted ranges of class fields: those that hold whole numbers, and the burst.
fn ranges() -> String {
    let numbers = api::ClassChange::terms().filter_map(|term| match term.form() {
        TermForm::Whole(least, most) => Some((term, least, most)),
        _ => None,
    });
    let range = |(at, (term, least, most)): (usize, (Term, u32, u32))| {
        let goes = if at == 0 { "goes " } else { "" };
        format!("`{}` {goes}from {least} to {most}", term.name())
    };
    let mut all: Vec<_> = numbers.enumerate().map(range).collect();
    all.push(format!("`{}` to {}", Term::BURST.name(), Profile::MAX_BURST));
    all.join(", ")
}
