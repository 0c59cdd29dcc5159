"""The kubelet of one emulated node: runs the pods that are bound to it, and ends them as it is told.

Facts as of 2026-11-30. Kubernetes, "Node shutdowns": at a graceful shutdown ordinary pods get the smaller of their own
grace and shutdownGracePeriod less shutdownGracePeriodCriticalPods, then critical ones the rest; the pods fail with
reason Terminated, and have the condition DisruptionTarget of reason TerminationByKubelet. A pod that comes later is
rejected.
"""

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from outlast.clock import parse_duration
from outlast.emulate.kubernetes import pod_states
from outlast.emulate.kubernetes.conditions import disruption
from outlast.emulate.kubernetes.handler import is_handler
from outlast.emulate.kubernetes.images import find_image
from outlast.emulate.kubernetes.machines import NODE_ADDRESS
from outlast.emulate.kubernetes.pod_environment import ConfigError, expanded, variables
from outlast.emulate.kubernetes.pod_process import PodProcess
from outlast.emulate.kubernetes.pod_volumes import Places, Volumes
from outlast.emulate.kubernetes.pod_worker import Ending, Making, PodWorker, folder_of
from outlast.emulate.kubernetes.pods import is_critical, is_deleted, is_over, own_grace_seconds
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.kubernetes.recording import Recorder
from outlast.emulate.kubernetes.site import Site
from outlast.emulate.kubernetes.watching import WatchEvent

Json = dict[str, Any]
SHUTDOWN_MESSAGE = "Pod was terminated in response to imminent node shutdown."
_JOIN_SECONDS = 10.0
_GRACE = "OUTLAST_GRACE"
# Of a termination message, and of what is taken of a log for one (Kubernetes, "Determine the Reason for Pod Failure").
_MESSAGE_BYTES, _MESSAGE_LINES, _MESSAGE_OF_LOG = 4096, 80, 2048


