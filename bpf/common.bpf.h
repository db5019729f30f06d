/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The gateway's signs of life, and the count of frames that went straight across. */

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
	__type(value, __u64);
} bypassed SEC(".maps");

/* The program for frames that the gateway handles, at index 0.
 *
 * Only the gateway holds a descriptor of this array, and the kernel empties a program array when its
 * last descriptor closes. So the array is empty as soon as the gateway has died, however it died.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} gateway SEC(".maps");

enum { GATEWAY_ALIVE = -1 };

/* GATEWAY_ALIVE, or the reason why frames go straight across. */
static __always_inline int bypass_reason(void)
{
	const __u32 only = 0;
	const struct life *word = bpf_map_lookup_elem(&life, &only);

	if (!word || word->alive_until == TOLD_TO_PASS)
		return BYPASS_TOLD;
	if (bpf_ktime_get_ns() >= word->alive_until)
		return BYPASS_SILENT;
	return GATEWAY_ALIVE;
}

static __always_inline void count_bypassed(__u32 reason)
{
	__u64 *count = bpf_map_lookup_elem(&bypassed, &reason);

	if (count)
		*count += 1;
}

#endif
