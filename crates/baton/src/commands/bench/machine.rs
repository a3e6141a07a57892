//! The operating system's figures for this process. A figure that it does not report is absent, never 0.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of all threads so far.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    whole + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}

/// Bytes of memory in use.
pub(super) fn memory() -> Option<u64> {
    Some(field("/proc/self/status", "VmRSS:")? << 10)
}

/// The peak of the memory in use, in bytes.
pub(super) fn most_memory() -> Option<u64> {
    Some(field("/proc/self/status", "VmHWM:")? << 10)
}

/// Bytes written to files so far.
pub(super) fn written() -> Option<u64> {
    field("/proc/self/io", "wchar:")
}

/// The number of processors.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_while_something_is_done() {
        let before = processor_time();
        let mut sum = 0u64;
        while processor_time() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(processor_time() > before);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_says_what_is_used_and_written() {
        let before = written().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 70_000]).unwrap();
        assert!(written().unwrap() >= before + 70_000);
        let (now, most) = (memory().unwrap(), most_memory().unwrap());
        assert!(now > 1 << 20 && most >= 1 << 20, "{now} {most}");
        assert_eq!((field("/proc/self/status", "No such field:"), field("/no/such/file", "x")), (None, None));
    }
}
