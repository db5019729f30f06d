# One-way TCP in ns-2.35 over two links. Prints the time in microseconds and the number of each data
# segment that is sent.
#
#   ns golden.tcl VARIANT[+delayed][*COUNT] WINDOW QUEUE SECONDS WHAT "NUMBERS" [NEAR DELAY]
#
# VARIANT is Tahoe, Reno, Newreno, Sack1 or Vegas. `+delayed` delays ACKs. COUNT is the number of
# segments to send; without COUNT, the sender never stops. WINDOW is the receive window in segments.
# QUEUE is the queue limit of the bottleneck in packets. NUMBERS are the numbers of packets that enter
# the bottleneck; the SYN has number 0. WHAT is `drop` or `mark` (ECN): these packets are dropped or
# marked. NEAR is the rate of the first link, and DELAY is the delay of the second link.
set near 8Mb
set delay 100ms
foreach {variant window queue seconds what numbers} $argv break
if {[llength $argv] > 6} {foreach {near delay} [lrange $argv 6 7] break}
set count ""
regexp {^([^*]*)\*(.*)$} $variant all variant count
set delayed [regsub {\+delayed$} $variant "" variant]
set ns [new Simulator]
# The sender draws the phase of its 10 ms clock when it is created, and again when the run begins. With
# this seed, the second phase is less than a microsecond.
$defaultRNG seed 25126
# ns-2's plain agent is Tahoe.
if {$variant == "Tahoe"} {set tcp [new Agent/TCP]} else {set tcp [new Agent/TCP/$variant]}
# Prints `tie` if a delayed ACK is due at the time when a segment arrives. Rounding then decides their
# order.
set script {
    function near(a, b) { return a - b < 2e-5 && b - a < 2e-5 }
    $1 == "+" && $3 == 0 && $4 == 1 && $11 > 0 { printf "%d %d\n", $2 * 1e6 + 0.5, $11 }
    $1 == "r" && $4 == 2 && $5 == "tcp" {
        if (since && near($2, since + 0.1) || near($2, due)) print "tie"
        if (!since) since = $2
    }
    $1 == "+" && $3 == 2 { if (since && near($2, since + 0.1)) due = $2; since = 0 }
}
set trace [open [list |awk $script] w]
$ns trace-all $trace
set s [$ns node]; set r [$ns node]; set k [$ns node]
$ns duplex-link $s $r $near 0.1ms DropTail
$ns duplex-link $r $k 0.8Mb $delay DropTail
$ns queue-limit $s $r 10000
$ns queue-limit $r $k $queue
set losses [new ErrorModel/List]
$losses droplist $numbers
if {$what == "mark"} {$losses set markecn_ true}
$ns lossmodel $losses $r $k
set sink Agent/TCPSink
if {$variant == "Sack1"} {append sink /Sack1}
if {$delayed} {append sink /DelAck}
set sink [new $sink]
$tcp set window_ $window
$tcp set packetSize_ 1000
$tcp set minrto_ 1
# Vegas of ns-2 sends no SYN. With an initial window of one segment, its first ACK is for one segment.
if {$variant == "Vegas"} {$tcp set windowInit_ 1}
if {$what == "mark"} {$tcp set ecn_ 1}
$ns attach-agent $s $tcp
$ns attach-agent $k $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
if {$count == ""} {$ns at 0 "$ftp start"} else {$ns at 0 "$ftp produce $count"}
$ns at $seconds "close $trace; exit 0"
$ns run
