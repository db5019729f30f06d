//! A lab is a test network on this host: hosts in network namespaces, gateways in front of some of
//! them, and an emulated network between all.
//!
//! Each part of a lab is recorded before it is created. If a lab crashes, the next lab that is
//! built removes its remains.

mod build;
mod emulate;
mod prepare;
mod process;
mod rootless;
mod state;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use emulate::{Emulated, RouteChange, emulate};
pub use prepare::prepare;
pub use process::Process;
pub use rootless::{LabRecords, inside};

use self::state::State;
use crate::code::Code;
use crate::output::Failure;
use crate::topology::{PolicyFile, Topology};

/// A lab that is running (*up*).
#[derive(Debug)]
pub struct Lab {
    records: LabRecords,
    folder: PathBuf,
    state: State,
    /// The processes of the lab end when the thread that started the lab ends.
    owned: bool,
}

impl Lab {
    /// Builds `topology` as a lab called `name`. `text` is the content of the topology file, which
    /// is in the directory `home`.
    ///
    /// First removes the remains of labs whose owning process has ended. If `owned` is set, the lab
    /// belongs to this process. The lab's processes then end with the thread that started it, even
    /// if that thread is killed. Otherwise the lab stays up until [`down`](Self::down).
    ///
    /// # Errors
    ///
    /// If a lab of that name is up, or if the host cannot run the lab. All parts of the failed lab
    /// are removed.
    pub fn up(
        records: &LabRecords,
        name: &str,
        topology: &Topology,
        text: &str,
        home: &Path,
        owned: bool,
    ) -> anyhow::Result<Self> {
        Self::sweep(records)?;
        let state = State::new(name, topology);
        let folder = records.folder(name, |folder| state.write(folder))?;
        let mut lab = Self { records: records.clone(), folder, state, owned };
        match lab.build(topology, text, home) {
            Ok(()) => Ok(lab),
            Err(error) => {
                lab.down()?;
                Err(error)
            }
        }
    }

    /// Finds the lab called `name`. Without a name, finds the only lab that stays up until
    /// [`down`](Self::down).
    ///
    /// # Errors
    ///
    /// If no such lab is up, or if several are.
    pub fn find(records: &LabRecords, name: Option<&str>) -> anyhow::Result<Self> {
        let mut labs = Self::all(records)?;
        // Labs that end with their process, such as demonstrations, are found only by their names.
        labs.retain(|lab| match name {
            Some(name) => name == lab.state.name,
            None => lab.state.stands_alone(),
        });
        let names: Vec<_> = labs.iter().map(|lab| lab.state.name.clone()).collect();
        match (labs.pop(), names.as_slice()) {
            (Some(lab), [_]) => Ok(lab),
            (None, _) => {
                let name = name.map_or_else(String::new, |name| format!(" called `{name}`"));
                Err(Failure::new(Code::NoLab, format!("no lab{name} is up")).into())
            }
            _ => {
                let message = format!("several labs are up: {}", names.join(", "));
                let failure = Failure::input(Code::NoLab, message);
                Err(Failure { help: "name one with --lab".to_owned(), ..failure }.into())
            }
        }
    }

    /// The lab's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// A command that runs on a host or gateway of the lab, or in the namespace of its network.
    ///
    /// # Errors
    ///
    /// If the lab has no such host.
    pub fn command(&self, host: &str, program: impl AsRef<Path>) -> Result<Command, Failure> {
        let Some(namespace) = self.state.namespace(host) else {
            let message = format!("the lab `{}` has no host `{host}`", self.state.name);
            let help = format!("there are: {}", self.state.hosts().join(", "));
            return Err(Failure { help, ..Failure::input(Code::NoLab, message) });
        };
        let mut command = Command::new("ip");
        if self.owned {
            command = process::bound(&command);
        }
        command.args(["netns", "exec", &namespace]).arg(program.as_ref());
        Ok(command)
    }

    /// Replaces this process by `command`, run on `host`. Returns only if this fails.
    pub fn exec(&self, host: &str, command: &[String]) -> anyhow::Error {
        let Some((program, args)) = command.split_first() else {
            return Failure::input(Code::NoLab, "no command to run").into();
        };
        let inner = match self.command(host, program) {
            Ok(inner) => inner,
            Err(failure) => return failure.into(),
        };
        // Without root, the lab is in the namespaces of its owner. The command enters these
        // namespaces first.
        let mut outer = match &self.state.holder {
            Some(holder) => holder.enter(&inner),
            None => inner,
        };
        outer.args(args).exec().into()
    }

    /// The state of the emulated network.
    ///
    /// # Errors
    ///
    /// If the emulator does not answer.
    pub fn network(&self) -> anyhow::Result<Emulated> {
        self.ask_network(None)?.ok_or_else(|| anyhow::anyhow!("the emulator does not answer"))
    }

