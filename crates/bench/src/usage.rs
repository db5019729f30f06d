//! Processor time of processes.

use std::fs;

/// Total processor time in nanoseconds of all threads of `processes`.
pub(crate) fn time_of(processes: &[u32]) -> anyhow::Result<u64> {
    let mut sum = 0;
    for id in processes {
        for thread in fs::read_dir(format!("/proc/{id}/task"))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            sum += text.split_whitespace().next().map_or(Ok(0), str::parse::<u64>)?;
        }
    }
    Ok(sum)
}

/// The kernel's softirq threads.
pub(crate) fn softirq_threads() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_one = |id: &u32| {
        let name = fs::read_to_string(format!("/proc/{id}/comm"));
        name.is_ok_and(|name| name.starts_with("ksoftirqd/"))
    };
    ids.filter(is_one).collect()
}
