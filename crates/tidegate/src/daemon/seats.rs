//! Limits the client connections of one listener: their number, their memory and their idle time.
//!
//! Each open connection occupies a *seat*: one of the descriptors that the listener may use. A
//! connection is *waiting* if its client must act: send the rest of a request, or take the answer.
//! A waiting connection on which no byte moves for [`Limits::idle`] is closed.
//!
//! All seats or all memory may be in use when another connection needs them. Then a waiting
//! connection is closed, once its *grace* ([`Limits::grace`]) is over. Of several such connections,
//! the one whose last byte is oldest is closed first. If a seat is needed, the grace counts from
//! the beginning of the wait. A client that sends a byte now and then thus cannot keep others out.
//! If memory is needed, the grace counts from the last byte, so a transfer in progress is
//! completed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The limits of one listener.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of open connections (seats).
    pub(crate) connections: usize,
    /// Maximum bytes of requests and answers in memory, summed over all connections.
    pub(crate) bytes: usize,
    /// Time that a connection must have waited before it may be closed in favour of another connection.
    pub(crate) grace: Duration,
    /// Time without a byte after which a waiting connection is closed, even if no other connection
    /// needs its seat.
    pub(crate) idle: Duration,
}

impl Limits {
    /// The limits of the control socket, in a process that may open `descriptors`.
    pub(crate) fn control(descriptors: usize) -> Self {
        Self {
            connections: (descriptors / 8).clamp(1, 128),
            // Memory for two requests of the largest size.
            bytes: 2 * crate::files::MOST,
            // With 128 connections freed every 20 ms, 6,400 are served per second. The longest
            // backlog, 4,096, thus takes 0.64 s.
            grace: Duration::from_millis(20),
            // A client on this host that pauses for longer has probably stopped.
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

/// The open connections of a listener.
#[derive(Debug)]
pub(crate) struct Seats {
    limits: Limits,
    taken: Mutex<Taken>,
    /// Notified when a connection ends, starts to wait for its client, or releases memory.
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
    /// The wait for the client. `None` while the gateway works on the request, or while the request
    /// waits for memory.
    waiting: Option<Waiting>,
    /// Time at which the request began to wait for memory.
    holding: Option<Instant>,
    /// The request gets no more memory, because a newer request needs the memory that it occupies.
    refused: bool,
    /// Bytes of the request in memory.
    request: usize,
    /// Bytes of answers in memory that are not sent yet.
    answers: usize,
    /// Notified when the connection must end.
    end: Arc<Notify>,
    ending: bool,
}

/// A wait for the client.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Instant,
    /// Time of the last byte; equal to `since` if no byte has moved.
    moved: Instant,
}

impl Waiting {
    fn begins() -> Self {
        let now = Instant::now();
        Self { since: now, moved: now }
    }
}

/// The seat of one connection. Dropping it frees the seat.
#[derive(Debug)]
pub(crate) struct Connection {
    listener: Arc<Seats>,
    id: u64,
    end: Arc<Notify>,
}

/// Memory counted for an answer. Dropping it releases the memory.
#[derive(Debug)]
pub(crate) struct Charge {
    connection: Arc<Connection>,
    bytes: usize,
}

/// The error of a request for which no memory can be freed.
#[derive(Debug)]
pub(crate) struct Full;

impl Seats {
    /// The state of a listener that has no connections yet.
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default(), changed: Notify::new() })
    }

    /// Waits for a free seat, and takes it.
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
            return Err(taken.make_room(now, self.limits.grace, |it| it.since, |_, _| true));
        }
        let (id, end) = (taken.next, Arc::new(Notify::new()));
        taken.next += 1;
        let waiting = Some(Waiting::begins());
        let seat = Seat {
            waiting,
            holding: None,
            refused: false,
            request: 0,
            answers: 0,
            end: end.clone(),
            ending: false,
        };
        taken.seats.insert(id, seat);
        Ok(Connection { listener: self.clone(), id, end })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of seats and bytes in use.
    #[cfg(test)]
    pub(crate) fn used(&self) -> (usize, usize) {
        let taken = self.lock();
        (taken.seats.len(), taken.bytes)
    }
}

/// The event for which the search for a seat or memory must wait.
#[derive(Clone, Copy, Debug)]
enum Room {
    /// A change: a closed connection has ended, or another connection starts to wait for its
    /// client.
    Changed,
    /// The time from which a waiting connection may be closed.
    At(Instant),
    /// The end of a request in progress. No connection waits for its client, so none can be closed.
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
    /// Closes one waiting connection that `accepts` selects and whose grace is over. Of several,
    /// closes the connection whose last byte is oldest. `start` returns the time from which the
    /// grace counts.
    fn make_room(
        &mut self,
        now: Instant,
        grace: Duration,
        start: impl Fn(&Waiting) -> Instant,
        accepts: impl Fn(u64, &Seat) -> bool,
    ) -> Room {
        if self.seats.values().any(|seat| seat.ending || seat.refused) {
            return Room::Changed;
        }
        let asked = self.seats.iter_mut().filter(|(id, seat)| accepts(**id, seat));
        let waiting = asked.filter_map(|(_, seat)| Some((seat.waiting?, seat)));
        // Connections whose grace is over come first, sorted by the time of their last byte.
        let order = |(wait, _): &(Waiting, &mut Seat)| {
            let over = start(wait) + grace;
            if over > now { (true, over) } else { (false, wait.moved) }
        };
        let Some((wait, seat)) = waiting.min_by_key(order) else { return Room::Busy };
        let over = start(&wait) + grace;
        if over > now {
            return Room::At(over);
        }
        seat.ending = true;
        seat.end.notify_one();
        Room::Changed
    }
}

