#!/bin/sh
# run_attack.sh INPUT_FOLDER OUTPUT_FOLDER EPSILON
exec python player.py "$1" "$2" "$3"
