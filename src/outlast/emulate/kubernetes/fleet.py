"""The nodes of an emulated cluster, and what is being done to each."""

import threading
from collections.abc import Mapping

from outlast.emulate.kubernetes.hosts import Host
from outlast.emulate.kubernetes.machines import Machine
from outlast.emulate.kubernetes.procedures import STEPS, Kind, Procedure
from outlast.emulate.kubernetes.site import Site


class Impossible(ValueError):
    """What is asked for does not happen to such a machine, or not now."""


class Fleet:
    """Machines by the names of their nodes. Every method may be called from any thread."""

    def __init__(self, site: Site, machines: Mapping[str, Machine]) -> None:
        self._site, self._lock = site, threading.Lock()
        self._last: dict[str, Procedure] = {}
        self._hosts: dict[str, Host] = {}
        try:
            for name, machine in machines.items():
                self._hosts[name] = Host(site, name, machine)
        except BaseException:
            self.close()
            raise

    def names(self) -> list[str]:
        """The nodes' names."""
        return sorted(self._hosts)

    def host(self, name: str) -> Host:
        """The machine of a node; raises KeyError."""
        return self._hosts[name]

    def last(self, name: str) -> Procedure | None:
        """What is being done to the node, or was done last."""
        return self._last.get(name)

    def begin(self, name: str, kind: Kind) -> Procedure:
        """Begins a procedure. Raises Impossible where one is under way, or the machine is of another kind."""
        host = self._hosts[name]
        if kind == "maintenance" and not host.machine.has_accelerator:
            raise Impossible(f"{name} has no accelerator: its host's maintenance moves it, and nothing ends")
        if kind == "reclaim" and not host.machine.spot:
            raise Impossible(f"{name} is no Spot machine: it is not reclaimed")
        with self._lock:
            before = self._last.get(name)
            if before is not None and not before.over.is_set():
                raise Impossible(f"{before.kind} of {name} is under way")
            self._last[name] = Procedure(host, kind, STEPS[kind])
            return self._last[name]

    def close(self) -> None:
        """Ends all procedures and machines."""
        for procedure in self._last.values():
            procedure.give_up()
        for host in self._hosts.values():
            host.power_off()  # a procedure may be waiting for its pods
        for procedure in self._last.values():
            procedure.join()
        for host in self._hosts.values():
            host.close()
