// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fail to wire for AF_PACKET: packet sockets only copy, so the original is dropped here while the
 * gateway lives, else sent straight across.
 *
 * An object of its own: it needs no AF_XDP in the kernel. Runs at tc ingress, after the packet
 * sockets have seen the frame; VLAN tags and segmentation left to do survive the redirect.
 */

#include "common.bpf.h"
#include <linux/pkt_cls.h>

/* Interface index of the port on the other side. */
volatile const __u32 peer;

SEC("classifier")
int swallow(struct __sk_buff *frame __attribute__((unused)))
{
	int reason = bypass_reason();

	if (reason == GATEWAY_ALIVE)
		return TC_ACT_SHOT;
	count_bypassed(reason);
	return bpf_redirect(peer, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
