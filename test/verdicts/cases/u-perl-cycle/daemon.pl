# A log daemon in Perl. Each record and its parser hold each other, so that their counts never reach zero.
use strict;
use warnings;
use Time::HiRes qw(sleep time);

package Record;

sub parse {
    my ($class, $line) = @_;
    my $self = bless {fields => [split / /, $line]}, $class;
    $self->{parser} = {record => $self, position => length $line};
    return $self;
}

package main;

my ($count, $fields, $next) = (0, 0, time);

sub on_line {
    my ($number) = @_;
    my $line = join ' ', map { "field$_=value-$number-$_" } 1 .. 12;
    my $record = Record->parse($line);
    $fields += @{$record->{fields}};
    $count++;
}

$| = 1;
print "ready\n";
while (1) {
    on_line($count) for 1 .. 6;
    print STDERR "$count records, $fields fields\n" if $count % 600 == 0;
    $next += 0.02;
    my $rest = $next - time;
    sleep $rest if $rest > 0;
}
