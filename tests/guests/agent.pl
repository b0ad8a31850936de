#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Copyright The weft authors
#
# The guest's end of the command channel: runs commands that arrive on a virtio-serial port, many at a time. Frames in
# both directions are: length of the payload (32 bits), job (32 bits), kind (one character), payload; big endian.
#   to the guest:   R run: time limit in seconds (32 bits), command    I input    E end of input    K kill
#                   Q what is the job doing?
#   to the host:    H hello    O standard output    S standard error    X exit: code (32 bits)
#                   A answer to Q: text, a line for each process of the job and their stacks in the kernel
# A job ends when its shell has ended. What that left in the background goes on, and what it writes from then on is
# read and thrown away. The time limit and K end all processes of the job.
#
# Usage: weft-agent [FD]   (a file descriptor in the place of the virtio-serial port, for tests)
use strict;
use warnings;
use Errno qw(EAGAIN EINTR);
use Fcntl qw(F_SETFL O_NONBLOCK);
use IO::Select;
use POSIX qw(:sys_wait_h setsid);

my $kChunk = 65536;
my $kTimedOut = 124;    # as timeout(1)
my %jobs;               # job -> { pid, in, out => { kind => handle }, deadline, code, pending }
my %sources;            # handle -> [job, kind]; the job may have ended
my $received = '';

$SIG{PIPE} = 'IGNORE';
$SIG{CHLD} = sub { };

sub port_path {
  for my $name (glob '/sys/class/virtio-ports/*') {
    open(my $file, '<', "$name/name") or next;
    my $line = <$file> // '';
    return $name =~ s{.*/}{/dev/}r if $line eq "weft.agent\n";
  }
  die "no virtio-serial port weft.agent\n";
}

my $port;
if (@ARGV) { open($port, '+<&=', $ARGV[0]) or die "$ARGV[0]: $!\n" }
else { open($port, '+<', port_path()) or die "port: $!\n" }
binmode $port;
my $readers = IO::Select->new($port);

sub send_frame {
  my ($job, $kind, $payload) = @_;
  my $frame = pack('NNa1', length $payload, $job, $kind) . $payload;
  while (length $frame) {
    my $written = syswrite $port, $frame;
    if (defined $written) { substr($frame, 0, $written) = '' }
    elsif (!$!{EINTR} && !$!{EAGAIN}) { die "write: $!\n" }
  }
}

sub start {
  my ($job, $limit, $command) = @_;
  pipe(my $in_read, my $in_write) and pipe(my $out_read, my $out_write) and pipe(my $err_read, my $err_write)
    or die "pipe: $!\n";
  my $pid = fork // die "fork: $!\n";
  if ($pid == 0) {
    setsid();
    $SIG{PIPE} = 'DEFAULT';
    POSIX::dup2(fileno $in_read, 0);
    POSIX::dup2(fileno $out_write, 1);
    POSIX::dup2(fileno $err_write, 2);
    { exec '/bin/sh', '-c', $command }
    POSIX::_exit(127);
  }
  fcntl($in_write, F_SETFL, O_NONBLOCK);
  $jobs{$job} = { pid => $pid, in => $in_write, out => { O => $out_read, S => $err_read }, pending => '',
    deadline => $limit ? time + $limit : undef };
  for my $kind ('O', 'S') {
    my $handle = $jobs{$job}{out}{$kind};
    fcntl($handle, F_SETFL, O_NONBLOCK);
    $sources{$handle} = [$job, $kind];
    $readers->add($handle);
  }
}

# Input waits here while the command is slow to read it; a command that closed its input loses the rest.
sub feed {
  my ($job) = @_;
  return unless $job->{in};
  while (length $job->{pending}) {
    my $written = syswrite $job->{in}, $job->{pending};
    if (defined $written) { substr($job->{pending}, 0, $written) = '' }
    elsif ($!{EAGAIN}) { return }
    elsif (!$!{EINTR}) { $job->{pending} = ''; $job->{end} = 1 }
  }
  if ($job->{end}) { close $job->{in}; $job->{in} = undef }
}

