//! The connections of one listener: bounded in number, in memory, and in the time that each may waste.
//!
//! A connection is *waiting* while it owes the next bytes of a request, or has not taken its answer.
//! One that waits for [`Limits::idle`] is closed. Where a newer connection needs its descriptor or its
//! memory, the one that has waited longest is closed earlier, after [`Limits::grace`].
//! So idle connections never keep a client out for longer than the grace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What the connections of one listener may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// Bytes of requests and answers that they may hold together.
    pub(crate) bytes: usize,
    /// How long a connection may wait before a newer one can take its place.
    pub(crate) grace: Duration,
    /// How long a connection may wait although nobody needs its place.
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
            // A client on this host that is stopped for longer is no loss.
            idle: Duration::from_secs(10),
        }
    }

    /// The limits of the metrics port, in a process that may open `descriptors`.
    pub(crate) fn metrics(descriptors: usize) -> Self {
        Self { connections: (descriptors / 16).clamp(1, 64), ..Self::control(descriptors) }
    }

    /// How many descriptors this process may open.
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
    /// A connection has ended, or has begun to wait.
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
    /// Since when it waits; `None` while the gateway works on its request.
    waiting: Option<Instant>,
    bytes: usize,
    /// Told when the connection has to end.
    end: Arc<Notify>,
    ending: bool,
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    of: Arc<Seats>,
    id: u64,
    end: Arc<Notify>,
}

/// There is no memory for more of a request.
#[derive(Debug)]
pub(crate) struct Full;

impl Seats {
    /// No connections yet.
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default(), changed: Notify::new() })
    }

    /// A place for a new connection, as soon as there is one.
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

    /// Connections, and the bytes they hold.
    #[cfg(test)]
    pub(crate) fn used(&self) -> (usize, usize) {
        let taken = self.lock();
        (taken.seats.len(), taken.bytes)
    }
}

/// When there is room for something else.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// When a connection ends that has been told to, or begins to wait.
    Changed,
    /// Then a connection may be told to end.
    At(Instant),
    /// Not before the gateway has done some of its work.
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
    /// Of the connections that `which` accepts, ends the one that has waited longest, once its grace is over.
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
    /// The gateway works on its request, which is complete, or has begun.
    pub(crate) fn works(&self) {
        self.seat(|seat| seat.waiting = None);
    }

    /// The next bytes of its request are awaited.
    pub(crate) fn waits(&self) {
        self.seat(|seat| seat.waiting = Some(Instant::now()));
        self.of.changed.notify_waiters();
    }

    /// Counts `more` bytes of a request. Waits while another connection makes room for them.
    ///
    /// # Errors
    ///
    /// If the gateway works on all requests that hold the memory.
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

    /// The request is done. The client has to take an answer of `bytes` now.
    pub(crate) fn answers(&self, bytes: usize) {
        self.let_go();
        let mut taken = self.of.lock();
        // The answer exists and is sent; an older one that nobody takes makes room for it.
        taken.add(self.id, bytes);
        if taken.bytes > self.of.limits.bytes {
            self.make_room(&mut taken);
        }
        drop(taken);
        self.waits();
    }

    /// Tells another connection that holds memory to end.
    fn make_room(&self, taken: &mut Taken) -> Room {
        let other = |id, seat: &Seat| id != self.id && seat.bytes > 0;
        taken.make_room(Instant::now(), self.of.limits.grace, other)
    }

    /// Returns when the connection has to end: it has waited too long, or another needs its place.
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

    /// It holds nothing any more.
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
