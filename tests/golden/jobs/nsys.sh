nsys profile --trace=cuda,nvtx,osrt,cudnn,cublas --sample=none --cpuctxsw=none --kill=sigterm \
  --force-overwrite=true --output="$folder/profile/rank-%q{RANK}"
for bin in /opt/nvidia/nsight-systems/*/bin /usr/local/cuda/bin; do
  [ ! -x "$bin/nsys" ] || PATH=$PATH:$bin
done
command -v nsys >/dev/null 2>&1 || {
  echo "corral: --profile nsys: Nsight Systems is not installed on $(hostname); --profile torch needs nothing but PyTorch" >&2
  exit 127
}
mkdir -p "$CORRAL_JOB_FOLDER/profile"

for bin in /opt/nvidia/nsight-systems/*/bin /usr/local/cuda/bin; do
  [ ! -x "$bin/nsys" ] || PATH=$PATH:$bin
done
for report in "$folder"/profile/rank-*.nsys-rep; do
  [ ! -s "$report" ] || nsys stats --quiet --force-export=true --format csv --report cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,nvtx_sum \
    --output - "$report" > "${report%.nsys-rep}.csv" || :
done

