// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Programs of another vendor, for tests: Tidegate must not remove programs with other names than its own. */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <linux/pkt_cls.h>

SEC("xdp.frags")
int pass_all(struct xdp_md *frame __attribute__((unused)))
{
	return XDP_PASS;
}

SEC("classifier")
int drop_all(struct __sk_buff *frame __attribute__((unused)))
{
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
