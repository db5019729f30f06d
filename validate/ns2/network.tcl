# Flows through one bottleneck in ns-2: the same network as ns3/network.cc and as our scenario.
#
#   ns network.tcl flows=FILE [name=value ...]
#
# FILE has a line per flow: start (s), base round-trip time (s), greedy | onoff. Prints "name value"
# lines about [from, until]. Options that are not set here are ns-2's defaults.

array set opt {
    flows ""  tcp Newreno  delayed 1  payload 1460  initial_window 2  min_rto 1.0  ecn 0
    rate 100Mb  access 1000Mb  delay 0.005  buffer 625000  queue droptail  loss 0
    burst 300  pause 1.0  from 0  until 30  seed 1
    pi_a 0  pi_b 0  pi_target 100000  red_min 37500  red_max 75000  red_weight 0.002  red_max_p 0.1
}
foreach word $argv {
    lassign [split $word =] name value
    if {![info exists opt($name)]} { puts stderr "network.tcl: no option $name"; exit 2 }
    set opt($name) $value
}

# Bytes of a packet on the wire: one-way TCP agents add a header of 40 bytes.
set wire [expr {$opt(payload) + 40}]

Agent/TCP set packetSize_ $opt(payload)
Agent/TCP set window_ 100000
Agent/TCP set windowInit_ $opt(initial_window)
Agent/TCP set minrto_ $opt(min_rto)
Agent/TCP set ecn_ $opt(ecn)
Queue set limit_ 100000
# Queues that count in bytes multiply their limit by a mean size.
foreach class {Queue/DropTail Queue/RED Queue/PI} { $class set mean_pktsize_ $wire }

Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ true
Queue/RED set setbit_ [expr {$opt(ecn) ? "true" : "false"}]
Queue/RED set thresh_ [expr {$opt(red_min) / double($wire)}]
Queue/RED set maxthresh_ [expr {$opt(red_max) / double($wire)}]
Queue/RED set q_weight_ $opt(red_weight)
Queue/RED set linterm_ [expr {1 / $opt(red_max_p)}]

Queue/PI set bytes_ false
Queue/PI set queue_in_bytes_ true
Queue/PI set setbit_ [expr {$opt(ecn) ? "true" : "false"}]
Queue/PI set a_ $opt(pi_a)
Queue/PI set b_ $opt(pi_b)
Queue/PI set w_ 160
Queue/PI set qref_ [expr {$opt(pi_target) / double($wire)}]

set ns [new Simulator]
$defaultRNG seed $opt(seed)

set near [$ns node]
set far [$ns node]
# Only the direction of the data is the bottleneck; the queue of ACKs never fills.
$ns simplex-link $far $near $opt(rate) $opt(delay) DropTail
switch $opt(queue) {
    droptail { set kind DropTail }
    red { set kind RED }
    pi { set kind PI }
}
$ns simplex-link $near $far $opt(rate) $opt(delay) $kind
set queue [[$ns link $near $far] queue]
$queue set limit_ [expr {$opt(buffer) / double($wire)}]
if {$kind eq "DropTail"} { $queue set queue_in_bytes_ true }
set monitor [$ns monitor-queue $near $far ""]
if {$opt(loss) > 0} {
    set chance [new ErrorModel]
    $chance unit pkt
    $chance set rate_ $opt(loss)
    $chance ranvar [new RandomVariable/Uniform]
    $chance drop-target [new Agent/Null]
    $ns lossmodel $chance $near $far
}

proc burst {tcp} {
    global packets
    $tcp advanceby [expr {int(ceil([$packets value]))}]
}
set packets [new RandomVariable/Exponential]
$packets set avg_ $opt(burst)
set pause [new RandomVariable/Exponential]
$pause set avg_ $opt(pause)
# ns-2 calls this when all data is acknowledged.
Agent/TCP instproc done {} {
    global ns pause
    $ns at [expr {[$ns now] + [$pause value]}] "burst $self"
}

set senders {}
set file [open $opt(flows)]
while {[gets $file line] >= 0} {
    lassign $line start rtt kind
    set leg [expr {($rtt / 2 - $opt(delay)) / 2}]
    set source [$ns node]
    set destination [$ns node]
    $ns duplex-link $source $near $opt(access) $leg DropTail
    $ns duplex-link $far $destination $opt(access) $leg DropTail
    set tcp [new Agent/TCP/$opt(tcp)]
    set sink TCPSink
    if {$opt(tcp) in {Sack1 Fack}} { append sink /Sack1 }
    if {$opt(delayed)} { append sink /DelAck }
    set sink [new Agent/$sink]
    $ns attach-agent $source $tcp
    $ns attach-agent $destination $sink
    $ns connect $tcp $sink
    $ns at $start [expr {$kind eq "greedy" ? "$tcp advanceby 100000000" : "burst $tcp"}]
    lappend senders $tcp
}
close $file

# All counters so far, as a list of names and values.
proc counters {} {
    global senders monitor ns
    set sums [dict create acked 0 sent 0 resent 0 timeouts 0 cuts 0 marked_cuts 0]
    foreach tcp $senders {
        foreach {name variable} {acked ack_ sent ndatapack_ resent nrexmitpack_ timeouts nrexmit_
                                 cuts ncwndcuts1_ marked_cuts necnresponses_} {
            dict incr sums $name [$tcp set $variable]
        }
    }
    foreach {name variable} {arrivals parrivals_ drops pdrops_ marks pmarks_ packets pdepartures_} {
        dict set sums $name [expr {int([$monitor set $variable])}]
    }
    dict set sums bytes [expr {wide([$monitor set bdepartures_])}]
    set area [$monitor get-bytes-integrator]
    $area newpoint [$ns now] [$monitor set size_]
    dict set sums queue_area [$area set sum_]
    return $sums
}
proc finish {} {
    global before opt
    set seconds [expr {double($opt(until) - $opt(from))}]
    dict for {name value} [counters] { set $name [expr {$value - [dict get $before $name]}] }
    foreach name {arrivals packets drops marks sent resent timeouts} { puts "$name [set $name]" }
    puts "recoveries [expr {$cuts - $timeouts - $marked_cuts}]"
    puts "mark_responses $marked_cuts"
    puts "goodput [expr {$acked * $opt(payload) * 8 / $seconds}]"
    puts "throughput [expr {$bytes * 8 / $seconds}]"
    puts "queue [expr {$queue_area / $seconds}]"
    exit 0
}
$ns at $opt(from) { set before [counters] }
$ns at $opt(until) finish
$ns run
