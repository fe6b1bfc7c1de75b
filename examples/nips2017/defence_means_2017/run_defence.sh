#!/bin/bash
#
# Called as: run_defence.sh INPUT_DIR OUTPUT_FILE

INPUT_DIR=$1
OUTPUT_FILE=$2

python defence_means.py \
  --input_dir="${INPUT_DIR}" \
  --output_file="${OUTPUT_FILE}"
