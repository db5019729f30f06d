# Classes with guarantees, scheduled by the authors' JoBS in ns-2, in one of two networks.
#
#   ns jobs.tcl network=cn2002|exp2 trace=FILE [name=value ...]
#
# Writes the enqueue (+), dequeue (-) and drop (d) events of the first JoBS link to FILE. The flow
# number of a packet (fid) is its class. Options that are not set here are ns-2's defaults.
#
# cn2002: four routers in a row, cross traffic at each of the three hops, and user flows over all
# hops. The authors' script has a buffer of 800 packets, most of them UDP packets of 210 bytes. Here
# all packets have 500 bytes, and the buffer holds 400.
# exp2: experiment 2 of the paper `marking` without its marking.

array set opt {
    network cn2002  trace ""  seed 1  until 70  rdc 4  rlc 2  flows ""
}
foreach word $argv {
    lassign [split $word =] name value
    if {![info exists opt($name)]} { puts stderr "jobs.tcl: no option $name"; exit 2 }
    set opt($name) $value
}

# One-way TCP agents add a header of 40 bytes.
set wire 500
Agent/TCP set packetSize_ [expr {$wire - 40}]
Agent/TCP set minrto_ 1.0
Agent/TCP set ecn_ 1
Queue set limit_ 100000
Queue/JoBS set drop_front_ false
Queue/JoBS set trace_hop_ false
Queue/JoBS set adc_resolution_type_ 0
Queue/JoBS set shared_buffer_ 1
Queue/JoBS set mean_pkt_size_ [expr {8 * $wire}]

set ns [new Simulator]
$defaultRNG seed $opt(seed)

# A link with JoBS in one direction. ACKs in the other direction have a queue that never fills.
proc jobs_link {from to rate delay packets terms} {
    global ns
    $ns simplex-link $from $to $rate $delay JoBS
    $ns simplex-link $to $from $rate $delay DropTail
    set link [$ns link $from $to]
    set queue [$link queue]
    $queue set limit_ $packets
    foreach {name values} $terms { $queue init-$name {*}$values }
    $queue link [$link link]
    $queue sampling-period 1
    $queue id 1
    $queue initialize
}

# A TCP flow of a class; returns its sender.
proc tcp {source destination class window initial delayed} {
    global ns
    set tcp [new Agent/TCP/Newreno]
    set sink [expr {$delayed ? [new Agent/TCPSink/DelAck] : [new Agent/TCPSink]}]
    $tcp set window_ $window
    $tcp set windowInit_ $initial
    foreach agent [list $tcp $sink] {
        $agent set prio_ $class
        $agent set fid_ $class
    }
    $ns attach-agent $source $tcp
    $ns attach-agent $destination $sink
    $ns connect $tcp $sink
    return $tcp
}

# A UDP flow of a class that sends in bursts of Pareto-distributed length.
proc pareto {source destination class rate on off start} {
    global ns wire
    set udp [new Agent/UDP]
    $udp set prio_ $class
    $udp set fid_ $class
    set sink [new Agent/Null]
    $ns attach-agent $source $udp
    $ns attach-agent $destination $sink
    $ns connect $udp $sink
    set bursts [new Application/Traffic/Pareto]
    $bursts set packetSize_ $wire
    $bursts set rate_ $rate
    $bursts set burst_time_ $on
    $bursts set idle_time_ $off
    $bursts set shape_ 1.9
    $bursts attach-agent $udp
    $ns at $start "$bursts start"
}

# Gives a flow its next burst. In `cn2002`, the pause before the following burst begins at once. In
# `exp2`, it begins when the burst is acknowledged.
proc burst {tcp} {
    global packets opt
    $tcp advanceby [expr {max(1, int(ceil([$packets value])))}]
    if {$opt(network) eq "cn2002"} { pause $tcp }
}
proc pause {tcp} {
    global ns pauses
    $ns at [expr {[$ns now] + [$pauses value]}] "burst $tcp"
}
# ns-2 calls this when all data is acknowledged.
Agent/TCP instproc done {} {
    global opt
    if {$opt(network) eq "exp2"} { pause $self }
}

set pauses [new RandomVariable/Exponential]

proc cn2002 {} {
    global ns opt packets pauses
    set packets [new RandomVariable/Uniform]
    $packets set min_ 300
    $packets set max_ 1000
    $pauses set avg_ 0.2
    for {set n 0} {$n < 4} {incr n} { set router($n) [$ns node] }
    set terms [list rdcs [list -1 $opt(rdc) $opt(rdc) $opt(rdc)] \
        rlcs [list -1 $opt(rlc) $opt(rlc) $opt(rlc)] \
        alcs {0.005 -1 -1 -1} adcs {0.002 -1 -1 -1} arcs {-1 -1 -1 -1}]
    for {set hop 0} {$hop < 3} {incr hop} {
        set next [expr {$hop + 1}]
        jobs_link $router($hop) $router($next) 45Mb 3ms 400 $terms
        foreach class {1 2 2 3 3 3 4 4 4 4} {
            set source [$ns node]
            set destination [$ns node]
            $ns duplex-link $source $router($hop) 10Mb 1ms DropTail
            $ns duplex-link $router($next) $destination 10Mb 1ms DropTail
            if {$class < 4} {
                set tcp [tcp $source $destination $class 50 2 1]
                $ns at 0 "pause $tcp"
            } else {
                pareto $source $destination $class 2.2Mb 120ms 100ms 0
            }
        }
    }
    foreach class {1 2 3 4} {
        set source [$ns node]
        set destination [$ns node]
        $ns duplex-link $source $router(0) 100Mb 1ms DropTail
        $ns duplex-link $router(3) $destination 100Mb 1ms DropTail
        if {$class < 4} {
            set tcp [tcp $source $destination $class 50 2 1]
            $ns at 10 "$tcp advanceby 100000000"
        } else {
            pareto $source $destination $class 5Mb 10ms 10ms 10
        }
    }
    return [list $router(0) $router(1)]
}

# `flows` has a line for each flow: class, base round-trip time in s, greedy | onoff.
proc exp2 {} {
    global ns opt packets pauses
    set packets [new RandomVariable/Exponential]
    $packets set avg_ 300
    $pauses set avg_ 1
    set near [$ns node]
    set far [$ns node]
    jobs_link $near $far 45Mb 0 500 [list rdcs [list -1 $opt(rdc) $opt(rdc) $opt(rdc)] \
        rlcs [list -1 $opt(rlc) $opt(rlc) $opt(rlc)] \
        alcs {0.01 -1 -1 -1} adcs {0.010 -1 -1 -1} arcs {5000000 -1 -1 -1}]
    set file [open $opt(flows)]
    while {[gets $file line] >= 0} {
        lassign $line class rtt kind
        set source [$ns node]
        set destination [$ns node]
        set leg [expr {$rtt / 4}]
        $ns duplex-link $source $near 1000Mb $leg DropTail
        $ns duplex-link $far $destination 1000Mb $leg DropTail
        set tcp [tcp $source $destination $class 100000 1 0]
        $ns at 0 [expr {$kind eq "greedy" ? "$tcp advanceby 100000000" : "burst $tcp"}]
    }
    close $file
    return [list $near $far]
}

lassign [$opt(network)] from to
$ns trace-queue $from $to [open $opt(trace) w]
proc finish {} { exit 0 }
$ns at $opt(until) finish
$ns run
