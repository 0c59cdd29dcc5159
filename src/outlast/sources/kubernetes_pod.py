"""The pod itself: that it is being deleted, and with how much grace, also where a shell as PID 1 keeps SIGTERM.

Facts as of 2026-11-29, from the Kubernetes documentation, "Pod Lifecycle" (a pod that is deleted gets
metadata.deletionTimestamp and deletionGracePeriodSeconds at the moment at which kubelet sends SIGTERM; one with
activeDeadlineSeconds is ended that long after status.startTime) and "Disruptions" (the condition DisruptionTarget: it
is about to be ended; it becomes False if that was given up).
"""

from collections.abc import Mapping
from functools import partial

from outlast.clock import Clock, Deadline, format_duration
from outlast.disruptions import Disruption, Look, SourceUnavailable
from outlast.limits import TimeLimit
from outlast.ports import POD_GRACE
from outlast.sources.kubernetes_api import Forbidden, Json, KubernetesApi, NotFound, part, parts, text
from outlast.sources.kubernetes_watch import WatchedObject
from outlast.sources.moments import parse_moment

# Set by the downward API, under the name that the manifest chose.
_POD_NAME_VARIABLES = ("POD_NAME", "MY_POD_NAME")
_NAMESPACE_VARIABLES = ("POD_NAMESPACE", "MY_POD_NAMESPACE")
_LONGEST_GRACE_SECONDS = 7 * 24 * 3600
_LONGEST_DEADLINE_SECONDS = 2**31  # as the API has it


class OwnPod:
    """This pod, if it may read itself; many may not, and then SIGTERM is what tells of its end."""

    name = "kubernetes-pod"

    def __init__(self, api: KubernetesApi, env: Mapping[str, str], clock: Clock) -> None:
        self._api, self._env, self._clock = api, env, clock
        self._watched: WatchedObject | None = None
        self._seen: tuple[Disruption, ...] = ()
        self._uid = ""  # a pod that is made again has the name of the old one
        self._told: dict[str, str] = {}
        self._limited_by: tuple[float, int] | None = None  # when it was started, and its activeDeadlineSeconds
        self.time_limit: TimeLimit | None = None  # once the pod has been read, if it has one

    def look(self) -> Look:
        """The pod, or the next change of it."""
        if self._watched is None:
            self._watched = self._find()
        try:
            sight = self._watched.look()
        except (Forbidden, NotFound) as error:
            raise SourceUnavailable(f"the pod cannot read itself: {error}", absent=True) from error
        if sight.thing is not None:
            uid = text(part(sight.thing, "metadata").get("uid"))
            if not is_own(sight.thing, self._api, self._env) or (self._uid and uid != self._uid):
                self._watched = None
                raise SourceUnavailable("the pod of this name is another one", absent=True)
            self._uid = uid
            self._seen = self._judged(sight.thing, unbroken=sight.unbroken)
            self._limit(sight.thing)
            grace = part(sight.thing, "spec").get("terminationGracePeriodSeconds")
            self._told = {POD_GRACE: str(grace)} if type(grace) is int and 0 < grace <= _LONGEST_GRACE_SECONDS else {}
        return Look(self._seen, sight.again_seconds, self._told)

    def _find(self) -> WatchedObject:
        name, namespace = own_pod(self._api, self._env)
        if name is None or namespace is None:
            raise SourceUnavailable("the pod's name is not known", absent=True)
        read, watch = partial(self._api.pod, name, namespace), partial(self._api.watch_pod, name, namespace)
        return WatchedObject(name, read, watch, self._clock)

    def _limit(self, pod: Json) -> None:
        """Worked out once for one deadline, so that a wall clock that is set later on does not move it."""
        started, most = (
            parse_moment(part(pod, "status").get("startTime")),
            part(pod, "spec").get("activeDeadlineSeconds"),
        )
        if started is None or type(most) is not int or not 0 < most < _LONGEST_DEADLINE_SECONDS:
            self.time_limit = self._limited_by = None
            return
        if (started, most) != self._limited_by:
            self._limited_by = (started, most)
            source = f"the pod's activeDeadlineSeconds: {format_duration(most)}"
            left = started + most - self._clock.wall_seconds()
            self.time_limit = TimeLimit(Deadline(self._clock.monotonic_seconds() + left), source)

    def _judged(self, pod: Json, *, unbroken: bool) -> tuple[Disruption, ...]:
        metadata = part(pod, "metadata")
        if metadata.get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds")
            until = None
            if unbroken and type(grace) is int and 0 < grace <= _LONGEST_GRACE_SECONDS:
                until = Deadline(self._clock.monotonic_seconds() + grace)
            return (Disruption("deletion", "the pod is being deleted", "final", until),)
        for condition in parts(pod, "status", "conditions"):
            if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
                return (Disruption("disruption", f"the pod is to be ended ({text(condition.get('reason'))})"),)
        return ()


def own_pod(api: KubernetesApi, env: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The pod's name and namespace, as far as they are known; see `is_own`."""
    name = first_of(env, (*_POD_NAME_VARIABLES, "HOSTNAME"))
    return name, first_of(env, _NAMESPACE_VARIABLES) or api.namespace()


def is_own(pod: Json, api: KubernetesApi, env: Mapping[str, str]) -> bool:
    """Whether it is this pod. The host's name is mostly the pod's, but may be that of another: the address decides."""
    if first_of(env, _POD_NAME_VARIABLES) is not None:
        return True
    addresses = {part(pod, "status").get("podIP"), *(one.get("ip") for one in parts(pod, "status", "podIPs"))}
    return api.own_address() in addresses - {None}


def first_of(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """The first of these variables that is set."""
    return next((env[name].strip() for name in names if env.get(name, "").strip()), None)
