#!/bin/bash
#
# Called as: run_attack.sh INPUT_DIR OUTPUT_DIR MAX_EPSILON

INPUT_DIR=$1
OUTPUT_DIR=$2
MAX_EPSILON=$3

python attack_noise.py \
  --input_dir="${INPUT_DIR}" \
  --output_dir="${OUTPUT_DIR}" \
  --max_epsilon="${MAX_EPSILON}"
