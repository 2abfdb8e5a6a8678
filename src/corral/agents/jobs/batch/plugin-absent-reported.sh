#!/bin/sh
# A node without the plugin of its fabric is reported, and its settings are none.
#
# Installed as: nowhere: sent
# Started by: corral (jobs/batch/fabric), which explains a job's settings
# Runs as: the user
# shellcheck disable=SC2154 # plugin-settings.sh sets it before
{ printf '%s\tnot there\t%s\n' @title@ "$corral_settings_out"; corral_settings_out=""; }
