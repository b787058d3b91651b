"""Machines made of local processes: what the sandbox cloud and this computer's own machines stand on.

`rack.py` starts machines and reads their state; `host.py` is the hypervisor of one machine and runs apart from the
daemon, so that the daemon may die while machines go on. This file imports nothing: a host must start fast.
"""
