# Prints a line "@ dev NODE DEVICE ERRNO" for each GPU's device file: 0 where it opens. Without an argument NODE is
# left out.
#
# Installed as: nowhere: an argument of perl -e (prove/checks/access, prove/launch, prove/probe)
# Started by: tasks of the proof's jobs and its logins
# Runs as: the proof's user
use Fcntl;
my $node = @ARGV ? "$ARGV[0] " : "";
for my $d (glob q(/dev/nvidia[0-9]*)) {
  my $e = sysopen(my $f, $d, O_RDWR) ? 0 : $! + 0;
  print qq(@ dev $node$d $e\n);
}
