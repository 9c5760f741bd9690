"""What tests of Lancewood, and of stores made elsewhere, build on: contract, faults, schedules."""
