"""A taskset made to the spec of `verifiers` 0.4: state, tools, two weighted rewards, a metric."""

import verifiers.v1 as vf
from pydantic import Field

SHELVES = {"alder": "blue", "birch": "grey", "cedar": "pink", "dogwood": "white", "elm": "black"}


class DeskState(vf.State):
    opened: list[str] = Field(default_factory=list)


class Desk(vf.Toolset[vf.ToolsetConfig, DeskState]):
    TOOL_PREFIX = "desk"

    @vf.tool
    async def open_shelf(self, wood: str) -> str:
        """Open a shelf and see the colour inside."""
        if wood not in SHELVES:
            raise ValueError(f"there is no shelf of {wood}")
        self.state.opened.append(wood)
        return SHELVES[wood]


class ParcelData(vf.TaskData):
    wood: str
    answer: str


class ParcelConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class ParcelTask(vf.Task[ParcelData, DeskState, ParcelConfig]):
    @classmethod
    def toolsets(cls, config: ParcelConfig) -> list[vf.Toolset]:
        return [Desk(config.tools)]

    @vf.reward(weight=3.0)
    async def colour(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=1.0)
    async def opened_once(self, trace: vf.Trace) -> float:
        told = [message.content for message in trace.tool_messages]
        return float(trace.state.opened == [self.data.wood] and told == [self.data.answer])

    @vf.metric
    async def turns(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)


class ParcelTasks(vf.TasksetConfig):
    task: ParcelConfig = ParcelConfig()


class Parcels(vf.Taskset[ParcelTask, ParcelTasks]):
    def load(self) -> list[ParcelTask]:
        print("a taskset may print what it likes")
        return [
            ParcelTask(
                ParcelData(
                    prompt=f"Which colour is inside the shelf of {wood}? Say the colour only.",
                    wood=wood,
                    answer=colour,
                ),
                self.config.task,
            )
            for wood, colour in SHELVES.items()
        ]


__all__ = ["Parcels"]
