[ -n "${MLFLOW_TRACKING_URI+set}" ] || MLFLOW_TRACKING_URI=http://node0:5000
[ -n "${MLFLOW_EXPERIMENT_NAME+set}" ] || MLFLOW_EXPERIMENT_NAME='it'"'"'s $HOME'
export MLFLOW_TRACKING_URI MLFLOW_EXPERIMENT_NAME
if [ -n "$MLFLOW_TRACKING_URI" ] && MLFLOW_RUN_ID=$(python3 -m corral.track begin "$corral_folder"); then
  export MLFLOW_RUN_ID
  corral_killed=""
  corral_tracked() { python3 -m corral.track end "${corral_killed:-$1}"; }
  trap 'corral_killed=143; corral_tracked 143' TERM
else
  unset MLFLOW_RUN_ID
  corral_tracked() { :; }
fi

if [ -n "${MLFLOW_RUN_ID-}" ] && [ -n "$corral_rank_end" ]; then
  (python3 -m corral.track sample <&8 8<&- 9<&- >/dev/null 2>&1 &)
fi

corral_tracked "$corral_status"

