# The end of a link that sends: the median of small round trips, then payload for some seconds.
#
# Installed as: nowhere: it is an argument of perl -e
# Started by: corral (api/mesh/tailnet, mesh/link)
# Runs as: root
use IO::Socket::INET; use Time::HiRes "time"; use Socket "TCP_NODELAY", "IPPROTO_TCP";
$SIG{ALRM} = sub { exit 1 }; alarm 35;
my ($host, $port, $rounds, $seconds) = @ARGV; my ($d, @t);
my $c = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port, Timeout => 15) or die "$!\n";
setsockopt($c, IPPROTO_TCP, TCP_NODELAY, 1);
for (1 .. $rounds) {
  my $t = time; syswrite($c, "x") or die; sysread($c, $d, 1) or die; push @t, time - $t }
@t = sort { $a <=> $b } @t; printf "rtt %.6f\n", $t[@t / 2];
my ($n, $b, $e) = (0, "x" x (1 << 17), time + $seconds); my $t = time;
while (time < $e) { my $w = syswrite($c, $b) or last; $n += $w }
shutdown($c, 1); my $end = sysread($c, $d, 1); printf "sent %d %.6f\n", $n, time - $t;
