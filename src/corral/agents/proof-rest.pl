# Asks slurmrestd for a node's record with a token, without one, and with a wrong one. The token comes by
# stdin and goes out in a header: never in an argument list, never printed. /ping answers 200 whatever the
# token is (24.11), so one node's record is asked for. Each release speaks four parser versions: the loop
# reaches from 23.11 to 27.11.
#
# Installed as: nowhere: it is an argument of perl -e on the controller
# Started by: corral (prove/checks/rest)
# Runs as: root
use IO::Socket::INET; $SIG{ALRM} = sub { print "@ timeout\n"; exit 1 }; alarm 15;
my ($port, $user, $node) = @ARGV; my $token = "";
while (my $t = <STDIN>) { $token = $1 if $t =~ /^SLURM_JWT=(\S+)/ }
sub ask { my ($path, $t) = @_;
  my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $port, Timeout => 5)
    or return (0, "$!");
  my $h = length $t ? "X-SLURM-USER-NAME: $user\r\nX-SLURM-USER-TOKEN: $t\r\n" : "";
  print $s "GET $path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n$h\r\n";
  local $/; my $r = <$s> // ""; my ($code) = $r =~ m{^HTTP/\S+ (\d+)}; return ($code || 0, $r) }
sub report { my ($what, $code, $r) = @_; my $has = index($r, qq("name": "$node")) >= 0 ? 1 : 0;
  my ($e) = $r =~ /"error": "([^"]*)"/; print "@ $what $code $has ", $e || "", "\n" }
print "@ notoken\n" unless length $token;
my ($code, $r, $path) = (0, ""); my $wrong = $token || "a.b.c"; $wrong =~ s/.{1,8}$/AAAAAAAA/;
for my $v (reverse 39 .. 45) { $path = "/slurm/v0.0.$v/node/$node";
  ($code, $r) = ask($path, $token || $wrong); last if $code != 404 }
print "@ path $path\n"; report("token", $code, $r);
report("none", ask($path, "")); report("wrong", ask($path, $wrong));
