# A rank of the proof: it listens, prints its port, reads the table of all ranks, calls those it is to call,
# and takes in the calls meant for it. Perl: perl-base is on every Debian and Ubuntu, Python is not.
#
# Installed as: nowhere: it is an argument of perl -e (prove/checks/ranks)
# Started by: srun, in the proof's jobs
# Runs as: the user of the proof's jobs
use IO::Socket::INET; use IO::Select; $| = 1;
my ($rank, $node, $n) = ($ENV{SLURM_PROCID}, $ENV{SLURMD_NODENAME}, $ENV{SLURM_NTASKS});
my $all = shift; my $l = IO::Socket::INET->new(Listen => 128, Proto => "tcp") or die "listen: $!";
print "@ rank $rank $node $n ", $l->sockport, "\n";
my @at; while (my $t = <STDIN>) {
  last if $t =~ /^end/; my ($r, @a) = split " ", $t; $at[$r] = \@a }
sub calls { my ($a, $b) = @_; return $a != $b && ($n <= $all || $b == ($a + 1) % $n || !$b) }
my $left = grep { calls($_, $rank) } 0 .. $n - 1;
for my $b (grep { calls($rank, $_) } 0 .. $n - 1) {
  my $s = IO::Socket::INET->new(PeerAddr => $at[$b][0], PeerPort => $at[$b][1], Timeout => 4);
  if ($s) { print $s "$rank $node\n"; close $s } else { print "@ nocall $rank $b $!\n" }
}
my $sel = IO::Select->new($l); my $end = time + 6;
while ($left > 0 && time < $end) {
  next unless $sel->can_read(1);
  my $c = $l->accept or next; my $reader = IO::Select->new($c);
  my $who = $reader->can_read(2) ? <$c> : ""; $who =~ s/\s+$//;
  print "@ call $rank $who ", $c->peerhost, "\n"; $left--;
}
