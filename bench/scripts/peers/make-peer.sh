#!/bin/sh
# Makes build/llama-peer with node-llama-cpp and its prebuilt llama.cpp, the peer of llama-peer.mjs, and no-repack.so,
# which llama-limited.mjs --no-repack loads into it.
#   sh bench/scripts/peers/make-peer.sh
# npm takes its packages from where it is set up to; where it finds none this fails.
set -eu
cd "$(dirname "$0")/../../.."
case "${1:-}" in
  -h | --help)
    sed -n '2,5s/^# \{0,1\}//p' bench/scripts/peers/make-peer.sh
    exit 0
    ;;
esac
mkdir -p build/llama-peer
cd build/llama-peer
test -e package.json || echo '{"private":true,"type":"module"}' > package.json
npm install --omit=optional --ignore-scripts --no-audit --no-fund \
  node-llama-cpp@3.22.1 "@node-llama-cpp/$(node -p 'process.platform + "-" + process.arch')@3.22.1"
cc -shared -fPIC -O2 -o no-repack.so ../../bench/scripts/peers/no-repack.c
