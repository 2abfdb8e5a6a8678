# Takes as many MiB of memory as asked: the greedy job of the proof.
#
# Installed as: nowhere: it is an argument of perl -e (prove/checks/isolation)
# Started by: srun, in the proof's jobs
# Runs as: the user of the proof's jobs
my $n = shift; my $x = "a" x ($n << 20); print length($x) > $n ? "" : "?";
