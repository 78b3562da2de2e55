"""Locks, signals and threads: code that stays consistent when a signal handler, a fork or another thread interrupts."""
