//! The time limits of a call.
//!
//! A connection that cannot be made in time is `llm_connection`, because nothing is known of the model; all
//! other limits are `llm_timeout`. Any byte resets the idle limit, not only text: a server that sends comments
//! is alive.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// The time limits of one call, as they are configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is made, including DNS and the TLS handshake.
    pub connect: Duration,
    /// From sending the request to the first byte of the answer's body: a model may have to be loaded.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// The whole call, including the wait in the queue of [`ModelEntry::max_concurrency`](crate::ModelEntry).
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(15 * 60),
        }
    }
}

/// The deadlines of a call that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallDeadlines {
    pub(crate) timeouts: Timeouts,
    first: Instant,
    end: Instant,
}

impl CallDeadlines {
    /// The deadlines of a call that begins now.
    pub(crate) fn begin(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        CallDeadlines { timeouts, first: now + timeouts.first_byte, end: now + timeouts.total }
    }

    /// The deadlines if the request is sent now.
    pub(crate) fn sending(self) -> Self {
        CallDeadlines { first: Instant::now() + self.timeouts.first_byte, ..self }
    }

    /// The deadline of the whole call.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// A timer for these deadlines.
    pub(crate) fn timer(self) -> DeadlineTimer {
        DeadlineTimer { limits: self, sleep: None }
    }
}

/// Waits within the limits of one call, with one timer for all its waits: pieces are many, and nearly all
/// come in time. The timer is reset only when it fires and turns out to be early.
#[derive(Debug)]
pub(crate) struct DeadlineTimer {
    pub(super) limits: CallDeadlines,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl DeadlineTimer {
    /// Waits for anything before the first byte of the body.
    pub(crate) async fn first<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Fault> {
        let (first, time) = (self.limits.first, self.limits.timeouts.first_byte);
        self.within(Instant::now(), first, wait).await.ok_or_else(|| {
            timeout_fault(format!("no answer began within {} (first_byte)", format_duration(time)))
        })?
    }

    /// Waits for the next piece. Only this wait counts, not the time that the reader took since the last piece.
    pub(crate) async fn next<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Fault> {
        let (now, idle) = (Instant::now(), self.limits.timeouts.idle);
        self.within(now, now + idle, wait).await.ok_or_else(|| {
            timeout_fault(format!("the answer stopped for {} before its end (idle)", format_duration(idle)))
        })?
    }

    /// Waits up to a limit; `None` where it passed and the total limit did not.
    async fn within<T>(
        &mut self,
        now: Instant,
        limit: Instant,
        wait: impl Future<Output = T>,
    ) -> Option<Result<T, Fault>> {
        let CallDeadlines { timeouts, end, .. } = self.limits;
        let over = || {
            timeout_fault(format!("the call took longer than {} (total)", format_duration(timeouts.total)))
        };
        if now >= end {
            return Some(Err(over()));
        }
        let (until, mut wait) = (limit.min(end), pin!(wait));
        let value = poll_fn(|cx| match wait.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => self.poll_deadline(until, cx).map(|()| None),
        });
        match value.await {
            Some(value) => Some(Ok(value)),
            None if limit < end => None,
            None => Some(Err(over())),
        }
    }

    /// Ready once a moment has come; until then the task is woken for it.
    fn poll_deadline(&mut self, moment: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(moment)));
        if sleep.deadline() > moment {
            sleep.as_mut().reset(moment);
        }
        loop {
            // Unconstrained, as a reader that never has to wait uses up the task's budget and would starve the timer.
            ready!(Pin::new(&mut unconstrained(sleep.as_mut())).poll(cx));
            if sleep.deadline() >= moment {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(moment);
        }
    }
}

fn timeout_fault(message: String) -> Fault {
    Fault::new(Code::LlmTimeout, message)
}

/// A span of time for a message: `125 ms`, `3 s`, `1.5 s`.
pub(crate) fn format_duration(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        _ if ms.is_multiple_of(1000) => format!("{} s", ms / 1000),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    fn limits(first_byte: u64, idle: u64, total: u64) -> CallDeadlines {
        let ms = Duration::from_millis;
        let timeouts =
            Timeouts { connect: ms(1), first_byte: ms(first_byte), idle: ms(idle), total: ms(total) };
        CallDeadlines::begin(timeouts)
    }

    async fn after(ms: u64) -> u64 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        ms
    }

    #[tokio::test(start_paused = true)]
    async fn each_time_limit_is_named_in_its_fault() {
        let limits = limits(50, 20, 100);
        let mut timer = limits.timer();
        let idle = "the answer stopped for 20 ms before its end (idle)";
        assert_eq!(timer.next(pending::<()>()).await, Err(timeout_fault(idle.to_owned())));
        assert_eq!(timer.next(after(19)).await, Ok(19)); // 39 of 100
        let first = "no answer began within 50 ms (first_byte)";
        assert_eq!(timer.first(after(20)).await, Err(timeout_fault(first.to_owned()))); // 50
        // Another request of the same call, as in detection, gets the whole first_byte limit again.
        assert_eq!(limits.sending().timer().first(after(45)).await, Ok(45)); // 95
        let total = Err(timeout_fault("the call took longer than 100 ms (total)".to_owned()));
        assert_eq!(timer.next(after(10)).await, total);
        assert_eq!(timer.next(after(0)).await, total);
    }

    #[tokio::test(start_paused = true)]
    async fn each_wait_counts_from_its_own_beginning_though_all_share_one_timer() {
        let mut timer = limits(1000, 20, 10_000).timer();
        let began = Instant::now();
        assert_eq!(timer.first(after(900)).await, Ok(900));
        for ms in [19, 1, 19, 18, 19] {
            assert_eq!(timer.next(after(ms)).await, Ok(ms));
        }
        // The reader's own time in between does not count.
        after(500).await;
        assert_eq!(timer.next(after(19)).await, Ok(19));
        let idle = "the answer stopped for 20 ms before its end (idle)";
        assert_eq!(timer.next(pending::<()>()).await, Err(timeout_fault(idle.to_owned())));
        assert_eq!(began.elapsed().as_millis(), 900 + 76 + 500 + 19 + 20);
    }

    #[test]
    fn durations_are_formatted_for_messages() {
        let table = [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (1500, "1.5 s"), (900_000, "900 s")];
        for (ms, expected) in table {
            assert_eq!(format_duration(Duration::from_millis(ms)), expected);
        }
    }
}
