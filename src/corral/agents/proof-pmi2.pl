# Speaks PMI-2 with slurmstepd: each rank puts a key, all meet, each reads its neighbour's. The words are
# those of MPICH's PMI-2 wire protocol, as Slurm's mpi/pmi2 speaks it. Where two nodes do not reach each
# other they never meet: what takes milliseconds is given 20 s. Perl: perl-base is on every Debian and Ubuntu.
#
# Installed as: nowhere: it is an argument of perl -e (prove/checks/ranks)
# Started by: srun, in the proof's jobs
# Runs as: the user of the proof's jobs
alarm 20; my $node = $ENV{SLURMD_NODENAME};
if (!defined $ENV{PMI_FD}) { print "@ pmi2 $ENV{SLURM_PROCID} $node 1 none\n"; exit }
open(my $s, "+<&=", $ENV{PMI_FD}) or die "PMI_FD: $!";
sub all { my $n = shift; my $t = "";
  while (length $t < $n) {
    sysread($s, my $c, $n - length $t) or die "pmi2 is cut off\n"; $t .= $c }
  $t }
sub ask { my $m = shift; syswrite $s, sprintf("%6d%s", length $m, $m); my $t = all(all(6) + 0);
  my %f = map { split /=/, $_, 2 } split /;/, $t; die "$m: $t\n" if $f{rc}; \%f }
syswrite $s, "cmd=init pmi_version=2 pmi_subversion=0\n";
my $hello = ""; $hello .= all(1) until $hello =~ /\n/;
my $f = ask("cmd=fullinit;pmijobid=$ENV{PMI_JOBID};pmirank=$ENV{PMI_RANK};threaded=FALSE;");
my ($rank, $size) = ($f->{rank}, $f->{size}); my $next = ($rank + 1) % $size;
ask("cmd=kvs-put;key=corral$rank;value=$node;");
ask("cmd=kvs-fence;");
my $got = ask("cmd=kvs-get;jobid=$ENV{PMI_JOBID};srcid=-1;key=corral$next;");
print "@ pmi2 $rank $node $size $got->{value}\n"; $| = 1;
ask("cmd=finalize;");
