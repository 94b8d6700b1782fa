#!/bin/sh
# Poses as vLLM for the tests: `fake_vllm.sh serve MODEL FLAGS…` is a simulated engine with the same
# flags. The model's folder steers it: a file `fail` there is printed and ends it with code 1, and
# as long as there is a file `hold` it loads.
# LM_WARDEN names the binary under test.
model=$2
shift 2
echo "INFO [api_utils.py:273] non-default args: {'model_tag': '$model'}"
if [ -e "$model/fail" ]; then
  cat "$model/fail" >&2
  exit 1
fi
echo "INFO [gpu_model_runner.py:1] Starting to load model $model..."
while [ -e "$model/hold" ]; do sleep 0.05; done
flags=
while [ $# -gt 0 ]; do
  case $1 in
    --served-model-name | --host | --port | --data-parallel-size | --max-num-seqs | --speed | --fault | --seed)
      flags="$flags $1 $2"
      shift 2
      ;;
    *) shift ;;
  esac
done
# As an engine core does, it outlives a server that is killed.
sleep 3600 &
echo "INFO [gpu_worker.py:721] Available KV cache memory: 2.42 GiB"
echo "INFO [kv_cache_utils.py:2177] GPU KV cache size: 17,600 tokens"
# shellcheck disable=SC2086 # flags are words
exec "$LM_WARDEN" engine $flags
