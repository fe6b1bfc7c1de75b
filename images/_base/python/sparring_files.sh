#!/bin/sh
# Starts the adapter for submissions of the NIPS 2017 layout in an image whose own Python is too old, or which has none.
# That image has all files of sparring/base in some folder. This script finds them from its own path and uses their
# Python, libraries and loader, and nothing of the image. The entry script runs with the image's own: see
# docs/migrating-from-nips-2017.md
set -eu
root=${0%/opt/sparring/sparring_files.sh}
for loader in "$root"/usr/lib/*-linux-gnu*/ld-linux-*.so.*; do :; done
for python in "$root"/usr/bin/python3 "$root"/usr/local/bin/python3; do [ ! -e "$python" ] || break; done
exec "$loader" --library-path "${loader%/*}:$root/usr/lib:$root/usr/local/lib" "$python" \
  -I "$root/opt/sparring/sparring_files.py" "$@"
