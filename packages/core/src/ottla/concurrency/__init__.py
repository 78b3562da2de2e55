"""Locks, signals and threads: what stays whole while a signal handler, a fork or another thread interrupts."""
