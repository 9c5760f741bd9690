"""Helpers for tests of Lancewood, and of third-party stores: contract, faults, schedules."""
