/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The contract between the programs and the gateway.
 *
 * crates/dataplane/src/fail_to_wire/layout.rs states the same in Rust; a test holds the two equal.
 */

#ifndef TIDEGATE_WIRE_H
#define TIDEGATE_WIRE_H

/* Most receive queues of one interface. */
#define MAX_QUEUES 64

/* Value of `struct life.alive_until` while the gateway tells frames to go straight across. */
#define TOLD_TO_PASS 0

/* Reasons why a frame went straight across: index into the map `bypassed`. */
#define BYPASS_TOLD 0      /* the gateway said so */
#define BYPASS_SILENT 1    /* no sign of life from the gateway in time */
#define BYPASS_NO_SOCKET 2 /* the gateway has died, or has no socket for the receive queue */
#define BYPASS_REASONS 3

/* The one entry of the map `life`. The gateway maps it into its memory and writes it by plain stores. */
struct life {
	/* Time until which the gateway counts as alive, in ns of CLOCK_MONOTONIC. */
	unsigned long long alive_until;
	/* Counts of the programs that stood here before, by reason. The programs never read them. */
	unsigned long long carried[BYPASS_REASONS];
};

#endif
