//! How long a call may wait, and for what.
//!
//! A connection that cannot be made in time is `llm_connection`, because nothing is known of the model; all
//! other limits are `llm_timeout`. Bytes count, not words: a server that sends signs of life is alive.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use tokio::task::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

/// The limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, including the look-up of the name and the greeting.
    pub connect: Duration,
    /// From sending the request to the first byte of the answer's body: a model may have to be loaded.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// The whole call, including the wait for a free place.
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

/// The limits of a call that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallDeadlines {
    pub(crate) timeouts: Timeouts,
    first: Instant,
    end: Instant,
}

impl CallDeadlines {
    /// A call begins now.
    pub(crate) fn begin(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        CallDeadlines { timeouts, first: now + timeouts.first_byte, end: now + timeouts.total }
    }

    /// Its request is sent now.
    pub(crate) fn sending(self) -> Self {
        CallDeadlines { first: Instant::now() + self.timeouts.first_byte, ..self }
    }

    /// When the call has to be over.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Keeps watch over it.
    pub(crate) fn watch(self) -> DeadlineTimer {
        DeadlineTimer { limits: self, alarm: None }
    }
}

/// Waits within the limits of one call, with one timer for all its waits: pieces are many, and nearly all
/// come in time. The timer is put off only when it goes off, and found to be early then.
#[derive(Debug)]
pub(crate) struct DeadlineTimer {
    pub(super) limits: CallDeadlines,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl DeadlineTimer {
    /// Waits for what comes before the first byte.
    pub(crate) async fn first<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Fault> {
        let (first, time) = (self.limits.first, self.limits.timeouts.first_byte);
        self.within(Instant::now(), first, wait)
            .await
            .ok_or_else(|| late(format!("no answer began within {} (first_byte)", words(time))))?
    }

    /// Waits for the next piece. Only this wait counts, not what the reader did since the last piece.
    pub(crate) async fn next<T>(&mut self, wait: impl Future<Output = T>) -> Result<T, Fault> {
        let (now, idle) = (Instant::now(), self.limits.timeouts.idle);
        self.within(now, now + idle, wait)
            .await
            .ok_or_else(|| late(format!("the answer stopped for {} before its end (idle)", words(idle))))?
    }

    /// `None`: the limit passed, and it is not the total one.
    async fn within<T>(
        &mut self,
        now: Instant,
        limit: Instant,
        wait: impl Future<Output = T>,
    ) -> Option<Result<T, Fault>> {
        let CallDeadlines { timeouts, end, .. } = self.limits;
        let over = || late(format!("the call took longer than {} (total)", words(timeouts.total)));
        if now >= end {
            return Some(Err(over()));
        }
        let (until, mut wait) = (limit.min(end), pin!(wait));
        let value = poll_fn(|cx| match wait.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => self.is_up(until, cx).map(|()| None),
        });
        match value.await {
            Some(value) => Some(Ok(value)),
            None if limit < end => None,
            None => Some(Err(over())),
        }
    }

    /// Whether a moment has come; if not, the task is woken then.
    fn is_up(&mut self, moment: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(moment)));
        if alarm.deadline() > moment {
            alarm.as_mut().reset(moment);
        }
        loop {
            // A reader that is never made to wait must not keep the alarm from being heard.
            ready!(Pin::new(&mut unconstrained(alarm.as_mut())).poll(cx));
            if alarm.deadline() >= moment {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(moment);
        }
    }
}

fn late(words: String) -> Fault {
    Fault::new(Code::LlmTimeout, words)
}

/// A span of time as people say it.
pub(crate) fn words(time: Duration) -> String {
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
    async fn each_limit_says_which_it_is() {
        let limits = limits(50, 20, 100);
        let mut watch = limits.watch();
        let idle = "the answer stopped for 20 ms before its end (idle)";
        assert_eq!(watch.next(pending::<()>()).await, Err(late(idle.to_owned())));
        assert_eq!(watch.next(after(19)).await, Ok(19)); // 39 of 100
        let first = "no answer began within 50 ms (first_byte)";
        assert_eq!(watch.first(after(20)).await, Err(late(first.to_owned()))); // 50
        // Sending anew, as when formats are tried out, begins the wait for the first byte anew.
        assert_eq!(limits.sending().watch().first(after(45)).await, Ok(45)); // 95
        let total = Err(late("the call took longer than 100 ms (total)".to_owned()));
        assert_eq!(watch.next(after(10)).await, total);
        assert_eq!(watch.next(after(0)).await, total);
    }

    #[tokio::test(start_paused = true)]
    async fn each_wait_counts_from_its_own_beginning_though_all_share_one_timer() {
        let mut watch = limits(1000, 20, 10_000).watch();
        let began = Instant::now();
        assert_eq!(watch.first(after(900)).await, Ok(900));
        for ms in [19, 1, 19, 18, 19] {
            assert_eq!(watch.next(after(ms)).await, Ok(ms));
        }
        // What the reader does in between does not count.
        after(500).await;
        assert_eq!(watch.next(after(19)).await, Ok(19));
        let idle = "the answer stopped for 20 ms before its end (idle)";
        assert_eq!(watch.next(pending::<()>()).await, Err(late(idle.to_owned())));
        assert_eq!(began.elapsed().as_millis(), 900 + 76 + 500 + 19 + 20);
    }

    #[test]
    fn time_in_words() {
        let table = [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (1500, "1.5 s"), (900_000, "900 s")];
        for (ms, expected) in table {
            assert_eq!(words(Duration::from_millis(ms)), expected);
        }
    }
}
