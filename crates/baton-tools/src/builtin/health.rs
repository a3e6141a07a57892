//! `system_health`: load, memory, disks, temperatures and processes of this machine.
//!
//! Processes are shown by name only: a command line can hold a secret.

use std::cmp::Reverse;
use std::sync::Arc;

use baton_core::tool::{EffectClass, Trust};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sysinfo::{
    Components, Disks, MINIMUM_CPU_UPDATE_INTERVAL, Process, ProcessRefreshKind, ProcessesToUpdate, System,
};

use crate::tool::{Tool, ToolError};
use crate::typed::{Structured, ToolInfo, off_thread, typed};

/// How many processes are listed by processor use and by memory use.
const BUSIEST: usize = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HealthArguments {}

#[derive(Debug, Serialize, JsonSchema)]
struct SystemHealth {
    cpu: Cpu,
    memory: Memory,
    swap: Memory,
    disks: Vec<Disk>,
    /// Absent where the system has no such figure.
    load_average: Option<LoadAverage>,
    uptime_seconds: Option<u64>,
    process_count: usize,
    busiest_by_cpu: Vec<ProcessUsage>,
    busiest_by_memory: Vec<ProcessUsage>,
    /// Empty where there are no readable sensors, as in most virtual machines.
    temperatures: Vec<Temperature>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Cpu {
    /// Of all cores together, from 0 to 100.
    usage_percent: f64,
    logical_cores: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Memory {
    total_bytes: u64,
    used_bytes: u64,
    available_bytes: u64,
    used_percent: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Disk {
    mount_point: String,
    file_system: String,
    total_bytes: u64,
    available_bytes: u64,
    used_percent: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct LoadAverage {
    one_minute: f64,
    five_minutes: f64,
    fifteen_minutes: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProcessUsage {
    pid: u32,
    name: String,
    /// Of one core: a process that keeps two cores busy has 200.
    cpu_percent: f64,
    memory_bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Temperature {
    sensor: String,
    celsius: f64,
    critical_celsius: Option<f64>,
}

pub(crate) fn tool() -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: "system_health",
        description: "Reports the health of this computer: CPU (processor) usage, memory (RAM), swap, disk space, \
                      load, uptime, temperatures and the busiest processes. Use it when the machine is slow, hot or \
                      full, or when asked how the system is doing.",
        class: EffectClass::SideEffectFree,
        timeout_ms: 15_000,
        trust: Trust::BUILT_IN,
    };
    typed(about, |_: HealthArguments, _| measure())
}

async fn measure() -> Result<Structured<SystemHealth>, ToolError> {
    let mut system = off_thread(|| System::new().map(sampled)).await?.map_err(|error| {
        ToolError::new(format!(
            "This system does not tell its health ({error:?}). There is nothing else to try."
        ))
    })?;
    // Processor use is the difference of two samples; this interval is the measurement.
    tokio::time::sleep(MINIMUM_CPU_UPDATE_INTERVAL).await;
    off_thread(move || {
        system = sampled(system);
        Structured(health(&system))
    })
    .await
}

fn sampled(mut system: System) -> System {
    let fields = ProcessRefreshKind::nothing().with_cpu().with_memory().without_tasks();
    system.refresh_cpu_usage();
    system.refresh_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, fields);
    system
}

fn health(system: &System) -> SystemHealth {
    let processes: Vec<&Process> =
        system.processes().values().filter(|process| process.thread_kind().is_none()).collect();
    SystemHealth {
        cpu: Cpu {
            usage_percent: tenths(system.global_cpu_usage().into()),
            logical_cores: system.cpus().len(),
        },
        memory: memory(system.total_memory(), system.used_memory(), system.available_memory()),
        swap: memory(system.total_swap(), system.used_swap(), system.free_swap()),
        disks: disks(),
        load_average: System::load_average().ok().map(|load| LoadAverage {
            one_minute: hundredths(load.one),
            five_minutes: hundredths(load.five),
            fifteen_minutes: hundredths(load.fifteen),
        }),
        uptime_seconds: System::uptime().ok(),
        process_count: processes.len(),
        busiest_by_cpu: busiest(&processes, |process| (tenths(process.cpu_usage().into()) * 10.0) as u64),
        busiest_by_memory: busiest(&processes, Process::memory),
        temperatures: temperatures(),
    }
}

fn memory(total_bytes: u64, used_bytes: u64, available_bytes: u64) -> Memory {
    Memory { total_bytes, used_bytes, available_bytes, used_percent: percent(used_bytes, total_bytes) }
}

fn disks() -> Vec<Disk> {
    let Ok(disks) = Disks::new_with_refreshed_list() else { return Vec::new() };
    disks
        .iter()
        .map(|disk| Disk {
            mount_point: disk.mount_point().to_string_lossy().into_owned(),
            file_system: disk.file_system().to_string_lossy().into_owned(),
            total_bytes: disk.total_space(),
            available_bytes: disk.available_space(),
            used_percent: percent(
                disk.total_space().saturating_sub(disk.available_space()),
                disk.total_space(),
            ),
        })
        .collect()
}

fn temperatures() -> Vec<Temperature> {
    let Ok(components) = Components::new_with_refreshed_list() else { return Vec::new() };
    let read = |component: &sysinfo::Component| {
        Some(Temperature {
            sensor: component.label().to_owned(),
            celsius: tenths(component.temperature().filter(|celsius| celsius.is_finite())?.into()),
            critical_celsius: component.critical().map(|celsius| tenths(celsius.into())),
        })
    };
    components.iter().filter_map(read).collect()
}

/// The processes with the highest measure; equal ones by number, so that the order is the same each time.
fn busiest(processes: &[&Process], measure: impl Fn(&Process) -> u64) -> Vec<ProcessUsage> {
    let mut sorted: Vec<&Process> = processes.to_vec();
    sorted.sort_by_key(|process| (Reverse(measure(process)), process.pid()));
    let describe = |process: &Process| ProcessUsage {
        pid: process.pid().as_u32(),
        name: process.name().to_string_lossy().into_owned(),
        cpu_percent: tenths(process.cpu_usage().into()),
        memory_bytes: process.memory(),
    };
    sorted.into_iter().take(BUSIEST).map(describe).collect()
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { tenths(part as f64 * 100.0 / whole as f64) }
}

/// A rounded number; one that is not finite becomes 0, because JSON cannot write it.
fn rounded(value: f64, steps: f64) -> f64 {
    if value.is_finite() { (value * steps).round() / steps } else { 0.0 }
}

fn tenths(value: f64) -> f64 {
    rounded(value, 10.0)
}

fn hundredths(value: f64) -> f64 {
    rounded(value, 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_finite_and_short() {
        assert_eq!((tenths(33.333), hundredths(0.125)), (33.3, 0.13));
        assert_eq!((tenths(f64::NAN), tenths(f64::INFINITY)), (0.0, 0.0));
        assert_eq!((percent(1, 3), percent(1, 0), percent(u64::MAX, u64::MAX)), (33.3, 0.0, 100.0));
    }
}
