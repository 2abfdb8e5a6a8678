nsys profile --trace=cuda,nvtx,osrt,cudnn,cublas --sample=none --cpuctxsw=none --kill=sigterm \
  --osrt-threshold=100000 --force-overwrite=true --output="$folder/profile/rank-%q{RANK}"
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
importer=$(ls /usr/lib/nsight-systems/host-linux-x64/QdstrmImporter \
  /opt/nvidia/nsight-systems/*/host-linux-*/QdstrmImporter 2>/dev/null | tail -n 1)
incomplete=""
for raw in "$folder"/profile/rank-*.qdstrm; do
  # Where nsys found its importer there is a report already, also of raw events that it does not all know.
  [ -s "$raw" ] && [ -n "$importer" ] && [ ! -s "${raw%.qdstrm}.nsys-rep" ] || continue
  imported=$("$importer" --input-file "$raw" --output-file "${raw%.qdstrm}.nsys-rep") && rm "$raw"
  case $imported in *"Importation succeeded with non-fatal errors"*) incomplete=1 ;; esac
done
# An nsys that is older than the node's CUDA leaves out what it does not know, and succeeds (2023.4.4 with CUDA 13: 60 steps
# of a training had 6 kernels).
! grep -qs "Importation succeeded with non-fatal errors" "$folder"/rank-*.log || incomplete=1
for report in "$folder"/profile/rank-*.nsys-rep; do
  [ ! -s "$report" ] || nsys stats --quiet --force-export=true --format csv --report cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,nvtx_sum,osrt_sum \
    --output - "$report" > "${report%.nsys-rep}.csv" || :
  [ -z "$incomplete" ] || printf '\n%s\n' "Importation succeeded with non-fatal errors" >> "${report%.nsys-rep}.csv"
done

