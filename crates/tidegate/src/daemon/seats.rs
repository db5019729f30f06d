//! Bounds the connections of one listener: their number, their memory and their idle time.
//!
//! A connection is *waiting* while its client has not sent the next bytes of a request, or has not
//! read the answer. It is closed after waiting for [`Limits::idle`]. If a new connection needs its
//! descriptor or memory, the connection that has waited longest is closed after [`Limits::grace`].
//! Idle connections therefore delay a new client by at most the grace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Limits for the connections of one listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of open connections.
    pub(crate) connections: usize,
    /// Maximum bytes of requests and answers in memory, over all connections.
    pub(crate) bytes: usize,
    /// Waiting time after which a connection may be closed in favour of a new one.
    pub(crate) grace: Duration,
    /// Waiting time after which a connection is closed in any case.
    pub(crate) idle: Duration,
}

impl Limits {
    /// The limits of the control socket, in a process that may open `descriptors`.
    pub(crate) fn control(descriptors: usize) -> Self {
        Self {
            connections: (descriptors / 8).clamp(1, 128),
            // Two of the largest requests.
            bytes: 2 * crate::files::MOST,
            // 128 connections in 20 ms are 6,400/s: the longest backlog, 4,096, takes 0.64 s.
            grace: Duration::from_millis(20),
            // A client on this host that pauses for longer has stopped.
            idle: Duration::from_secs(10),
        }
    }

    /// The limits of the metrics port, in a process that may open `descriptors`.
    pub(crate) fn metrics(descriptors: usize) -> Self {
        Self { connections: (descriptors / 16).clamp(1, 64), ..Self::control(descriptors) }
    }

    /// The descriptor limit of the process (`RLIMIT_NOFILE`).
    pub(crate) fn descriptors() -> usize {
        let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1_024, |(soft, _)| soft);
        usize::try_from(limit).unwrap_or(usize::MAX)
    }
}

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Seats {
    limits: Limits,
    taken: Mutex<Taken>,
    /// Notified when a connection ends, begins to wait, or releases memory.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    seats: BTreeMap<u64, Seat>,
    bytes: usize,
}

#[derive(Debug)]
struct Seat {
    /// Beginning of the wait; `None` while the gateway processes its request.
    waiting: Option<Instant>,
    bytes: usize,
    /// Notified when the connection has to end.
    end: Arc<Notify>,
    ending: bool,
}

/// An open connection. Dropping the value frees the seat and its memory.
#[derive(Debug)]
pub(crate) struct Connection {
    of: Arc<Seats>,
    id: u64,
    end: Arc<Notify>,
}

/// The error of a request for which no memory can be freed.
#[derive(Debug)]
pub(crate) struct Full;

impl Seats {
    /// No connections yet.
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default(), changed: Notify::new() })
    }

    /// Waits for a free seat and takes it.
    pub(crate) async fn take(self: &Arc<Self>) -> Connection {
        loop {
            let changed = self.changed.notified();
            let room = match self.try_take(Instant::now()) {
                Ok(connection) => return connection,
                Err(room) => room,
            };
            room.wait(changed).await;
        }
    }

    fn try_take(self: &Arc<Self>, now: Instant) -> Result<Connection, Room> {
        let mut taken = self.lock();
        if taken.seats.len() >= self.limits.connections {
            return Err(taken.make_room(now, self.limits.grace, |_, _| true));
        }
        let (id, end) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        let seat = Seat { waiting: Some(now), bytes: 0, end: end.clone(), ending: false };
        taken.seats.insert(id, seat);
        Ok(Connection { of: self.clone(), id, end })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of connections and bytes in use.
    #[cfg(test)]
    pub(crate) fn used(&self) -> (usize, usize) {
        let taken = self.lock();
        (taken.seats.len(), taken.bytes)
    }
}

/// The event that can free a seat or memory.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// The end of a connection that has been notified.
    Changed,
    /// The end of a connection's grace, at this time.
    At(Instant),
    /// The end of a request in progress: no connection is waiting.
    Busy,
}

