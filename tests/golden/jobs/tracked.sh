[ -n "${MLFLOW_TRACKING_URI+set}" ] || MLFLOW_TRACKING_URI=http://node0:5000
[ -n "${MLFLOW_EXPERIMENT_NAME+set}" ] || MLFLOW_EXPERIMENT_NAME='it'"'"'s $HOME'
export MLFLOW_TRACKING_URI MLFLOW_EXPERIMENT_NAME
if [ -n "$MLFLOW_TRACKING_URI" ] && MLFLOW_RUN_ID=$(python3 -m corral.track begin "$folder"); then
  export MLFLOW_RUN_ID
  killed=""
  tracked() { python3 -m corral.track end "${killed:-$1}"; }
  trap 'killed=143; tracked 143' TERM
else
  unset MLFLOW_RUN_ID
  tracked() { :; }
fi

if [ -n "${MLFLOW_RUN_ID-}" ] && [ -n "$rank_end" ]; then
  (python3 -m corral.track sample <&8 8<&- 9<&- >/dev/null 2>&1 &)
fi

tracked "$status"

