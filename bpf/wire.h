/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs and the gateway agree on.
 *
 * crates/dataplane/src/fail_to_wire/layout.rs says the same in Rust; a test holds the two equal.
 */

#ifndef TIDEGATE_WIRE_H
#define TIDEGATE_WIRE_H

/* Most receive queues of one interface. */
#define MAX_QUEUES 64

/* `struct life.alive_until` when frames are to go straight across because the gateway says so. */
#define TOLD_TO_PASS 0

/* Why a frame went straight across: index into the map `bypassed`. */
#define BYPASS_TOLD 0      /* the gateway said so */
#define BYPASS_SILENT 1    /* no sign of life from the gateway in time */
#define BYPASS_NO_SOCKET 2 /* the gateway has no socket for the receive queue, or has gone */
#define BYPASS_REASONS 3

/* The one entry of the map `life`; the gateway maps it into its memory and just stores. */
struct life {
	/* Until when the gateway counts as alive, in ns of CLOCK_MONOTONIC. */
	unsigned long long alive_until;
};

#endif
