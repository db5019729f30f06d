// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fail to wire for AF_PACKET. The gateway's packet socket gets a copy of each frame. While the gateway
 * is alive, this program drops the original. Otherwise it redirects the original to the peer port.
 *
 * The program runs at tc ingress, after the packet sockets. VLAN tags and pending segmentation survive
 * the redirect. It is a separate object, because it also works on kernels without AF_XDP.
 */

#include "common.bpf.h"
#include <linux/pkt_cls.h>

/* Interface index of the peer port. */
volatile const __u32 peer;

/* This program is attached to the port. */
SEC("classifier")
int tidegate_tc(struct __sk_buff *frame)
{
	int reason = bypass_reason();

	if (reason == GATEWAY_ALIVE) {
		bpf_tail_call(frame, &gateway, 0);
		reason = BYPASS_NO_SOCKET;
	}
	count_bypassed(reason, frame->len);
	return bpf_redirect(peer, 0);
}

/* This program is in the array `gateway`. It drops the original of a frame whose copy the gateway has. */
SEC("classifier")
int tidegate_drop(struct __sk_buff *frame __attribute__((unused)))
{
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
