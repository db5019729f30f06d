// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fail to wire for AF_XDP: frames go to the gateway's sockets while it lives, else straight across.
 *
 * Loaded once per port, with maps of its own. "Straight across" is a redirect to the interface in
 * `peer`; while that map is empty, because the peer's driver cannot take redirected frames, it is
 * XDP_PASS to the program of swallow.bpf.c, which then redirects on this port.
 */

#include "common.bpf.h"

/* The gateway's sockets, by receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* The port on the other side, at index 0. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} peer SEC(".maps");

SEC("xdp.frags")
int wire(struct xdp_md *frame)
{
	int reason = bypass_reason();

	if (reason == GATEWAY_ALIVE) {
		if (bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_ABORTED) == XDP_REDIRECT)
			return XDP_REDIRECT;
		reason = BYPASS_NO_SOCKET;
	}
	count_bypassed(reason);
	return bpf_redirect_map(&peer, 0, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
