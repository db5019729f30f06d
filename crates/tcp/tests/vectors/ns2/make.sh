#!/bin/sh
# Writes golden.txt again, or the file PATH: `make.sh [PATH]`. Needs ns-2.35 (Debian package `ns2`).
into=$(realpath "${1:-$(dirname "$0")/golden.txt}")
cd "$(dirname "$0")" || exit 1
run() { # VARIANT WINDOW QUEUE SECONDS WHAT NUMBERS
    printf '%s %s %s %s %s|' "$1" "$2" "$3" "$5" "$6"
    ns golden.tcl "$1" "$2" "$3" "$4" "$5" "$6" | grep -v tie | awk '
        { printf "%d", $1 - at; if ($2 != last + 1) printf ":%d", $2; printf " "; at = $1; last = $2 }
        END { print "" }'
}
{
    echo "# variant, window, queue, drop or mark, numbers of these packets | each data segment sent: microseconds since"
    echo "# the previous segment, and the number of the segment if it is not the next number"
    for variant in Reno Newreno Sack1; do
        for drops in "14" "14 15" "14 15 16" "14 15 16 17"; do run $variant 28 1000 4.5 drop "$drops"; done
        for drops in "0" "1 2 3" "1" "2" "1 2" "14 31" "14 31 32 33" "14 15 16 17 18 19 20 21 22 23 24 25 26 27 28"; do
            run $variant 28 1000 8 drop "$drops"
        done
        run $variant 1000 8 20 drop 99999
        run $variant 1000 25 20 drop 99999
    done
    for marks in "14" "14 20" "14 40" "3 9" "1" "1 3 5 7 9 11 13 15" "20 21 22 60 61 100 140 180" "2 4 6 20 22 30"; do
        run Newreno 28 1000 6 mark "$marks"
    done
    for window in 28 1000; do run Vegas $window 1000 8 drop 99999; done
    run Sack1 28 1000 6 mark "1 3 5 7 9 11 13 15 60 100"
} > "$into"
