// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fail to wire for AF_PACKET. A packet socket copies a frame, so this program drops the original while
 * the gateway is alive. Otherwise it redirects the frame to the peer port.
 *
 * A separate object, since it needs no AF_XDP in the kernel. Runs at tc ingress, after the packet
 * sockets. VLAN tags and pending segmentation survive the redirect.
 */

#include "common.bpf.h"
#include <linux/pkt_cls.h>

/* Interface index of the port on the other side. */
volatile const __u32 peer;

/* Attached to the port. */
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

/* In the array `gateway`: drops the original of a frame whose copy the gateway has. */
SEC("classifier")
int tidegate_drop(struct __sk_buff *frame __attribute__((unused)))
{
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
