"""The most that a deployment can cost: each attempt of each task may last until its timeout."""

from dataclasses import dataclass

from outlast.clock import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """The worst case of one execution. `gpus`: of one task. `price` is of one GPU's hour, or a task's without GPU."""

    timeout_seconds: float
    retries: int
    tasks: int
    gpus: int = 0
    price: float | None = None
    currency: str = "USD"

    @property
    def task_hours(self) -> float:
        return self.timeout_seconds * (self.retries + 1) * self.tasks / 3600

    @property
    def billed_hours(self) -> float:
        """Of GPUs where there are any, else of tasks."""
        return self.task_hours * (self.gpus or 1)

    @property
    def money(self) -> float | None:
        return None if self.price is None else self.billed_hours * self.price

    def lines(self) -> tuple[str, ...]:
        """For people: how it comes to its sum."""
        what = "GPU hours" if self.gpus else "task hours"
        timeout, attempts = format_duration(self.timeout_seconds), self.retries + 1
        gpus = f" x {self.gpus} GPU{'s' if self.gpus > 1 else ''}" if self.gpus else ""
        sums = f"{timeout} x {attempts} attempts x {self.tasks} task{'s' if self.tasks > 1 else ''}{gpus}"
        lines = [f"worst case of one execution: {sums} = {self.billed_hours:g} {what}"]
        if self.money is not None:
            lines.append(f"at {self.price:g} {self.currency} each: {self.money:.2f} {self.currency}")
        return tuple(lines)
