import random
import socket

from ottla_testkit.processes.free_ports import HOST, free_ports


def test_the_ports_are_different_and_free() -> None:
    ports = free_ports(20)

    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server((HOST, port)):
            pass


def test_two_callers_with_the_same_seed_get_different_ports() -> None:
    random.seed(1)
    first = free_ports(5)
    random.seed(1)

    assert first != free_ports(5)
