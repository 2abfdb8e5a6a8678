nsys profile --trace=cuda,nvtx,osrt,cudnn,cublas --sample=none --cpuctxsw=none --kill=sigterm \
  --osrt-threshold=100000 --force-overwrite=true \
  --output="$corral_folder/profile/rank-%q{RANK}"
for corral_bin in /opt/nvidia/nsight-systems/*/bin /usr/local/cuda/bin; do
  [ ! -x "$corral_bin/nsys" ] || PATH=$PATH:$corral_bin
done
command -v nsys >/dev/null 2>&1 || {
  echo "corral: --profile nsys: Nsight Systems is not installed on $(hostname); --profile torch needs nothing but PyTorch" >&2
  exit 127
}
mkdir -p "$CORRAL_JOB_FOLDER/profile"

for corral_bin in /opt/nvidia/nsight-systems/*/bin /usr/local/cuda/bin; do
  [ ! -x "$corral_bin/nsys" ] || PATH=$PATH:$corral_bin
done
corral_importer=$(ls /usr/lib/nsight-systems/host-linux-x64/QdstrmImporter \
  /opt/nvidia/nsight-systems/*/host-linux-*/QdstrmImporter 2>/dev/null | tail -n 1)
corral_incomplete=""
for corral_raw in "$corral_folder"/profile/rank-*.qdstrm; do
  # Where nsys found its importer there is a report already, also of raw events that it does not all know.
  [ -s "$corral_raw" ] && [ -n "$corral_importer" ] && [ ! -s "${corral_raw%.qdstrm}.nsys-rep" ] || continue
  corral_imported=$("$corral_importer" --input-file "$corral_raw" --output-file "${corral_raw%.qdstrm}.nsys-rep") && rm "$corral_raw"
  case $corral_imported in *"Importation succeeded with non-fatal errors"*) corral_incomplete=1 ;; esac
done
# An nsys that is older than the node's CUDA leaves out what it does not know, and succeeds (2023.4.4 with CUDA 13: 60 steps
# of a training had 6 kernels).
! grep -qs "Importation succeeded with non-fatal errors" "$corral_folder"/rank-*.log || corral_incomplete=1
for corral_report in "$corral_folder"/profile/rank-*.nsys-rep; do
  [ ! -s "$corral_report" ] || nsys stats --quiet --force-export=true --format csv --report cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,nvtx_sum,osrt_sum \
    --output - "$corral_report" > "${corral_report%.nsys-rep}.csv" || :
  [ -z "$corral_incomplete" ] || printf '\n%s\n' "Importation succeeded with non-fatal errors" >> "${corral_report%.nsys-rep}.csv"
done

