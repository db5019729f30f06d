# Weighted Vegas in ns-2: shares of greedy connections with `v_alpha_ = v_beta_` of ALPHA times
# their weights.
#
#   ns weights.tcl ALPHA SEED WEIGHT ...
#
# Prints the relative error of each share against `w_i / sum w` between 60 s and 160 s, and the
# largest error. The network is that of experiments/itcp/fig1.py. ns-2's agent has no theta: its
# window changes by one packet for every weight.
set alpha [lindex $argv 0]; set seed [lindex $argv 1]; set weights [lrange $argv 2 end]
set ns [new Simulator]
$defaultRNG seed $seed
set rng [new RNG]; $rng seed $seed
set r [$ns node]; set k [$ns node]
$ns duplex-link $r $k 10Mb 10ms DropTail
$ns queue-limit $r $k 10000
set n 0
foreach w $weights {
  set s [$ns node]
  $ns duplex-link $s $r 100Mb 10ms DropTail
  $ns queue-limit $s $r 10000
  set tcp($n) [new Agent/TCP/Vegas]
  $tcp($n) set window_ 10000; $tcp($n) set packetSize_ 1000; $tcp($n) set minrto_ 1
  $tcp($n) set windowInit_ 1; $tcp($n) set v_alpha_ [expr $alpha*$w]; $tcp($n) set v_beta_ [expr $alpha*$w]; $tcp($n) set v_gamma_ [expr 1*$w]
  set sink [new Agent/TCPSink]
  $ns attach-agent $s $tcp($n); $ns attach-agent $k $sink; $ns connect $tcp($n) $sink
  set ftp [new Application/FTP]; $ftp attach-agent $tcp($n)
  $ns at $n "$ftp produce 5"
  $ns at [expr 10 + [$rng uniform 0 1]] "$ftp start"
  incr n
}
proc mark {} { global tcp n at; for {set i 0} {$i<$n} {incr i} {set at($i) [$tcp($i) set ack_]} }
$ns at 60 mark
$ns at 160 "fin"
proc fin {} { global tcp n at weights alpha seed
 set sum 0.0; set ws 0.0
 for {set i 0} {$i<$n} {incr i} {set d($i) [expr [$tcp($i) set ack_]-$at($i)]; set sum [expr $sum+$d($i)]; set ws [expr $ws+[lindex $weights $i]]}
 set out "alpha $alpha seed $seed sum $sum"; set worst 0.0
 for {set i 0} {$i<$n} {incr i} {set e [expr ($d($i)/$sum)/([lindex $weights $i]/$ws)-1]; append out [format " %.3f" $e]; if {abs($e)>$worst} {set worst [expr abs($e)]}}
 puts "$out worst [format %.3f $worst]"; exit 0 }
$ns run