sub handle_frame {
  my ($id, $kind, $payload) = @_;
  if ($kind eq 'R') { return start($id, unpack('N', $payload), substr($payload, 4)) }
  if ($kind eq 'Q') { return send_frame($id, 'A', describe_job($id)) }
  my $job = $jobs{$id} or return;    # it has ended
  if ($kind eq 'I') { $job->{pending} .= $payload }
  elsif ($kind eq 'E') { $job->{end} = 1 }
  elsif ($kind eq 'K') { kill_job($id) }
  feed($job);
}

sub read_file {
  my ($path) = @_;
  open(my $file, '<', $path) or return '';
  local $/;
  return <$file> // '';
}

# Calls back for each process of a job's session, also those that made groups of their own.
sub each_process {
  my ($id, $call) = @_;
  my $job = $jobs{$id} or return;
  for my $folder (glob '/proc/[0-9]*') {
    my @stat = read_file("$folder/stat") =~ /^(\d+) \((.*)\) (\S) \d+ \d+ (\d+)/s;
    $call->($folder, @stat) if @stat && $stat[3] == $job->{pid};
  }
}

sub describe_job {
  my ($id) = @_;
  my $text = '';
  each_process($id, sub {
    my ($folder, $pid, $name, $state) = @_;
    $text .= "pid $pid ($name) state $state in " . read_file("$folder/wchan") . "\n";
    $text .= read_file("$folder/stack") =~ s/^/    /gmr;
  });
  return $text;
}

sub kill_job {
  my ($id) = @_;
  kill 'KILL', -$jobs{$id}{pid};
  each_process($id, sub { kill 'KILL', $_[1] });
}

sub read_port {
  my $count = sysread $port, $received, $kChunk, length $received;
  if (!defined $count) { return if $!{EINTR} || $!{EAGAIN}; die "read: $!\n" }
  if ($count == 0) {    # the host's end is closed
    exit if @ARGV;
    select(undef, undef, undef, 0.1);
    return;
  }
  while (length $received >= 9) {
    my ($length, $job, $kind) = unpack('NNa1', $received);
    last if length $received < 9 + $length;
    my $payload = substr($received, 9, $length);
    substr($received, 0, 9 + $length) = '';
    handle_frame($job, $kind, $payload);
  }
}

# Whether there may be more to read now.
sub read_output {
  my ($handle) = @_;
  my ($id, $kind) = @{ $sources{$handle} };
  my $data = '';
  my $count = sysread $handle, $data, $kChunk;
  return $!{EINTR} if !defined $count && ($!{EINTR} || $!{EAGAIN});
  if ($count) {
    send_frame($id, $kind, $data) if $jobs{$id};
    return 1;
  }
  $readers->remove($handle);
  delete $sources{$handle};
  delete $jobs{$id}{out}{$kind} if $jobs{$id};
  close $handle;
  return 0;
}

sub reap {
  while ((my $pid = waitpid(-1, WNOHANG)) > 0) {
    my $status = $?;
    for my $job (values %jobs) {
      next unless $job->{pid} == $pid;
      $job->{code} = $status & 127 ? 128 + ($status & 127) : $status >> 8;
      $job->{code} = $kTimedOut if $job->{late};
    }
  }
}

sub finish {
  for my $id (keys %jobs) {
    my $job = $jobs{$id};
    if (defined $job->{deadline} && time >= $job->{deadline} && !defined $job->{code}) {
      $job->{late} = 1;
      kill_job($id);
    }
    feed($job);
    next if !defined $job->{code};
    # A pipe holds 64 KiB; who is left in the background may go on writing to it for ever.
    for my $handle (my @open = values %{ $job->{out} }) {
      for (1 .. 2) { last unless read_output($handle) }
    }
    send_frame($id, 'X', pack('N', $job->{code}));
    delete $jobs{$id};
  }
}

send_frame(0, 'H', '');
while (1) {
  my @blocked = map { $_->{in} } grep { length $_->{pending} && $_->{in} } values %jobs;
  my $writers = @blocked ? IO::Select->new(@blocked) : undef;
  my ($ready) = IO::Select::select($readers, $writers, undef, 0.5);
  for my $handle (@{ $ready // [] }) {
    if ($handle == $port) { read_port() }
    elsif ($sources{$handle}) { read_output($handle) }
  }
  reap();
  finish();
}
