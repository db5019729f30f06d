# The ratio of the rates of two groups of TCP connections with different segment lengths, with RED.
#
#   ns segments.tcl first=3000 second=1500 [name=value ...]
#
# The network is that of figure 3 of the paper `trunking`, with four NewReno connections in place of
# each trunk. RED counts packets: it drops none up to an average of half of MP_Th (equation 1), and
# all above MP_Th. Prints the ratio of acknowledged bytes, and the use of the link.

array set opt {
    first 3000  second 1500  seed 1  connections 4  alpha 8  access 9.6  weight 0.002  warmup 20  until 400
}
foreach word $argv {
    lassign [split $word =] name value
    if {![info exists opt($name)]} { puts stderr "segments.tcl: no option $name"; exit 2 }
    set opt($name) $value
}

set rate 9.6
set threshold [expr {2 * $opt(connections) * $opt(alpha)}]
Queue set limit_ 10000
Queue/RED set thresh_ [expr {$threshold / 2}]
Queue/RED set maxthresh_ $threshold
Queue/RED set linterm_ 1
Queue/RED set gentle_ false
Queue/RED set adaptive_ 0
Queue/RED set wait_ false
Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set q_weight_ $opt(weight)

set ns [new Simulator]
$defaultRNG seed $opt(seed)
set rng [new RNG]
$rng seed $opt(seed)

set router [$ns node]
set end [$ns node]
$ns simplex-link $router $end ${rate}Mb 10ms RED
$ns simplex-link $end $router 100Mb 10ms DropTail

foreach group {first second} {
    set site [$ns node]
    $ns duplex-link $site $router $opt(access)Mb 0.01ms DropTail
    for {set k 0} {$k < $opt(connections)} {incr k} {
        set tcp [new Agent/TCP/Newreno]
        set sink [new Agent/TCPSink/DelAck]
        $tcp set packetSize_ $opt($group)
        $tcp set window_ 1000
        $ns attach-agent $site $tcp
        $ns attach-agent $end $sink
        $ns connect $tcp $sink
        set ftp [new Application/FTP]
        $ftp attach-agent $tcp
        $ns at [$rng uniform 0 0.2] "$ftp start"
        lappend senders($group) $tcp
    }
}

# Bytes of a group that are acknowledged so far.
proc acknowledged {group} {
    global opt senders
    set sum 0
    foreach tcp $senders($group) { incr sum [$tcp set ack_] }
    return [expr {double($sum) * $opt($group)}]
}

proc begin {} {
    global before
    foreach group {first second} { set before($group) [acknowledged $group] }
}

proc finish {} {
    global before opt rate
    foreach group {first second} { set got($group) [expr {[acknowledged $group] - $before($group)}] }
    set use [expr {8 * ($got(first) + $got(second)) / (($opt(until) - $opt(warmup)) * $rate * 1e6)}]
    puts [format "%.3f %.3f" [expr {$got(first) / $got(second)}] $use]
    exit 0
}

$ns at $opt(warmup) begin
$ns at $opt(until) finish
$ns run
