/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Constants and types shared by the BPF programs and the gateway.
 *
 * crates/dataplane/src/fail_to_wire/layout.rs repeats them in Rust; a test compares the two.
 */

#ifndef TIDEGATE_WIRE_H
#define TIDEGATE_WIRE_H

/* Maximum number of receive queues of an interface. */
#define MAX_QUEUES 64

/* Values of `struct life.alive_until` by which the gateway requests bypass. */
#define PASS_REQUESTED 0    /* while it starts, ends, or is stopped */
#define NOTHING_TO_MANAGE 1 /* without policies, rates and trunks */

/* Reasons for a bypass, which are indexes into the map `bypassed`. */
#define BYPASS_REQUESTED 0 /* requested by a gateway that starts, ends, or is stopped */
#define BYPASS_SILENT 1    /* the heartbeat has timed out */
#define BYPASS_NO_SOCKET 2 /* the gateway is dead, or has no socket for the receive queue */
#define BYPASS_IDLE 3      /* requested by a gateway without anything to manage */
#define BYPASS_REASONS 4

/* Number of bypassed frames, and their bytes from the Ethernet header on. */
struct count {
	unsigned long long frames;
	unsigned long long bytes;
};

/* The only entry of the map `life`. The gateway maps this memory and writes it by plain stores. */
struct life {
	/* Time until which the gateway counts as alive, in ns of CLOCK_MONOTONIC. */
	unsigned long long alive_until;
	/* Counts of earlier programs on this port, by reason. The BPF programs do not read them. */
	struct count carried[BYPASS_REASONS];
};

#endif
