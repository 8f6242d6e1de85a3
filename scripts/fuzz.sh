#!/usr/bin/env bash
# Coverage-guided fuzzing of the C ABI and of the file readers: `make fuzz`, or
#
#   scripts/fuzz.sh [SECONDS [SEED [TARGET...]]]
#
# SECONDS are those of each target (60), SEED is that of libFuzzer (1), a TARGET is one of those
# below. Inputs that tell something new are kept in build/fuzz-corpus, those that break a promise in
# build/fuzz-found; the last line of a target says how many inputs ran and how many edges they met.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60} seed=${2:-1}
shift $(($# < 2 ? $# : 2))
native="kernel programs least_squares one_bag mixture divergence gibbs hierarchy means rows"
targets=${*:-$native model_file text}
build=build/fuzz found=build/fuzz-found
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 OPENBLAS_NUM_THREADS=1
mkdir -p "$found"

if [[ " $targets " =~ \ (${native// /|})\  ]]; then
    cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="${FUZZ_CXX:-clang++}" \
        -DKDEY_FUZZ=ON -DKDEY_SANITIZE=address,undefined,float-cast-overflow > $build.log
    cmake --build $build >> $build.log
fi

status=0
for target in $targets; do
    corpus=build/fuzz-corpus/$target log=$build-$target.log
    mkdir -p "$corpus"
    options=(-max_total_time="$seconds" -seed="$seed" -max_len=512 -timeout=60 -report_slow_units=60 -rss_limit_mb=4096
        -use_counters=0 -entropic=0 -print_final_stats=1 -artifact_prefix="$found/$target-")
    if [[ " $native " == *" $target "* ]]; then
        run=("$build/fuzz/native/fuzz_$target")
    else
        run=("${PYTHON:-python3}" -m "fuzz.readers.fuzz_$target")
    fi
    PYTHONPATH=src:. "${run[@]}" "$corpus" "${options[@]}" > "$log" 2>&1 || status=1
    edges=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
    runs=$(grep -o 'number_of_executed_units: [0-9]*' "$log" | grep -o '[0-9]*$' || echo 0)
    echo "$target: seed $seed, $seconds s, $runs runs, ${edges:-cov: 0}, $(find "$found" -name "$target-*" | wc -l) findings"
done
echo "$(wc -w <<< "$targets") targets, $(find "$found" -type f | wc -l) findings in all"
exit $status
