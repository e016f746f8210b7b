"""What `macaron doctor` checks, by where a fault would lie. A check changes nothing."""