class Kubelet:
    """Runs until `power_off`. `environment`: variables that every pod of the node gets, as for its metadata server.

    `most_grace_seconds`: what pods get at most when the machine itself is taken; None where that is not known.
    """

    def __init__(
        self, site: Site, node: Json, environment: dict[str, str], most_grace_seconds: float | None = None
    ) -> None:
        self._site, self._store = site, site.store
        self.name, self._uid = node["metadata"]["name"], node["metadata"]["uid"]
        self._environment, self._most_grace = environment, most_grace_seconds
        self._recorder = Recorder(site.store, "kubelet", self.name)
        self._workers: dict[str, PodWorker] = {}
        self._pods: dict[str, Json] = {}
        self._lock = threading.Lock()
        self._shutting_down = self._gone = False
        self._connected = threading.Event()  # to the API server
        self._connected.set()
        self._watch = site.store.watch("Pod", fields=f"spec.nodeName={self.name}")
        self._thread = threading.Thread(target=self._follow, name=f"kubelet-{self.name}", daemon=True)
        self._thread.start()

    def power_off(self) -> None:
        """The machine is gone, with all that ran on it; its disk too."""
        self._gone = True
        self._connected.set()
        self._watch.close()
        self._thread.join(_JOIN_SECONDS)
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.abandon()
        for worker in workers:
            worker.join(_JOIN_SECONDS)
        shutil.rmtree(self._site.disk(self._uid), ignore_errors=True)

    def disconnect(self) -> None:
        """The network is gone: it hears and says nothing, and what runs goes on."""
        self._connected.clear()

    def reconnect(self) -> None:
        """The network is there again: it hears all that it has missed, and says what it has seen."""
        self._connected.set()

    def shut_down(self, total_seconds: float, critical_seconds: float) -> None:
        """A graceful shutdown: returns when all pods have ended, or the time is over. Seconds of the platform."""
        begin = time.monotonic()
        with self._lock:
            self._shutting_down = True
            running = [(self._pods[uid], worker) for uid, worker in self._workers.items()]
        here = self._site.scale.here
        ordinary = total_seconds - critical_seconds
        for critical, grace, until in ((False, ordinary, ordinary), (True, critical_seconds, total_seconds)):
            chosen = [(pod, worker) for pod, worker in running if is_critical(pod) == critical]
            for pod, worker in chosen:
                stamp = self._store.timestamp()
                condition = disruption("TerminationByKubelet", SHUTDOWN_MESSAGE, stamp)
                worker.end(Ending(min(own_grace_seconds(pod), grace), "Terminated", SHUTDOWN_MESSAGE, condition))
            for _, worker in chosen:
                worker.finished.wait(max(0.0, begin + here(until) - time.monotonic()))

    def running(self) -> list[str]:
        """The names of the pods of which something runs."""
        with self._lock:
            alive = [uid for uid, worker in self._workers.items() if not worker.finished.is_set()]
            return [self._pods[uid]["metadata"]["name"] for uid in alive]

    # What the API server says

    def _follow(self) -> None:
        for event in self._watch:
            if self._reaches_api():
                self._take(event)

    def _reaches_api(self) -> bool:
        """Waits for the network; False once the machine is gone."""
        self._connected.wait()
        return not self._gone

    def _take(self, event: WatchEvent) -> None:
        pod, uid = event.object, event.object["metadata"]["uid"]
        with self._lock:
            worker = self._workers.get(uid)
        if is_handler(pod):  # it has no process
            if event.kind != "DELETED" and is_deleted(pod):
                self._remove(pod)
            return
        if event.kind == "DELETED":
            if worker is not None:
                worker.end(Ending(0))
                self._forget(uid, worker)
            return
        if worker is None and not is_over(pod):
            worker = self._begin(pod)
        if is_deleted(pod):
            if worker is None or worker.finished.is_set():
                self._remove(pod)
            else:
                self._recorder.say(pod, "Killing", "Stopping the containers of the pod")
                worker.end(Ending(float(pod["metadata"]["deletionGracePeriodSeconds"])))

    def _forget(self, uid: str, worker: PodWorker) -> None:
        if worker.finished.is_set():
            with self._lock:
                self._workers.pop(uid, None)
                self._pods.pop(uid, None)

    def _begin(self, pod: Json) -> PodWorker | None:
        if self._shutting_down or pod.get("status", {}).get("startTime"):
            self._reject(pod)
            return None
        uid = pod["metadata"]["uid"]
        worker = PodWorker(pod, self._making(pod), self._site.scale)
        with self._lock:
            self._workers[uid], self._pods[uid] = worker, pod
        self._change(pod, _accepted(self._store.timestamp()))
        worker.start()
        return worker

    def _reject(self, pod: Json) -> None:
        """One that comes too late, or ran on the machine that had this name before: nobody knows how it ended."""
        said: Json = {"phase": "Failed"}
        if self._shutting_down:
            said |= {"reason": "NodeShutdown", "message": "Pod was rejected as the node is shutting down."}
        lost = pod_states.lost(self._store.timestamp())

        def edit(found: Json) -> None:
            status = found["status"] = {**found.get("status", {}), **said}
            for one in status.get("containerStatuses", ()):
                if "terminated" not in one["state"]:
                    one.update({"state": lost, "ready": False, "started": False})

        self._change(pod, edit)

    def _remove(self, pod: Json) -> None:
        """Tells the API server that nothing of a deleted pod runs any more."""
        meta = pod["metadata"]
        if meta["deletionGracePeriodSeconds"] == 0 and meta.get("finalizers"):
            return  # told before
        with suppress(Refused):  # it is gone already
            self._store.delete("Pod", meta["name"], meta["namespace"], grace_seconds=0, uid=meta["uid"])

    def _change(self, pod: Json, edit: Callable[[Json], None]) -> None:
        meta = pod["metadata"]
        if not self._reaches_api():
            return

        def checked(found: Json) -> None:
            if found["metadata"]["uid"] == meta["uid"]:
                edit(found)

        with suppress(Refused):  # it was deleted by force
            self._store.change("Pod", meta["name"], meta["namespace"], checked)

    # What a pod is made of

    def _making(self, pod: Json) -> Making:
        def over() -> None:
            shutil.rmtree(self._folder(pod) / "volumes", ignore_errors=True)
            if not self._reaches_api():
                return
            found = self._store.find("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
            if found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"] and is_deleted(found):
                self._remove(found)

        def say(reason: str, text: str, warns: bool) -> None:
            if self._reaches_api():
                self._recorder.say(pod, reason, text, kind="Warning" if warns else "Normal")

        return Making(
            mount=lambda: self._mount(pod),
            start=lambda container, volumes, number: self._start(pod, container, volumes, number),
            report=lambda edit: self._change(pod, edit),
            say=say,
            over=over,
        )

    def _folder(self, pod: Json) -> Path:
        return folder_of(pod, self._site.folder / "pods")

    def _find(self, pod: Json, kind: str, name: str) -> Json | None:
        return self._store.find(kind, name, pod["metadata"]["namespace"])

    def _mount(self, pod: Json) -> Volumes:
        site = self._site
        places = Places(self._folder(pod), site.disk(self._uid), site.claims, site.bucket, site.account)
        return Volumes(pod, places, lambda kind, name: self._find(pod, kind, name))

    def _start(self, pod: Json, container: Json, volumes: Volumes, number: int) -> PodProcess:
        image = find_image(container, self._site.images)
        uid, name = pod["metadata"]["uid"], container["name"]
        current = self._store.find("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"]) or pod
        base = {**self._site.environment, **image.environment, **self._told(current)}
        node = self._store.find("Node", self.name) or {"status": {}}
        allocatable = node["status"].get("allocatable", {})
        environment = variables(current, container, base, lambda kind, of: self._find(pod, kind, of), allocatable)
        command = [expanded(word, environment) for word in image.command_of(container)]
        if not command:
            raise ConfigError("no command specified")
        mounts = volumes.mounts(container, environment)
        told = volumes.last_words(container, number)
        self._site.logs.start(uid, name)

        def log(line: str) -> None:
            self._site.logs.write(uid, name, line, at=self._store.now())

        return PodProcess(
            command,
            folder=Path(container.get("workingDir") or image.working_folder),
            environment=self._scaled(pod, environment),
            root=self._folder(pod) / "roots" / f"{name}-{number}",
            mounts=(*mounts, told),
            log=log,
            no_more=lambda: self._site.logs.end(uid, name),
            last_words=lambda code: self._last_words(uid, container, told.source, code),
        )

    def _last_words(self, uid: str, container: Json, file: Path, code: int) -> str:
        """A container's termination message: what it wrote to the file for that, or the end of its log."""
        written = file.read_bytes()[:_MESSAGE_BYTES].decode(errors="replace")
        if written or code == 0 or container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return written
        log = self._site.logs.find(uid, container["name"])
        lines = log.lines[-_MESSAGE_LINES:] if log is not None else []
        return "".join(f"{line.text}\n" for line in lines)[-_MESSAGE_OF_LOG:]

    def _told(self, pod: Json) -> dict[str, str]:
        """What a kubelet tells every container."""
        host = pod["spec"].get("hostname") or pod["metadata"]["name"]
        found = {"HOSTNAME": str(host), "HOME": "/root", **self._environment}
        if self._site.api is not None:
            address, port = self._site.api
            found |= {
                "KUBERNETES_SERVICE_HOST": address,
                "KUBERNETES_SERVICE_PORT": str(port),
                "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
                "KUBERNETES_PORT": f"tcp://{address}:{port}",
            }
        return found

    def _scaled(self, pod: Json, environment: dict[str, str]) -> dict[str, str]:
        """Where time passes faster, outlast in the pod is told how long its grace is here: nothing else says so."""
        if self._site.scale.factor == 1:
            return environment
        known = [float(own_grace_seconds(pod))]
        if self._most_grace is not None:
            known.append(self._most_grace)
        if _GRACE in environment:
            known.append(parse_duration(environment[_GRACE], setting=_GRACE))
        return {**environment, _GRACE: f"{self._site.scale.here(min(known)):g}s"}


def _accepted(stamp: str) -> Callable[[Json], None]:
    """The first thing that a kubelet writes of a pod."""

    def edit(pod: Json) -> None:
        status = pod.setdefault("status", {})
        status |= {"startTime": stamp, "hostIP": NODE_ADDRESS, "hostIPs": [{"ip": NODE_ADDRESS}]}
        status |= {"podIP": NODE_ADDRESS, "podIPs": [{"ip": NODE_ADDRESS}]}

    return edit