impl Connection {
    /// Notes that a request has begun or is complete, so the gateway no longer waits for its
    /// client.
    pub(crate) fn works(&self) {
        self.seat(|seat| seat.waiting = None);
    }

    /// Notes that the connection now waits for its client.
    pub(crate) fn waits(&self) {
        self.seat(|seat| seat.waiting = Some(Waiting::begins()));
        self.listener.changed.notify_waiters();
    }

    /// Notes that bytes have moved.
    pub(crate) fn moves(&self) {
        self.seat(|seat| seat.waiting.iter_mut().for_each(|it| it.moved = Instant::now()));
    }

    /// Counts `more` bytes of a request, and waits until there is memory for them. During this
    /// wait, the connection is not closed in favour of another connection, because its client is
    /// not the cause.
    ///
    /// # Errors
    ///
    /// If the gateway works on requests that hold all the memory. If these requests themselves wait
    /// for memory, the request that has waited longest is refused.
    pub(crate) async fn hold(&self, more: usize) -> Result<(), Full> {
        loop {
            let changed = self.listener.changed.notified();
            let held = match self.try_hold(more, Instant::now()) {
                Ok(()) => Ok(()),
                Err(Room::Busy) => Err(Full),
                Err(room) => {
                    room.wait(changed).await;
                    continue;
                }
            };
            let waited = |seat: &mut Seat| {
                seat.refused = false;
                seat.holding.take().is_some()
            };
            if self.seat(waited) {
                self.waits();
            }
            return held;
        }
    }

    fn try_hold(&self, more: usize, now: Instant) -> Result<(), Room> {
        let mut taken = self.listener.lock();
        let fits = taken.bytes + more <= self.listener.limits.bytes;
        let Some(seat) = taken.seats.get_mut(&self.id) else { return Err(Room::Busy) };
        if seat.refused {
            return Err(Room::Busy);
        }
        if fits {
            seat.request += more;
            taken.bytes += more;
            return Ok(());
        }
        seat.waiting = None;
        seat.holding.get_or_insert(now);
        match self.make_room(&mut taken) {
            Room::Busy => Err(self.refuse(&mut taken)),
            room => Err(room),
        }
    }

    /// Of the other requests that hold memory, refuses the request that has waited longest for
    /// more memory.
    fn refuse(&self, taken: &mut Taken) -> Room {
        let others =
            taken.seats.iter_mut().filter(|(id, seat)| **id != self.id && seat.request > 0);
        let holding = others.filter_map(|(_, seat)| Some((seat.holding?, seat)));
        let Some((_, seat)) = holding.min_by_key(|(since, _)| *since) else { return Room::Busy };
        seat.refused = true;
        self.listener.changed.notify_waiters();
        Room::Changed
    }

    /// Notes that the request is complete and has an answer of `bytes` bytes. They count as memory
    /// until the returned value is dropped.
    pub(crate) fn answers(self: &Arc<Self>, bytes: usize) -> Charge {
        self.let_go();
        let mut taken = self.listener.lock();
        // The answer exists already, so its memory is counted even beyond the limit. If necessary,
        // another connection whose client does not take its answer is closed.
        taken.bytes += bytes;
        taken.seats.entry(self.id).and_modify(|seat| seat.answers += bytes);
        if taken.bytes > self.listener.limits.bytes {
            self.make_room(&mut taken);
        }
        drop(taken);
        self.waits();
        Charge { connection: self.clone(), bytes }
    }

    /// Closes another connection that holds memory.
    fn make_room(&self, taken: &mut Taken) -> Room {
        let other = |id, seat: &Seat| id != self.id && seat.request + seat.answers > 0;
        taken.make_room(Instant::now(), self.listener.limits.grace, |it| it.moved, other)
    }

    /// Returns when the connection must be closed: it was idle for too long, or another connection
    /// needs its seat or memory.
    pub(crate) async fn ended(&self) {
        let idle = self.listener.limits.idle;
        loop {
            let moved = || self.seat(|seat| seat.waiting).map(|it| it.moved);
            let at = moved().unwrap_or_else(Instant::now) + idle;
            tokio::select! {
                () = self.end.notified() => return,
                () = sleep_until(at) => {}
            }
            if moved().is_some_and(|moved| moved + idle <= Instant::now()) {
                return;
            }
        }
    }

    /// Releases the memory of the request.
    fn let_go(&self) {
        let mut taken = self.listener.lock();
        let seat = taken.seats.get_mut(&self.id);
        taken.bytes -= seat.map_or(0, |seat| std::mem::take(&mut seat.request));
        self.listener.changed.notify_waiters();
    }

    fn seat<R: Default>(&self, change: impl FnOnce(&mut Seat) -> R) -> R {
        self.listener.lock().seats.get_mut(&self.id).map_or_else(R::default, change)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.let_go();
        self.listener.lock().seats.remove(&self.id);
        self.listener.changed.notify_waiters();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut taken = self.connection.listener.lock();
        taken.bytes -= self.bytes;
        taken.seats.entry(self.connection.id).and_modify(|seat| seat.answers -= self.bytes);
        self.connection.listener.changed.notify_waiters();
    }
}
