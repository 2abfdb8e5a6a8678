# Reads the output files of one job: lists, follows, reads a range of bytes, searches. Core perl alone, and memory
# for a few MiB whatever the size of a file. src/corral/api/page/job_logs.py has the lines that it prints.
#
# Installed as: nowhere: it is an argument of perl on a node of the job (api/page/job_logs)
# Started by: the page
# Runs as: the job's user
use strict;
use warnings;
use Errno qw(EINVAL);
use Fcntl qw(O_RDONLY O_NONBLOCK O_NOCTTY);

my $PIECE = 45_000;      # bytes of a line: 60,000 in base64, below the longest line of a transport
my $BLOCK = 1 << 20;
my $LONGEST = 4 << 20;   # of a line that is searched as one
my $BURST = 512 << 10;   # of all files in one round of follow; of more, the newest
my $HIT = 400;
my $NO_FILE = EINVAL;    # open never answers it for these flags
my $RANKS = 4096;        # that are listed and followed together; each other one is read by its name
my ($do, $out, $err, $name, $start, $end, $text, $line, $most, $seconds) = @ARGV;
my ($ROUND_S, $BEAT_S, $LATE_S, $LEAST) = (0.3, 5, 15, 4_000);
$| = 1;

my $quick = eval { require MIME::Base64; 1 };   # not in perl-base

