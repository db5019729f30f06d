//! The simulator as a Python module: takes the text of a scenario, returns columns of numbers. The
//! Python package around it is in `python/`.

use std::ops::ControlFlow;
use std::path::Path;

use numpy::IntoPyArray;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tidegate_config::{Diagnostic, Findings, Severity};
use tidegate_scenario::scenario;
use tidegate_sim::scenario::Problem;
use tidegate_sim::table::{Table, Values};
use tidegate_sim::{Results, Scenario, Simulation};

create_exception!(tidegate, Invalid, PyException, "A scenario that cannot be simulated.");

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{Invalid, check, run, to_toml};
}

/// Simulates the scenario in `text` with this seed. Returns the measured columns, by table and
/// column name.
#[pyfunction]
fn run<'py>(py: Python<'py>, text: &str, seed: u64) -> PyResult<Bound<'py, PyDict>> {
    let mut scenario = read(text)?;
    scenario.run.seed = seed;
    let results = py.detach(|| simulate(&scenario))?;
    let tables = PyDict::new(py);
    for table in results.tables {
        tables.set_item(table.name.clone(), columns(py, table)?)?;
    }
    Ok(tables)
}

/// Raises `Invalid` if the scenario in `text` cannot be simulated.
#[pyfunction]
fn check(text: &str) -> PyResult<()> {
    read(text).map(drop)
}

/// Converts a JSON object to TOML.
#[pyfunction]
fn to_toml(json: &str) -> PyResult<String> {
    let tables: toml::Table =
        serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))?;
    toml::to_string(&tables).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn read(text: &str) -> PyResult<Scenario> {
    let mut fetch =
        |path: &str| std::fs::read_to_string(Path::new(path)).map_err(|e| e.to_string());
    let (scenario, found) = scenario::parse("scenario", text, &mut fetch);
    scenario.ok_or_else(|| Invalid::new_err(explain(&found)))
}

/// One line of text for each error: its field, the fault, and the text to write instead.
fn explain(found: &Findings) -> String {
    let line = |(it, field): (&Diagnostic, String)| {
        let place = if field.is_empty() { String::new() } else { format!("{field}: ") };
        let help = if it.help.is_empty() { String::new() } else { format!("; {}", it.help) };
        format!("{place}{}{help} ({})", it.message, it.code.name())
    };
    let all = found.iter().zip(found.fields());
    all.filter(|(it, _)| it.severity == Severity::Error).map(line).collect::<Vec<_>>().join("\n")
}

fn simulate(scenario: &Scenario) -> PyResult<Results> {
    // The exception of a signal handler: of the user's own handler, or Python's
    // `KeyboardInterrupt`.
    let mut raised = None;
    let look = |_| match Python::attach(|py| py.check_signals()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            raised = Some(error);
            ControlFlow::Break(())
        }
    };
    let lines = |problems: Vec<Problem>| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Invalid::new_err(lines.join("\n"))
    };
    let simulation = Simulation::new(scenario).map_err(lines)?;
    let results = simulation.run(look);
    results.map_err(|stopped| raised.unwrap_or_else(|| PyOSError::new_err(stopped.to_string())))
}

fn columns(py: Python<'_>, table: Table) -> PyResult<Bound<'_, PyDict>> {
    let columns = PyDict::new(py);
    for column in table.columns().to_vec() {
        match column.values {
            Values::Text(values) => columns.set_item(column.name, PyList::new(py, values)?)?,
            Values::Whole(values) => columns.set_item(column.name, values.into_pyarray(py))?,
            Values::Real(values) => columns.set_item(column.name, values.into_pyarray(py))?,
        }
    }
    Ok(columns)
}
