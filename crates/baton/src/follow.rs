//! Following a run on the terminal, until it ends or suspends.
//!
//! [`follow`] is for a run that this process drives: Ctrl-C cancels it and shows the receipt, a second one leaves at
//! once. [`tail`] only reads a run that may be driven elsewhere.

mod asked;
mod leaving;
mod silence;
mod steps;

use std::time::Duration;

use baton_core::event::Event;
use baton_core::flow::question;
use baton_core::id::{Cursor, RunId};
use baton_core::run::RunStatus;
use baton_engine::{EventReader, Rested, RunHandle, Seen};

use crate::app::App;
use crate::failure::{Failure, exit};
use crate::interrupts::{Interrupt, Interrupts};
use crate::screen::{Screen, Show};
use crate::terminal::{DIM, line, note, styled};

/// The time that a log may be silent before the run is checked for a live owner.
const SILENCE: Duration = Duration::from_secs(2);

/// How a run is followed.
#[derive(Debug, Default)]
pub(crate) struct FollowOptions {
    /// How it is shown.
    pub(crate) show: Show,
    /// The place to begin at; absent: where this process claimed the run.
    pub(crate) from: Option<Cursor>,
    /// Whether the run's steps are shown at the end.
    pub(crate) steps: bool,
    /// Whether a model's own reasoning is shown.
    pub(crate) show_reasoning: bool,
    /// The signal listener from before the run began; absent: this call listens.
    pub(crate) interrupts: Option<Interrupts>,
}

/// How following ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FollowEnd {
    /// The run is over.
    Ended(RunStatus),
    /// The run waits for an answer or a decision.
    Suspended,
    /// The user left at once.
    LeftAtOnce,
    /// The process was told to go, and released the run.
    Left,
}

impl FollowEnd {
    /// The exit code that goes with it.
    pub(crate) fn code(self) -> u8 {
        match self {
            FollowEnd::Ended(RunStatus::Ok) => exit::OK,
            FollowEnd::Ended(RunStatus::Cancelled) | FollowEnd::LeftAtOnce => exit::CANCELLED,
            FollowEnd::Ended(_) => exit::FAILED,
            FollowEnd::Suspended => exit::SUSPENDED,
            FollowEnd::Left => exit::TERMINATED,
        }
    }
}

/// Shows a run that this process drives until it ends or suspends; returns the exit code.
pub(crate) async fn follow(app: &App, handle: RunHandle, options: FollowOptions) -> Result<u8, Failure> {
    let mut interrupts = match options.interrupts {
        Some(interrupts) => interrupts,
        None => Interrupts::listen()?,
    };
    let mut screen = Screen::new(options.show, options.show_reasoning, handle.run);
    let run = handle.run;
    let from = match options.from {
        Some(from) => from,
        None => taken_up(app, run).await?,
    };
    let rest = watch(app, handle, Some(from), &mut screen, &mut interrupts).await?;
    if options.show == Show::Text && rest == FollowEnd::Suspended {
        asked::show(app, run).await?;
    }
    if options.steps && matches!(rest, FollowEnd::Ended(_) | FollowEnd::Suspended) {
        account(app, run, from, options.show).await?;
    }
    Ok(rest.code())
}

/// The loop behind [`follow`], for callers that go on afterwards.
pub(crate) async fn watch(
    app: &App,
    mut handle: RunHandle,
    from: Option<Cursor>,
    screen: &mut Screen,
    interrupts: &mut Interrupts,
) -> Result<FollowEnd, Failure> {
    let run = handle.run;
    let from = match from {
        Some(from) => from,
        None => taken_up(app, run).await?,
    };
    let mut reader = app.engine.events(&app.tenant, run, from).await?;
    let mut cancelled = false;
    let mut driven = true;
    loop {
        tokio::select! {
            seen = reader.next() => {
                if let Some(rest) = show(app, run, seen?, screen).await? {
                    return Ok(rest);
                }
            }
            rested = handle.rested(), if driven => {
                driven = false;
                match rested {
                    Rested::Ended(_) | Rested::Suspended => {} // the log says it, too
                    Rested::Lost => note(styled(DIM, "another process took this run over; following it there")),
                    Rested::Released => return Ok(FollowEnd::Left),
                    Rested::Failed(error) => {
                        screen.end()?;
                        let failure = Failure::from(error);
                        let resume = format!("baton runs resume {} goes on with it", run.short());
                        let hint = match &failure.hint {
                            Some(first) => format!("{first}; then {resume}"),
                            None => resume,
                        };
                        return Err(failure.hint(hint));
                    }
                }
            }
            () = silence::until(screen.sign_due()), if !cancelled => silence::explain(app, run, screen).await?,
            told = interrupts.next() => match told {
                Interrupt::Cancel if cancelled => return Ok(FollowEnd::LeftAtOnce),
                Interrupt::Cancel => {
                    cancelled = true;
                    screen.end()?;
                    note(styled(DIM, "cancelling; Ctrl-C again leaves at once"));
                    // A slow store does not keep the user here.
                    tokio::select! {
                        posted = app.engine.cancel(&app.tenant, run) => { posted?; }
                        _ = interrupts.next() => return Ok(FollowEnd::LeftAtOnce),
                    }
                }
                Interrupt::Leave => {
                    screen.end()?;
                    leaving::leave(app, run, &mut reader, screen, interrupts).await?;
                    return Ok(FollowEnd::Left);
                }
            },
        }
    }
}

