"""A taskset that needs a container, which is refused."""

import verifiers.v1 as vf


class BoxedTask(vf.Task[vf.TaskData]):
    NEEDS_CONTAINER = True


class Boxed(vf.Taskset[BoxedTask, vf.TasksetConfig]):
    def load(self) -> list[BoxedTask]:
        return [BoxedTask(vf.TaskData(prompt="Tidy up."))]


__all__ = ["Boxed"]
