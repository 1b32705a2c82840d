#!/bin/sh
# Makes build/peers-venv with PyTorch (CPU) and transformers, the peers of encoder-peers.mjs.
#   sh bench/scripts/peers/make-venv.sh
# pip takes its packages from where it is set up to; where it finds none this fails, and the bench says so and skips.
set -eu
cd "$(dirname "$0")/../../.."
venv=build/peers-venv
case "${1:-}" in
  -h | --help)
    sed -n '2,4s/^# \{0,1\}//p' bench/scripts/peers/make-venv.sh
    exit 0
    ;;
esac
test -x "$venv/bin/python" || python3 -m venv "$venv"
# Elsewhere than on PyPI the CPU build carries a local version, "+cpu", which "==" takes too.
"$venv/bin/pip" install --disable-pip-version-check --progress-bar off "torch==2.13.0" "transformers>=5,<6"
"$venv/bin/python" -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'