sub base64 {
  return MIME::Base64::encode_base64($_[0], '') if $quick;
  my $coded = pack 'u', $_[0];
  $coded =~ s/^.//mg;
  $coded =~ s/\n//g;
  $coded =~ tr|` -_|AA-Za-z0-9+/|;
  my $fill = (3 - length($_[0]) % 3) % 3;
  substr($coded, length($coded) - $fill) = '=' x $fill if $fill;
  return $coded;
}

# What there is next to a batch.log of Corral's: job.json states how many ranks there are; for a task of an array
# it is in the folder above. A job of plain sbatch has the files that Slurm names. job.json is its user's: it is read
# again only where it has changed, as follow asks several times a second.
my ($ranks, $folder, $version, @places) = (0, '', '');

sub places {
  my ($about, @about) = ('');
  if ($out =~ m{\A(.*)/batch\.log\z}s) {
    $about = $folder = $1;
    $about =~ s{/task-\d+\z}{};
    @about = stat "$about/job.json";
  }
  my $key = join ' ', @about[grep { $_ < @about } 0, 1, 7, 9];
  return @places if @places && $key eq $version;
  $version = $key;
  if (@about && content("$about/job.json") =~ /"logs": *(\d{1,6})(?!\d)/) {
    $ranks = $1;
    my $last = ($ranks < $RANKS ? $ranks : $RANKS) - 1;
    @places = (['batch', $out], map { ["rank-$_", "$folder/rank-$_.log"] } 0 .. $last);
  } else {
    $ranks = 0;
    @places = (['output', $out], $err ne '' && $err ne $out ? ['errors', $err] : ());
  }
  return @places;
}

sub content {
  my $file = opened($_[0]) or return '';
  sysread($file, my $got, 65_536);
  return $got // '';
}

# Opened each time: an NFS client asks for a file's size when it is opened. Regular files alone: a pipe would be
# waited for, a device has no end.
sub opened {
  my $path = $_[0];
  if (!sysopen my $file, $path, O_RDONLY | O_NONBLOCK | O_NOCTTY) { return }
  elsif (-f $file) { return $file }
  else { $! = $NO_FILE; return }
}

# Why a file could not be opened.
sub why { return $! == $NO_FILE ? 'not a file: what is written there is not kept' : "$!" }

sub chosen {
  my @all = places();
  return @all if $name eq 'all';
  return [$name, "$folder/$name.log"] if $name =~ /\Arank-(0|[1-9]\d*)\z/ && $1 < $ranks;
  @all = grep { $_->[0] eq $name } @all;
  return @all if @all;
  print "X $name no such file of this job\n";
  exit 4;
}

sub data {
  my ($which, $file, $from, $until) = @_;
  sysseek $file, $from, 0;
  while ($from < $until) {
    my $n = $until - $from < $PIECE ? $until - $from : $PIECE;
    $n = sysread($file, my $got, $n);
    last unless $n;
    print "D $which $from ", base64($got), "\n";
    $from += $n;
  }
  return $from;
}

sub list {
  my @listed = places();
  print 'M ', $ranks - $RANKS, "\n" if $ranks > $RANKS;
  for my $place (@listed) {
    my ($which, $path) = @$place;
    my $file = opened($path);
    if ($file) { my @about = stat $file; print "F $which $about[7] $about[9] ", base64($path), "\n" }
    elsif ($which =~ /^rank/ && $!{ENOENT}) { next }
    else { print "X $which ", why(), "\n" }
  }
}

# The first byte of a line in a range of which the end alone is shown.
sub aligned {
  my ($file, $from, $until) = @_;
  return $from if $from == 0;
  sysseek $file, $from, 0;
  my $n = $until - $from < $BLOCK ? $until - $from : $BLOCK;
  sysread($file, my $got, $n);
  my $at = index $got // '', "\n";
  return $at < 0 || $from + $at + 1 >= $until ? $from : $from + $at + 1;
}

sub follow {
  my ($once) = @_;
  my (%at, %node, %why);
  my $beat = time;
  my $begun = 0;
  places();
  print "R $ranks\n";
  while (1) {
    my @places = chosen();
    my $share = int($BURST / @places);
    my $first = int($start / @places);
    $_ < $LEAST and $_ = $LEAST for $share, $first;
    for my $place (@places) {
      my ($which, $path) = @$place;
      my $file = opened($path);
      if (!$file) {
        # The ranks' files come one after the other; the first file may be late on a network's storage.
        my $late = $!{ENOENT} ? $which !~ /^rank/ && ($once || time - $^T > $LATE_S) : 1;
        print "X $which ", why(), "\n" if $late && !$why{$which}++;
        next;
      }
      my @about = stat $file;
      my ($key, $size) = ("$about[0] $about[1]", $about[7]);
      if (defined $at{$which} && ($size < $at{$which} || $key ne $node{$which})) {
        print "N $which\n";
        delete $at{$which};
      }
      $node{$which} = $key;
      my $part = defined $at{$which} ? $share : $first;
      my $from = $at{$which} // 0;
      if ($size - $from > $part) { $from = aligned($file, $size - $part, $size) }
      print "D $which 0 \n" if $size == 0 && !defined $at{$which};
      $at{$which} = data($which, $file, $from, $size);
    }
    return if $once;
    if (!$begun++) { print "L\n" }
    if (time - $beat >= $BEAT_S) { print "h\n"; $beat = time }
    exit 0 if time - $^T > $seconds;
    select undef, undef, undef, $ROUND_S + 0.002 * @places;
  }
}

sub range {
  my ($place) = chosen();
  my $file = opened($place->[1]);
  if (!$file) { print "X $place->[0] ", why(), "\n"; exit 4 }
  my $size = -s $file;
  print "S $place->[0] $size\n";
  data($place->[0], $file, $start, $end < $size ? $end : $size);
}

# Lines with the text in what they ended as: a state that a carriage return put another one over is not shown, so it
# is not found either.
sub find {
  my ($place) = chosen();
  my ($which, $path) = @$place;
  my $file = opened($path);
  if (!$file) { print "X $which ", why(), "\n"; exit 4 }
  my $size = -s $file;
  my ($base, $matches, $buffer, $until) = ($start, 0, '', time + $seconds);
  $text = lc $text;
  sysseek $file, $start, 0;
  while (1) {
    my $n = sysread $file, $buffer, $BLOCK, length $buffer;
    my $cut = $n ? rindex($buffer, "\n") + 1 : length $buffer;
    if (!$cut && $n) {
      next if length $buffer < $LONGEST;
      my $over = rindex($buffer, "\r", length($buffer) - 2) + 1;
      if ($over) { substr($buffer, 0, $over) = ''; $base += $over; next }
      $cut = length $buffer;
    }
    my $chunk = substr $buffer, 0, $cut, '';
    my $lower = lc $chunk;   # index in it: five times as fast as a pattern
    my ($counted, $at) = (0, 0);
    while (($at = index $lower, $text, $at) >= 0) {
      my $begin = rindex($chunk, "\n", $at) + 1;
      my $stop = index $chunk, "\n", $at;
      $stop = $cut if $stop < 0;
      my $over = $stop;
      $over-- while $over > $begin && substr($chunk, $over - 1, 1) eq "\r";
      my $state = $over > $begin ? rindex($chunk, "\r", $over - 1) + 1 : $over;
      $state = $begin if $state < $begin;
      if ($at < $state) { $at = $state; next }
      $line += (my $passed = substr $chunk, $counted, $begin - $counted) =~ tr/\n//;
      $counted = $begin;
      my $shown = $at - $state > $HIT - 100 ? $at - 100 : $state;
      my $length = $over - $shown < $HIT ? $over - $shown : $HIT;
      print "H $which ", $base + $begin, " $line ", base64(substr $chunk, $shown, $length), "\n";
      $at = $stop;
      if (++$matches >= $most) {
        my $next = $base + ($stop < $cut ? $stop + 1 : $stop);
        print "E $which $next ", $line + ($stop < $cut), " $size\n";
        return;
      }
    }
    $line += $counted ? (my $passed = substr $chunk, $counted) =~ tr/\n// : $chunk =~ tr/\n//;
    $base += $cut;
    last if !$n;
    last if time > $until;
  }
  print "E $which $base $line $size\n";
}

if ($do eq 'files') { list() }
elsif ($do eq 'follow') { follow(0) }
elsif ($do eq 'last') { follow(1) }
elsif ($do eq 'read') { range() }
elsif ($do eq 'find') { find() }
