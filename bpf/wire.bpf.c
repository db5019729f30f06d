// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fail to wire for AF_XDP. Frames go to the gateway's sockets while it is alive, else to the peer port.
 *
 * The object is loaded once per port, with separate maps. A bypassed frame is redirected to the interface
 * in `peer`. If the driver of the peer cannot transmit redirected frames, that map stays empty. The frame
 * then passes to the program of swallow.bpf.c on this port, which redirects it.
 */

#include "common.bpf.h"

/* The gateway's sockets, by receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

/* The peer port, at index 0. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct bpf_devmap_val);
} peer SEC(".maps");

static __always_inline int across(struct xdp_md *frame, __u32 reason)
{
	count_bypassed(reason, bpf_xdp_get_buff_len(frame));
	return bpf_redirect_map(&peer, 0, XDP_PASS);
}

/* This program is attached to the port. */
SEC("xdp.frags")
int tidegate_xdp(struct xdp_md *frame)
{
	int reason = bypass_reason();

	if (reason != GATEWAY_ALIVE)
		return across(frame, reason);
	bpf_tail_call(frame, &gateway, 0);
	return across(frame, BYPASS_NO_SOCKET);
}

/* This program is in the array `gateway`. It redirects the frame to the gateway's socket. */
SEC("xdp.frags")
int tidegate_take(struct xdp_md *frame)
{
	if (bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_ABORTED) == XDP_REDIRECT)
		return XDP_REDIRECT;
	return across(frame, BYPASS_NO_SOCKET);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
