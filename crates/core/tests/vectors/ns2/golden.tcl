# One-way TCP in ns-2.35 over two links; prints "microsecond segment" of every data segment sent.
#
#   ns golden.tcl VARIANT WINDOW QUEUE SECONDS WHAT "NUMBERS"
#
# VARIANT is Reno, Newreno, Sack1 or Vegas; WINDOW the receiver's, in segments; QUEUE the bottleneck's
# limit in packets; NUMBERS are packets on their way into the bottleneck, the SYN is 0; WHAT is done to
# them is `drop`, or `mark` (ECN).
foreach {variant window queue seconds what numbers} $argv break
set ns [new Simulator]
set trace [open "|awk -v OFS=: {\$1==\"+\" && \$3==0 && \$4==1 && \$11>0 {printf \"%d %d\\n\", \$2*1e6+0.5, \$11}}" w]
$ns trace-all $trace
set s [$ns node]; set r [$ns node]; set k [$ns node]
$ns duplex-link $s $r 8Mb 0.1ms DropTail
$ns duplex-link $r $k 0.8Mb 100ms DropTail
$ns queue-limit $s $r 10000
$ns queue-limit $r $k $queue
set losses [new ErrorModel/List]
$losses droplist $numbers
if {$what == "mark"} {$losses set markecn_ true}
$ns lossmodel $losses $r $k
set tcp [new Agent/TCP/$variant]
if {$variant == "Sack1"} {set sink [new Agent/TCPSink/Sack1]} else {set sink [new Agent/TCPSink]}
$tcp set window_ $window
$tcp set packetSize_ 1000
$tcp set minrto_ 1
# Vegas of ns-2 has no SYN, and takes the first ACK for no more than one.
if {$variant == "Vegas"} {$tcp set windowInit_ 1}
if {$what == "mark"} {$tcp set ecn_ 1}
$ns attach-agent $s $tcp
$ns attach-agent $k $sink
$ns connect $tcp $sink
set ftp [new Application/FTP]
$ftp attach-agent $tcp
$ns at 0 "$ftp start"
$ns at $seconds "close $trace; exit 0"
$ns run