    /// Changes a route of the emulated network. Returns the state after the change.
    ///
    /// # Errors
    ///
    /// If the route does not exist, if `change` sets a rate but the route has none, or if the
    /// emulator does not answer.
    pub fn change(&self, change: &RouteChange) -> anyhow::Result<Emulated> {
        let refused = || {
            let message = format!(
                "route {} of the lab `{}` cannot be changed like that",
                change.route, self.state.name
            );
            let help =
                "count the [[route]] tables of its file from 1; one without a `rate` gets none";
            Failure { help: help.to_owned(), ..Failure::input(Code::NoLab, message) }
        };
        Ok(self.ask_network(Some(change))?.ok_or_else(refused)?)
    }

    fn ask_network(&self, change: Option<&RouteChange>) -> anyhow::Result<Option<Emulated>> {
        emulate::ask(&self.folder.join(EMULATOR_SOCKET), change)
    }

    /// The path of a gateway's control socket.
    #[must_use]
    pub fn socket(&self, gateway: &str) -> PathBuf {
        self.folder.join(format!("{gateway}.sock"))
    }

    /// Ends the lab's processes and removes its namespaces, as far as they still exist.
    ///
    /// # Errors
    ///
    /// If a part of the lab cannot be removed.
    pub fn down(self) -> anyhow::Result<()> {
        let _alone = self.records.lock()?;
        if self.folder.exists() { self.remove() } else { Ok(()) }
    }

    fn remove(&self) -> anyhow::Result<()> {
        let inside = process::inside(self.state.holder, &self.state.namespaces);
        process::end(&[self.state.processes.as_slice(), &inside].concat());
        build::remove(self.state.namespaces_here(rootless::is_inside()))?;
        fs::remove_dir_all(&self.folder)?;
        Ok(())
    }

    /// Removes the remains of labs whose owning process has ended.
    fn sweep(records: &LabRecords) -> anyhow::Result<()> {
        let _alone = records.lock()?;
        for lab in Self::all(records)? {
            if !lab.state.owner.is_alive() {
                lab.remove()?;
            }
        }
        Ok(())
    }

    fn all(records: &LabRecords) -> anyhow::Result<Vec<Self>> {
        let mut labs = Vec::new();
        for folder in records.folders()? {
            // Another process may have taken this lab down meanwhile.
            if let Ok(state) = State::read(&folder) {
                labs.push(Self { records: records.clone(), folder, state, owned: false });
            }
        }
        Ok(labs)
    }

    fn write(&self) -> anyhow::Result<()> {
        self.state.write(&self.folder)
    }

    fn build(&mut self, topology: &Topology, text: &str, home: &Path) -> anyhow::Result<()> {
        let policies = self.policies(topology, home)?;
        let file = self.folder.join("topology.toml");
        fs::write(&file, text)?;
        build::network(topology, &self.state, &policies)?;
        self.start_emulator(topology, &file)?;
        for (gateway, policy) in topology.gateways.iter().zip(policies) {
            self.start_gateway(&gateway.name, &policy.file)?;
        }
        Ok(())
    }

    /// The policy file of each gateway, and the names of the ports in it.
    fn policies(&self, topology: &Topology, home: &Path) -> anyhow::Result<Vec<build::Policy>> {
        let read = |gateway: &crate::topology::Gateway| -> anyhow::Result<build::Policy> {
            let file = match &gateway.policy {
                PolicyFile::Path(path) => home.join(path),
                PolicyFile::Inline(text) => {
                    let file = self.folder.join(format!("{}.toml", gateway.name));
                    fs::write(&file, text)?;
                    file
                }
            };
            build::Policy::read(&gateway.name, std::path::absolute(file)?)
        };
        topology.gateways.iter().map(read).collect()
    }

    fn start_emulator(&mut self, topology: &Topology, file: &Path) -> anyhow::Result<()> {
        let mut command = self.command(state::NETWORK, process::this_program()?)?;
        command.args(["lab", "emulate"]).arg(file).arg(self.folder.join(EMULATOR_SOCKET));
        let ports = topology.ports().len();
        command.args((0..ports).map(build::port));
        let emulator = process::start(&mut command, &self.log("emulator"))?;
        if !self.owned {
            self.state.owner = emulator;
        }
        self.state.holder = rootless::is_inside().then_some(emulator);
        self.state.processes.push(emulator);
        self.write()?;
        let ready = || self.network().is_ok();
        process::wait_for("the emulator", emulator, &self.log("emulator"), ready)
    }

    fn start_gateway(&mut self, name: &str, policy: &Path) -> anyhow::Result<()> {
        let socket = self.socket(name);
        let mut command = self.command(name, process::this_program()?)?;
        command.arg("--socket").arg(&socket).arg("run").arg(policy);
        let gateway = process::start(&mut command, &self.log(name))?;
        self.state.processes.push(gateway);
        self.write()?;
        let ready = || crate::client::get::<crate::api::Status>(&socket, "/v1/status").is_ok();
        process::wait_for("the gateway", gateway, &self.log(name), ready)
    }

    fn log(&self, process_name: &str) -> PathBuf {
        self.folder.join(format!("{process_name}.log"))
    }
}

const EMULATOR_SOCKET: &str = "emulator.sock";
