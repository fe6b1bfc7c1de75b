#!/bin/sh
# run_defence.sh INPUT_FOLDER OUTPUT_FILE
exec python player.py "$1" "$2"
