#!/usr/bin/env bash
# The native core under sanitizers: `make sanitize`, or
#
#   PYTHON=.venv/bin/python scripts/sanitize.sh [address] [thread] [leak]
#
# address: the tests of the core with AddressSanitizer and UndefinedBehaviorSanitizer, once per
# instruction set that this machine has. thread: every threaded entry from several callers at once
# with ThreadSanitizer, likewise, and those of the tests that are about threads. leak: the harnesses
# of fuzz/native for a few seconds each with LeakSanitizer (needs Clang; left out without).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3} cxx=${CXX:-g++}
tests="tests/kernels tests/matching tests/bayes"
isas=$(grep -q avx512dq /proc/cpuinfo && echo avx512 || true)
isas="$isas $(grep -q avx2 /proc/cpuinfo && echo avx2 || true) baseline"
export OPENBLAS_NUM_THREADS=1 PYTHONPATH=src:. KDEY_NATIVE

build() { # sanitizers, folder
    cmake -S . -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
        -DKDEY_SANITIZE="$1" > "$2.log"
    cmake --build "$2" >> "$2.log"
    KDEY_NATIVE=$PWD/$2/_kdey.bin
}
library() { "$cxx" -print-file-name="$1"; }

address() {
    build address,undefined build/sanitize-address
    # libstdc++ too: the sanitizer must find the function that throws when it is loaded.
    local preload
    preload="$(library libasan.so) $(library libubsan.so) $(library libstdc++.so)"
    for isa in $isas; do
        echo "address and undefined behaviour, $isa"
        # CPython keeps what it allocates until it ends: leaks are looked for in `leak`.
        LD_PRELOAD=$preload KDEY_ISA=$isa ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 \
            UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
            "$python" -X faulthandler -m pytest -q -p no:cacheprovider --numprocesses 0 $tests
    done
}

thread() {
    build thread build/sanitize-thread
    for isa in $isas; do
        echo "threads, $isa"
        KDEY_ISA=$isa TSAN_OPTIONS=halt_on_error=1 build/sanitize-thread/fuzz/native/threads 1
    done
    # Python and its libraries are not instrumented: only what the core does is looked at.
    LD_PRELOAD=$(library libtsan.so) TSAN_OPTIONS=halt_on_error=1:ignore_noninstrumented_modules=1 \
        "$python" -m pytest -q -p no:cacheprovider --numprocesses 0 -k thread $tests
}

leak() {
    if ! command -v clang++ > /dev/null; then
        left_out=" (leak left out: no clang++)"
        return
    fi
    scripts/fuzz.sh 5 1 kernel programs least_squares one_bag mixture divergence gibbs hierarchy means rows
}

kinds=${*:-address thread leak} left_out=
for kind in $kinds; do
    "$kind"
done
echo "sanitizers passed: $kinds$left_out"
