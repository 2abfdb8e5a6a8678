# The end of a link that receives: returns each byte of the round trips, counts what follows.
#
# Installed as: nowhere: it is an argument of perl -e
# Started by: corral (api/mesh/tailnet, mesh/link)
# Runs as: root
use IO::Socket::INET; $| = 1; $SIG{ALRM} = sub { exit 1 }; alarm 40;
my $s = IO::Socket::INET->new(LocalAddr => "0.0.0.0", Listen => 1, ReuseAddr => 1) or die "$!\n";
print "port ", $s->sockport, "\n";
my $c = $s->accept or die; my ($n, $d) = (0, "");
for (1 .. $ARGV[0]) { sysread($c, $d, 1) or exit 1; syswrite($c, $d) }
while (my $r = sysread($c, $d, 1 << 18)) { $n += $r }
print "bytes $n\n";