impl Room {
    async fn wait(self, changed: impl Future<Output = ()>) {
        match self {
            Self::At(at) => tokio::select! { () = changed => {}, () = sleep_until(at) => {} },
            Self::Changed | Self::Busy => changed.await,
        }
    }
}

impl Taken {
    /// Ends the connection that has waited longest among those accepted by `which`, once its grace is
    /// over. Ends no second connection before the first has ended.
    fn make_room(
        &mut self,
        now: Instant,
        grace: Duration,
        which: impl Fn(u64, &Seat) -> bool,
    ) -> Room {
        if self.seats.values().any(|seat| seat.ending) {
            return Room::Changed;
        }
        let asked = self.seats.iter_mut().filter(|(id, seat)| which(**id, seat));
        let waiting = asked.filter_map(|(_, seat)| Some((seat.waiting?, seat)));
        let Some((since, seat)) = waiting.min_by_key(|(since, _)| *since) else {
            return Room::Busy;
        };
        if since + grace > now {
            return Room::At(since + grace);
        }
        seat.ending = true;
        seat.end.notify_one();
        Room::Changed
    }

    fn add(&mut self, id: u64, bytes: usize) {
        self.bytes += bytes;
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.bytes += bytes;
        }
    }
}

impl Connection {
    /// Marks the connection as not waiting: a request has begun, or is complete.
    pub(crate) fn works(&self) {
        self.seat(|seat| seat.waiting = None);
    }

    /// Marks the connection as waiting for its client.
    pub(crate) fn waits(&self) {
        self.seat(|seat| seat.waiting = Some(Instant::now()));
        self.of.changed.notify_waiters();
    }

    /// Reserves `more` bytes for a request. Waits until other connections have released enough memory.
    ///
    /// # Errors
    ///
    /// If all requests that hold memory are in progress.
    pub(crate) async fn hold(&self, more: usize) -> Result<(), Full> {
        loop {
            let changed = self.of.changed.notified();
            let room = {
                let mut taken = self.of.lock();
                if taken.bytes + more <= self.of.limits.bytes {
                    taken.add(self.id, more);
                    return Ok(());
                }
                self.make_room(&mut taken)
            };
            match room {
                Room::Busy => return Err(Full),
                _ => room.wait(changed).await,
            }
        }
    }

    /// Releases the memory of the request, and waits for the client to read an answer of `bytes`.
    pub(crate) fn answers(&self, bytes: usize) {
        self.let_go();
        let mut taken = self.of.lock();
        // The answer is in memory already. If it exceeds the limit, another waiting connection ends.
        taken.add(self.id, bytes);
        if taken.bytes > self.of.limits.bytes {
            self.make_room(&mut taken);
        }
        drop(taken);
        self.waits();
    }

    /// Ends another connection that holds memory.
    fn make_room(&self, taken: &mut Taken) -> Room {
        let other = |id, seat: &Seat| id != self.id && seat.bytes > 0;
        taken.make_room(Instant::now(), self.of.limits.grace, other)
    }

    /// Returns when the connection has to end: it has idled too long, or a newer one needs its resources.
    pub(crate) async fn ended(&self) {
        let idle = self.of.limits.idle;
        loop {
            let at = self.seat(|seat| seat.waiting).unwrap_or_else(Instant::now) + idle;
            tokio::select! {
                () = self.end.notified() => return,
                () = sleep_until(at) => {}
            }
            if self.seat(|seat| seat.waiting).is_some_and(|since| since + idle <= Instant::now()) {
                return;
            }
        }
    }

    /// Releases the memory of the connection.
    fn let_go(&self) {
        let mut taken = self.of.lock();
        let held = taken.seats.get_mut(&self.id).map_or(0, |seat| std::mem::take(&mut seat.bytes));
        taken.bytes -= held;
        self.of.changed.notify_waiters();
    }

    fn seat<R: Default>(&self, what: impl FnOnce(&mut Seat) -> R) -> R {
        self.of.lock().seats.get_mut(&self.id).map_or_else(R::default, what)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.let_go();
        self.of.lock().seats.remove(&self.id);
        self.of.changed.notify_waiters();
    }
}