/// Shows a run from a place on until it ends or suspends, wherever it is driven.
pub(crate) async fn tail(app: &App, run: RunId, from: Cursor, json: bool) -> Result<u8, Failure> {
    let show_as = if json { Show::Json } else { Show::Text };
    let mut screen = Screen::new(show_as, false, run);
    let mut reader = app.engine.events(&app.tenant, run, from).await?;
    loop {
        let seen = next_of_anybody(app, run, &mut reader, &mut screen).await?;
        if let Some(rest) = show(app, run, seen, &mut screen).await? {
            if rest == FollowEnd::Suspended && !json {
                asked::show(app, run).await?;
            }
            return Ok(rest.code());
        }
    }
}

/// The next item of a log; fails if the run has no live owner that could write it.
async fn next_of_anybody(
    app: &App,
    run: RunId,
    reader: &mut EventReader,
    screen: &mut Screen,
) -> Result<Option<Seen>, Failure> {
    loop {
        if let Ok(seen) = tokio::time::timeout(SILENCE, reader.next()).await {
            return Ok(seen?);
        }
        let row = app.store().run(&app.tenant, run).await?;
        let driven = app.store().is_held(&row).await;
        if !driven && row.status == RunStatus::Running && reader.cursor().seq >= row.seq {
            return Err(Failure::conflict(format!("nobody drives run {run}"))
                .hint(format!("baton runs resume {} goes on with it", run.short())));
        }
        if driven && screen.sign_due().is_some() {
            silence::explain(app, run, screen).await?;
        }
    }
}

/// Shows one item; returns how following ended if it was the last.
async fn show(
    app: &App,
    run: RunId,
    seen: Option<Seen>,
    screen: &mut Screen,
) -> Result<Option<FollowEnd>, Failure> {
    match seen {
        Some(Seen::Event(event)) => {
            let response = match screen.needs_response(&event) {
                true => Some(app.engine.response(&app.tenant, run).await?),
                false => None,
            };
            screen.event(&event, response.as_deref())?;
            match &event.event {
                Event::Ended { status, .. } => Ok(Some(FollowEnd::Ended(*status))),
                _ => Ok(None),
            }
        }
        Some(Seen::Resumed { last_seq }) => {
            screen.resumed(last_seq)?;
            Ok(None)
        }
        Some(Seen::Suspended) => {
            let view = app.engine.view(&app.tenant, run).await?;
            if view.row.status != RunStatus::Suspended {
                return Ok(None); // the run goes on already
            }
            screen.suspended(view.row.budget.usage(), question(&view.waiting))?;
            Ok(Some(FollowEnd::Suspended))
        }
        None => {
            let status = app.store().run(&app.tenant, run).await?.status;
            Ok(Some(FollowEnd::Ended(status)))
        }
    }
}

/// The place at which the latest owner claimed a run.
pub(crate) async fn taken_up(app: &App, run: RunId) -> Result<Cursor, Failure> {
    let claims = app.store().claims(&app.tenant, run).await?;
    Ok(claims.last().map(|claim| Cursor { epoch: claim.epoch, seq: claim.base_seq }).unwrap_or_default())
}

/// Shows a run's result since a place of its log: as one last object, or line by line.
pub(crate) async fn account(app: &App, run: RunId, from: Cursor, show: Show) -> Result<(), Failure> {
    let result = app.engine.result(&app.tenant, run, from.epoch).await?;
    match show {
        Show::Json => line(serde_json::to_string(&result).map_err(std::io::Error::from)?)?,
        Show::Text => note(styled(DIM, steps::lines(&result))),
        Show::Nothing => {}
    }
    Ok(())
}
