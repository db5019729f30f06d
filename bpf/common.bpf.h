/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Tests whether the gateway is alive, and counts the frames that bypass it. */

#ifndef TIDEGATE_COMMON_BPF_H
#define TIDEGATE_COMMON_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "wire.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct life);
} life SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BYPASS_REASONS);
	__type(key, __u32);
	__type(value, struct count);
} bypassed SEC(".maps");

/* Index 0 holds the program that hands frames to the gateway.
 *
 * Only the gateway has a descriptor of this array. The kernel empties a program array when its last
 * descriptor closes, so the array is empty however the gateway dies.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} gateway SEC(".maps");

enum { GATEWAY_ALIVE = -1 };

/* GATEWAY_ALIVE, or the reason for a bypass. */
static __always_inline int bypass_reason(void)
{
	const __u32 only = 0;
	const struct life *word = bpf_map_lookup_elem(&life, &only);

	if (!word || word->alive_until == PASS_REQUESTED)
		return BYPASS_REQUESTED;
	if (word->alive_until == NOTHING_TO_MANAGE)
		return BYPASS_IDLE;
	if (bpf_ktime_get_ns() >= word->alive_until)
		return BYPASS_SILENT;
	return GATEWAY_ALIVE;
}

static __always_inline void count_bypassed(__u32 reason, __u64 bytes)
{
	struct count *count = bpf_map_lookup_elem(&bypassed, &reason);

	if (!count)
		return;
	count->frames += 1;
	count->bytes += bytes;
}

#endif
