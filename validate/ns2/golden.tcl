# What a sender of ns-2 sends when a given list of packets is lost or marked.
#
#   ns golden.tcl VARIANT lost|marked "SEQ ..."
#
# One flow over one link: 0.8 Mbit/s, 100 ms, a queue that never fills; 1000 bytes of payload, a
# window of 28 segments, an ACK for every segment, an initial window of 1, min RTO 1 s, 100 segments.
# Prints "TIME SEGMENT" for every segment handed to the link (0 is the first segment of data), in
# order. The nth packet of data on the link is lost or marked, counted from 0, retransmissions too.
# The connection begins with a SYN of 40 bytes at time 0 (Vegas of ns-2 has none).

lassign $argv variant what places

Agent/TCP set packetSize_ 1000
Agent/TCP set window_ 28
Agent/TCP set windowInit_ 1
Agent/TCP set minrto_ 1.0
Agent/TCP set ecn_ [expr {$what eq "marked"}]
Queue set limit_ 1000

set ns [new Simulator]
set sender [$ns node]
set receiver [$ns node]
$ns duplex-link $sender $receiver 0.8Mb 100ms DropTail

set tcp [new Agent/TCP[expr {$variant eq "Tahoe" ? "" : "/$variant"}]]
set sink [new Agent/TCPSink[expr {$variant eq "Sack1" ? "/Sack1" : ""}]]
$ns attach-agent $sender $tcp
$ns attach-agent $receiver $sink
$ns connect $tcp $sink

set syns [expr {$variant ne "Vegas"}]
set losses [new ErrorModel/List]
$losses unit pkt
if {$places ne ""} { $losses droplist [lmap place $places {expr {$place + $syns}}] }
$losses drop-target [new Agent/Null]
$losses set markecn_ [expr {$what eq "marked" ? "true" : "false"}]
if {$places ne ""} { $ns lossmodel $losses $sender $receiver }

set sent "\$1 == \"+\" && \$6 > 40 { print \$2, \$11 - $syns }"
set trace [open [list | awk $sent >@stdout] w]
$ns trace-queue $sender $receiver $trace

$ns at 0 "$tcp advanceby [expr {100 + $syns}]"
$ns at 60 {
    $ns flush-trace
    close $trace
    exit 0
}
$ns run
